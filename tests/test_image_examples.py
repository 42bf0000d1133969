"""Examples about images run as they stand, in an empty folder."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fedorbit.data.cache import open_dataset

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(name: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / name],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("example", "dataset", "shape", "dtype"),
    [
        ("tif_folders.py", "uc-merced-like", (160, 32, 32, 3), np.uint8),
        ("multispectral_ground_track.py", "my-tifs", (180, 32, 32, 10), np.uint16),
    ],
)
def test_examples_of_images(example, dataset, shape, dtype, tmp_path):
    accuracy = re.search(r"^accuracy (\d+\.\d) %$", run(example, tmp_path), re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) > 60  # of four or three classes
    prepared = open_dataset(dataset)
    assert prepared.images.shape == shape and prepared.images.dtype == dtype
    assert (prepared.latitude_deg is not None) == (example == "multispectral_ground_track.py")
