"""`fedorbit data partition`: which satellite gets which samples."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.text import Text

from fedorbit.build import build_constellation, build_partition, load_dataset
from fedorbit.cli.options import AsJson, ConfigArgument, OutFolder, Overrides
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    print_files,
    print_json,
    printable,
    stdout,
)
from fedorbit.config import load_config
from fedorbit.data.cache import Dataset
from fedorbit.data.partition import Partition
from fedorbit.data.similarity import similarity_coefficient

MAX_ROWS = 60


def show_partition(
    config: ConfigArgument = "quickstart",
    overrides: Overrides = None,
    out: OutFolder = None,
    as_json: AsJson = False,
) -> None:
    """Deal a dataset to satellites: samples per satellite and class, and the similarity beta.

    [bold]Examples[/bold]

    fedorbit data partition

    fedorbit data partition paper -o partition.scheme=pathological

    fedorbit data partition paper -o partition.scheme=ground-track --out figures
    """
    settings = load_config(config, overrides or [])
    progress = RichProgress()
    constellation = build_constellation(settings)
    dataset = load_dataset(settings, progress)
    partition = build_partition(settings, dataset, constellation, progress)
    files = []
    if out:
        from fedorbit.report import data_figures, style  # slow to import, as above

        title = f"{dataset.name}, {settings.partition.scheme}, seed {settings.seed}"
        figure = data_figures.partition_figure(partition, dataset, title)
        files = style.save(figure, out, "partition")
    if as_json:
        print_json(_partition_document(partition, dataset, settings.partition.scheme, files))
        return
    _print_partition(partition, dataset)
    print_files(files)


def _partition_document(
    partition: Partition, dataset: Dataset, scheme: str, files: list[Path]
) -> dict[str, Any]:
    classes = len(dataset.class_names)
    counts = partition.train_counts(dataset.labels, classes)
    orbit_counts = partition.orbit_counts(dataset.labels, classes)
    return {
        "dataset": dataset.name,
        "scheme": scheme,
        "class_names": list(dataset.class_names),
        "counts": [
            counts[partition.orbit_of_satellite == orbit].tolist()
            for orbit in range(len(partition.test))
        ],
        "test_counts": partition.test_counts(dataset.labels, classes).tolist(),
        "beta": similarity_coefficient(orbit_counts),
        "beta_unsmoothed": similarity_coefficient(orbit_counts, smoothing=0.0),
        "unseen_train": len(partition.unseen_train),
        "unseen_test": len(partition.unseen_test),
        "files": [str(file) for file in files],
    }


def _print_partition(partition: Partition, dataset: Dataset) -> None:
    classes = len(dataset.class_names)
    counts = partition.train_counts(dataset.labels, classes)
    tests = partition.test_counts(dataset.labels, classes)
    orbits = partition.orbit_counts(dataset.labels, classes)
    by_satellite = len(counts) <= MAX_ROWS
    columns, legend = _class_columns(dataset.class_names)
    table = Table(
        f"Samples of {dataset.name} per {'satellite' if by_satellite else 'orbit'}",
        # Some classes without the others would mislead: they go together.
        [Column("holder", left=True), *(Column(head, rank=1) for head in columns), Column("all")],
    )
    for orbit in range(min(len(orbits), MAX_ROWS)):
        if by_satellite:
            for slot, row in enumerate(counts[partition.orbit_of_satellite == orbit]):
                table.add_row(f"sat {orbit}.{slot}", *_cells(row, columns))
        table.add_row(f"orbit {orbit}", *_cells(orbits[orbit], columns), style="bold")
        table.add_row("  test", *_cells(tests[orbit], columns), style="dim")
        table.add_section()
    left_out = table.print()
    if legend and not left_out:
        stdout.print(f"Classes: {legend}")
    if len(orbits) > MAX_ROWS:
        stdout.print(f"… and {len(orbits) - MAX_ROWS} more orbits (--json has them all)")
    empty = int((counts.sum(axis=1) == 0).sum())
    stdout.print(
        f"Class similarity beta = {similarity_coefficient(orbits):.3f} "
        f"(without smoothing {similarity_coefficient(orbits, smoothing=0.0):.3f}); "
        f"{empty} of {len(counts)} satellites have no training sample."
    )
    unseen = len(partition.unseen_train) + len(partition.unseen_test)
    if unseen:
        dealt = sum(map(len, (*partition.train, *partition.test)))
        nobody = f"No satellite passes over {unseen:,} of {dealt + unseen:,} samples"
        stdout.print(
            Text.assemble(
                (nobody, "bold"),
                f" ({len(partition.unseen_train):,} training, {len(partition.unseen_test):,} "
                "test): they belong to nobody and are left out.",
            )
        )


def _class_columns(names: tuple[str, ...]) -> tuple[list[str], str]:
    """Return column heads that fit the terminal, and a legend where they are only numbers."""
    if sum(len(name) + 2 for name in names) + 18 <= stdout.width:
        return list(names), ""
    if 6 * len(names) + 18 <= stdout.width or len(names) <= 10:
        legend = ", ".join(f"{label} {name}" for label, name in enumerate(names))
        return [str(label) for label in range(len(names))], legend
    return [], ""


def _cells(counts: NDArray[np.int64], columns: list[str]) -> list[str]:
    none = "·" if printable("·") else "-"
    return [*(f"{count:,}" if count else none for count in counts if columns), f"{counts.sum():,}"]
