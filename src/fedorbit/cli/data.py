"""`fedorbit data`: find, fetch, prepare and inspect datasets, and deal them to satellites."""

from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer
from numpy.typing import NDArray

from fedorbit.build import load_dataset
from fedorbit.cli.app import App
from fedorbit.cli.options import AsJson, OutFolder
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    print_files,
    print_json,
    stdout,
)
from fedorbit.cli.partition import show_partition
from fedorbit.config import load_config
from fedorbit.data import catalog
from fedorbit.data.bands import PRESETS, SENSORS
from fedorbit.data.cache import (
    Dataset,
    cache_root,
    dataset_folder,
    downloads_root,
    folder_bytes,
    prepared_names,
    remove_dataset,
    verify_dataset,
)
from fedorbit.data.limits import GB, MB, Limits
from fedorbit.data.sources import SourceInfo
from fedorbit.data.statistics import band_statistics
from fedorbit.data.stream import TEST, TRAIN, VALIDATION
from fedorbit.errors import DataError

app = App(
    help="""Fetch, prepare and inspect images; deal them to satellites.

    [bold]Examples[/bold]

    fedorbit data fetch eurosat && fedorbit data prepare eurosat

    fedorbit data prepare folder --source my_images/ --name mine

    fedorbit data list  # known sources, and prepared datasets

    fedorbit data partition -o data.name=mine  # images of each satellite
    """,
    no_args_is_help=True,
)


def _complete_source(incomplete: str) -> list[str]:
    return [name for name in catalog.SOURCES if name.startswith(incomplete)]


def _complete_download(incomplete: str) -> list[str]:
    return [name for name in _complete_source(incomplete) if catalog.SOURCES[name].info.files]


def _complete_prepared(incomplete: str) -> list[str]:
    return [name for name in prepared_names() if name.startswith(incomplete)]


def _complete_dataset(incomplete: str) -> list[str]:
    names = [*prepared_names(), catalog.SYNTHETIC]
    return [name for name in names if name.startswith(incomplete)]


SOURCE_HELP = "One of the sources that [bold]fedorbit data list[/bold] shows."


@app.command("list")
def list_sources(as_json: AsJson = False) -> None:
    """List known sources and what is prepared on this machine.

    [bold]Example[/bold]

    fedorbit data list
    """
    infos = [source.info for source in catalog.SOURCES.values()]
    prepared: dict[str, Dataset | DataError] = {}
    for name in prepared_names():
        try:
            prepared[name] = catalog.open_dataset(name)
        except DataError as error:  # one damaged dataset must not hide the others
            prepared[name] = error
    if as_json:
        rows = [
            {"name": name, "error": str(found), "size_bytes": folder_bytes(dataset_folder(name))}
            if isinstance(found, DataError)
            else {**_dataset_row(found), "error": None}
            for name, found in prepared.items()
        ]
        print_json(
            {
                "sources": [_source_row(info) for info in infos],
                "prepared": rows,
                "cache": str(cache_root()),
                "downloads_bytes": folder_bytes(downloads_root()),
            }
        )
        return
    table = Table(
        "Sources",
        [
            Column("name", left=True),
            Column("title", rank=3, text=True),
            Column("classes", rank=2),
            Column("images", rank=1),
            Column("samples"),
            Column("licence", rank=4, text=True),
        ],
    )
    for info in infos:
        shape = " x ".join(map(str, info.image_shape)) if info.image_shape else "any"
        samples = f"{info.samples:,}" if info.samples else "any"
        classes = str(info.classes) if info.classes else "any"
        table.add_row(info.name, info.title, classes, shape, samples, info.licence)
    table.print()
    if not prepared:
        stdout.print(f"Nothing is prepared in {cache_root()} yet.", soft_wrap=True)
        return
    table = Table(
        f"Prepared in {cache_root()}",
        [
            Column("name", text=True),
            Column("title", rank=4, text=True),
            Column("classes", rank=2),
            Column("images", rank=1),
            Column("type", rank=3),
            Column("samples"),
            Column("on disk"),
        ],
    )
    for name, found in prepared.items():
        size = _megabytes(folder_bytes(dataset_folder(name)))
        if isinstance(found, DataError):
            table.add_row(name, "", "", "", "", "damaged", size)
        else:
            shape = " x ".join(map(str, found.images.shape[1:]))
            title, dtype = found.description.get("title", ""), found.images.dtype.name
            counts = str(len(found.class_names)), shape, dtype, f"{len(found.labels):,}"
            table.add_row(name, title, *counts, size)
    table.print()
    if downloaded := folder_bytes(downloads_root()):
        stdout.print(f"Downloads in {downloads_root()}: {_megabytes(downloaded)}", soft_wrap=True)
    for found in prepared.values():
        if isinstance(found, DataError):
            stdout.print(f"damaged: {found}", soft_wrap=True)


@app.command("fetch")
def fetch_files(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help=SOURCE_HELP, autocompletion=_complete_download),
    ],
    as_json: AsJson = False,
) -> None:
    """Download a dataset's files from their official site, checked against pinned checksums.

    [bold]Example[/bold]

    fedorbit data fetch eurosat && fedorbit data prepare eurosat
    """
    from fedorbit.data.fetch import fetch  # slow to import, and needed for downloads alone

    files = fetch(name, RichProgress())
    if as_json:
        print_json({"source": name, "files": [str(file) for file in files]})
        return
    stdout.print(f"{name} is here: {', '.join(str(file) for file in files)}", soft_wrap=True)
    stdout.print(f"Next: fedorbit data prepare {name}")


@app.command()
def prepare(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help=SOURCE_HELP, autocompletion=_complete_source)
    ],
    source: Annotated[
        Path | None,
        typer.Option(
            "--source",
            metavar="PATH",
            help="Archive or folder of the source.",
            show_default="the downloaded files",
        ),
    ] = None,
    dataset_name: Annotated[
        str | None,
        typer.Option(
            "--name", metavar="NAME", help="Name of the result.", show_default="the source's"
        ),
    ] = None,
    size: Annotated[
        int | None,
        typer.Option(
            "--size", metavar="SIZE", min=8, max=1024, help="Resize images to SIZE x SIZE pixels."
        ),
    ] = None,
    geo: Annotated[
        Path | None,
        typer.Option("--geo", metavar="CSV", help="Coordinates: name,latitude_deg,longitude_deg."),
    ] = None,
    bands: Annotated[
        str | None,
        typer.Option(
            "--bands",
            metavar="BANDS",
            help="Bands to keep, in order: numbers from 1 (4,3,2), names (B04,B03,B02), or one of "
            f"{', '.join(PRESETS)}.",
            show_default="all",
        ),
    ] = None,
    sensor: Annotated[
        str | None,
        typer.Option(
            "--sensor",
            metavar="SENSOR",
            help=f"Names the bands of your files: {', '.join(SENSORS)}.",
        ),
    ] = None,
    layout: Annotated[
        Literal["hwc", "chw"] | None,
        typer.Option(
            "--layout", help="Channels of arrays, last or first.", show_default="the shorter"
        ),
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            "--classes",
            metavar="N",
            help="RESISC45: accept N of its 45 classes, or as-found; tables name the number.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a prepared dataset.")] = False,
    max_image_mb: Annotated[
        int,
        typer.Option(
            "--max-image-mb", metavar="MB", min=1, help="Largest image, as a file and as pixels."
        ),
    ] = Limits().image_bytes // MB,
    max_total_gb: Annotated[
        int,
        typer.Option("--max-total-gb", metavar="GB", min=1, help="Largest source, unpacked."),
    ] = Limits().total_bytes // GB,
    as_json: AsJson = False,
) -> None:
    """Turn a dataset's files into arrays that runs map into memory.

    A second call does nothing. An interrupted one leaves nothing behind.

    [bold]Examples[/bold]

    fedorbit data prepare eurosat --source EuroSAT_RGB.zip

    fedorbit data prepare eurosat --size 32 --name eurosat-32

    fedorbit data prepare folder --source my_images/ --name mine

    fedorbit data prepare folder --source my_tifs/ --name mine --bands 4,3,2

    fedorbit data prepare eurosat-ms --bands so2sat --name eurosat-10

    fedorbit data prepare arrays --source mine.npz
    """
    dataset, is_new = catalog.prepare(
        name,
        source,
        name=dataset_name,
        options=catalog.PrepareOptions(
            size=size, geo=geo, bands=bands, sensor=sensor, layout=layout, classes=classes
        ),
        limits=Limits(image_bytes=max_image_mb * MB, total_bytes=max_total_gb * GB),
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
        f"in {len(dataset.class_names)} classes ({_megabytes(folder_bytes(dataset.folder))}), "
        f"in {dataset.folder}",
        soft_wrap=True,
    )
    for note in dataset.description["notes"]:
        stdout.print(f"Note: {note}", soft_wrap=True)


@app.command("remove")
def remove(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="A prepared dataset.", autocompletion=_complete_prepared
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Delete a prepared dataset from the cache; its original files stay.

    [bold]Example[/bold]

    fedorbit data remove mine
    """
    freed_bytes = remove_dataset(name)
    if as_json:
        print_json({"name": name, "freed_bytes": freed_bytes})
        return
    stdout.print(f"Removed {name}; freed {_megabytes(freed_bytes)}.")


@app.command()
def inspect(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="A prepared dataset, or synthetic.",
            autocompletion=_complete_dataset,
        ),
    ],
    out: OutFolder = None,
    as_json: AsJson = False,
) -> None:
    """Verify a prepared dataset, count its classes, measure its bands; --out: a contact sheet.

    [bold]Examples[/bold]

    fedorbit data inspect eurosat --out figures

    fedorbit data inspect synthetic
    """
    progress = RichProgress()
    if name == catalog.SYNTHETIC:
        dataset = load_dataset(load_config("quickstart"), progress)
    else:
        dataset = catalog.open_dataset(name)
    verify_dataset(dataset, progress)
    files = []
    if out:
        from fedorbit.report import data_figures, style  # slow to import, and needed here alone

        sheet = data_figures.contact_sheet(dataset)
        files = style.save(sheet, out, f"{dataset.name}-contact-sheet", ["png"])
    parts = _split_counts(dataset)
    bands = band_statistics(dataset.images, progress)
    if as_json:
        document = {**_dataset_row(dataset), "class_counts": parts["samples"].tolist()}
        document |= {f"{key}_counts": part.tolist() for key, part in list(parts.items())[1:]}
        document["band_statistics"] = [band._asdict() for band in bands]
        document["files"] = [str(file) for file in files]
        print_json(document)
        return
    shape = " x ".join(map(str, dataset.images.shape[1:]))
    table = Table(
        f"{dataset.name}: {len(dataset.labels):,} images of {shape} ({dataset.images.dtype})",
        [Column("class", text=True), *(Column(part, rank) for rank, part in enumerate(parts))],
    )
    for label, class_name in enumerate(dataset.class_names):
        table.add_row(class_name, *(f"{part[label]:,}" for part in parts.values()))
    table.add_section()
    table.add_row("all", *(f"{part.sum():,}" for part in parts.values()))
    table.print()
    heads = ("lowest", "highest", "mean", "deviation")
    table = Table("Bands", [Column("band", text=True), *(Column(head) for head in heads)])
    names = dataset.description.get("bands") or [str(band + 1) for band in range(len(bands))]
    for band_name, band in zip(names, bands, strict=True):
        table.add_row(band_name, *(f"{x:,.0f}" if abs(x) >= 1000 else f"{x:.4g}" for x in band))
    table.print()
    if dataset.latitude_deg is not None and dataset.longitude_deg is not None:
        known = int(np.isfinite(dataset.latitude_deg).sum())
        stdout.print(
            f"{known:,} images have coordinates: latitude {np.nanmin(dataset.latitude_deg):.1f} to "
            f"{np.nanmax(dataset.latitude_deg):.1f} deg, longitude "
            f"{np.nanmin(dataset.longitude_deg):.1f} to {np.nanmax(dataset.longitude_deg):.1f} deg."
        )
    stdout.print("Checksums are right.")
    print_files(files)
    if not out:
        stdout.print("--out DIR draws a contact sheet.")


app.command("partition")(show_partition)


def _split_counts(dataset: Dataset) -> dict[str, NDArray[np.int64]]:
    """Count samples per class: all, and per part of an official split."""
    classes = len(dataset.class_names)
    parts = {"samples": np.bincount(dataset.labels, minlength=classes)}
    if dataset.split is not None:
        for name, code in (("train", TRAIN), ("test", TEST), ("validation", VALIDATION)):
            chosen = dataset.labels[dataset.split == code]
            parts[name] = np.bincount(chosen, minlength=classes)
    return parts


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / MB:,.1f} MB"


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
        "title": dataset.description.get("title", ""),
        "bands": dataset.description.get("bands", []),
        "size_bytes": folder_bytes(dataset.folder),
        "notes": dataset.description["notes"],
        "folder": str(dataset.folder),
    }


def _source_row(info: SourceInfo) -> dict[str, Any]:
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
