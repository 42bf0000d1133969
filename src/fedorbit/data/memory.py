"""Images in memory, once: read from the file of a prepared dataset, only those that are used."""

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.stream import Images
from fedorbit.errors import DataError
from fedorbit.inputs import open_regular


def in_memory(images: Images, used: NDArray[np.int64]) -> Images:
    """Return a copy of mapped images; those that are not `used` are black and take no memory.

    They are read, not copied from the map, whose pages would stay in memory beside the copy.
    """
    if not isinstance(images, np.memmap) or images.filename is None:
        return images.copy()
    wanted = np.unique(used)
    copy: Any = _blank(images, whole=len(wanted) == len(images))
    # Runs of consecutive samples: each is one read.
    runs = np.split(wanted, np.flatnonzero(np.diff(wanted) != 1) + 1) if len(wanted) else []
    row_bytes = math.prod(images.shape[1:]) * images.itemsize
    with open_regular(Path(images.filename)) as file:
        for run in runs:
            file.seek(images.offset + int(run[0]) * row_bytes)
            part = memoryview(copy[run[0] : run[-1] + 1]).cast("B")
            while part:
                if not (count := file.readinto(part)):
                    raise DataError(
                        f"{images.filename} was cut short; prepare it again with --force"
                    )
                part = part[count:]
    return copy


def _blank(like: Images, *, whole: bool) -> NDArray[Any]:
    """Return an array like another; unless all of it will be filled, of pages that cost nothing."""
    if whole or not like.size:
        return np.empty(like.shape, like.dtype)
    pages = mmap.mmap(-1, like.nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_NOHUGEPAGE"):  # a huge page would be in memory for one small image
        pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, like.dtype).reshape(like.shape)
