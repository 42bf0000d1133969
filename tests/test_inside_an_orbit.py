"""The script that looks inside an orbit runs, and tells of what is there."""

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
]


def test_what_an_orbit_knows_before_and_after_each_round() -> None:
    overrides = [part for override in SMALL for part in ("-o", override)]
    command = [sys.executable, str(SCRIPT), "quickstart", "--orbit", "1", "--rounds", "2"]
    done = subprocess.run([*command, *overrides], capture_output=True, text=True, check=True)
    known = r"(\w+) \d+ %, (\w+) \d+ %\n"
    satellites = rf"  satellite 2, \d+ \+ \d+ images, moved \d+: {known}" + (
        rf"  satellite 3, \d+ \+ \d+ images, moved \d+: {known}"
    )
    block = rf"round \d: {known}{satellites}  mean by samples: {known}  FedOrbit's mean: {known}"
    blocks = list(re.finditer(block, done.stdout))
    assert "".join(found.group() for found in blocks) == done.stdout
    assert {found.group()[:8] for found in blocks} == {"round 0:", "round 1:"}
    assert len({found.groups() for found in blocks}) == 1  # the same two classes in every line
    images = [int(n) for n in re.findall(r"(\d+) [+i]", done.stdout.split("mean by")[0])]
    assert (
        sum(images) == 2 * 120 // 6 * 0.8
    )  # two of six classes, four fifths of them to train with
