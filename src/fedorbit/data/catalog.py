"""From a source to a prepared dataset: what to read, where to keep it, when to refuse."""

import hashlib
import json
import re
import warnings
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from fedorbit.data import cache, resisc45
from fedorbit.data.cache import Dataset
from fedorbit.data.containers import file_sha256
from fedorbit.data.limits import MB, Limits
from fedorbit.data.sources import SOURCES as SOURCES
from fedorbit.data.sources import SYNTHETIC as SYNTHETIC
from fedorbit.data.sources import Source, find_source
from fedorbit.data.stream import ImageStream
from fedorbit.data.synthetic import SyntheticSpec
from fedorbit.errors import DataError, closest
from fedorbit.progress import Progress

LARGE_BYTES = 500 * MB
"""More than this is prepared only with a warning, unless a size is asked for."""
SUGGESTED_SIDE = 64  # as EuroSAT has


@dataclass(frozen=True)
class PrepareOptions:
    """Options that a user may choose; None leaves the choice to the source.

    `size` is the side of the images in pixels, `geo` a CSV file with their coordinates, `bands` and
    `sensor` choose bands (`data/bands.py`), `layout` is that of arrays (`hwc` or `chw`), `classes`
    allows a part of the classes (`data/resisc45.py`), `spec` are the settings of synthetic images.
    """

    size: int | None = None
    geo: Path | None = None
    bands: str | None = None
    sensor: str | None = None
    layout: str | None = None
    classes: str | None = None
    spec: SyntheticSpec | None = None


def prepare(
    source_name: str,
    path: Path | None,
    *,
    name: str | None = None,
    options: PrepareOptions | None = None,
    limits: Limits | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> tuple[Dataset, bool]:
    """Read a source into the cache; return the dataset and whether it was written just now.

    Without a path the downloaded files are used. A dataset already prepared from the same files
    with the same options is only opened; one that differs is replaced with `force` alone. What is
    larger than the limits is refused.
    """
    source = find_source(source_name)
    chosen = _chosen_options(source, options or PrepareOptions())
    if source.generated and path is not None:
        raise DataError(f"source {source_name} is generated from no files; leave --source out")
    path = path or _downloaded(source)
    if chosen.get("classes") == resisc45.AS_FOUND and path is not None:
        chosen["classes"] = str(resisc45.count_of_classes(path, limits or Limits()))
    name = name or _default_name(source, path, chosen)
    try:
        cache.dataset_folder(name)
    except DataError as error:  # before any work, and with the remedy of this command
        raise DataError(f"{error} with --name") from None
    refuse_reserved(name, source.info.name)
    if chosen.get("classes") and name == source.info.name:
        raise DataError(
            f"{name!r} is kept for all classes of {source.info.title}; leave --name out, which "
            f"gives {_default_name(source, path, chosen)!r}, or choose another name"
        )
    has_input = source.generated or path is not None
    fingerprint = source.fingerprint(path or Path(), chosen.get("geo")) if has_input else None
    # The coordinate file is in the fingerprint: its contents matter, not where it lies.
    recorded = {
        key: asdict(value) if isinstance(value, SyntheticSpec) else value
        for key, value in chosen.items()
        if key != "geo"
    }

    def existing() -> Dataset | None:
        if force or not cache.is_prepared(name):
            return None
        try:
            dataset = cache.open_dataset(name)
            _require_same(dataset, source, recorded, fingerprint, path, chosen.get("geo"))
        except DataError:
            if source.generated:  # nothing is lost by generating it again
                return None
            raise
        return dataset

    # Asked before the lock too, so that a prepared dataset can be used from a read-only cache.
    if dataset := existing():
        return dataset, False
    if fingerprint is None:
        raise DataError(_no_input(source))
    with cache.dataset_lock(name, progress=progress):
        if dataset := existing():
            return dataset, False
        with source.open_stream(path, limits=limits or Limits(), **chosen) as stream:
            if chosen.get("size", 0) is None:
                warn_of_size(name, stream, "--size ")
            origin = {**stream.origin, "fingerprint": fingerprint}
            if path is not None and (geo := source.coordinates(path, chosen.get("geo"))):
                origin["coordinates_sha256"] = file_sha256(geo)
            stream = replace(stream, origin=origin, title=stream.title or source.info.title)
            dataset = cache.write_dataset(
                name, stream, source=source_name, options=recorded, progress=progress
            )
            return dataset, True


def synthetic_dataset(spec: SyntheticSpec, progress: Progress | None = None) -> Dataset:
    """Return a generated dataset, made on first use and again whenever the generator changes."""
    return prepare(SYNTHETIC, None, options=PrepareOptions(spec=spec), progress=progress)[0]


def open_dataset(name: str) -> Dataset:
    """Open a prepared dataset; if it is not prepared, the error names the command to run."""
    if cache.is_prepared(name):
        return cache.open_dataset(name)
    prepared = cache.prepared_names()
    if name in SOURCES and SOURCES[name].downloads:
        remedy = (
            f"run `fedorbit data fetch {name} && fedorbit data prepare {name}` to download it, or "
            f"`fedorbit data prepare {name} --source PATH` if you have its files"
        )
    else:
        near = closest(name, [*prepared, *SOURCES])
        own = name if name not in SOURCES else "NAME"
        remedy = f"did you mean {near!r}? " if near and near != name else ""
        remedy += f"images of your own: `fedorbit data prepare folder --source PATH --name {own}`"
    raise DataError(
        f"dataset {name!r} is not prepared (there is no {cache.dataset_folder(name)}); {remedy}; "
        f"prepared so far: {', '.join(prepared) or 'none'}"
    )


def takes_coordinates(dataset: Dataset) -> bool:
    """Return whether a dataset could have been prepared with coordinates."""
    source = SOURCES.get(dataset.description["source"])
    return source is not None and "geo" in source.options


def _chosen_options(source: Source, options: PrepareOptions) -> dict[str, Any]:
    """Return the source's options with the user's values; refuse options that it does not have."""
    given = {key: value for key, value in vars(options).items() if value is not None}
    for key in given.keys() - source.options.keys():
        if source.generated:
            raise DataError(
                f"source {source.info.name} is generated by [data.synthetic] of a configuration "
                f"and has no --{key}; set it there, such as -o data.synthetic.size=16"
            )
        raise DataError(
            f"source {source.info.name} has no option {key}; "
            f"allowed are: {', '.join(source.options) or 'none'}"
        )
    return {**source.options, **given}


def _default_name(source: Source, path: Path | None, chosen: dict[str, Any]) -> str:
    """Return the dataset name if the user gives none."""
    if source.generated:
        key = json.dumps(asdict(chosen["spec"]), sort_keys=True).encode()
        return f"{source.info.name}-{hashlib.sha256(key).hexdigest()[:10]}"
    if chosen.get("classes"):
        return f"{source.info.name}-{chosen['classes']}"
    if source.downloads or path is None:
        return source.info.name
    stem = path.resolve().name.split(".")[0].lower()
    return re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._") or source.info.name


def _downloaded(source: Source) -> Path | None:
    """Return the downloaded (main) file of a source, if it is there."""
    candidates = [cache.downloads_root() / name for name in source.downloads]
    return next((path for path in candidates if path.is_file()), None)


def _no_input(source: Source) -> str:
    """Describe how to obtain the files of a source."""
    name = source.info.name
    if not source.downloads:
        return f"source {name} needs a path; run `fedorbit data prepare {name} --source PATH`"
    return (
        f"there is no {' or '.join(source.downloads)} in {cache.downloads_root()}; run `fedorbit "
        f"data fetch {name}`, or `fedorbit data prepare {name} --source PATH` if you have it"
    )


def refuse_reserved(name: str, source_name: str) -> None:
    """Keep names that mean a source for that source: `eurosat` must be EuroSAT."""
    owner = SYNTHETIC if name.startswith(f"{SYNTHETIC}-") else name
    # A run that asks for `synthetic` gets images by its own settings, never a dataset of that name.
    if owner in SOURCES and (owner != source_name or name == SYNTHETIC):
        raise DataError(
            f"{name!r} is kept for images of the source {owner}; choose another name (--name)"
        )


def warn_of_size(name: str, stream: ImageStream, option: str) -> None:
    """Warn of the cost of large images before they are prepared; `option` makes them smaller."""
    height, width, channels = stream.image_shape
    pixel_bytes = stream.samples * channels * stream.dtype.itemsize
    cost_bytes = height * width * pixel_bytes
    if cost_bytes > LARGE_BYTES and min(height, width) > SUGGESTED_SIDE:
        warnings.warn(
            f"{stream.samples:,} images of {height} x {width} x {channels} take "
            f"{cost_bytes / MB:,.0f} MB in the cache, and as much memory in every run; with "
            f"{option}{SUGGESTED_SIDE} {name} takes {SUGGESTED_SIDE**2 * pixel_bytes / MB:,.0f} MB",
            stacklevel=3,
        )


def _same_contents(
    origin: dict[str, str], source: Source, path: Path | None, geo: Path | None
) -> bool:
    """Compare an archive and its coordinates with the checksums of those that were read."""
    if path is None or not path.is_file():
        return False
    geo = source.coordinates(path, geo)
    return origin.get("sha256") == file_sha256(path) and origin.get("coordinates_sha256") == (
        file_sha256(geo) if geo is not None else None
    )


def _other_files(then: str, now: str) -> str:
    """Describe by two fingerprints, such as `mine (entries 7, …)`, what has become of the files."""
    old, new = (re.sub(r" \(entries [^)]*\)", "", each) for each in (then, now))
    return "its files have changed" if old == new else f"files were those of {old}, now of {new}"


def _require_same(
    dataset: Dataset,
    source: Source,
    options: dict[str, Any],
    fingerprint: str | None,
    path: Path | None,
    geo: Path | None,
) -> None:
    """Refuse to pass off a dataset that was prepared from something else for what is asked."""
    origin = dataset.description["origin"]
    then = {"source": dataset.description["source"], **dataset.description["options"]}
    now = {"source": source.info.name, **options}
    differences = [
        f"{key} was {then.get(key)}, now {now.get(key)}"
        for key in {**then, **now}
        if then.get(key) != now.get(key)
    ]
    prepared = origin.get("fingerprint", "")
    if fingerprint is not None and fingerprint != prepared:
        # Files were moved or touched; an archive's contents show whether they have changed.
        if not differences and _same_contents(origin, source, path, geo):
            return
        differences.append(_other_files(prepared, fingerprint))
    if differences:
        raise DataError(
            f"dataset {dataset.name!r} is already prepared from something else "
            f"({'; '.join(differences)}); pass --force to replace it or --name for another name"
        )
