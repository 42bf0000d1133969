"""Growth of time and memory with the constellation, and time and memory of a EuroSAT run.

Runs FedOrbit with 5, 20 and 72 orbits of 22 satellites (synthetic 32x32 images, 30 per satellite),
each in a process of its own, and prints per round: CPU time, which does not grow with the load of
the machine, CPU time per satellite against the smallest, and the peak memory of the whole process.
Last the paper's constellation on EuroSAT, if prepared.
Usage: python benchmarks/growth.py [rounds]
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ORBITS, SATELLITES, SAMPLES = (5, 20, 72), 22, 30
MIB = 2**20

CHILD = """
import json, resource, sys, time
from fedorbit.config import load_config
from fedorbit.simulation.loop import SilentRunProgress
from fedorbit.simulation.runs import run
preset, out, *changes = sys.argv[1:]
class Clock(SilentRunProgress):
    cpu_s = begin_s = 0.0
    def begin(self, *arguments):
        self.begin_s = time.process_time()
    def end(self):
        self.cpu_s = time.process_time() - self.begin_s
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
clock = Clock()
run(load_config(preset, changes), out, progress=clock)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"peak": peak, "imports": begin, "cpu_s": clock.cpu_s}))
"""


def measured_run(preset: str, rounds: int, changes: list[str]) -> dict[str, float]:
    """Run FedOrbit in a fresh process; peak memory in bytes, CPU seconds of all rounds."""
    fixed = ['run.method=["fedorbit"]', f"run.rounds={rounds}"]
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, preset, str(Path(folder) / "run"), *fixed, *changes],
            check=True,
            capture_output=True,
            text=True,
        )
    measured: dict[str, float] = json.loads(done.stdout)
    return measured


def main(rounds: int) -> None:
    print("orbits  satellites  CPU s / round  per satellite, of the smallest  peak memory")
    smallest = 0.0
    for orbits in ORBITS:
        satellites = orbits * SATELLITES
        changes = [
            f"constellation.planes={orbits}",
            f"constellation.satellites_per_plane={SATELLITES}",
            f"data.synthetic.samples={satellites * SAMPLES * 5 // 4}",
            "training.epochs=5",
            "run.links=ideal",
            "network.isl=assumed",
        ]
        result = measured_run("quickstart", rounds, changes)
        per_round_s = result["cpu_s"] / rounds
        smallest = smallest or per_round_s / satellites
        growth = per_round_s / satellites / smallest
        print(
            f"{orbits:6}  {satellites:10}  {per_round_s:13.1f}  {growth:29.2f} x  "
            f"{result['peak'] / MIB:7.0f} MiB",
            flush=True,
        )
    try:
        result = measured_run("paper", rounds, ["data.name=eurosat"])
    except subprocess.CalledProcessError as error:
        print(f"EuroSAT was not measured: {error.stderr.splitlines()[-1]}")
        return
    print(
        f"EuroSAT, 5 x 4 satellites, {rounds} rounds of FedOrbit: peak {result['peak'] / MIB:.0f} "
        f"MiB, of which {result['imports'] / MIB:.0f} MiB is Python with its imports"
    )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
