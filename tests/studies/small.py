"""Studies small enough that a run takes a blink."""

from pathlib import Path

SETTINGS = """
[settings]
constellation.planes = 3
constellation.satellites_per_plane = 2
data.synthetic = { classes = 4, samples = 120, size = 16 }
training.epochs = 1
run.rounds = 4
engine.checkpoint_every = 3
"""


def write_study(folder: Path, grids: str, name: str = "tiny") -> Path:
    """Write a study of small runs; `grids` is what comes below its settings."""
    path = folder / f"{name}.toml"
    path.write_text(f'title = "a small study"\nbase = "quickstart"\n{SETTINGS}\n{grids}')
    return path
