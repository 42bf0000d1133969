"""Committed results: tables are those of the records, and only pictures that pages show are kept."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from build_results import differing_tables, shown_pictures, study_folders
from pictures import write_small
from PIL import Image

from fedorbit.report import style
from fedorbit.studies import export, load_study, run
from tests.studies import small

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "docs" / "results"
STUDIES = study_folders(RESULTS)


def named(path: Path) -> str:
    return str(path.relative_to(RESULTS))


@pytest.mark.parametrize("study", STUDIES, ids=named)
def test_tables_are_those_of_the_records(study: Path, tmp_path: Path) -> None:
    assert differing_tables(study, tmp_path) == []


def rows_of(table: Path) -> list[list[str]]:
    """Return the cells of the rows that have numbers, without columns that have none."""
    lines = [line for line in table.read_text(encoding="utf-8").splitlines() if line[:1] == "|"]
    rows = [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[2:]]
    rows = [row for row in rows if any(row[1:])]
    known = [any(cell not in ("", "–") for cell in column) for column in zip(*rows, strict=True)]
    return [[cell for cell, shown in zip(row, known, strict=True) if shown] for row in rows]


@pytest.mark.parametrize("study", [s for s in STUDIES if s.parent == RESULTS], ids=named)
def test_a_page_has_every_number_of_its_table(study: Path) -> None:
    """Row by row, or as "accuracy / spread"."""
    page = (study / "README.md").read_text(encoding="utf-8")
    for row in rows_of(study / "table.md"):
        both = " / ".join(row[1:]).replace("*", "")
        assert f"| {' | '.join(row)} |" in page or both in page, row


def test_pages_show_the_pictures_that_are_kept() -> None:
    kept = [p for p in RESULTS.rglob("*.png") if p.parent.name != "figures"]
    assert sorted(kept) == shown_pictures(RESULTS)
    listed = tomllib.loads((RESULTS / "figures.toml").read_text(encoding="utf-8"))
    assert sorted(RESULTS / name for name in listed if name != "order") == sorted(kept)


def test_pictures_show_runs_that_are_there_with_few_series_each() -> None:
    listed = tomllib.loads((RESULTS / "figures.toml").read_text(encoding="utf-8"))
    del listed["order"]
    for name, picture in listed.items():
        study = (RESULTS / name).parent
        series = picture.get("series", {})
        assert len(series) <= 6, name
        chosen = [picture["runs"].replace("*", run) for run in series.values()]
        combined = [run for runs in picture.get("combined", {}).values() for run in runs.values()]
        for runs in [*chosen, *combined, *([] if series else [picture["runs"]])]:
            assert any(study.glob(f"{runs}_seed*")), f"{name}: {runs}"


def colours(path: Path) -> set[str]:
    with Image.open(path) as picture:
        found = picture.convert("RGB").getcolors(picture.width * picture.height) or []
    return {f"#{red:02X}{green:02X}{blue:02X}" for _, (red, green, blue) in found}


def test_small_pictures_keep_the_colours_of_lines(tmp_path: Path) -> None:
    figure = style.new_figure(8.0, 4.0)
    axes = figure.subplots()
    for number, colour in enumerate(style.PALETTE):
        wave = np.sin(np.arange(200.0) / 9 + number)
        axes.plot(wave, color=colour, linewidth=2)
        axes.fill_between(np.arange(200), wave - 1, wave + 1, color=colour, alpha=0.15)
    [drawn] = style.save(figure, tmp_path, "lines", ("png",))
    write_small(drawn, tmp_path / "small.png")
    assert (tmp_path / "small.png").stat().st_size < drawn.stat().st_size / 2
    assert set(style.PALETTE) <= colours(drawn) & colours(tmp_path / "small.png")


def test_results_are_built_unless_a_table_was_edited(tmp_path: Path) -> None:
    study = load_study(small.write_study(tmp_path, '[common]\nmethod = ["local"]\n'))
    run(study, tmp_path / "out", jobs=1)
    committed, to = tmp_path / "results" / "tiny", tmp_path / "built"
    export(study, tmp_path / "out", committed)
    (committed / "README.md").write_text("![curves](accuracy.png)\n")
    listed = '["tiny/accuracy.png"]\nfigure = "accuracy"\nruns = "*"\n'
    (committed.parent / "figures.toml").write_text(listed + 'series = {Alone = "*_local"}\n')
    script = ROOT / "scripts" / "build_results.py"
    command = [sys.executable, script, "--results", committed.parent, "--to", to, "--pictures"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert str(to) in done.stdout.splitlines()[-1]
    assert "<html" in (to / "tiny" / "report.html").read_text(encoding="utf-8")
    assert (to / "tiny" / "figures" / "accuracy.pdf").is_file()
    drawn = to / "tiny" / "accuracy.png"
    assert 0 < (committed / "accuracy.png").stat().st_size < drawn.stat().st_size

    (committed / "README.md").write_text("![curves](accuracy.png) ![other](other.png)\n")
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1 and "tiny/other.png" in refused.stderr.splitlines()[-1]

    table = (committed / "table.md").read_text(encoding="utf-8")
    edited = re.sub(r"\| Local \| \d", "| Local | 9", table)
    assert edited != table
    (committed / "table.md").write_text(edited, encoding="utf-8")
    refused = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert refused.stderr.count("\n") == 1 and "tiny/table.md" in refused.stderr
