"""The datasets fedorbit knows: what each is, where its files are, and how to prepare it.

Pins. EuroSAT: `EuroSAT_RGB.zip` of Zenodo record 7711810, for which Zenodo publishes the MD5
f46e308c4d50d4bf32fedad2d3d62f3b; pinned is the SHA-256 of the same file. RESISC45 is published
without checksum or stable link; pinned is the mirror of the TorchGeo project at a fixed revision,
with the MD5 that TorchGeo checks. So2Sat LCZ42: version 2 at mediaTUM, with the MD5 sums that
TorchGeo checks; the sizes follow from the published array shapes and are approximate.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fedorbit.data import cache, eurosat, folder, resisc45, so2sat, synthetic
from fedorbit.data.cache import Dataset
from fedorbit.data.imagetree import file_sha256
from fedorbit.data.limits import Limits
from fedorbit.data.stream import Chunk, ImageStream
from fedorbit.data.synthetic import SyntheticSpec
from fedorbit.errors import DataError, closest
from fedorbit.progress import Progress


@dataclass(frozen=True)
class RemoteFile:
    """A file to download; `checksum` is `md5:…` or `sha256:…`, `size_bytes` may be approximate."""

    name: str
    url: str
    checksum: str
    size_bytes: int | None


@dataclass(frozen=True)
class SourceInfo:
    """What to know about a dataset before getting it; None where it depends on the files."""

    name: str
    title: str
    classes: int | None
    image_shape: tuple[int, int, int] | None
    samples: int | None
    split: str
    licence: str
    homepage: str
    citation: str
    files: tuple[RemoteFile, ...] = ()


@dataclass(frozen=True)
class PrepareOptions:
    """What a user may choose; None leaves the choice to the source.

    `size` is the side of the images in pixels, `geo` a CSV file with their coordinates, `spec`
    what to generate.
    """

    size: int | None = None
    geo: Path | None = None
    spec: SyntheticSpec | None = None


@dataclass(frozen=True)
class Source:
    """A dataset and how to read it.

    `open_stream(path, limits=…, **options)` reads it; `options` are those it knows, with defaults.
    `fingerprint(path, geo)` changes when the files that decide the result change; places are read
    from `coordinates_file` beside the path if no other file is given. `downloads` are the names
    under which its (main) file is looked for when no path is given; without any, a path is needed,
    except for a dataset that is `generated`.
    """

    info: SourceInfo
    open_stream: Callable[..., AbstractContextManager[ImageStream]]
    options: dict[str, Any]
    fingerprint: Callable[[Path, Path | None], str]
    downloads: tuple[str, ...] = ()
    generated: bool = False
    coordinates_file: str | None = None

    def coordinates(self, path: Path, geo: Path | None) -> Path | None:
        """Return the file that says where the images were taken, if there is one."""
        if geo is None and self.coordinates_file is not None:
            return folder.find_beside(path, self.coordinates_file)
        return geo


# --- How the sources are told apart from earlier states of themselves ---------------------------


def _fingerprint(paths: list[Path]) -> str:
    """Describe files and folders by name, size and time of change, without reading them."""
    states = []
    for path in paths:
        try:
            # Nothing to walk in a file. A folder's own time tells of files renamed or removed.
            walk = os.walk(path)
            inside = [
                Path(parent, name).lstat() for parent, _, names in walk for name in (".", *names)
            ]
            found = inside or [path.stat()]
        except OSError as error:
            raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from error
        states.append(
            f"{path.resolve().name} (entries {len(found)}, bytes {sum(s.st_size for s in found)}, "
            f"changed_ns {max(s.st_mtime_ns for s in found)})"
        )
    return ", ".join(states)


def _images_and_coordinates(coordinates_file: str) -> Callable[[Path, Path | None], str]:
    """Return the fingerprint of a path together with the coordinate file that goes with it."""

    def fingerprint(path: Path, geo: Path | None) -> str:
        geo = geo or folder.find_beside(path, coordinates_file)
        return _fingerprint([path] if geo is None else [path, geo])

    return fingerprint


def _generator_fingerprint(path: Path, geo: Path | None) -> str:
    """A generated dataset is as old as the code that generates it."""
    return f"generator {hashlib.sha256(Path(synthetic.__file__).read_bytes()).hexdigest()}"


@contextmanager
def _generate(path: None, *, limits: Limits, spec: SyntheticSpec) -> Iterator[ImageStream]:
    yield ImageStream(
        samples=spec.samples,
        image_shape=(spec.size, spec.size, spec.channels),
        dtype=np.dtype(np.uint8),
        class_names=tuple(synthetic.class_names(spec)),
        chunks=(
            Chunk(part.images, part.labels, part.latitude_deg, part.longitude_deg)
            for part in synthetic.generate(spec, 1024)
        ),
        origin={},
    )


# --- The sources --------------------------------------------------------------------------------

SYNTHETIC = "synthetic"
_SEEDED_SPLIT = "80/20, stratified, seeded"
_SO2SAT_URL = "https://dataserv.ub.tum.de/index.php/s/m1483140/download?path=%2F&files="

_ALL = (
    Source(
        SourceInfo(
            name="eurosat",
            title="EuroSAT RGB",
            classes=len(eurosat.CLASS_NAMES),
            image_shape=(eurosat.SIDE, eurosat.SIDE, 3),
            samples=eurosat.SAMPLES,
            split=_SEEDED_SPLIT,
            licence="MIT",
            homepage="https://doi.org/10.5281/zenodo.7711810",
            citation="Helber et al., IEEE JSTARS 12(7), 2019",
            files=(
                RemoteFile(
                    "EuroSAT_RGB.zip",
                    "https://zenodo.org/records/7711810/files/EuroSAT_RGB.zip",
                    "sha256:b4f5b234ecb7d7ff9c6cddb046543b4717c53fd6e9815be6c0e80cc614f51b90",
                    94_658_721,
                ),
            ),
        ),
        eurosat.open_stream,
        options={"size": eurosat.SIDE, "geo": None},
        fingerprint=_images_and_coordinates(eurosat.COORDINATES_FILE),
        downloads=("EuroSAT_RGB.zip",),
        coordinates_file=eurosat.COORDINATES_FILE,
    ),
    Source(
        SourceInfo(
            name="resisc45",
            title="NWPU-RESISC45",
            classes=len(resisc45.CLASS_NAMES),
            image_shape=(resisc45.SIDE, resisc45.SIDE, 3),
            samples=resisc45.SAMPLES,
            split=_SEEDED_SPLIT,
            licence="for research; no explicit licence",
            homepage="https://gcheng-nwpu.github.io/#Datasets",
            citation="Cheng, Han and Lu, Proceedings of the IEEE 105(10), 2017",
            files=(
                RemoteFile(
                    "NWPU-RESISC45.zip",
                    "https://hf.co/datasets/torchgeo/resisc45/resolve/"
                    "a826b44d938a883185f11ebe3d512d38b464312f/NWPU-RESISC45.zip",
                    "md5:75206b2e16446591afa88e2628744886",
                    None,
                ),
            ),
        ),
        resisc45.open_stream,
        options={"size": resisc45.SIDE},
        fingerprint=lambda path, geo: _fingerprint([path]),
        downloads=("NWPU-RESISC45.zip", "NWPU-RESISC45.rar"),
    ),
    Source(
        SourceInfo(
            name="so2sat",
            title="So2Sat LCZ42 v2, urban classes",
            classes=len(so2sat.CLASS_NAMES),
            image_shape=so2sat.PATCH_SHAPE,
            samples=None,
            split="official; 352,366 / 24,119 / 24,188 patches before the urban ones are selected",
            licence="CC BY 4.0",
            homepage="https://mediatum.ub.tum.de/1483140",
            citation="Zhu et al., IEEE Geoscience and Remote Sensing Magazine 8(3), 2020",
            files=tuple(
                RemoteFile(name, _SO2SAT_URL + name, f"md5:{md5}", size_bytes)
                for name, md5, size_bytes in (
                    ("training.h5", "702bc6a9368ebff4542d791e53469244", 52_000_000_000),
                    ("validation.h5", "71cfa6795de3e22207229d06d6f8775d", 3_560_000_000),
                    ("testing.h5", "e81426102b488623a723beab52b31a8a", 3_570_000_000),
                )
            ),
        ),
        so2sat.open_stream,
        options={},
        fingerprint=lambda path, geo: _fingerprint(so2sat.find_files(path)),
        downloads=("training.h5",),
    ),
    Source(
        SourceInfo(
            name="folder",
            title="Your images in class folders",
            classes=None,
            image_shape=None,
            samples=None,
            split=_SEEDED_SPLIT,
            licence="yours",
            homepage="",
            citation="",
        ),
        folder.open_stream,
        options={"size": None, "geo": None},
        fingerprint=_images_and_coordinates(folder.COORDINATES_FILE),
        coordinates_file=folder.COORDINATES_FILE,
    ),
    Source(
        SourceInfo(
            name=SYNTHETIC,
            title="Generated land cover",
            classes=SyntheticSpec().classes,
            image_shape=(SyntheticSpec().size, SyntheticSpec().size, SyntheticSpec().channels),
            samples=SyntheticSpec().samples,
            split=_SEEDED_SPLIT,
            licence="MIT",
            homepage="",
            citation="",
        ),
        _generate,
        options={"spec": SyntheticSpec()},
        fingerprint=_generator_fingerprint,
        generated=True,
    ),
)

SOURCES: dict[str, Source] = {source.info.name: source for source in _ALL}
"""Every dataset that can be prepared, by name."""


# --- Preparing ----------------------------------------------------------------------------------


def find_source(name: str) -> Source:
    """Return a source by name; the error for an unknown name suggests the nearest."""
    if name in SOURCES:
        return SOURCES[name]
    near = closest(name.lower(), SOURCES)
    hint = f"did you mean {near!r}? " if near else ""
    raise DataError(f"there is no source {name!r}; {hint}known are {', '.join(SOURCES)}")


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
    name = name or _default_name(source, path, chosen)
    try:
        cache.dataset_folder(name)
    except DataError as error:  # before any work, and with the remedy of this command
        raise DataError(f"{error} with --name") from None
    _refuse_reserved(name, source)
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
            origin = {**stream.origin, "fingerprint": fingerprint}
            if path is not None and (geo := source.coordinates(path, chosen.get("geo"))):
                origin["coordinates_sha256"] = file_sha256(geo)
            stream = replace(stream, origin=origin)
            dataset = cache.write_dataset(
                name, stream, source=source_name, options=recorded, progress=progress
            )
            return dataset, True


def synthetic_dataset(spec: SyntheticSpec, progress: Progress | None = None) -> Dataset:
    """Return a generated dataset, made on first use and again whenever the generator changes."""
    return prepare(SYNTHETIC, None, options=PrepareOptions(spec=spec), progress=progress)[0]


def open_dataset(name: str) -> Dataset:
    """Open a prepared dataset; the error for one that is not prepared says how to come by it."""
    if cache.is_prepared(name):
        return cache.open_dataset(name)
    prepared = cache.prepared_names()
    if name in SOURCES and SOURCES[name].downloads:
        remedy = (
            f"run `fedorbit data fetch {name}` to download it or `fedorbit data prepare {name} "
            "--source PATH` if you have its files"
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
    """Return the source's options as the user wants them; refuse those it does not know."""
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


def _refuse_reserved(name: str, source: Source) -> None:
    """Keep names that mean a source for that source: `eurosat` must be EuroSAT."""
    owner = SYNTHETIC if name.startswith(f"{SYNTHETIC}-") else name
    # A run that asks for `synthetic` gets images by its own settings, never a dataset of that name.
    if owner in SOURCES and (owner != source.info.name or name == SYNTHETIC):
        raise DataError(
            f"{name!r} is kept for images of the source {owner}; choose another name with --name"
        )


def _same_contents(origin: dict[str, str], path: Path, geo: Path | None) -> bool:
    """Compare an archive and its coordinates with the checksums of those that were read."""
    return origin.get("sha256") == file_sha256(path) and origin.get("coordinates_sha256") == (
        file_sha256(geo) if geo is not None else None
    )


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
    if fingerprint is not None:
        if then == now and fingerprint != origin.get("fingerprint"):
            # Copied to another place or touched; of an archive the contents can tell.
            geo = source.coordinates(path, geo) if path is not None else None
            if path is not None and path.is_file() and _same_contents(origin, path, geo):
                return
        then["files"] = origin.get("fingerprint")
        now["files"] = fingerprint
    differences = [
        f"{key} was {then.get(key)}, now {now.get(key)}"
        for key in {**then, **now}
        if then.get(key) != now.get(key)
    ]
    if differences:
        raise DataError(
            f"dataset {dataset.name!r} is already prepared from something else "
            f"({'; '.join(differences)}); pass --force to replace it or --name for another name"
        )
