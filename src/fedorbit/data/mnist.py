"""MNIST: 70,000 grey images of 28x28 pixels, handwritten digits, with an official split.

Four IDX files, gzip-compressed as published or not: a header (two zero bytes, a type, the number of
dimensions, then each as 4 bytes, most significant first) and the values, the last index fastest.

LeCun et al., "Gradient-Based Learning Applied to Document Recognition", Proceedings of the IEEE
86(11), 1998.
"""

import gzip
import math
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.containers import blame_file, origin
from fedorbit.data.limits import Limits, read_exactly
from fedorbit.data.stream import TEST, TRAIN, Chunk, ImageStream
from fedorbit.errors import DataError
from fedorbit.inputs import open_regular

CLASS_NAMES = tuple("0123456789")
SAMPLES = 70_000
SHAPE = (28, 28, 1)
PARTS = {
    TRAIN: ("train-images-idx3-ubyte", "train-labels-idx1-ubyte"),
    TEST: ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"),
}

_UNSIGNED_BYTES = 8


def find_files(path: Path) -> dict[str, Path]:
    """Return the four files by name, with or without `.gz`, at a folder or beside one of them."""
    folder = path if path.is_dir() else path.parent
    names = [name for pair in PARTS.values() for name in pair]
    found = {
        name: file
        for name in names
        for file in (folder / name, folder / f"{name}.gz")
        if file.is_file()
    }
    if absent := [name for name in names if name not in found]:
        raise DataError(
            f"{path} is not MNIST (missing there: {', '.join(absent)}, with or without .gz); give "
            "the folder that holds its four files"
        )
    return found


@contextmanager
def open_stream(path: Path, *, limits: Limits | None = None) -> Iterator[ImageStream]:
    """Read MNIST with its split, pixels exactly as published."""
    limits, files = limits or Limits(), find_files(path)
    parts = []
    for split, (images_name, labels_name) in PARTS.items():
        images = read_idx(files[images_name], 3, limits)
        labels = read_idx(files[labels_name], 1, limits)
        if images.shape[1:] != SHAPE[:2] or len(images) != len(labels):
            raise DataError(
                f"{files[images_name]} holds {images.shape} and {files[labels_name].name} "
                f"{labels.shape} values; needed are (n, 28, 28) and (n,); get them again"
            )
        split_codes = np.full(len(labels), split, np.uint8)
        parts.append(Chunk(images[..., None], labels.astype(np.int64), split=split_codes))
    samples = sum(len(part.labels) for part in parts)
    yield ImageStream(
        samples=samples,
        image_shape=SHAPE,
        dtype=np.dtype(np.uint8),
        class_names=CLASS_NAMES,
        chunks=iter(parts),
        origin={file.name: origin(file)["sha256"] for file in files.values()},
        notes=()
        if samples == SAMPLES
        else (f"the files hold {samples:,} images; published are {SAMPLES:,}",),
    )


def read_idx(path: Path, dimensions: int, limits: Limits) -> NDArray[np.uint8]:
    """Return the bytes of an IDX file of so many dimensions."""
    with blame_file(str(path)), open_regular(path) as raw:
        file = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        magic = bytes((0, 0, _UNSIGNED_BYTES, dimensions))
        if (start := file.read(4)) != magic:
            raise ValueError(f"it begins with {start.hex()} instead of {magic.hex()}")
        shape = struct.unpack(f">{dimensions}I", file.read(4 * dimensions))
        limits.require_image(str(path), "announces", math.prod(shape))
        return np.frombuffer(read_exactly(file, math.prod(shape)), np.uint8).reshape(shape)
