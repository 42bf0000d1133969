"""Killed at random moments, a run ends with the same records as one left alone."""

import subprocess
import sys
from pathlib import Path

from fedorbit.simulation.records import read_records
from tests.simulation.test_runs import timeless

KILLS = 20

# One process imports PyTorch once and forks a child per attempt, which is killed after a random
# while, so that all phases of a run are hit, starting included. A run that ends nevertheless is
# followed by another one, until there were enough kills, half of them of a child that had done a
# round. On a slow machine that takes longer whiles.
HARNESS = """
import os, random, signal, sys, time
from pathlib import Path
import fedorbit as fo
import fedorbit.report.run_figures  # once, and not in each child
from fedorbit.simulation import runs
from tests.simulation.test_runs import small


def recorded(folder):
    return sum(path.stat().st_size for path in folder.glob("*/records.jsonl"))


runs_folder, kills = Path(sys.argv[1]), int(sys.argv[2])
config = small(run={"rounds": 40, "method": ["fedorbit", "ditto"]}, engine={"checkpoint_every": 4})
rng, killed, killed_in_rounds, ended = random.Random(0), 0, 0, 0
while True:
    folder = runs_folder / str(ended)
    recorded_before = recorded(folder)
    child = os.fork()
    if child == 0:
        try:
            started = (folder / "config.toml").exists()
            runs.resume(folder) if started else runs.run(config, folder)
        finally:
            os._exit(0)
    enough = killed >= kills and killed_in_rounds >= kills / 2
    if not enough:
        time.sleep(rng.uniform(0.01, 0.35) * max(1, killed / kills))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        killed += 1
        killed_in_rounds += recorded(folder) > recorded_before
        continue
    ended += 1
    if enough:
        break
print(killed)
"""


def run_killed(folder: Path, kills: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", HARNESS, str(folder), str(kills)],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_killed_again_and_again(tmp_path: Path) -> None:
    assert run_killed(tmp_path / "alone", 0) == 0
    assert run_killed(tmp_path / "killed", KILLS) >= KILLS
    for method in ("fedorbit", "ditto"):
        alone = read_records(tmp_path / "alone" / "0" / method)
        assert len(alone) == 40
        for run in (tmp_path / "killed").iterdir():
            assert timeless(read_records(run / method)) == timeless(alone)
            assert not list((run / method).glob(".*partial*"))
