"""`fedorbit data`: find, fetch, prepare and inspect datasets, and deal them to satellites."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedorbit.cli.options import AsJson, ConfigArgument, OutFolder, Overrides
from fedorbit.cli.output import RichProgress, print_files, print_json, stdout
from fedorbit.cli.output import table as new_table
from fedorbit.config import load_config
from fedorbit.data import catalog
from fedorbit.data.cache import (
    Dataset,
    cache_root,
    is_prepared,
    open_dataset,
    prepared_names,
    verify_dataset,
)
from fedorbit.data.partition import Partition
from fedorbit.data.similarity import similarity_coefficient
from fedorbit.data.stream import TEST, TRAIN, VALIDATION
from fedorbit.scenario import build_constellation, build_partition, load_dataset

MAX_ROWS = 60

app = typer.Typer(help="Fetch, prepare and inspect images; deal them to satellites.")

SourceName = Annotated[
    str,
    typer.Argument(
        metavar="NAME", help="One of the sources that [bold]fedorbit data list[/bold] shows."
    ),
]


@app.command("list")
def list_sources(as_json: AsJson = False) -> None:
    """List known sources and what is prepared on this machine.

    [bold]Example[/bold]

    fedorbit data list
    """
    infos = [source.info for source in catalog.SOURCES.values()]
    prepared = {name: open_dataset(name) for name in prepared_names()}
    if as_json:
        print_json(
            {
                "sources": [_source_row(info) for info in infos],
                "prepared": [_dataset_row(dataset) for dataset in prepared.values()],
                "cache": str(cache_root()),
            }
        )
        return
    columns = ["name", "title", "classes", "images", "samples", "licence"]
    table = new_table("Sources", columns, left=["name", "title", "licence"])
    for info in infos:
        shape = " x ".join(map(str, info.image_shape)) if info.image_shape else "any"
        samples = f"{info.samples:,}" if info.samples else "any"
        classes = str(info.classes) if info.classes else "any"
        table.add_row(info.name, info.title, classes, shape, samples, info.licence)
    stdout.print(table)
    table = new_table(f"Prepared in {cache_root()}", columns[:1] + columns[2:5], left=["name"])
    for dataset in prepared.values():
        shape = " x ".join(map(str, dataset.images.shape[1:]))
        table.add_row(
            dataset.name, str(len(dataset.class_names)), shape, f"{len(dataset.labels):,}"
        )
    stdout.print(table if prepared else f"Nothing is prepared in {cache_root()} yet.")


@app.command("fetch")
def fetch_files(name: SourceName, as_json: AsJson = False) -> None:
    """Download a dataset's files from their official place, checked against pinned checksums.

    [bold]Example[/bold]

    fedorbit data fetch eurosat && fedorbit data prepare eurosat
    """
    from fedorbit.data.fetch import fetch  # slow to import: only who downloads waits for it

    files = fetch(name, RichProgress())
    if as_json:
        print_json({"source": name, "files": [str(file) for file in files]})
        return
    stdout.print(f"{name} is here: {', '.join(str(file) for file in files)}", soft_wrap=True)
    stdout.print(f"Next: fedorbit data prepare {name}")


@app.command()
def prepare(
    name: SourceName,
    source: Annotated[
        Path | None,
        typer.Option("--source", metavar="PATH", help="Its archive or folder; default: fetched."),
    ] = None,
    dataset_name: Annotated[
        str | None,
        typer.Option("--name", metavar="NAME", help="Name of the result; default: the source's."),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option("--size", min=8, max=1024, help="Resize images to SIZE x SIZE pixels."),
    ] = None,
    geo: Annotated[
        Path | None,
        typer.Option("--geo", metavar="CSV", help="Coordinates: name,latitude_deg,longitude_deg."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is prepared.")] = False,
    as_json: AsJson = False,
) -> None:
    """Turn a dataset's files into arrays that runs map into memory.

    A second call does nothing. An interrupted one leaves nothing behind.

    [bold]Examples[/bold]

    fedorbit data prepare eurosat --source EuroSAT_RGB.zip

    fedorbit data prepare eurosat --source EuroSAT_RGB.zip --size 32 --name eurosat-32

    fedorbit data prepare folder --source my_images/ --name mine
    """
    dataset, is_new = catalog.prepare(
        name,
        source,
        name=dataset_name,
        options=catalog.PrepareOptions(size=size, geo=geo),
        force=force,
        progress=RichProgress(),
    )
    if as_json:
        print_json({**_dataset_row(dataset), "newly_prepared": is_new})
        return
    state = "Prepared" if is_new else "Already prepared:"
    shape = " x ".join(map(str, dataset.images.shape[1:]))
    stdout.print(
        f"{state} {dataset.name}, {len(dataset.labels):,} images of {shape} "
        f"in {len(dataset.class_names)} classes, in {dataset.folder}",
        soft_wrap=True,
    )
    for note in dataset.description["notes"]:
        stdout.print(f"Note: {note}", soft_wrap=True)


@app.command()
def inspect(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A prepared dataset, or synthetic.")],
    out: OutFolder = None,
    as_json: AsJson = False,
) -> None:
    """Verify a prepared dataset, count its classes and draw a contact sheet.

    [bold]Examples[/bold]

    fedorbit data inspect eurosat --out figures

    fedorbit data inspect synthetic
    """
    from fedorbit.report import data_figures, style  # slow to import: only those who draw wait

    progress = RichProgress()
    if name == "synthetic" and not is_prepared(name):
        dataset = load_dataset(load_config("quickstart"), progress)
    else:
        dataset = open_dataset(name)
    verify_dataset(dataset, progress)
    sheet = data_figures.contact_sheet(dataset)
    files = style.save(sheet, out or dataset.folder, f"{dataset.name}-contact-sheet", ["png"])
    parts = _split_counts(dataset)
    if as_json:
        document = {**_dataset_row(dataset), "class_counts": parts["samples"].tolist()}
        document |= {f"{key}_counts": part.tolist() for key, part in list(parts.items())[1:]}
        document["files"] = [str(file) for file in files]
        print_json(document)
        return
    shape = " x ".join(map(str, dataset.images.shape[1:]))
    table = new_table(
        f"{dataset.name}: {len(dataset.labels):,} images of {shape} ({dataset.images.dtype})",
        ["class", *parts],
        left=["class"],
    )
    for label, class_name in enumerate(dataset.class_names):
        table.add_row(class_name, *(f"{part[label]:,}" for part in parts.values()))
    table.add_section()
    table.add_row("all", *(f"{part.sum():,}" for part in parts.values()))
    stdout.print(table)
    if dataset.latitude_deg is not None and dataset.longitude_deg is not None:
        known = int(np.isfinite(dataset.latitude_deg).sum())
        stdout.print(
            f"{known:,} images have coordinates: latitude {np.nanmin(dataset.latitude_deg):.1f} to "
            f"{np.nanmax(dataset.latitude_deg):.1f} deg, longitude "
            f"{np.nanmin(dataset.longitude_deg):.1f} to {np.nanmax(dataset.longitude_deg):.1f} deg."
        )
    stdout.print("Checksums are right.")
    print_files(files)


@app.command("partition")
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
    table = new_table(
        f"Samples of {dataset.name} per {'satellite' if by_satellite else 'orbit'}",
        ["holder", *columns, "all"],
        left=["holder"],
    )
    for orbit in range(min(len(orbits), MAX_ROWS)):
        if by_satellite:
            for slot, row in enumerate(counts[partition.orbit_of_satellite == orbit]):
                table.add_row(f"sat {orbit}.{slot}", *_cells(row, columns))
        table.add_row(f"orbit {orbit}", *_cells(orbits[orbit], columns), style="bold")
        table.add_row("  test", *_cells(tests[orbit], columns), style="dim")
        table.add_section()
    stdout.print(table)
    if legend:
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
        stdout.print(
            f"[bold]No satellite passes over {unseen:,} of {len(dataset.labels):,} samples[/bold] "
            f"({len(partition.unseen_train):,} training, {len(partition.unseen_test):,} test): "
            "they belong to nobody and are left out."
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
    return [*(f"{count:,}" if count else "·" for count in counts if columns), f"{counts.sum():,}"]


def _split_counts(dataset: Dataset) -> dict[str, NDArray[np.int64]]:
    """Count samples per class: all, and per part of an official split."""
    classes = len(dataset.class_names)
    parts = {"samples": np.bincount(dataset.labels, minlength=classes)}
    if dataset.split is not None:
        for name, code in (("train", TRAIN), ("test", TEST), ("validation", VALIDATION)):
            chosen = dataset.labels[dataset.split == code]
            parts[name] = np.bincount(chosen, minlength=classes)
    return parts


def _dataset_row(dataset: Dataset) -> dict[str, Any]:
    return {
        "name": dataset.name,
        "source": dataset.description["source"],
        "samples": len(dataset.labels),
        "image_shape": list(dataset.images.shape[1:]),
        "dtype": dataset.images.dtype.name,
        "class_names": list(dataset.class_names),
        "has_coordinates": dataset.latitude_deg is not None,
        "has_official_split": dataset.split is not None,
        "notes": dataset.description["notes"],
        "folder": str(dataset.folder),
    }


def _source_row(info: catalog.SourceInfo) -> dict[str, Any]:
    return {
        "name": info.name,
        "title": info.title,
        "classes": info.classes,
        "image_shape": list(info.image_shape) if info.image_shape else None,
        "samples": info.samples,
        "split": info.split,
        "licence": info.licence,
        "homepage": info.homepage,
        "citation": info.citation,
        "files": [file.name for file in info.files],
    }
