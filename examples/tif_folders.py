"""Class folders of RGB .tif files, as UC Merced has them, from files to a trained model.

    python tif_folders.py

With your own files only two commands are left:

    fedorbit data prepare folder --source my_images/ --name mine --size 32
    fedorbit run -o data.name=mine
"""

import subprocess
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import fedorbit as fo

rng = np.random.default_rng(0)
for label, name in enumerate(("agricultural", "airplane", "beach", "forest")):
    folder = Path("UCMerced_LandUse", "Images", name)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(40):
        pixels = rng.normal(60 + 40 * label, 25, (64, 64, 3)).clip(0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{name}{number:02d}.tif")

command = "data prepare folder --source UCMerced_LandUse --name uc-merced-like --size 32 --force"
subprocess.run([sys.executable, "-m", "fedorbit", *command.split()], check=True)
changes = ["data.name=uc-merced-like", "run.method=['fedorbit']", "training.batch=8"]
result = fo.run(fo.load_config("quickstart", [*changes, "run.rounds=100"]), out="uc-merced-run")
print(f"accuracy {result.table()[-1]['accuracy']:.1f} %")
