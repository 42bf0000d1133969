"""HDF5 files with care: one can point to other files, and announce more than it holds."""

import math
from pathlib import Path
from typing import Any

from fedorbit.errors import DataError


def open_file(path: Path) -> Any:
    """Open an HDF5 file for reading."""
    import h5py  # slow to import: only commands that read HDF5 wait for it

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise DataError(f"{path} is not a whole HDF5 file ({error}); get it again") from error


def own_dataset(file: Any, name: str, where: str) -> Any:
    """Return what a file holds by this name, or None; refuse what lies in other files."""
    import h5py

    link = file.get(name, getlink=True)
    found = file.get(name) if isinstance(link, h5py.HardLink) else None
    elsewhere = isinstance(found, h5py.Dataset) and bool(found.external or found.is_virtual)
    if link is not None and (found is None or elsewhere):
        raise DataError(
            f"{where} is a link, or is kept in other files, which are not read; "
            "give an original file"
        )
    return found


def chunk_bytes(dataset: Any) -> int:
    """Return how much has to be in memory to read one chunk and the rows it is part of."""
    if not dataset.chunks:
        return 0
    row = (max(pair) for pair in zip(dataset.chunks[1:], dataset.shape[1:], strict=True))
    return math.prod((dataset.chunks[0], *row)) * int(dataset.dtype.itemsize)
