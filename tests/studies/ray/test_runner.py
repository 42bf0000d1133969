"""Studies on a real Ray cluster of two nodes: lost workers, lost nodes, and the driver gone."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import fedorbit as fo
from fedorbit.errors import ClusterError
from fedorbit.simulation.records import method_folder, read_records
from fedorbit.studies import OnRay, Study, StudyProgress, load_study, run, status
from fedorbit.studies.folders import is_locked
from fedorbit.studies.grid import Cell
from fedorbit.user_code import allow_code
from tests.gates import METHOD, Gates
from tests.patience import wait_until
from tests.simulation.test_runs import timeless
from tests.studies import small

ray = pytest.importorskip("ray", reason="needs the extra fedorbit[ray]")
# Ray's own threads and sockets are not ours to close.
pytestmark = pytest.mark.filterwarnings("default")

FATED_MODULE = """
import os, signal, time
from pathlib import Path
from fedorbit.methods.fedavg import FedAvg

FOLDER = Path(__file__).parent


class Fated(FedAvg):
    '''Meets its fate in round 7, and tells which rounds it does and where.'''

    fate: str = "none"
    patient: bool = False
    number: int = 0

    def round(self, state, now):
        t = now.t
        with (FOLDER / f"rounds-{self.fate}-{self.number}.txt").open("a") as told:
            told.write(f"{t} ")
        if t == 7 and self.fate == "raises":
            raise ZeroDivisionError("orbit 3 has no samples")
        if t == 7 and self.fate == "killed" and not (FOLDER / "killed").exists():
            if self.patient:
                self.wait("out/*killed*/*/checkpoint-00000006.json")
            (FOLDER / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if t == 7 and self.fate == "loses its node":
            import ray

            if ray.is_initialized():  # it is not where the same is done on one machine
                node = ray.get_runtime_context().get_node_id()
                (FOLDER / f"on-{node}").touch()
                self.wait("never" if (FOLDER / f"doomed-{node}").exists() else "removed")
        return super().round(state, now)

    def wait(self, pattern):
        end = time.monotonic() + 300
        while not list(FOLDER.glob(pattern)):
            assert time.monotonic() < end, f"{pattern} never came"
            time.sleep(0.01)
"""
FATED = "fated:Fated"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patched:
        # What killed workers leave behind goes with the test; Ray's sockets need a short path.
        patched.setenv("RAY_TMPDIR", tempfile.gettempdir())
        patched.setenv("TMPDIR", str(tmp_path_factory.mktemp("nodes")))
        patched.setenv("FEDORBIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield from _two_nodes(Cluster)


def _two_nodes(make: Any) -> Iterator[Any]:
    made = make(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@pytest.fixture
def fated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "fated.py").write_text(FATED_MODULE)
    allow_code("fated")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def fated_study(folder: Path, grid: str, rounds: int = 10) -> Study:
    common = f'[common]\nmethod = ["{FATED}"]\nrun.rounds = [{rounds}]\n[[grid]]\n'
    return load_study(small.write_study(folder, common + grid))


def assert_as_alone(cell: Cell, out: Path, folder: Path) -> None:
    """The records of a run are those of `fedorbit run` on this machine."""
    alone = fo.run(cell.config, folder / f"alone-{cell.slug}").runs[0].records
    records = read_records(method_folder(out / cell.slug, cell.method))
    assert len(records) == cell.config.run.rounds
    assert timeless(records) == timeless(alone)


@pytest.mark.parametrize("files", ["shared", "return"])
def test_a_killed_worker_and_a_failing_run(cluster: Any, fated: Path, files: Any) -> None:
    # Files that are returned come a little later than they are written.
    study = fated_study(
        fated,
        f'"methods.{FATED}.patient" = [{str(files == "return").lower()}]\n'
        f'"methods.{FATED}.fate" = ["raises", "killed", "none"]\n',
    )
    raises, killed, none = run(study, fated / "out", ray=OnRay(cluster.address, files=files))
    assert (raises.state, raises.error) == ("failed", "ZeroDivisionError: orbit 3 has no samples")
    assert raises.rounds_done == 7
    assert (killed.state, none.state) == ("done", "done")
    # It went on where it was saved, after round 5, and not from the start.
    told = (fated / "rounds-killed-0.txt").read_text().split()
    assert told == [*"01234567", *"6789"]
    assert not list((fated / "out").rglob("*.partial*"))

    for cell in study.runs[1:]:
        assert_as_alone(cell, fated / "out", fated)


def test_a_node_is_lost(cluster: Any, fated: Path) -> None:
    study = fated_study(
        fated,
        f'"methods.{FATED}.fate" = ["loses its node"]\n"methods.{FATED}.number" = [1, 2, 3]\n',
    )
    before = _node_ids(cluster)
    third = cluster.add_node(num_cpus=1)
    after = _node_ids(cluster)
    [doomed] = after - before
    (fated / f"doomed-{doomed}").touch()
    told = [fated / f"on-{node}" for node in after]
    assert len(told) == 3

    def remove_node(progress: StudyProgress) -> None:
        if all(path.exists() for path in told) and not (fated / "removed").exists():
            cluster.remove_node(third, allow_graceful=False)
            (fated / "removed").touch()

    states = run(study, fated / "out", ray=OnRay(cluster.address), watch=remove_node)
    assert {s.state for s in states} == {"done"}
    rounds = [(fated / f"rounds-loses its node-{n}.txt").read_text().split() for n in (1, 2, 3)]
    assert sorted(map(len, rounds)) == [10, 10, 12]  # rounds 6 and 7 of one of them twice
    for cell in study.runs:
        assert_as_alone(cell, fated / "out", fated)


def _node_ids(cluster: Any) -> set[str]:
    ray.init(cluster.address, log_to_driver=False)
    try:
        return {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    finally:
        ray.shutdown()


def test_the_driver_is_stopped_and_killed(cluster: Any, gates: Gates, tmp_path: Path) -> None:
    grids = f'[common]\nmethod = ["{METHOD}"]\nrun.rounds = [20]\n'
    path = small.write_study(tmp_path, grids)
    out, study = tmp_path / "out", load_study(path)
    [cell] = study.runs
    command = [sys.executable, "-m", "fedorbit", "study", "run", str(path), "--out", str(out)]
    command += ["--allow-code", "gated"]
    command += ["--engine", "ray", "--ray-address", cluster.address]

    def interrupted_after(rounds: int, number: signal.Signals) -> subprocess.CompletedProcess[str]:
        gates.hold(before=rounds)
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            gates.wait(process)
            os.kill(process.pid, number)
            told = process.communicate()
        if number == signal.SIGKILL:  # nobody is left to wait until the run lets go
            wait_until(lambda: not is_locked(out, cell.slug))
        assert not is_locked(out, cell.slug)
        [state] = status(study, out)
        assert (state.state, state.rounds_done) == ("interrupted", rounds)
        return subprocess.CompletedProcess(command, process.returncode, *told)

    stopped = interrupted_after(7, signal.SIGINT)
    assert stopped.returncode == 130
    assert stopped.stderr.startswith("stopped; nothing is lost: the same command goes on\n")
    assert "Traceback" not in stopped.stderr and stopped.stdout == ""
    newest = max(method_folder(out / cell.slug, METHOD).glob("checkpoint-*.json"))
    # Stopped, not killed: the checkpoint is of the last whole round, not of the last third one.
    assert json.loads(newest.read_text())["rounds_done"] == 7

    interrupted_after(14, signal.SIGKILL)

    gates.open()
    assert [s.state for s in run(study, out)] == ["done"]  # here, as well as there
    assert_as_alone(cell, out, tmp_path)


def test_a_cluster_that_cannot(cluster: Any, tmp_path: Path) -> None:
    tiny = load_study(small.write_study(tmp_path, '[common]\nmethod = ["fedavg"]'))
    with pytest.raises(ClusterError, match=r"no node .* the 2 CPUs and 0 GPUs .* has 1 and 0"):
        run(tiny, tmp_path / "out", ray=OnRay(cluster.address, cpus=2))
    so2sat = load_study("paper-so2sat", seeds=[0])
    with pytest.raises(ClusterError) as caught:
        run(so2sat, tmp_path / "other", ray=OnRay(cluster.address))
    message = str(caught.value)
    assert message.startswith("node ") and "has no dataset 'so2sat'" in message
    assert "`fedorbit data prepare so2sat` on every node" in message
    assert not list((tmp_path / "out" / ".study").glob("*.lock"))
