"""Interface of all sources: a stream of images in chunks, with their labels.

A source reads (`data/eurosat.py`, `data/so2sat.py`, …); only `data/cache.py` writes. Between the
two stands an `ImageStream`, so that a dataset larger than memory passes through in pieces.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import DataError

TRAIN, TEST, VALIDATION = 0, 1, 2
"""Codes of an official split."""


Images = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.float32]
"""Pixels in one of the types that train; nothing else is kept."""


@dataclass(frozen=True)
class Chunk:
    """Some consecutive samples. `images` is `[n, height, width, channels]`."""

    images: Images
    labels: NDArray[np.int64]
    latitude_deg: NDArray[np.float64] | None = None
    longitude_deg: NDArray[np.float64] | None = None
    split: NDArray[np.uint8] | None = None


@dataclass(frozen=True)
class ImageStream:
    """A dataset about to be read: its size is known, its images come in chunks.

    `origin` says where the images came from (file name, checksum, generator settings …) and ends
    up in the cache's description. `notes` are remarks for the user, such as a missing sample.
    `bands` names the channels where they have names. Where some bands of a file are kept,
    `kept_bands` are their numbers, from 1, among its `file_bands`. `title` is the dataset's name in
    tables; empty: the name of its source.
    """

    samples: int
    image_shape: tuple[int, int, int]
    dtype: np.dtype[Any]
    class_names: tuple[str, ...]
    chunks: Iterator[Chunk]
    origin: dict[str, str]
    notes: tuple[str, ...] = ()
    bands: tuple[str, ...] = ()
    file_bands: int = 0
    kept_bands: tuple[int, ...] = ()
    title: str = ""

    def check(self, chunk: Chunk, start: int) -> None:
        """Refuse a chunk, whose first sample is number `start`, that is not as announced."""
        images, labels = chunk.images, chunk.labels
        where = f"images {start} to {start + len(images) - 1}"
        if images.shape[1:] != self.image_shape or images.dtype != self.dtype:
            raise DataError(
                f"{where} are {images.shape[1:]} {images.dtype}, but the source announced "
                f"{self.image_shape} {self.dtype}; correct the source"
            )
        if start + len(images) > self.samples:
            raise DataError(
                f"{where} go beyond the {self.samples:,} that the source announced; "
                "correct the source"
            )
        beside = (labels, chunk.latitude_deg, chunk.longitude_deg, chunk.split)
        if any(array is not None and array.shape != (len(images),) for array in beside):
            raise DataError(
                f"{where} do not come with one label, place and split code each; correct the source"
            )
        if len(labels) and not 0 <= labels.min() <= labels.max() < len(self.class_names):
            raise DataError(
                f"{where} have labels from {labels.min()} to {labels.max()}; allowed are 0 to "
                f"{len(self.class_names) - 1}; correct the source"
            )
        if images.dtype == np.float32 and not np.isfinite(images).all():
            first = start + int(np.argmin(np.isfinite(images).all(axis=(1, 2, 3))))
            raise DataError(
                f"{where} hold values that are not finite (first in image {first}); "
                "repair these images in the source or leave them out"
            )
