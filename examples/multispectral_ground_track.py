"""GeoTIFFs of 13 bands, dealt to the satellites that fly over the place where each was taken.

    python multispectral_ground_track.py

Coordinates come from the tags of the files. With your own files only two commands are left:

    fedorbit data prepare folder --source my_tifs/ --name mine --sensor sentinel-2 --bands so2sat
    fedorbit run -o data.name=mine -o partition.scheme=ground-track
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
import tifffile

import fedorbit as fo

rng = np.random.default_rng(0)
for label, name in enumerate(("Crop", "Forest", "Water")):
    Path("my_tifs", name).mkdir(parents=True, exist_ok=True)
    for number in range(60):
        zone, easting, northing = rng.integers(29, 36), *rng.uniform((3e5, 4.2e6), (7e5, 6.2e6))
        tags = [
            (33550, "d", 3, (10.0, 10.0, 0.0), True),  # pixels of 10 m
            (33922, "d", 6, (0.0, 0.0, 0.0, easting, northing, 0.0), True),  # the corner
            (34735, "H", 12, (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32600 + zone), True),  # UTM
        ]
        values = rng.normal(800 + 600 * label, 200, (32, 32, 13)).clip(0).astype(np.uint16)
        file = Path("my_tifs", name, f"{name}_{number}.tif")
        tifffile.imwrite(
            file, values, photometric="minisblack", planarconfig="contig", extratags=tags
        )

command = "data prepare folder --source my_tifs --name my-tifs --sensor sentinel-2 --bands so2sat"
subprocess.run([sys.executable, "-m", "fedorbit", *command.split(), "--force"], check=True)
changes = ["data.name=my-tifs", "partition.scheme=ground-track", "run.method=['fedavg']"]
changes += ["training.batch=8", "run.rounds=100"]
result = fo.run(fo.load_config("quickstart", changes), out="my-tifs-run")
print(f"accuracy {result.table()[-1]['accuracy']:.1f} %")
