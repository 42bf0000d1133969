"""Arrays in `.npz`, `.npy` and HDF5 files, read in slabs: they may be larger than memory."""

import math
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.data import hdf5
from fedorbit.data.containers import blame_file
from fedorbit.data.limits import Limits, read_exactly
from fedorbit.data.pixels import read_npy_header
from fedorbit.errors import DataError
from fedorbit.inputs import open_regular


@dataclass(frozen=True)
class StoredArray:
    """An array in a file; `slabs(rows)` yields so many rows at a time, in order."""

    where: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    slabs: Callable[[int], Iterator[NDArray[Any]]]

    def whole(self) -> NDArray[Any]:
        """Return all of it, for what is small."""
        return np.concatenate([np.empty((0, *self.shape[1:]), self.dtype), *self.slabs(1 << 16)])


def open_arrays(path: Path, limits: Limits, stack: ExitStack) -> dict[str, StoredArray]:
    """Return the arrays at a path by name; refuse more than the limits allow."""
    suffix = path.suffix.lower()
    if path.is_dir():
        arrays = _npy_files(path)
    elif suffix == ".npz" and path.is_file():
        arrays = _npz_members(path, stack)
    elif suffix in (".h5", ".hdf5") and path.is_file():
        arrays = _hdf5_datasets(path, limits, stack)
    else:
        raise DataError(f"{path} is no .npz, .h5 or .hdf5 file and no folder of .npy files")
    for array in arrays.values():
        if not array.shape:
            raise DataError(f"{array.where} is a single value; an array of samples is needed")
        row = math.prod(array.shape[1:]) * array.dtype.itemsize
        limits.require_image(array.where, "has images of", row)
        limits.require_files(array.where, "samples", array.shape[0])
    total = sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays.values())
    limits.require_total(str(path), "announces", total)
    return arrays


def _npy_array(where: str, open_stream: Callable[[], Any]) -> StoredArray:
    """Return an array that `open_stream` opens anew each time, and read its header."""
    with blame_file(where), open_stream() as file:
        shape, dtype = read_npy_header(file, where)

    def slabs(rows: int) -> Iterator[NDArray[Any]]:
        with open_stream() as file:
            with blame_file(where):
                read_npy_header(file, where)
            left, row_bytes = shape[0], math.prod(shape[1:]) * dtype.itemsize
            while left:
                count = min(rows, left)
                left -= count
                with blame_file(where):
                    # Of the last rows one byte more is asked for: the array must end with them.
                    content = (
                        read_exactly(file, count * row_bytes)
                        if not left
                        else _read(file, count * row_bytes)
                    )
                    slab = np.frombuffer(content, dtype).reshape(count, *shape[1:])
                yield slab

    return StoredArray(where, shape, dtype, slabs)


def _read(file: Any, size_bytes: int) -> bytes:
    content: bytes = file.read(size_bytes)
    if len(content) != size_bytes:
        raise EOFError("it ends before its last row")
    return content


def _npy_files(path: Path) -> dict[str, StoredArray]:
    def opener(file: Path) -> Callable[[], Any]:
        return lambda: open_regular(file)

    files = sorted(file for file in path.iterdir() if file.suffix.lower() == ".npy")
    return {file.stem: _npy_array(str(file), opener(file)) for file in files}


def _npz_members(path: Path, stack: ExitStack) -> dict[str, StoredArray]:
    with blame_file(str(path)):
        archive = stack.enter_context(zipfile.ZipFile(stack.enter_context(open_regular(path))))
        members = [each for each in archive.infolist() if each.filename.endswith(".npy")]
        for each in members:
            if each.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(
                    f"{path}!{each.filename} is compressed in an unusual way; save it anew"
                )

    def opener(member: zipfile.ZipInfo) -> Callable[[], Any]:
        return lambda: archive.open(member)

    return {
        each.filename.removesuffix(".npy"): _npy_array(f"{path}!{each.filename}", opener(each))
        for each in members
    }


def _hdf5_datasets(path: Path, limits: Limits, stack: ExitStack) -> dict[str, StoredArray]:
    import h5py

    file = stack.enter_context(hdf5.open_file(path))
    with blame_file(str(path)):
        names = list(file)
    arrays = {}
    for name in names:
        where = f"{path}: {name}"
        with blame_file(where):
            found = hdf5.own_dataset(file, name, where)
            if not isinstance(found, h5py.Dataset):
                raise DataError(f"{where} is no array; put arrays at the top of the file")
            limits.require_image(where, "is kept in chunks that span", hdf5.chunk_bytes(found))
            arrays[name] = StoredArray(
                where, found.shape or (), found.dtype, _hdf5_slabs(found, where)
            )
    return arrays


def _hdf5_slabs(found: Any, where: str) -> Callable[[int], Iterator[NDArray[Any]]]:
    def slabs(rows: int) -> Iterator[NDArray[Any]]:
        # Whole chunks, so that each is decompressed once.
        unit = found.chunks[0] if found.chunks else 1
        step = max(1, rows // unit) * unit
        for begin in range(0, len(found), step):
            with blame_file(where):
                values: NDArray[Any] = found[begin : begin + step]
            yield values

    return slabs
