"""Build pages, tables and figures of the committed results: python scripts/build_results.py.

Every folder below docs/results that holds a study.toml is a study. Its page, tables and figures go
to the folder of the same name in build/results. They are made from the records alone: nothing is
trained, and no dataset is needed. Committed tables that differ from those of the records are an
error. `--pictures` also draws the pictures that the pages show: docs/results/figures.toml names
for each the figure, the runs and their names.
"""

import argparse
import re
import shutil
import sys
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

from pictures import write_small

from fedorbit.cli.output import RichProgress
from fedorbit.report import style
from fedorbit.report.page import write_page
from fedorbit.report.paper_figures import FIGURES, write_figures
from fedorbit.report.replicates import Series, Setting, compare
from fedorbit.report.runfiles import MethodRecords, read_runs
from fedorbit.report.sweeps import Sweep, sweeps
from fedorbit.studies import load_study, write_tables

ROOT = Path(__file__).parents[1]
LIST = "figures.toml"
WIDTH_IN, DPI = 5.4, 260
"""On a page 700 pixels wide, 7 points are 13 pixels."""
PICTURE = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.png)\)")


def study_folders(results: Path) -> list[Path]:
    """Return the folders of all studies below a folder."""
    return sorted(path.parent for path in results.rglob("study.toml"))


def differing_tables(study: Path, to: Path) -> list[Path]:
    """Write the tables of a study; return the committed ones that are not the same."""
    written = write_tables(load_study(str(study)), study, to)
    committed = [study / path.name for path in written]
    return [
        old
        for old, new in zip(committed, written, strict=True)
        if not old.is_file() or old.read_bytes() != new.read_bytes()
    ]


def build(study: Path, to: Path) -> None:
    """Write the page and the figures of a study."""
    comparison = compare(read_runs([study], RichProgress()))
    write_page(to / "report.html", comparison)
    shutil.rmtree(to / "figures", ignore_errors=True)
    write_figures(to / "figures", comparison, RichProgress())


def shown_pictures(results: Path) -> list[Path]:
    """Return the pictures that pages below a folder show."""
    pages = [p for p in results.rglob("*.md") if p.name != "table.md"]
    return sorted(
        {
            (page.parent / picture).resolve()
            for page in pages
            for picture in PICTURE.findall(page.read_text(encoding="utf-8"))
        }
    )


def seeds_of(study: Path, runs: str) -> tuple[MethodRecords, ...]:
    """Read all seeds of some runs of a study; folders end with the seed."""
    folders = sorted(study.glob(f"{runs}_seed*"))
    if not folders:
        sys.exit(f"results: {study} has no run {runs}")
    return tuple(read_runs(folders))


def shown_setting(study: Path, runs: str, series: dict[str, str]) -> Setting:
    """Return the chosen series of a study under their names, or all that match `runs`."""
    if not series:
        [setting] = compare(seeds_of(study, runs)).settings
        return setting
    found = {name: seeds_of(study, runs.replace("*", run)) for name, run in series.items()}
    return Setting("", tuple(Series(name, seeds, {}) for name, seeds in found.items()))


def shown_sweeps(study: Path, setting: Setting, picture: dict[str, Any]) -> list[Sweep]:
    """Return the sweeps of a setting, and those over runs that differ in several parameters."""
    names = picture["parameters"]
    found = [replace(s, name=names[s.parameter]) for s in sweeps(setting) if s.parameter in names]
    for name, runs in picture.get("combined", {}).items():
        values = tuple(map(float, runs))
        replicates = tuple(seeds_of(study, run) for run in runs.values())
        found.append(Sweep(name, name, values, replicates, found[0].default))
    return found


def draw_pictures(results: Path, to: Path) -> int:
    """Draw the pictures that pages show; return the number."""
    listed = tomllib.loads((results / LIST).read_text(encoding="utf-8"))
    order = listed.pop("order", [])
    shown = {str(path.relative_to(results.resolve())) for path in shown_pictures(results)}
    if wrong := shown ^ listed.keys():
        sys.exit(f"results: pages show other pictures than {LIST} lists: {', '.join(wrong)}")
    for name, picture in listed.items():
        path = results / name
        setting = shown_setting(path.parent, picture["runs"], picture.get("series", {}))
        more: dict[str, Any] = {}
        if "parameters" in picture:
            more["found"] = shown_sweeps(path.parent, setting, picture)
        labels = [*order, *(s.label for s in setting.series if s.label not in order)]
        figure = FIGURES[picture["figure"]](setting, labels, width_in=WIDTH_IN, **more)
        assert figure is not None, name
        [drawn] = style.save(figure, (to / name).parent, path.stem, ("png",), DPI)
        write_small(drawn, path)
    return len(listed)


def main() -> None:
    """Build all studies; exit with one sentence if a committed table differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results", metavar="DIR")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "results", metavar="DIR")
    parser.add_argument("--pictures", action="store_true", help="draw those the pages show")
    arguments = parser.parse_args()
    results, to = arguments.results, arguments.to
    targets = {study: to / study.relative_to(results) for study in study_folders(results)}
    if different := [
        p for study, folder in targets.items() for p in differing_tables(study, folder)
    ]:
        names = ", ".join(str(path.relative_to(results)) for path in different)
        sys.exit(
            f"results: tables in {results} are not those of the records: {names}; "
            f"compare them with those in {to} and commit these if they are right"
        )
    for study, folder in targets.items():
        print(study.relative_to(results), flush=True)
        build(study, folder)
    if arguments.pictures:
        print(f"{draw_pictures(results, to)} pictures in {results}")
    print(f"Tables are those of the records. Open {to}/STUDY/report.html in a browser.")


if __name__ == "__main__":
    main()
