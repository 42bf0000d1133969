"""Messages of every command: refusals in one sentence, names as they are, Ctrl-C, any terminal."""

import json
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedorbit.cli import output
from tests.cli.answers import one_sentence
from tests.orbits.element_files import made_satellite, omm_json
from tests.patience import PATIENCE_S


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["orbits", "-o", "constellation.plane=3"], "did you mean 'constellation.planes'?"),
        (["orbits", "-o", "constellation.planes=0"], "must be at least 1 and at most 10000, got 0"),
        (["orbits", "papr"], "did you mean 'paper'?"),
        (["orbits", "nowhere/x.toml"], "nowhere/x.toml does not exist"),
        (["orbits", "--contacts", "-1"], "--contacts"),
        (
            ["orbits", "-o", "constellation.kind=elements", "-o", "constellation.file=none.tle"],
            "none.tle does not exist",
        ),
        (["orbitz"], "orbits"),
        (["orbits", "--jsn"], "--jsn"),
        (["data", "prepare", "eurosat", "--source", "no.zip"], "no.zip"),
        (["data", "prepare", "eurosta", "--source", "no.zip"], "eurosat"),
        (["data", "inspect", "nothing"], "nothing"),
        (["data", "partition", "paper"], "fedorbit data prepare eurosat --source"),
        (["data", "fetch", "nothing"], "nothing"),
        (["config", "show", "nothing"], "neither a preset nor a file"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(fedorbit, arguments, message: str) -> None:
    assert message in one_sentence(fedorbit(*arguments, code=2))
    # With --json the same: nothing half-written on standard output.
    assert message in one_sentence(fedorbit(*arguments, "--json", code=2))


def test_debug_shows_the_traceback_wherever_it_stands(fedorbit) -> None:
    for arguments in (["--debug", "orbits", "papr"], ["orbits", "papr", "--debug"]):
        done = fedorbit(*arguments, code=2)
        assert "Traceback" in done.stderr
        assert "did you mean 'paper'?" in done.stderr


def test_an_unwritable_folder_is_one_sentence(fedorbit, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    assert "taken" in one_sentence(fedorbit("orbits", "--out", "taken", "--json", code=2))


NASTY = "[red]x[/red] [/y] :smile:"


def test_names_are_shown_as_they_are(fedorbit, tmp_path: Path, monkeypatch) -> None:
    # Rich would colour, swallow or refuse what looks like its markup.
    monkeypatch.setenv("FEDORBIT_CACHE", str(tmp_path / "[/cache]"))
    monkeypatch.setattr(output.stdout, "width", 300)
    for label in ("[/a]", "[bold]b[/bold]"):
        for i in range(4):
            file = tmp_path / "images" / label.replace("/", "\u2215") / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((8, 8), i, dtype=np.uint8)).save(file)
    prepared = fedorbit("data", "prepare", "folder", "--source", "images", "--name", "mine")
    assert "[/cache]/mine" in prepared.stdout
    assert "[/cache]" in fedorbit("data", "list").stdout
    inspected = fedorbit("data", "inspect", "mine", "--out", "[x]").stdout
    assert "[bold]b[\u2215bold]" in inspected and "[x]/mine-contact-sheet.png" in inspected
    dealt = fedorbit("data", "partition", "-o", "data.name=mine").stdout
    assert "[bold]b[\u2215bold]" in dealt

    station = ("-o", f"stations.0.name={NASTY}")
    drawn = fedorbit("orbits", *station, "--out", "[/out]").stdout
    assert NASTY in drawn and "[/out]/map.png" in drawn
    longer = ("--contacts", "1", "-o", "schedule.rounds=200")
    assert NASTY in fedorbit("orbits", *station, *longer).stdout
    satellites = [(NASTY, made_satellite(1, 0.0)), ("plain", made_satellite(2, 40.0))]
    (tmp_path / "fleet.json").write_text(omm_json(satellites))
    elements = ("-o", "constellation.kind=elements", "-o", "constellation.file=fleet.json")
    assert NASTY in fedorbit("orbits", *elements, "--contacts", "99").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["orbits", f"{NASTY}.toml"],
        ["orbits", "-o", f"constellation.kind={NASTY}"],
        ["data", "inspect", NASTY],
        ["data", "prepare", "folder", "--source", NASTY],
        ["data", "fetch", NASTY],
        [NASTY],
    ],
)
def test_messages_show_names_as_they_are(fedorbit, arguments: list[str]) -> None:
    assert NASTY in one_sentence(fedorbit(*arguments, code=2))


@pytest.mark.parametrize(
    ("arguments", "message", "unwanted"),
    [
        (["data", "prepare", "synthetic", "--size", "16"], "data.synthetic.size=16", "spec"),
        (["data", "prepare", "synthetic", "--source", "x"], "leave --source out", "x/"),
        (["data", "inspect", "mine"], "prepare folder --source PATH --name mine", "fetch"),
        (["data", "partition", "-o", "data.name=Ä"], "cannot name a dataset", "--name"),
        (["data", "prepare", "folder", "--source", ".", "--name", "Ä"], "with --name", "fetch"),
        (["orbits", "."], "is a folder; give a TOML file", "neither"),
        (["orbits", "-o", "stations=5", "-o", "stations.0.name=x"], "must be a list", "Error"),
        (["orbits", "-o", "schedule.start=9999-01-01T00:00:00Z"], "1957 to 2200", "Overflow"),
        (
            ["orbits", "-o", "constellation.planes=10000",
             "-o", "constellation.satellites_per_plane=10000"],
            "must be at most 200000", "memory",
        ),
    ],
)  # fmt: skip
def test_sentences_that_help(fedorbit, arguments, message: str, unwanted: str) -> None:
    sentence = one_sentence(fedorbit(*arguments, code=2))
    assert message in sentence
    assert unwanted not in sentence


@pytest.mark.parametrize(
    "command", ["orbits --json", "orbits", "config show", "--help", "data list", "config list"]
)
def test_a_reader_that_stops_early_is_no_error(process, command: str) -> None:
    # `true` has gone before the first line is written.
    line = f"fedorbit {command} | true; echo ${{PIPESTATUS[0]}} >&2"
    assert process(f"bash -c '{line}'").stderr == "0\n"


def test_output_in_ascii(process) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    station = "-o stations.0.name=Tromsø"
    text = process(f"fedorbit orbits {station}", **ascii_only).stdout
    assert text.isascii()
    assert "Troms?" in text and "66.5 deg" in text
    assert "..:" in text  # the timeline in other shades
    document = process(f"fedorbit orbits {station} --json", **ascii_only).stdout
    assert document.isascii()
    assert json.loads(document)["stations"] == ["Tromsø"]
    shown = process(f"fedorbit config show {station}", **ascii_only).stdout
    assert shown.isascii()
    assert tomllib.loads(shown)["stations"][0]["name"] == "Tromsø"
    dealt = process("fedorbit data partition -o data.synthetic.samples=100", **ascii_only).stdout
    assert dealt.isascii() and "?" not in dealt
    refused = process("fedorbit orbits Tromsø", code=2, **ascii_only)
    assert "'Troms?' is neither" in one_sentence(refused)


def test_a_full_disk_is_one_sentence_with_the_file(process) -> None:
    done = process("bash -c 'ulimit -f 8; fedorbit orbits --out figures --json'", code=2)
    assert one_sentence(done) == (
        "figures/timeline.png: the disk is full; make room there and try again"
    )


def test_bad_input_as_a_process(process) -> None:
    done = process("fedorbit orbits papr", code=2)
    assert one_sentence(done).startswith("'papr' is neither a preset nor a file")


def test_ctrl_c_is_answered_at_once_and_leaves_nothing(own_cache: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "fedorbit", "data", "partition"]
    big = ["-o", "data.synthetic.samples=400000"]
    running = subprocess.Popen(line + big, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        while not list(own_cache.glob(".synthetic-*.partial/images.npy")):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, message = running.communicate(timeout=PATIENCE_S)
    finally:
        running.kill()
    assert running.returncode == 130
    assert message == "fedorbit: stopped by SIGINT\n"
    assert not list(own_cache.glob(".*partial*"))
    assert not list(own_cache.glob("synthetic*"))


@pytest.mark.parametrize(
    "begin", ["from fedorbit.cli import main; main()", "import fedorbit.__main__"]
)
@pytest.mark.parametrize("while_importing", ["numpy", "typer"])
def test_ctrl_c_while_the_program_loads_is_no_traceback(begin: str, while_importing: str) -> None:
    code = f"""
import signal, sys
class CtrlC:
    def find_spec(self, name, *rest):
        if name == {while_importing!r}:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, CtrlC())
{begin}
"""
    line = [sys.executable, "-c", code, "config", "list"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "fedorbit: stopped by SIGINT\n")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ("study run x --jobs 0", "Invalid value for '--jobs' / '-j': must be at least 1"),
        ("orbits --contacts x", "Invalid value for '--contacts': must be an integer"),
        (
            "run --track x",
            "Invalid value for '--track': 'x' is not one of 'tensorboard', 'mlflow', 'wandb'",
        ),
    ],
)
def test_options_with_wrong_values(fedorbit, arguments: str, sentence: str) -> None:
    done = fedorbit(*arguments.split(), code=2)
    assert one_sentence(done).partition(" (see")[0] == sentence


def test_serve_without_its_packages_names_them(fedorbit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fedorbit.serve.server", None)  # the module that needs them
    text = one_sentence(fedorbit("serve", code=2))
    assert text.startswith("fedorbit serve needs ")
    assert text.endswith(" is not installed; pip install 'starlette>=0.40' 'uvicorn>=0.30'")
