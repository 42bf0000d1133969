"""How time and memory grow with the constellation, and what a EuroSAT run needs.

Runs FedOrbit with 5, 20 and 72 orbits of 22 satellites (synthetic 32x32 images, 30 per satellite),
each in a process of its own, and prints per round: time, time per satellite against the smallest,
and the peak memory of the whole process. Last the paper's constellation on EuroSAT, if prepared.
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
import json, resource, sys
from fedorbit.config import load_config
from fedorbit.simulation.runs import run
preset, out, *changes = sys.argv[1:]
begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
result = run(load_config(preset, changes), out)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
records = result.runs[0].records
print(json.dumps({"peak": peak, "imports": begin, "seconds": records[-1]["seconds"]}))
"""


def measured_run(preset: str, rounds: int, changes: list[str]) -> dict[str, float]:
    """Run FedOrbit in a fresh process; peak memory in bytes, seconds of all rounds."""
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
    print("orbits  satellites  s / round  per satellite, of the smallest  peak memory")
    smallest = 0.0
    for orbits in ORBITS:
        satellites = orbits * SATELLITES
        changes = [
            f"constellation.planes={orbits}",
            f"constellation.satellites_per_plane={SATELLITES}",
            f"data.synthetic.samples={satellites * SAMPLES * 5 // 4}",
            "training.epochs=5",
        ]
        result = measured_run("quickstart", rounds, changes)
        per_round_s = result["seconds"] / rounds
        smallest = smallest or per_round_s / satellites
        growth = per_round_s / satellites / smallest
        print(
            f"{orbits:6}  {satellites:10}  {per_round_s:9.1f}  {growth:29.2f} x  "
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
