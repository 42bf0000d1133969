"""Studies small enough that a run takes a blink."""

from pathlib import Path

from tests.orbits.element_files import made_satellite, tle_text

SETTINGS = """
[settings]
constellation.planes = 3
constellation.satellites_per_plane = 2
data.synthetic = { classes = 4, samples = 120, size = 16 }
training.epochs = 1
run.rounds = 4
run.links = "ideal"
network.isl = "assumed"
engine.checkpoint_every = 3
"""


def write_study(folder: Path, grids: str, name: str = "tiny") -> Path:
    """Write a study of small runs; `grids` is what comes below its settings."""
    path = folder / f"{name}.toml"
    path.write_text(f'title = "a small study"\nbase = "quickstart"\n{SETTINGS}\n{grids}')
    return path


def write_real_study(folder: Path) -> tuple[Path, str]:
    """Write a study of one run on satellites from a file; return it and their element sets.

    Its contacts come from a file, too.
    """
    satellites = [(f"S{raan}", made_satellite(raan + 1, raan)) for raan in (0, 90)]
    elements = tle_text(satellites)
    (folder / "fleet.tle").write_text(elements)
    (folder / "base.toml").write_text(
        "extends = 'quickstart'\n[constellation]\nkind = 'elements'\nfile = 'fleet.tle'\n"
        "[schedule]\nrounds = 4\nplan = 'plan.csv'\n[data.synthetic]\nclasses = 4\nsamples = 120\nsize = 16\n"
        "[run]\nrounds = 4\n"
    )
    (folder / "plan.csv").write_text("node_a,node_b,begin_s,end_s\nS0,London,0,500\n")
    path = folder / "real.toml"
    path.write_text("title = 'real'\nbase = 'base.toml'\n[[grid]]\nmethod = ['local']\n")
    return path, elements
