"""Doing a study: killed and resumed, by two processes at once, and with a run that fails."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

import fedorbit as fo
from fedorbit.errors import DataError, RunError, TrackingError
from fedorbit.simulation.manifest import CONFIG
from fedorbit.simulation.records import method_folder, read_records
from fedorbit.studies import Study, load_study, run, status, write_study
from fedorbit.studies.executors import Ended
from fedorbit.studies.folders import RunState, is_locked, read_failure, run_lock, write_failure
from fedorbit.studies.processes import default_jobs
from fedorbit.studies.runner import _Runner, time_left_s
from fedorbit.user_code import allow_code
from tests.gates import METHOD, Gates
from tests.patience import PATIENCE_S, wait_until
from tests.simulation.test_runs import timeless
from tests.studies import small


def study_process(path: Path, out: Path, *more: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "fedorbit",
            "study",
            "run",
            str(path),
            "--out",
            str(out),
            *more,
            "--allow-code",
            "gated",
            "--allow-code",
            "counting",
        ],
        cwd=path.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def children(process: "subprocess.Popen[str]") -> list[int]:
    listed = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(pid) for pid in listed.read_text().split()]


def kill(*pids: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a worker ends with its parent
            os.kill(pid, signal.SIGKILL)


def test_killed_in_the_middle_and_resumed(gates: Gates, tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path,
        f'[common]\nmethod = ["{METHOD}"]\nrun.rounds = [20]\n'
        f'[[grid]]\n"methods.{METHOD}.gate" = ["a", "b"]\n',
    )
    out, study = tmp_path / "out", load_study(path)
    first, second = (cell.slug for cell in study.runs)

    gates.hold("a", before=7)
    whole = study_process(path, out, "--jobs", "1")
    gates.wait(whole, "a")
    kill(whole.pid, *children(whole))
    whole.communicate()
    wait_until(lambda: not is_locked(out, first))  # the dead worker's lock goes with it, soon
    assert [s.state for s in status(study, out)] == ["interrupted", "missing"]

    # Now the parent alone: its worker must neither go on nor lose what it has.
    gates.open("a")
    gates.hold("b", before=8)
    parent = study_process(path, out, "--jobs", "1")
    gates.wait(parent, "b")
    kill(parent.pid)
    parent.communicate()
    wait_until(lambda: not is_locked(out, second))
    states = status(study, out)
    assert [s.state for s in states] == ["done", "interrupted"]
    newest = max(method_folder(out / second, METHOD).glob("checkpoint-*.json"))
    # Stopped, not killed: the checkpoint is of the last whole round, not of the last third one.
    assert states[1].rounds_done == json.loads(newest.read_text())["rounds_done"] == 8

    gates.open("b")
    assert [s.state for s in run(study, out)] == ["done", "done"]
    for cell in study.runs:
        alone = fo.run(cell.config, tmp_path / f"alone-{cell.slug}")
        killed = read_records(method_folder(out / cell.slug, METHOD))
        assert len(killed) == 20
        assert timeless(killed) == timeless(alone.runs[0].records)


COUNTING = """
import os, time
from pathlib import Path
from fedorbit.methods.fedavg import FedAvg


class Counting(FedAvg):
    '''Tells who starts it, and waits until two studies are at work.'''

    tag: int = 0

    def start(self, fleet):
        with open("starts.txt", "a") as file:
            file.write(f"{self.tag} {os.getppid()}\\n")
        print("chatter on standard output")
        end = time.monotonic() + 300
        while len({line.split()[1] for line in Path("starts.txt").read_text().splitlines()}) < 2:
            assert time.monotonic() < end, "the other process never came"
            time.sleep(0.01)
        return super().start(fleet)
"""


def test_two_processes_do_every_run_once(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["counting:Counting"]\n'
        '[[grid]]\n"methods.counting:Counting.tag" = [1, 2, 3, 4, 5, 6]\n',
    )
    both = [study_process(path, tmp_path / "out", "--jobs", "1", "--json") for _ in range(2)]
    for process in both:
        stdout, stderr = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0, stderr
        assert [r["state"] for r in json.loads(stdout)["runs"]] == ["done"] * 6
    starts = [line.split() for line in (tmp_path / "starts.txt").read_text().splitlines()]
    assert Counter(tag for tag, _ in starts) == Counter("123456")
    assert len({parent for _, parent in starts}) == 2


RAISING = """
import os
from fedorbit.methods.fedavg import FedAvg


class Raising(FedAvg):
    how: str = "well"

    def round(self, state, now):
        if now.t == 2 and self.how == "raises":
            raise ZeroDivisionError("orbit 3 has no samples")
        if now.t == 2 and self.how == "dies":
            os._exit(7)
        return super().round(state, now)
"""


def test_failures_are_told_and_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "raising.py").write_text(RAISING)
    allow_code("raising")
    path = small.write_study(
        tmp_path,
        '[common]\nmethod = ["raising:Raising"]\n'
        '[[grid]]\n"methods.raising:Raising.how" = ["raises", "dies", "well"]\n',
    )
    study, out = load_study(path), tmp_path / "out"
    raises, dies, well = run(study, out, jobs=1)
    assert (raises.state, raises.error) == ("failed", "ZeroDivisionError: orbit 3 has no samples")
    assert raises.rounds_done == 2
    assert dies.state == "failed" and "ended with code 7" in str(dies.error)
    assert (well.state, well.rounds_done) == ("done", 4)
    failure = json.loads((out / ".study" / f"{raises.folder}.failure.json").read_text())
    assert "raising.py" in failure["traceback"]

    # Mended, the same call does what failed, and only that; but no run of two different codes.
    (tmp_path / "raising.py").write_text(RAISING.replace("now.t == 2", "False"))
    refused = run(study, out, jobs=1)
    assert [state.state for state in refused] == ["failed", "failed", "done"]
    assert "the module raising has changed since" in str(refused[0].error)
    for state in (raises, dies):
        shutil.rmtree(out / state.folder)
    before = (out / well.folder / "config.toml").stat().st_mtime_ns
    assert {s.state for s in run(study, out, jobs=1)} == {"done"}
    assert (out / well.folder / "config.toml").stat().st_mtime_ns == before


@pytest.fixture
def tiny(tmp_path: Path) -> Study:
    return load_study(small.write_study(tmp_path, '[common]\nmethod = ["fedavg"]\nseed = [0, 1]'))


def test_threads_that_were_asked_for(tmp_path: Path) -> None:
    path = small.write_study(
        tmp_path, '[common]\nmethod = ["fedavg"]\nrun.rounds = [1]\nseed = [0, 1]'
    )
    study = load_study(path, overrides=["engine.workers=3"])
    run(study, tmp_path / "out")
    began_with = [fo.load_config(tmp_path / "out" / c.slug / CONFIG) for c in study.runs]
    assert [config.engine.workers for config in began_with] == [3, 3]
    assert default_jobs(0, threads=10_000) == 1


def test_status_from_files(tiny: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert [s.state for s in status(tiny, out)] == ["missing", "missing"]
    first, second = (cell.slug for cell in tiny.runs)
    write_failure(out, second, "no luck")
    with run_lock(out, first) as mine, run_lock(out, first) as again:
        assert mine and not again
        assert [s.state for s in status(tiny, out)] == ["running", "failed"]
    states = status(tiny, out)
    assert [s.state for s in states] == ["missing", "failed"]
    assert states[1].error == "no luck"


def test_other_settings_in_a_folder_are_refused_before_anything_runs(
    tiny: Study, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    fo.run(tiny.runs[1].config, out / tiny.runs[1].slug)
    changed = load_study(tmp_path / "tiny.toml", overrides=["training.rate=0.5", "run.rounds=9"])
    with pytest.raises(RunError, match=r"differs in run\.rounds, training\.rate; choose another"):
        run(changed, out)
    assert not (out / tiny.runs[0].slug).exists()
    # How it is executed may differ.
    how = ["engine.workers=1", "tracking.tensorboard=true"]
    same = load_study(tmp_path / "tiny.toml", overrides=how)
    assert [s.state for s in status(same, out)] == ["missing", "done"]


@pytest.mark.skipif(find_spec("tensorboard") is None, reason="needs fedorbit[tensorboard]")
def test_trackers_are_told_of_every_run_and_change_nothing(tiny: Study, tmp_path: Path) -> None:
    tracked = load_study(tmp_path / "tiny.toml", overrides=["tracking.tensorboard=true"])
    assert [cell.slug for cell in tracked.runs] == [cell.slug for cell in tiny.runs]
    assert {state.state for state in run(tracked, tmp_path / "out", jobs=1)} == {"done"}
    for cell in tracked.runs:
        [events] = (tmp_path / "out" / cell.slug / "tensorboard" / cell.method).iterdir()
        assert events.stat().st_size > 0
    assert {state.state for state in status(tiny, tmp_path / "out")} == {"done"}


def test_a_tracker_that_is_not_installed_is_said_before_anything_runs(
    tiny: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    tracked = load_study(tmp_path / "tiny.toml", overrides=["tracking.mlflow=true"])
    with pytest.raises(TrackingError, match=r"pip install 'mlflow-skinny>="):
        run(tracked, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_dataset_that_is_not_prepared(tmp_path: Path) -> None:
    study = load_study("paper-so2sat", seeds=[0])
    with pytest.raises(DataError) as caught:
        run(study, tmp_path / "out")
    message = str(caught.value)
    assert message.startswith("study paper-so2sat: dataset 'so2sat' is not prepared")
    assert "fedorbit data fetch so2sat" in message and "--quick does without it" in message
    assert not (tmp_path / "out").exists()


def test_the_time_left() -> None:
    def state(method: str, kind: str, done: int, seconds: float) -> RunState:
        return RunState(f"{method}{kind}", method, kind, done, 100, seconds)  # type: ignore[arg-type]

    assert time_left_s([state("a", "missing", 0, 0.0)], 2) is None
    states = [
        state("a", "done", 100, 100.0),  # 1 s per round
        state("b", "running", 50, 250.0),  # 5 s per round: 250 s left
        state("a", "missing", 0, 0.0),  # 100 s left
        state("b", "failed", 10, 50.0),  # nothing left
    ]
    assert time_left_s(states, 1) == pytest.approx(350.0)
    assert time_left_s(states, 2) == pytest.approx(250.0)  # the longest run decides


class Losing:
    """Places that lose the first run so many times, and do all others."""

    at_once, busy, retries = 1, 0, 2

    def __init__(self, out: Path, first: str, losses: int) -> None:
        self._out, self._first, self._losses = out, first, losses
        self.begun: list[str] = []

    def begin(self, slug: str, waiting: int) -> None:
        self.begun.append(slug)
        self.busy = 1

    def news(self) -> list[Ended]:
        self.busy = 0
        slug = self.begun[-1]
        if slug == self._first and self._losses:
            self._losses -= 1
            return [Ended(slug, "lost", "its node was lost")]
        return [Ended(slug, "done")]


@pytest.mark.parametrize(("losses", "begun"), [(0, "ab"), (2, "aaab"), (5, "aaab")])
def test_lost_runs_are_tried_again_but_not_for_ever(
    tiny: Study, tmp_path: Path, losses: int, begun: str
) -> None:
    names = dict(zip("ab", (cell.slug for cell in tiny.runs), strict=True))
    places = Losing(tmp_path, names["a"], losses)
    _Runner(tiny, tmp_path, tiny.runs, places, None).work()
    assert places.begun == [names[letter] for letter in begun]
    told = "lost 3 times, at last: its node was lost" if losses > 2 else None
    assert read_failure(tmp_path, names["a"]) == told
    assert read_failure(tmp_path, names["b"]) is None


def test_a_folder_can_be_run_again_without_its_file(tiny: Study, tmp_path: Path) -> None:
    out = tmp_path / "out"
    write_study(tiny, out)
    (tmp_path / "tiny.toml").unlink()
    assert [c.config for c in load_study(out).runs] == [c.config for c in tiny.runs]


def test_a_study_of_real_satellites_can_be_looked_at_and_resumed(tmp_path: Path) -> None:
    path, _ = small.write_real_study(tmp_path)
    out, study = tmp_path / "out", load_study(path)
    assert [s.state for s in run(study, out)] == ["done"]
    [summary] = (out / study.runs[0].slug).glob("*/summary.json")
    summary.unlink()
    assert [s.state for s in status(study, out)] == ["interrupted"]
    assert [s.state for s in run(study, out)] == ["done"]


def test_a_failure_without_its_sentence_is_called_damaged(tmp_path: Path) -> None:
    write_failure(tmp_path, "run", "no images")
    assert read_failure(tmp_path, "run") == "no images"
    (tmp_path / ".study" / "run.failure.json").write_text('{"terror": "no images"}')
    assert "run.failure.json is damaged" in str(read_failure(tmp_path, "run"))
