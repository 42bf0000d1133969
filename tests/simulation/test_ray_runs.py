"""Runs on a cluster that loses workers, nodes and its driver end with the same records."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import fedorbit as fo
from fedorbit.cli.commands import execute
from fedorbit.cluster import ray_cluster
from fedorbit.config import Config
from fedorbit.config.files import dumps
from fedorbit.config.schema import RunSection, ScheduleSection
from fedorbit.errors import ClusterError, RunError
from fedorbit.learning.ray import engine
from fedorbit.simulation import loop
from fedorbit.simulation.records import method_folder, read_records
from tests.gates import METHOD, Gates
from tests.patience import wait_until
from tests.simulation.test_runs import small, timeless
from tests.two_nodes import TwoNodes

ROUNDS = 6


def work(**engine: object) -> Config:
    """Jobs of a few hundredths of a second, long enough to be caught in the act."""
    return small(
        data={"synthetic": {"classes": 4, "samples": 2000, "size": 32}},
        run={"rounds": ROUNDS, "method": ["fedorbit"]},
        engine={"checkpoint_every": 100, **engine},
    )


class Disturb(loop.SilentRunProgress):
    """Tries to do something, again and again from the end of the second round on."""

    def __init__(self, deed: Callable[[], int | None]) -> None:
        self._thread = threading.Thread(target=self._try, args=(deed,))
        self._now, self._over = threading.Event(), threading.Event()
        self.done: int | None = None

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        self._thread.start()

    def round_done(self, t: int, record: dict | None) -> None:
        if t == 1:
            self._now.set()

    def end(self) -> None:
        self._over.set()
        self._now.set()
        self._thread.join()

    def _try(self, deed: Callable[[], int | None]) -> None:
        self._now.wait()
        while self.done is None and not self._over.wait(0.001):
            self.done = deed()


def disturbed(deed: Callable[[], int | None], folder: Path) -> tuple[fo.RunResult, int]:
    """Run until the deed was done in a run; return that run and what the deed says.

    On a busy machine a run may be over before anybody is caught in the act.
    """
    for attempt in range(10):
        watch = Disturb(deed)
        result = fo.run(work(kind="ray"), folder / f"run-{attempt}", progress=watch)
        if watch.done is not None:
            return result, watch.done
    raise AssertionError("nobody was caught training")


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> list[dict]:
    cache = pytest.MonkeyPatch()
    cache.setenv("FEDORBIT_CACHE", str(tmp_path_factory.mktemp("cache")))
    result = fo.run(work(), tmp_path_factory.mktemp("alone") / "run")
    cache.undo()
    records = timeless(result.runs[0].records)
    assert len(records) == ROUNDS
    return records


@pytest.fixture(scope="module")
def joined(two_nodes: TwoNodes) -> Iterator[TwoNodes]:
    with ray_cluster(two_nodes.address):
        yield two_nodes


def test_the_driver_is_killed_and_the_run_resumed(
    joined: TwoNodes, alone: list[dict], gates: Gates, tmp_path: Path
) -> None:
    config = work(kind="ray", ray_address=joined.address, checkpoint_every=1)
    config = config.model_copy(update={"run": RunSection(method=(METHOD,), rounds=ROUNDS)})
    gates.hold(before=4)  # so that it cannot end before it is killed
    (tmp_path / "config.toml").write_text(dumps(config))
    command = [sys.executable, "-m", "fedorbit", "run", "config.toml", "--out", "run"]
    command += ["--allow-code", "gated"]
    with (tmp_path / "output").open("w") as output:
        driver = subprocess.Popen(command, cwd=tmp_path, stdout=output, stderr=output)
    records = method_folder(tmp_path / "run", METHOD) / "records.jsonl"

    def is_in_the_middle() -> bool:
        has_records = records.exists() and records.stat().st_size > 0
        return has_records and bool(joined.training())

    wait_until(lambda: is_in_the_middle() or gates.is_held() or driver.poll() is not None)
    driver.send_signal(signal.SIGKILL)
    assert driver.wait() == -signal.SIGKILL, (tmp_path / "output").read_text()
    gates.open()
    with pytest.raises(RunError, match=r"asks for connections.*engine.ray_address"):
        fo.resume(tmp_path / "run")
    resumed = fo.resume(tmp_path / "run", config)
    assert timeless(resumed.runs[0].records) == alone


def test_a_worker_is_killed_in_the_middle_of_a_round(
    joined: TwoNodes, alone: list[dict], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    result, killed = disturbed(joined.kill_a_worker, tmp_path)
    wait_until(lambda: not Path(f"/proc/{killed}").exists())
    assert timeless(result.runs[0].records) == alone
    assert capfd.readouterr().out == ""  # what Ray has to say about it


def test_a_node_is_removed_in_the_middle_of_a_run(
    joined: TwoNodes, alone: list[dict], tmp_path: Path
) -> None:
    raylet = joined.second.all_processes["raylet"][0].process
    try:
        result, _ = disturbed(joined.remove_second, tmp_path)
    finally:
        joined.replace_second()
    assert raylet.poll() is not None
    assert timeless(result.runs[0].records) == alone


def test_a_stop_is_answered_while_others_train(joined: TwoNodes, tmp_path: Path) -> None:
    def stop_them_training() -> int | None:
        if not joined.training():
            return None
        os.kill(os.getpid(), signal.SIGINT)
        return signal.SIGINT

    long = work(kind="ray").model_copy(
        update={
            "run": RunSection(method=("fedorbit",), rounds=400),
            "schedule": ScheduleSection(rounds=400),
        }
    )
    with pytest.raises(fo.StopRequested) as stop:
        fo.run(long, tmp_path / "run", progress=Disturb(stop_them_training))
    assert stop.value.signal_number == signal.SIGINT
    [kept] = (tmp_path / "run" / "fedorbit").glob("checkpoint-*.json")
    rounds = json.loads(kept.read_text())["rounds_done"]
    assert 2 <= rounds < 400
    # A record that was written in the very moment of the stop belongs to a round that was given up.
    assert len(read_records(tmp_path / "run" / "fedorbit")) - rounds in (0, 1)
    wait_until(lambda: not joined.training())  # nobody is left


@pytest.mark.parametrize(
    ("who_is_gone", "words"),
    [("_address", "the head of the Ray cluster"), ("_own_node", "this machine's node of the Ray")],
)
def test_a_lost_cluster_is_one_sentence_and_a_checkpoint(
    joined: TwoNodes,
    alone: list[dict],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    who_is_gone: str,
    words: str,
) -> None:
    gone = set()

    class Lost(loop.SilentRunProgress):
        def round_done(self, t: int, record: dict | None) -> None:
            if t == 2:
                gone.add(engines[0].__dict__[who_is_gone])

    engines, look_around = [], engine.RayEngine._look_around
    monkeypatch.setattr(engine, "HEAD_PATIENCE_S", 0.0)
    monkeypatch.setattr(engine, "answers", lambda address: address not in gone)
    monkeypatch.setattr(
        engine.RayEngine, "_look_around", lambda e: (engines.append(e), look_around(e))
    )
    with pytest.raises(ClusterError, match=f"{words}.* was lost; start it again and go on with"):
        fo.run(work(kind="ray"), tmp_path / "run", progress=Lost())
    assert len(read_records(tmp_path / "run" / "fedorbit")) == 3
    # Elsewhere it goes on to the same records.
    stored = fo.load_config(tmp_path / "run" / "config.toml", ["engine.kind=local"])
    resumed = fo.resume(tmp_path / "run", stored)
    assert timeless(resumed.runs[0].records) == alone


def test_a_wrong_address_leaves_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed; see the extra ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    monkeypatch.chdir(tmp_path)
    assert execute(["run", "--ray-address", "127.0.0.1:1", "--out", "run"]) == 2
    assert capsys.readouterr().err.startswith("fedorbit: no Ray cluster answers at '127.0.0.1:1'")
    assert not (tmp_path / "run").exists()


def test_an_address_and_the_local_engine_exclude_each_other(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert execute(["run", "--ray-address", "127.0.0.1:1", "--engine", "local"]) == 2
    assert "cannot be used with --engine local; leave out one of the two" in capsys.readouterr().err
