"""So2Sat LCZ42, version 2: Sentinel-2 patches of 32x32 pixels and ten bands, urban classes only.

Three HDF5 files, each with `sen2` [n, 32, 32, 10] and one-hot `label` [n, 17]. Of the 17 local
climate zones the ten urban ones, LCZ 1 to 10, are kept: columns 0 to 9. The labels, which are
small, are read first to know what to keep; then the patches pass through in slabs. An HDF5 file can
point to other files, and announce more than it holds: both are refused before anything is read.

Zhu et al., "So2Sat LCZ42: A Benchmark Data Set for the Classification of Global Local Climate
Zones", IEEE Geoscience and Remote Sensing Magazine 8(3), 2020.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.data import hdf5
from fedorbit.data.containers import blame_file
from fedorbit.data.limits import Limits
from fedorbit.data.stream import TEST, TRAIN, VALIDATION, Chunk, ImageStream
from fedorbit.errors import DataError

CLASS_NAMES = (
    "Compact high-rise",
    "Compact mid-rise",
    "Compact low-rise",
    "Open high-rise",
    "Open mid-rise",
    "Open low-rise",
    "Lightweight low-rise",
    "Large low-rise",
    "Sparsely built",
    "Heavy industry",
)
ZONES = 17
PATCH_SHAPE = (32, 32, 10)
FILES = {"training.h5": TRAIN, "validation.h5": VALIDATION, "testing.h5": TEST}

_SLAB_BYTES = 1 << 25


@dataclass(frozen=True)
class _Part:
    """One file of the official split, and which of its samples are kept."""

    path: Path
    patches: Any  # h5py.Dataset
    zones: NDArray[np.int64]
    split: int

    @property
    def kept(self) -> NDArray[np.bool_]:
        """True for samples of an urban class."""
        return self.zones < len(CLASS_NAMES)


def find_files(path: Path) -> list[Path]:
    """Return the files of the official split that lie at `path`, a folder or `training.h5`."""
    folder = path if path.is_dir() else path.parent
    found = [folder / name for name in FILES if (folder / name).is_file()]
    if not (path.is_dir() or path in found) or len(found) < 2 or found[0].name != "training.h5":
        raise DataError(
            f"{path} is not So2Sat LCZ42 (found there: {', '.join(p.name for p in found) or 'none'}"
            " of its files); give the folder that holds training.h5 and testing.h5 or validation.h5"
        )
    return found


@contextmanager
def open_stream(path: Path, *, limits: Limits | None = None) -> Iterator[ImageStream]:
    """Read the urban classes as float32. Without testing.h5, validation.h5 is the test split."""
    files = find_files(path)
    with ExitStack() as stack:
        parts = [_open_part(file, stack, limits or Limits()) for file in files]
        notes: tuple[str, ...] = ()
        if all(part.split != TEST for part in parts):
            parts = [
                _Part(p.path, p.patches, p.zones, TEST if p.split == VALIDATION else p.split)
                for p in parts
            ]
            notes = ("there is no testing.h5; validation.h5 is the test split",)
        yield ImageStream(
            samples=sum(int(part.kept.sum()) for part in parts),
            image_shape=PATCH_SHAPE,
            dtype=np.dtype(np.float32),
            class_names=CLASS_NAMES,
            chunks=(chunk for part in parts for chunk in _chunks(part)),
            origin={part.path.name: f"{part.path.stat().st_size} bytes" for part in parts},
            notes=notes,
        )


def _open_part(path: Path, stack: ExitStack, limits: Limits) -> _Part:
    """Open one file, check its two datasets and read its labels."""
    file = stack.enter_context(hdf5.open_file(path))
    patches = _dataset(file, path, "sen2", PATCH_SHAPE, limits)
    label = _dataset(file, path, "label", (ZONES,), limits)
    if len(patches) != len(label):
        raise DataError(
            f"{path}: sen2 has {len(patches):,} samples but label has {len(label):,}; get it again"
        )
    one_hot = _read(path, "label", label, slice(None))
    wrong = ((one_hot != 0) & (one_hot != 1)).any(axis=1) | (one_hot.sum(axis=1) != 1)
    if wrong.any():
        raise DataError(
            f"{path}: label of sample {int(wrong.argmax())} is not one-hot; "
            f"each row must hold a single 1 and {ZONES - 1} zeros; get the file again"
        )
    return _Part(path, patches, one_hot.argmax(axis=1).astype(np.int64), FILES[path.name])


def _dataset(file: Any, path: Path, name: str, row_shape: tuple[int, ...], limits: Limits) -> Any:
    """Return a dataset of the file if it is there, of the right shape and within the limits."""
    import h5py

    where = f"{path}: {name}"
    with blame_file(where):
        dataset = hdf5.own_dataset(file, name, where)
        rows = f"[n, {', '.join(map(str, row_shape))}]"
        if not isinstance(dataset, h5py.Dataset):
            raise DataError(
                f"{path} has no dataset {name!r} (it has {', '.join(file) or 'none'}); "
                f"{name} {rows} is needed; give an original file"
            )
        shape = dataset.shape or ()
        if shape[1:] != row_shape or not shape or dataset.dtype.kind not in "fiu":
            raise DataError(
                f"{where} is {list(shape)} {dataset.dtype}; "
                f"numbers of shape {rows} are needed; give an original file"
            )
        limits.require_files(where, "samples", len(dataset))
        limits.require_total(where, "announces", dataset.nbytes)
        limits.require_image(where, "is kept in chunks that span", hdf5.chunk_bytes(dataset))
    return dataset


def _read(path: Path, name: str, dataset: Any, rows: slice) -> NDArray[Any]:
    """Return some rows of a dataset."""
    with blame_file(f"{path}: {name}"):
        values: NDArray[Any] = dataset[rows]
        return values


def _chunks(part: _Part) -> Iterator[Chunk]:
    """Yield the kept samples of one file, reading every HDF5 chunk whole and once."""
    samples = len(part.zones)
    unit = part.patches.chunks[0] if part.patches.chunks else 1
    slab = max(1, _SLAB_BYTES // (unit * int(np.prod(PATCH_SHAPE)) * part.patches.dtype.itemsize))
    for start in range(0, samples, slab * unit):
        rows = slice(start, min(start + slab * unit, samples))
        kept = part.kept[rows]
        if not kept.any():
            continue
        with np.errstate(over="ignore"):  # too large for float32 is infinite, and refused as such
            images = _read(part.path, "sen2", part.patches, rows)[kept].astype(np.float32)
        labels = part.zones[rows][kept]
        yield Chunk(images, labels, split=np.full(len(labels), part.split, np.uint8))
