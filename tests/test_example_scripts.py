"""Examples that are programs run as they stand, in an empty folder; their index names them all."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedorbit import load_run
from fedorbit.data.cache import open_dataset

EXAMPLES = Path(__file__).parents[1] / "examples"


def run(folder: Path, *arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0 and "Warning" not in done.stderr, done.stderr
    return done.stdout


def is_drawn(picture: Path) -> bool:
    with Image.open(picture) as image:
        return len(set(image.convert("L").tobytes())) > 50


@pytest.mark.parametrize(
    ("example", "dataset", "shape", "dtype"),
    [
        ("tif_folders.py", "uc-merced-like", (160, 32, 32, 3), np.uint8),
        ("multispectral_ground_track.py", "my-tifs", (180, 32, 32, 10), np.uint16),
    ],
)
def test_examples_of_images(example, dataset, shape, dtype, tmp_path):
    printed = run(tmp_path, EXAMPLES / example)
    accuracy = re.search(r"^accuracy (\d+\.\d) %$", printed, re.MULTILINE)
    assert accuracy is not None and float(accuracy[1]) > 60  # of four or three classes
    prepared = open_dataset(dataset)
    assert prepared.images.shape == shape and prepared.images.dtype == dtype
    assert (prepared.latitude_deg is not None) == (example == "multispectral_ground_track.py")


def test_a_constellation_of_your_own(tmp_path):
    printed = run(tmp_path, EXAMPLES / "own_constellation.py")
    # A ring of ten at 780 km always sees its neighbours: 36 degrees apart, 2 acos(6451 / 7151) = 51.1.
    assert "links within orbits: 30," in printed
    assert re.search(r"^Svalbard: \d+ contacts of \d+\.\d min on average$", printed, re.MULTILINE)
    assert is_drawn(tmp_path / "map.png") and is_drawn(tmp_path / "timeline.png")


def test_methods_over_three_kinds_of_links(tmp_path):
    run(tmp_path, EXAMPLES / "compare_links.py")
    rows = (tmp_path / "links" / "table.md").read_text().splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert len(cells) == 9
    for method, links, accuracy, _, _, unlinked in cells:
        expected = load_run(tmp_path / "links" / links)[method].summary
        assert accuracy == f"{expected['accuracy']:.1f}"
        if links != "ideal":
            assert unlinked == "0.0"
    assert is_drawn(tmp_path / "links" / "accuracy.png")


def test_a_study_continues_where_it_stopped(tmp_path):
    printed = run(tmp_path, EXAMPLES / "study.py")
    assert printed.startswith("3 of 6 runs are done\n6 of 6 runs are done\n")
    table = (tmp_path / "my-study-tables" / "table.md").read_text()
    assert all(f"\n| {method} |" in table for method in ("FedAvg", "FedOrbit", "Local"))


def test_records_as_a_data_frame(tmp_path):
    pytest.importorskip("pandas", reason="the extra pandas is not installed")
    printed = run(tmp_path, EXAMPLES / "records_with_pandas.py")
    rows = {line.split()[0]: float(line.split()[1]) for line in printed.splitlines()[2:]}
    for method in load_run(tmp_path / "pandas-run").runs:
        expected = np.mean([record["accuracy"] for record in method.records[-5:]])
        assert rows[method.method] == pytest.approx(expected, abs=0.051)
    assert is_drawn(tmp_path / "records.png")


def test_the_notebook_runs_from_top_to_bottom(tmp_path):
    notebook = json.loads((EXAMPLES / "first_look.ipynb").read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    # Cells in one namespace as in Jupyter, without its commands (%).
    lines = [line for cell in cells for line in [*cell["source"], "\n"] if line[0] != "%"]
    printed = run(tmp_path, "-c", "".join(lines) + "\nprint(truth, names)")
    assert len(re.findall(r"'[\w ]+'", printed)) == 10
    assert {run.method for run in load_run(tmp_path / "runs" / "1").runs} == {"fedavg", "fedorbit"}


def test_the_index_names_every_example():
    text = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| \[([\w.]+)\]\(\1\) \|", text, re.MULTILINE)
    files = [path.name for path in EXAMPLES.iterdir() if path.is_file()]
    assert sorted(named) == sorted(set(files) - {"README.md"})
