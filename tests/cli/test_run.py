"""`fedorbit run` and `fedorbit methods` as a user runs them."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from fedorbit.config import load_config
from fedorbit.methods import METHODS
from fedorbit.simulation.records import method_folder, read_records
from tests.gates import METHOD, Gates
from tests.patience import PATIENCE_S
from tests.simulation.test_runs import newest_checkpoint, timeless

COMMAND = str(Path(sys.executable).with_name("fedorbit"))
SMALL = [
    "-o",
    "constellation.planes=3",
    "-o",
    "constellation.satellites_per_plane=2",
    "-o",
    "training.epochs=1",
    "-o",
    "data.synthetic.samples=120",
    "-o",
    "data.synthetic.size=16",
    "-o",
    "data.synthetic.classes=4",
]


@pytest.fixture
def installed(own_cache: Path, tmp_path: Path):
    """Run the installed command as a process, which shows warnings: here they are errors."""

    def run(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [COMMAND, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "100"},
            check=False,
        )
        assert done.returncode == code, done.stderr
        return done

    return run


def test_a_run_from_the_command_line(installed, fedorbit, tmp_path: Path) -> None:
    done = installed("run", *SMALL, "-o", "run.rounds=4", "--out", "first", "--json")
    document = json.loads(done.stdout)
    assert [run["method"] for run in document["runs"]] == ["fedavg", "ditto", "fedorbit"]
    for run in document["runs"]:
        assert {
            "method", "accuracy", "spread", "per_orbit", "similarity", "beta", "rounds",
            "samples_trained", "to_ground_bytes", "from_ground_bytes", "isl_bytes", "unlinked_bytes", "folder",
        } <= run.keys()  # fmt: skip
        assert run["rounds"] == 4
        assert run["beta"] == run["similarity"] > 0
        assert 0.0 <= run["accuracy"] <= 100.0
        assert len(run["per_orbit"]) == 3
        assert (tmp_path / run["folder"] / "records.jsonl").is_file()
    assert (tmp_path / "first" / "accuracy.png").is_file()

    table = fedorbit("run", "--resume", "first").stdout
    assert "After 4 rounds, physical links" in table
    for name in ("fedavg", "ditto", "fedorbit"):
        assert name in table

    refused = fedorbit("run", *SMALL, "--out", "first", code=2)
    assert "already holds a run; go on with `fedorbit run --resume first`" in refused.stderr
    refused = fedorbit("run", "--resume", "first", *SMALL, "-o", "run.rounds=9", code=2)
    assert "differs in run.rounds" in refused.stderr


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs fedorbit[tensorboard]")
def test_trackers_are_chosen_on_the_command_line(fedorbit, tmp_path: Path) -> None:
    tiny = [*SMALL, "-m", "local", "-o", "run.rounds=2"]
    fedorbit("run", *tiny, "--track", "tensorboard", "--out", "first", "-q")
    assert len(list((tmp_path / "first" / "tensorboard" / "local").iterdir())) == 1
    assert load_config(tmp_path / "first" / "config.toml").tracking.tensorboard

    fedorbit("run", *tiny, "--out", "second", "-q")
    assert not (tmp_path / "second" / "tensorboard").exists()
    fedorbit("run", "--resume", "second", "--track", "tensorboard", "-q")
    assert len(list((tmp_path / "second" / "tensorboard" / "local").iterdir())) == 1

    refused = fedorbit("run", *tiny, "--track", "comet", "--out", "third", code=2)
    assert "'comet' is not one of 'tensorboard', 'mlflow', 'wandb'" in refused.stderr


@pytest.mark.skipif(find_spec("mlflow") is None, reason="needs fedorbit[mlflow]")
def test_a_tracker_out_of_reach_is_one_sentence(
    fedorbit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://localhost:1")
    refused = fedorbit("run", *SMALL, "--track", "mlflow", "--out", "first", code=2)
    assert refused.stderr.startswith("fedorbit: MLflow cannot log to experiment 'fedorbit' (")
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "first").exists()


def test_how_a_run_is_executed_may_be_changed_on_resume(fedorbit, tmp_path: Path) -> None:
    fedorbit("run", *SMALL, "-m", "local", "-o", "run.rounds=2", "--out", "first", "-q")
    done = fedorbit("run", "--resume", "first", "-o", "engine.workers=1", "-m", "local", "--json")
    assert [run["method"] for run in json.loads(done.stdout)["runs"]] == ["local"]
    fedorbit("run", "--resume", "first", "-o", "engine.backend=auto", "--json")
    refused = fedorbit("run", "--resume", "first", "-m", "fedavg", code=2)
    assert "it differs in run.method;" in refused.stderr
    refused = fedorbit("run", "--resume", "first", "--out", "second", code=2)
    assert "--out second cannot be used with --resume first" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "second").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal_and_resumed(
    fedorbit, gates: Gates, tmp_path: Path, number: int
) -> None:
    arguments = ["run", *SMALL, "-m", METHOD, "-o", "run.rounds=20"]
    folders = {name: method_folder(tmp_path / name, METHOD) for name in ("stopped", "alone")}
    gates.hold(before=7)
    command = [COMMAND, *arguments, "--out", "stopped"]
    running = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    gates.wait(running)
    running.send_signal(number)
    _, message = running.communicate(timeout=PATIENCE_S)
    assert running.returncode == 128 + number
    told = "nothing is lost: go on with `fedorbit run --resume stopped --allow-code gated`"
    assert told in message
    assert "Traceback" not in message
    assert not (folders["stopped"] / "summary.json").exists()
    assert newest_checkpoint(folders["stopped"]).rounds_done == 7

    gates.open()
    fedorbit("run", "--resume", "stopped", "--allow-code", "gated", "--json")
    fedorbit(*arguments, "--out", "alone", "--json")
    stopped, alone = (read_records(folder) for folder in folders.values())
    assert len(alone) == 20
    assert timeless(stopped) == timeless(alone)


def test_the_example_of_a_method_of_ones_own(fedorbit, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"
    assert len(example.read_text().splitlines()) <= 48
    (tmp_path / "trimmed_mean.py").write_text(example.read_text())
    done = fedorbit(
        "run",
        *SMALL,
        "-o",
        "run.rounds=3",
        "-m",
        "trimmed_mean:TrimmedMean",
        "--out",
        "o",
        "--json",
    )
    assert json.loads(done.stdout)["runs"][0]["method"] == "trimmed_mean:TrimmedMean"


def test_parameters_of_a_method_in_a_package(fedorbit, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"
    (tmp_path / "mine" / "inner").mkdir(parents=True)
    (tmp_path / "mine" / "inner" / "trimmed.py").write_text(example.read_text())
    name = "mine.inner.trimmed:TrimmedMean"
    arguments = ["run", *SMALL, "-o", "run.rounds=1", "-m", name, "-q"]
    fedorbit(*arguments, "-o", f"methods.{name}.trim=0", "--out", "o")
    assert load_config(tmp_path / "o" / "config.toml").methods == {name: {"trim": 0}}
    refused = fedorbit(*arguments, "-o", f"methods.{name}.trimm=0", code=2)
    assert "unknown key 'trimm'; did you mean 'trim'?" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-m", "fedavgg"], "no method 'fedavgg' (did you mean 'fedavg'?)"),
        (["-o", "methods.fedorbti.rho=0.5"], "no method 'fedorbti' (did you mean 'fedorbit'?)"),
        (["-o", "methods.apfl.initial_alpha=2.0"], "initial_alpha must be at least 0 and at most"),
        (["-o", "methods.fedorbit.roh=1"], "did you mean 'rho'?"),
        (["-o", "run.rounds=500"], "run.rounds must be at most schedule.rounds (400)"),
        (["--resume", "nowhere"], "nowhere holds no run to resume"),
        (["-o", "data.synthetic.size=12"], "at least 16 x 16 pixels"),
        (["-o", "engine.device=tpu"], "tpu"),
    ],
)
def test_bad_input(fedorbit, tmp_path: Path, arguments: list[str], message: str) -> None:
    done = fedorbit("run", *SMALL, *arguments, code=2)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "runs").exists()  # what cannot start leaves no folder behind


@pytest.mark.parametrize(
    ("links", "message"),
    [
        ("causal", 'network.isl = "none" does not limit orbits with run.links = "causal"'),
        ("physical", "3 of 3 orbits never aggregate (0, 1, 2): their satellites do not all"),
    ],
)
def test_links_that_mean_less_than_they_say_are_named(installed, links: str, message: str) -> None:
    changes = ["network.isl=none", f"run.links={links}", "run.rounds=1", "schedule.rounds=2"]
    done = installed("run", *SMALL, *(word for change in changes for word in ("-o", change)))
    assert message in " ".join(done.stderr.split())


def test_methods_are_listed(fedorbit) -> None:
    document = json.loads(fedorbit("methods", "--json").stdout)["methods"]
    assert list(document) == list(METHODS)
    assert document["ditto"]["parameters"]["lambda"]["default"] == 0.1
    assert document["fedorbit"]["parameters"]["rho"]["default"] == 0.95
    text = fedorbit("methods").stdout
    assert all(re.search(rf"^ {name} ", text, re.MULTILINE) for name in METHODS)
    assert "fedorbit methods NAME" in text and "0.95" not in text
    text = fedorbit("methods", "fedorbit", "ditto").stdout
    assert "rho" in text and "0.95" in text and "scaffold" not in text
    assert list(json.loads(fedorbit("methods", "apfl", "--json").stdout)["methods"]) == ["apfl"]
    refused = " ".join(fedorbit("methods", "fedavgg", code=2).stderr.split())
    assert "did you mean 'fedavg'" in refused


def test_parameters_of_a_method_of_ones_own_are_shown(fedorbit, tmp_path: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "trimmed_mean.py"
    (tmp_path / "trimmed.py").write_text(example.read_text())
    name = "trimmed:TrimmedMean"
    document = json.loads(fedorbit("methods", name, "--json").stdout)["methods"]
    assert "trim" in document[name]["parameters"]


def test_every_parameter_of_a_shipped_method_says_what_it_means(fedorbit) -> None:
    document = json.loads(fedorbit("methods", "--json").stdout)["methods"]
    silent = [
        f"{name}.{key}"
        for name, method in document.items()
        for key, parameter in method["parameters"].items()
        if not parameter["description"]
    ]
    assert silent == []


def test_links_that_are_assumed_and_do_not_exist_are_named(installed, fedorbit) -> None:
    assumed = ("-o", "network.isl=assumed")
    done = installed("run", *SMALL, "-m", "local", "-o", "run.rounds=1", *assumed)
    assert "Satellites of 3 of 3 orbits do not always see each other" in " ".join(
        done.stdout.split()
    )
    routed = ["run.links=physical", "network.isl=line-of-sight", "run.rounds=1"]
    changes = [word for change in routed for word in ("-o", change)]
    done = fedorbit("run", *SMALL, "-m", "local", *changes)
    assert "do not always see" not in done.stdout


def test_a_run_too_short_for_its_links_is_named(fedorbit) -> None:
    small = ("-o", "data.synthetic.samples=100", "-o", "training.epochs=1", "-o", "run.rounds=3")
    said = fedorbit("run", *small, "-m", "fedavg", "-m", "local").stdout
    assert "No model in use has changed since the first round: fedavg, local. Training" in said
    moved = fedorbit("run", *SMALL, "-o", "run.links=ideal", "-o", "run.rounds=2", "-m", "local")
    assert "No model in use has changed" not in moved.stdout
