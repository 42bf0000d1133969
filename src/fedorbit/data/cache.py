"""Prepared datasets on disk: plain `.npy` files that are memory-mapped, never unpickled.

    <cache root>/<name>/images.npy        [n, height, width, channels] uint8, uint16 or float32
                        labels.npy        [n] int64
                        coordinates.npy   [n, 2] float64: latitude, longitude, NaN where unknown
                        split.npy         [n] uint8: official split, codes of `data/stream.py`
                        dataset.json      what it is, whence it came, size and SHA-256 of each file

Coordinates and split are optional. This module is the only writer: a dataset is written into a
hidden folder beside its place and renamed when complete, so a folder without a leading dot is
always a whole dataset. Writers of one name hold a lock, so a hidden folder seen under the lock
belongs to a process that died.
"""

import hashlib
import io
import json
import math
import os
import re
import secrets
import shutil
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
from numpy.typing import NDArray

from fedorbit import __version__
from fedorbit.data.description import (
    DamageError,
    check_coordinates,
    check_labels,
    check_split,
    read_array,
    read_description,
)
from fedorbit.data.stream import Images, ImageStream
from fedorbit.errors import DISK_FULL, DataError
from fedorbit.locks import locked
from fedorbit.progress import Progress, SilentProgress

CACHE_VERSION = 1
"""Format of the folder above; a reader refuses every other version."""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]*")


@dataclass(frozen=True, eq=False)
class Dataset:
    """A prepared dataset; `images` stays on disk and is read page by page."""

    name: str
    images: Images
    labels: NDArray[np.int64]
    class_names: tuple[str, ...]
    latitude_deg: NDArray[np.float64] | None
    longitude_deg: NDArray[np.float64] | None
    split: NDArray[np.uint8] | None
    folder: Path
    description: dict[str, Any]

    def __repr__(self) -> str:
        shape = " x ".join(map(str, self.images.shape[1:]))
        return (
            f"<Dataset {self.name}: {len(self.labels):,} images of {shape} ({self.images.dtype}) "
            f"in {len(self.class_names)} classes, in {self.folder}>"
        )


def cache_root() -> Path:
    """Return the folder of all prepared datasets: `$FEDORBIT_CACHE`, else the user's cache."""
    chosen = os.environ.get("FEDORBIT_CACHE")
    return Path(chosen).expanduser() if chosen else platformdirs.user_cache_path("fedorbit")


def downloads_root() -> Path:
    """Return the folder where downloaded original files are kept."""
    return cache_root() / "downloads"


def dataset_folder(name: str, root: Path | None = None) -> Path:
    """Return where the dataset of this name is or would be kept."""
    if not _NAME.fullmatch(name) or name == "downloads":
        raise DataError(
            f"{name!r} cannot name a dataset; allowed are lower-case letters, digits and . _ - "
            "after a first letter or digit, except the word 'downloads'; choose another name"
        )
    return (root or cache_root()) / name


# --- Reading ------------------------------------------------------------------------------------


def is_prepared(name: str, root: Path | None = None) -> bool:
    """Return whether a dataset of this name has been written, whatever its state."""
    return (dataset_folder(name, root) / "dataset.json").is_file()


def prepared_names(root: Path | None = None) -> tuple[str, ...]:
    """Return the names of all prepared datasets, sorted."""
    found = (root or cache_root()).glob("*/dataset.json")
    return tuple(sorted(path.parent.name for path in found if _NAME.fullmatch(path.parent.name)))


def open_dataset(name: str, root: Path | None = None) -> Dataset:
    """Open a prepared dataset after checking its description and the form of every array."""
    folder = dataset_folder(name, root)
    if not is_prepared(name, root):
        raise DataError(
            f"dataset {name!r} is not prepared (there is no {folder}); prepare it first; "
            f"prepared so far: {', '.join(prepared_names(root)) or 'none'}"
        )
    try:
        return _open(name, folder)
    except DamageError as damage:
        raise DataError(
            f"{folder} is damaged ({damage}); prepare it again with --force"
        ) from damage


def _open(name: str, folder: Path) -> Dataset:
    """Open what is in a folder; whatever is not as it was written is damage."""
    description = read_description(folder / "dataset.json", CACHE_VERSION)
    if (version := description["format_version"]) != CACHE_VERSION:
        raise DataError(
            f"{folder} was written by {'a newer' if version > CACHE_VERSION else 'an older'} "
            f"fedorbit (cache format {str(version)[:20]}, this one reads {CACHE_VERSION}); "
            "prepare it again with --force"
        )
    files, samples = description["files"], description["samples"]
    for file_name, expected in files.items():
        _check_size(folder / file_name, expected["size_bytes"])

    def load(stem: str, dtype: str, *row_shape: int, mapped: bool = False) -> Any:
        if f"{stem}.npy" not in files:
            return None
        return read_array(folder / f"{stem}.npy", dtype, (samples, *row_shape), mapped=mapped)

    images = load("images", description["dtype"], *description["shape"], mapped=True)
    labels, split = load("labels", "int64"), load("split", "uint8")
    coordinates = load("coordinates", "float64", 2)
    check_labels(labels, len(description["class_names"]))
    if split is not None:
        check_split(split)
    if coordinates is not None:
        check_coordinates(coordinates)
    return Dataset(
        name=name,
        images=images,
        labels=labels,
        class_names=tuple(description["class_names"]),
        latitude_deg=None if coordinates is None else coordinates[:, 0],
        longitude_deg=None if coordinates is None else coordinates[:, 1],
        split=split,
        folder=folder,
        description=description,
    )


def verify_dataset(dataset: Dataset, progress: Progress | None = None) -> None:
    """Read every file of a dataset and compare its SHA-256 with the one in `dataset.json`."""
    progress = progress or SilentProgress()
    files: dict[str, dict[str, Any]] = dataset.description["files"]
    progress.start(
        f"verifying {dataset.name}", sum(entry["size_bytes"] for entry in files.values()), "bytes"
    )
    try:
        for file_name, expected in files.items():
            path = dataset.folder / file_name
            _check_size(path, expected["size_bytes"])
            digest = hashlib.sha256()
            with path.open("rb") as file:
                while block := file.read(1 << 20):
                    digest.update(block)
                    progress.advance(len(block))
            if digest.hexdigest() != expected["sha256"]:
                raise DataError(
                    f"{path} has changed since it was written (SHA-256 {digest.hexdigest()}, "
                    f"once {expected['sha256']}); prepare the dataset again with --force"
                )
    finally:
        progress.finish()


def _check_size(path: Path, expected_bytes: int) -> None:
    """Refuse a file that is missing, cut short or grown."""
    if not path.is_file():
        raise DataError(f"{path} is missing; prepare the dataset again with --force")
    if (size_bytes := path.stat().st_size) != expected_bytes:
        raise DataError(
            f"{path} has {size_bytes:,} bytes instead of {expected_bytes:,}; "
            "prepare the dataset again with --force"
        )


# --- Writing ------------------------------------------------------------------------------------

_held = threading.local()


@contextmanager
def dataset_lock(
    name: str, root: Path | None = None, progress: Progress | None = None
) -> Iterator[None]:
    """Be the only writer of this name; a second process waits. Reentrant within a thread."""
    folder = dataset_folder(name, root)
    held: set[Path] = _held.__dict__.setdefault("folders", set())
    if folder in held:
        yield
        return
    lock_path = folder.with_name(f".{name}.lock")
    with ExitStack() as until_the_end:
        with _blame_disk(lock_path):
            lock_path.parent.mkdir(parents=True, exist_ok=True)
            is_ours = until_the_end.enter_context(locked(lock_path))
        if not is_ours:
            progress = progress or SilentProgress()
            progress.start(f"waiting for another process that prepares {name}", 0, "")
            try:
                until_the_end.enter_context(locked(lock_path, math.inf))
            finally:
                progress.finish()
        held.add(folder)
        until_the_end.callback(held.remove, folder)
        yield


def remove_dataset(name: str, root: Path | None = None) -> int:
    """Delete a prepared dataset, also a damaged one; return how many bytes that frees."""
    folder = dataset_folder(name, root)
    if not is_prepared(name, root):
        raise DataError(
            f"dataset {name!r} is not prepared, so there is nothing to remove; "
            f"prepared are: {', '.join(prepared_names(root)) or 'none'}"
        )
    with dataset_lock(name, root):
        freed_bytes = folder_bytes(folder)
        removed = _hidden(folder, "partial")  # if this process dies, the next writer removes it
        with _blame_disk(folder):
            folder.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
    return freed_bytes


def folder_bytes(folder: Path) -> int:
    """Return the size of all files in a folder; 0 if there is none."""
    return sum(file.stat().st_size for file in folder.glob("*") if file.is_file())


def write_dataset(
    name: str,
    stream: ImageStream,
    *,
    source: str,
    options: dict[str, Any],
    progress: Progress | None,
    root: Path | None = None,
) -> Dataset:
    """Write a stream as the dataset `name`, replacing any dataset of that name when complete.

    Whatever goes wrong, the partial folder is removed and an existing dataset stays as it was.
    """
    folder = dataset_folder(name, root)
    if stream.samples < 1:
        raise DataError(f"source {source} has no image for dataset {name}; give it some")
    with dataset_lock(name, root, progress):
        _tidy_up(folder)
        _check_free_space(folder, stream)
        partial = _hidden(folder, "partial")
        try:
            with _blame_disk(folder):
                partial.mkdir()
            files, notes = _write_arrays(partial, folder, stream, progress or SilentProgress())
            description = {
                "format_version": CACHE_VERSION,
                "name": name,
                "source": source,
                "samples": stream.samples,
                "shape": list(stream.image_shape),
                "dtype": stream.dtype.name,
                "class_names": list(stream.class_names),
                "origin": stream.origin,
                "notes": [*stream.notes, *notes],
                "options": options,
                "title": stream.title,
                "bands": list(stream.bands),
                "file_bands": stream.file_bands,
                "kept_bands": list(stream.kept_bands),
                "files": files,
                "fedorbit_version": __version__,
            }
            text = json.dumps(description, indent=2, ensure_ascii=False)
            # A path may hold bytes that are not UTF-8; as escapes JSON takes them.
            encoded = text.encode(errors="backslashreplace")
            _write_file(partial, folder / "dataset.json", len(encoded), [encoded])
            with _blame_disk(folder):
                _move_into_place(partial, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)  # gone already if it was moved
        return open_dataset(name, root)


def _write_arrays(
    partial: Path, folder: Path, stream: ImageStream, progress: Progress
) -> tuple[dict[str, dict[str, Any]], list[str]]:
    """Write all arrays of the stream; return size and SHA-256 of each file, and notes."""
    notes = []
    small: dict[str, list[NDArray[Any]]] = {"labels": [], "coordinates": [], "split": []}

    def images() -> Iterator[NDArray[Any]]:
        received = 0
        for chunk in stream.chunks:
            stream.check(chunk, received)
            small["labels"].append(chunk.labels.astype(np.int64, copy=False))
            if chunk.latitude_deg is not None and chunk.longitude_deg is not None:
                small["coordinates"].append(np.stack([chunk.latitude_deg, chunk.longitude_deg], 1))
            if chunk.split is not None:
                small["split"].append(chunk.split)
            received += len(chunk.labels)
            yield chunk.images
            progress.advance(len(chunk.labels))

    progress.start(f"preparing {folder.name}", stream.samples, "images")
    try:
        shape = (stream.samples, *stream.image_shape)
        files = {
            "images.npy": _write_npy(partial, folder / "images.npy", shape, stream.dtype, images())
        }
    finally:
        progress.finish()
    for stem, parts in small.items():
        # Labels come with every image; coordinates and split with all of them or with none.
        if not parts and stem != "labels":
            continue
        array = np.concatenate(parts) if parts else np.empty(0, np.int64)
        if len(array) != stream.samples:
            raise DataError(
                f"{stem} of {folder.name} came for {len(array):,} of the {stream.samples:,} images "
                "announced; check that the source is complete and prepare it again"
            )
        if stem == "coordinates" and (unknown := int(np.isnan(array).any(axis=1).sum())):
            if unknown == len(array):
                continue
            notes.append(f"{unknown:,} of {len(array):,} images have no coordinates")
        path = folder / f"{stem}.npy"
        files[path.name] = _write_npy(partial, path, array.shape, array.dtype, [array])
    return files, notes


def _write_npy(
    partial: Path,
    path: Path,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    arrays: Iterable[NDArray[Any]],
) -> dict[str, Any]:
    """Write one array of which the rows come in pieces."""
    header = io.BytesIO()
    np.lib.format.write_array_header_2_0(
        header,
        {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape},
    )

    def pieces() -> Iterator[Any]:
        yield header.getvalue()
        for array in arrays:
            if array.size:
                yield np.ascontiguousarray(array)

    needed_bytes = len(header.getvalue()) + math.prod(shape) * dtype.itemsize
    return _write_file(partial, path, needed_bytes, pieces())


def _write_file(
    partial: Path, path: Path, needed_bytes: int, pieces: Iterable[Any]
) -> dict[str, Any]:
    """Write a file front to back, hashing on the way; `path` is its name once it is in place.

    Plain writes on purpose: on a full disk, a write through a memory map kills the process.
    """
    digest, size_bytes = hashlib.sha256(), 0
    with _blame_disk(path, needed_bytes):
        file = (partial / path.name).open("xb", buffering=0)
    with file:
        for piece in pieces:
            data = memoryview(piece).cast("B")
            digest.update(data)
            size_bytes += len(data)
            with _blame_disk(path, needed_bytes):
                while data:  # an unbuffered write may take only a part
                    data = data[file.write(data) :]
        with _blame_disk(path, needed_bytes):
            os.fsync(file.fileno())
    return {"sha256": digest.hexdigest(), "size_bytes": size_bytes}


@contextmanager
def _blame_disk(path: Path, needed_bytes: int | None = None) -> Iterator[None]:
    """Turn a failed write into one sentence that names the file and the space it needs."""
    try:
        yield
    except OSError as error:
        needs = f" (it needs {needed_bytes:,} bytes)" if needed_bytes else ""
        remedy = "free some space" if error.errno in DISK_FULL else "check its permissions"
        raise DataError(
            f"{path} cannot be written{needs}: {error.strerror or error}; {remedy} "
            "or set FEDORBIT_CACHE to another folder"
        ) from error


def _check_free_space(folder: Path, stream: ImageStream) -> None:
    """Refuse to begin what cannot fit."""
    image_bytes = math.prod(stream.image_shape) * stream.dtype.itemsize
    # 25 bytes for label, coordinates and split of a sample, 64 KiB for headers and description.
    needed_bytes = stream.samples * (image_bytes + 25) + (1 << 16)
    if (free_bytes := shutil.disk_usage(folder.parent).free) < needed_bytes:
        raise DataError(
            f"{folder} needs {needed_bytes:,} bytes but only {free_bytes:,} are free; "
            "free some space or set FEDORBIT_CACHE to a folder on a larger disk"
        )


def _hidden(folder: Path, kind: str) -> Path:
    """Return a new name beside the dataset that no reader looks at."""
    return folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.{kind}")


def _move_into_place(partial: Path, folder: Path) -> None:
    """Rename the complete dataset to its name; an old one steps aside first and is then deleted."""
    old = _hidden(folder, "old")
    try:
        if folder.exists():
            folder.rename(old)
        partial.rename(folder)
    finally:
        if old.exists() and not folder.exists():  # interrupted between the two
            old.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _tidy_up(folder: Path) -> None:
    """Remove what dead processes left of this name; the lock is held, so none is alive.

    A process killed between its two renames left the old dataset aside: that one comes back.
    """
    left_behind = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}\.(partial|old)")
    for path in [path for path in folder.parent.iterdir() if left_behind.fullmatch(path.name)]:
        if path.suffix == ".old" and not folder.exists():
            path.rename(folder)
        else:
            shutil.rmtree(path, ignore_errors=True)
