"""The script that looks inside an orbit runs, and prints recall per class."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[1] / "docs" / "results" / "inside_an_orbit.py"
SMALL = [
    "constellation.planes=3",
    "constellation.satellites_per_plane=2",
    "data.synthetic={classes = 6, samples = 120, size = 16}",
    "partition.scheme=pathological",
    "training.epochs=1",
    "methods.fedorbit.intra_rounds=1",
    "run.links=ideal",
]


def test_what_an_orbit_knows_before_and_after_each_round() -> None:
    overrides = [part for override in SMALL for part in ("-o", override)]
    command = [sys.executable, str(SCRIPT), "quickstart", "--orbit", "1", "--rounds", "2"]
    done = subprocess.run([*command, *overrides], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    known = r"(\w+) \d+ %, (\w+) \d+ %\n"
    satellites = "".join(rf"  satellite {n}, \d+ \+ \d+ images, moved \d+: {known}" for n in (2, 3))
    block = rf"round \d: {known}{satellites}  mean by samples: {known}  FedOrbit's mean: {known}"
    blocks = list(re.finditer(block, done.stdout))
    assert "".join(found.group() for found in blocks) == done.stdout
    assert [found.group()[:8] for found in blocks] == ["round 0:", "round 1:"]
    names = [found.groups() for found in blocks]
    assert len({pair for line in names for pair in zip(line[::2], line[1::2], strict=True)}) == 1
    images = [int(n) for n in re.findall(r"(\d+) [+i]", done.stdout.split("mean by")[0])]
    assert sum(images) == 2 * 120 // 6 * 0.8  # two of six classes; four fifths train
