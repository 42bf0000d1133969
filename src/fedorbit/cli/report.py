"""`fedorbit report`: one page, and figures for papers, from the folders of runs."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fedorbit.cli.options import AsJson
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    complain,
    print_files,
    print_json,
)
from fedorbit.report.curves import (
    HeadlineRow,
    further_metrics,
    headline_rows,
    is_compared_with_fedavg,
)
from fedorbit.report.page import write_page
from fedorbit.report.replicates import Comparison, compare
from fedorbit.report.runfiles import read_runs
from fedorbit.results.metrics import find_metric
from fedorbit.results.numbers import amount, ratio, with_deviation

PAGE = "report.html"


def report(
    folders: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR", help="Folders of runs or studies; all runs below are included."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The page.",
            show_default=f"{PAGE} in DIR, or in this folder if there are several",
        ),
    ] = None,
    figures: Annotated[
        Path | None,
        typer.Option(
            "--figures", metavar="DIR", help="Also write figures for papers: PDF, SVG and PNG."
        ),
    ] = None,
    full_scale: Annotated[
        bool,
        typer.Option(
            "--full-scale",
            help="In figures, axes of percentages from 0 to 100, not only the range of the data.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Make one self-contained HTML page of runs or a study.

    The page opens in any browser without a network and can be sent around as one file. Runs that
    differ in the seed alone are averaged; those that differ in more are compared by setting.
    Unfinished runs are shown as far as they got.

    [bold]Examples[/bold]

    fedorbit report runs/1  # writes runs/1/report.html

    fedorbit report runs/1 runs/2 --out both.html

    fedorbit report studies/paper --figures figures  # one column wide, for LaTeX
    """
    comparison = compare(read_runs(folders, RichProgress()))
    page = write_page(out or _default_page(folders), comparison)
    written = [page]
    if figures is not None:
        from fedorbit.report.paper_figures import write_figures  # matplotlib takes a while

        written += write_figures(figures, comparison, RichProgress(), full_scale=full_scale)
    if as_json:
        print_json(_document(comparison, page, written[1:]))
        return
    _print_headline(comparison)
    for note in comparison.notes:
        complain(note, style="bold yellow")
    print_files(written if len(written) < 5 else [page])
    if len(written) >= 5:
        print_files([Path(f"{len(written) - 1} figures in {figures}")])


def _default_page(folders: list[Path]) -> Path:
    return folders[0] / PAGE if len(folders) == 1 else Path(PAGE)


def _document(comparison: Comparison, page: Path, figures: list[Path]) -> dict[str, Any]:
    return {
        "page": str(page),
        "bytes": page.stat().st_size,
        "figures": [str(path) for path in figures],
        "notes": list(comparison.notes),
        "settings": [
            {"setting": s.label, "methods": [row.as_json() for row in headline_rows(s)]}
            for s in comparison.settings
        ],
    }


def _print_headline(comparison: Comparison) -> None:
    further = further_metrics(comparison.settings)
    averages, compared = comparison.averaged, is_compared_with_fedavg(comparison.settings)
    table = Table(
        f"{averages[0].upper()}{averages[1:]}, ± standard deviation over seeds",
        [
            Column("method", left=True),
            Column("seeds", rank=3),
            Column("accuracy"),
            Column("spread"),
            Column("samples", rank=2),
            Column("to ground", rank=2),
            *([Column("/FedAvg", rank=1)] if compared else []),
            *(Column(find_metric(name).head, rank=4 + n) for n, name in enumerate(further)),
        ],
    )
    for setting in comparison.settings:
        if setting.label:
            empty = [""] * (5 + compared + len(further))
            table.add_row(setting.label, *empty, style="bold")
        for row in headline_rows(setting):
            table.add_row(*_cells(row, further, compared))
        table.add_section()
    table.print()


def _cells(row: HeadlineRow, further: list[str], compared: bool) -> tuple[str, ...]:
    return (
        row.series if row.is_finished else f"{row.series} (unfinished)",
        str(len(row.seeds)),
        with_deviation(row.accuracy) + ("*" if "accuracy" in row.best else ""),
        with_deviation(row.spread) + ("*" if "spread" in row.best else ""),
        amount(row.samples_trained.mean),
        amount(row.to_ground_bytes.mean, "B"),
        *([ratio(row.to_ground_vs_fedavg.mean, "x", "-")] if compared else []),
        *(row.printed(name) for name in further),
    )
