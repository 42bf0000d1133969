"""Build pages, tables and figures of the committed results: python scripts/build_results.py.

Every folder below docs/results that holds a study.toml is a study. Its page, tables and figures go
to the folder of the same name in build/results. They are made from the records alone: nothing is
trained, and no dataset is needed. Committed tables that differ from those of the records are an
error. `--pictures` also renews the pictures that the pages of docs/results show.
"""

import argparse
import re
import shutil
import sys
from pathlib import Path

from pictures import write_small

from fedorbit.cli.output import RichProgress
from fedorbit.report.page import write_page
from fedorbit.report.paper_figures import write_figures
from fedorbit.report.replicates import compare
from fedorbit.report.runfiles import read_runs
from fedorbit.studies import load_study, write_tables

ROOT = Path(__file__).parents[1]
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


def renew_pictures(results: Path, to: Path) -> int:
    """Write the pictures that pages show from the figures of their studies; return the number."""
    pictures = shown_pictures(results)
    for picture in pictures:
        figures = to / picture.parent.relative_to(results.resolve()) / "figures"
        if not (figures / picture.name).is_file():
            sys.exit(f"results: a page shows {picture}, and {figures} has no figure of that name")
        write_small(figures / picture.name, picture)
    return len(pictures)


def main() -> None:
    """Build all studies; exit with one sentence if a committed table differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--results", type=Path, default=ROOT / "docs" / "results", metavar="DIR")
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "results", metavar="DIR")
    parser.add_argument("--pictures", action="store_true", help="renew those the pages show")
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
        print(f"{renew_pictures(results, to)} pictures in {results}")
    print(f"Tables are those of the records. Open {to}/STUDY/report.html in a browser.")


if __name__ == "__main__":
    main()
