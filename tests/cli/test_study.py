"""`fedorbit study` as a user runs it."""

import json
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from fedorbit.simulation.records import method_folder
from fedorbit.studies import load_study
from tests.cli.answers import one_sentence
from tests.gates import METHOD, Gates
from tests.patience import PATIENCE_S
from tests.studies import small

GRIDS = """
[common]
method = ["fedavg", "ditto"]
partition = ["dirichlet", "pathological"]
[published.synthetic.dirichlet]
fedavg = [68.7, 28.4]
"""


def test_a_study_from_beginning_to_table(fedorbit, tmp_path: Path) -> None:
    small.write_study(tmp_path, GRIDS)
    before, _ = fedorbit("study", "status", "tiny.toml")
    assert "4 missing" in before and "0/4" in before

    done, _ = fedorbit("study", "run", "tiny.toml", "--jobs", "2", "--seeds", "0-1")
    assert "8 of 8 runs done in studies/tiny" in done
    assert "pathological accuracy" in done and "Ditto" in done

    document = json.loads(fedorbit("study", "status", "studies/tiny", "--json")[0])
    assert {run["state"] for run in document["runs"]} == {"done"}
    assert len(document["runs"]) == 8
    for run in document["runs"]:
        method_folder = tmp_path / "studies" / "tiny" / run["folder"] / run["method"]
        assert len((method_folder / "records.jsonl").read_text().splitlines()) == 4

    table, _ = fedorbit("study", "table", "studies/tiny")
    assert "±" in table and "n = 2 seeds" in table and "published" in table and "68.7" in table
    for form, sign in (("markdown", "|---|"), ("latex", r"\toprule"), ("csv", "row,column,metric")):
        assert sign in fedorbit("study", "table", "studies/tiny", "--format", form)[0]
    numbers = json.loads(fedorbit("study", "table", "studies/tiny", "--json")[0])["numbers"]
    assert len(numbers) == 2 * 2 * 2

    # A seed more: what is done stays.
    table, _ = fedorbit("study", "table", "tiny.toml", "--seeds", "0,1,2")
    assert "2/3 runs" in table and "±" not in table.replace("mean ±", "")


def test_a_folder_does_not_take_a_shipped_studys_place(fedorbit, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    document = json.loads(fedorbit("study", "status", "links", "--seeds", "0,0-1", "--json")[0])
    assert document["folder"] == "studies/links"
    assert len({run["folder"] for run in document["runs"]}) == len(document["runs"])


def test_export_and_reuse(fedorbit, tmp_path: Path) -> None:
    small.write_study(tmp_path, '[common]\nmethod = ["fedavg"]\n')
    small.write_study(tmp_path, '[common]\nmethod = ["fedavg", "local"]\n', "more")
    fedorbit("study", "run", "tiny.toml")
    _, said = fedorbit("study", "run", "more.toml", "--reuse", "studies/tiny")
    assert said.count("taken over: ") == 1 and said.count("fedavg") == 1
    out, _ = fedorbit("study", "export", "more.toml", "--to", "shared")
    assert "2 runs, tables, page and" in out and "unfinished" not in out
    assert "<html" in (tmp_path / "shared" / "report.html").read_text()
    assert list((tmp_path / "shared" / "figures").glob("accuracy*.svg"))
    assert "Local" in fedorbit("study", "table", "shared")[0]
    document = json.loads(fedorbit("study", "export", "shared", "--to", "again", "--json")[0])
    assert len(document["runs"]) == 2 and document["folder"] == "again"


def test_a_failing_run_gives_its_sentence_and_a_code(fedorbit, tmp_path: Path) -> None:
    # That an image is too small for the model shows when the run starts.
    small.write_study(tmp_path, '[common]\nmethod = ["fedavg"]\ndata.synthetic.size = [12, 16]')
    out, err = fedorbit("study", "run", "tiny.toml", code=3)
    assert "1 of 2 runs done" in out
    assert "size-12_seed0 failed:" in err and "at least 16 x 16 pixels" in err
    status, _ = fedorbit("study", "status", "tiny.toml")
    assert "1 failed, 1 done" in status and "at least 16 x 16" in " ".join(status.split())


def test_a_full_disk_is_the_sentence_of_a_run(process, tmp_path: Path) -> None:
    small.write_study(tmp_path, '[common]\nmethod = ["fedavg"]\n')
    told = process("bash -c 'ulimit -f 100; fedorbit study run tiny.toml --out o'", code=3).stderr
    assert "seed0 failed: " in told and "Errno" not in told
    assert "fedavg/checkpoint-" in told and "the disk is full; make room there" in told


def test_ctrl_c_keeps_what_there_is(gates: Gates, tmp_path: Path) -> None:
    small.write_study(tmp_path, f'[common]\nmethod = ["{METHOD}"]\nrun.rounds = [20]')
    gates.hold(before=7)
    command = [sys.executable, "-m", "fedorbit", "study", "run", "tiny.toml", "--out", "o"]
    command += ["--allow-code", "gated"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    [cell] = load_study(tmp_path / "tiny.toml").runs
    folder = method_folder(tmp_path / "o" / cell.slug, METHOD)
    gates.wait(running)
    running.send_signal(signal.SIGINT)
    _, message = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 130
    assert message == "stopped; nothing is lost: the same command goes on\n"
    # The checkpoint is of the last whole round, not of the last multiple of three.
    assert json.loads(max(folder.glob("checkpoint-*.json")).read_text())["rounds_done"] == 7


def test_shipped_studies_are_listed_and_shown(fedorbit) -> None:
    text, _ = fedorbit("study", "show", "paper-eurosat")
    assert tomllib.loads(text)["common"]["seed"] == [0, 1, 2]
    shown = json.loads(fedorbit("study", "show", "ablation", "--json")[0])
    assert shown["base"] == "paper"
    rows = json.loads(fedorbit("study", "list", "--json")[0])["studies"]
    assert rows["paper-eurosat"] == {
        "title": "the paper's comparison on EuroSAT",
        "runs": 12 * 2 * 3,
        "rounds": 12 * 2 * 3 * 200,
        "quick_runs": 12 * 2,
        "datasets": ["eurosat"],
    }
    text, _ = fedorbit("study", "list")
    assert "what each mechanism of FedOrbit contributes" in text and "72" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "paper-eurosta"], "did you mean 'paper-eurosat'?"),
        (["run", "paper-resisc45"], "dataset 'resisc45' is not prepared"),
        (["run", "ablation", "--quick", "-o", "run.rouns=3"], "did you mean 'run.rounds'?"),
        (["run", "ablation", "--quick", "--cpus", "2"], "add --engine ray"),
        (["status", "ablation", "--seeds", "1;2"], "--seeds must look like 0,1,2 or 0-4"),
        (["status", "ablation", "--seeds", "4-2"], "must go up"),
        (["status", "ablation", "-o", "variant=none"], "there is no variant 'none'"),
    ],
)
def test_bad_input(fedorbit, tmp_path: Path, arguments: list[str], message: str) -> None:
    _, err = fedorbit("study", *arguments, code=2)
    assert message in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "studies").exists()


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        (
            'base = "nope"',
            "base must be a preset or a file beside the study, got 'nope'; presets are",
        ),
        (
            '[settings]\nrun.rounds = "many"',
            "study wrong: run.rounds must be a whole number at least 1",
        ),
        ('[[grid]]\n"run.rounds" = [0]', "rounds 0: run.rounds must be at least 1"),
    ],
)
def test_a_wrong_study_is_refused_by_what_is_wrong_in_it(
    fedorbit, tmp_path: Path, lines: str, sentence: str
) -> None:
    (tmp_path / "wrong.toml").write_text(f'title = "wrong"\n{lines}\n')
    refused = one_sentence(fedorbit("study", "status", "wrong.toml", code=2))
    assert sentence in refused
    assert "preset quickstart" not in refused
    assert "preset paper" not in refused
