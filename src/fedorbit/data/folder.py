"""Any images in class folders, and what all datasets of that kind share.

EuroSAT and RESISC45 are such folders with a stricter `ImageRule`. Pixels are decoded in threads,
in order, and never more than a few chunks at a time. Places come from a CSV file
(`data/coordinates.py`), else from the tags of GeoTIFFs (`data/geotiff.py`).
"""

import math
import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.data import bands as band_choice
from fedorbit.data.containers import origin
from fedorbit.data.coordinates import find_beside, locate
from fedorbit.data.imagetree import ImageTree, TreeFile, open_tree
from fedorbit.data.limits import Limits
from fedorbit.data.pixels import Picture, Pixels, open_picture, pillow_limits, resized
from fedorbit.data.stream import Chunk, ImageStream
from fedorbit.errors import DataError

COORDINATES_FILE = "coordinates.csv"

_CHUNK_IMAGES = 512
_CHUNK_BYTES = 1 << 24  # of files or of pixels: bounds memory whatever the size of an image


@contextmanager
def open_images(path: Path, limits: Limits | None = None) -> Iterator[ImageTree]:
    """Open a folder or archive of images and hold Pillow to the same limits meanwhile."""
    limits = limits or Limits()
    with open_tree(path, limits) as tree, pillow_limits(limits):
        yield tree


@contextmanager
def open_stream(
    path: Path,
    *,
    limits: Limits | None = None,
    size: int | None = None,
    geo: Path | None = None,
    bands: str | None = None,
    sensor: str | None = None,
    layout: str | None = None,
) -> Iterator[ImageStream]:
    """Read a folder or archive of class folders; the first image decides what all others must be.

    `size` resizes every image to a square; without it all must be of one size. `geo` is a CSV of
    coordinates, looked for as `coordinates.csv` in or beside `path` if not given. `bands` and
    `sensor` choose bands (`data/bands.py`). `layout` is `hwc` or `chw`, for `.npy` images.
    """
    with open_images(path, limits) as tree:
        first = probe(tree, layout)
        where = tree.where(tree.files[0])
        names = band_choice.named(sensor, first.bands, first.channels, where)
        keep, names = band_choice.chosen(bands, names, first.channels, where)
        what = f"{first.channels} channel(s) of {first.dtype}"
        if size is None:
            what = f"{first.width}x{first.height} of {what}"
        rule = ImageRule(
            channels=first.channels,
            dtype=first.dtype,
            width=first.width if size is None else None,
            height=first.height if size is None else None,
            resize_to=size,
            expected=f"the first image, {where}, is {what}",
            remedy=f"convert it, or pass --size {min(first.width, first.height)} if only sizes "
            "differ"
            if size is None
            else "convert one of them",
            keep=keep,
            bands=names,
            layout=layout,
        )
        geo = geo or find_beside(path, COORDINATES_FILE)
        yield image_stream(tree, rule, geo)


@dataclass(frozen=True)
class ImageRule:
    """Requirements on every image, the channels that are kept, and the side it is resized to.

    `keep` are the places of the channels to keep, from 0; empty, all are kept as they are.
    `width` and `height` of None allow any size. `expected` and `remedy` complete the sentence of
    an error: "x.jpg is 32x64 pixels, but {expected}; {remedy}". `bands` names what is kept.
    """

    channels: int
    width: int | None
    height: int | None
    resize_to: int | None
    expected: str
    remedy: str
    dtype: np.dtype[Any] = np.dtype(np.uint8)  # noqa: RUF009 (a value that does not change)
    keep: tuple[int, ...] = ()
    bands: tuple[str, ...] = ()
    layout: str | None = None

    @classmethod
    def originals(
        cls,
        dataset: str,
        side: int,
        resize_to: int,
        *,
        channels: int = 3,
        dtype: type[np.uint8] | type[np.uint16] = np.uint8,
        keep: tuple[int, ...] = (),
        bands: tuple[str, ...] = (),
    ) -> "ImageRule":
        """Return the rule of a dataset whose images are squares of one size, in colour."""
        expected = f"every {dataset} image is {side}x{side} with {channels} channels of "
        expected += np.dtype(dtype).name
        remedy = "get the original archive again"
        return cls(channels, side, side, resize_to, expected, remedy, np.dtype(dtype), keep, bands)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of what comes out."""
        channels = len(self.keep) or self.channels
        if self.resize_to is not None:
            return self.resize_to, self.resize_to, channels
        assert self.height is not None and self.width is not None, "a rule fixes the output size"
        return self.height, self.width, channels

    def apply(self, picture: Picture, where: str) -> Pixels:
        """Return the pixels, exactly as decoded unless the rule resizes; refuse other images."""
        if self.width is not None and (picture.width, picture.height) != (self.width, self.height):
            what = f"is {picture.width}x{picture.height} pixels"
        elif picture.channels != self.channels:
            what = f"has {picture.channels} channel(s)"
        elif picture.dtype != self.dtype:
            what = f"holds {picture.dtype} values"
        else:
            pixels = picture.decode()
            if self.keep:
                pixels = pixels[:, :, self.keep]
            return pixels if self.resize_to is None else resized(pixels, self.resize_to)
        raise DataError(f"{where} {what}, but {self.expected}; {self.remedy}")


def probe(tree: ImageTree, layout: str | None = None) -> Picture:
    """Return the header of the first image."""
    first = tree.files[0]
    return open_picture(tree.read(first), tree.where(first), tree.limits, layout)


def image_stream(
    tree: ImageTree,
    rule: ImageRule,
    geo: Path | None = None,
    *,
    notes: tuple[str, ...] = (),
    title: str = "",
) -> ImageStream:
    """Return the images of a tree, decoded while they are asked for; the tree must stay open.

    Places come from the file `geo`, else from the images themselves; NaN where they are unknown.
    """
    if rule.resize_to is not None and rule.resize_to < 1:
        raise DataError(f"size is {rule.resize_to}; it must be at least 1 pixel; set --size")
    labels = np.array([file.label for file in tree.files], np.int64)
    listed = None if geo is None else locate(tree, geo)

    def chunks() -> Iterator[Chunk]:
        start = 0
        for images, tagged in _decoded(tree, rule):
            part = slice(start, start + len(images))
            start += len(images)
            places = tagged if listed is None else listed[part]
            yield Chunk(images, labels[part], places[:, 0], places[:, 1])

    return ImageStream(
        samples=len(tree.files),
        image_shape=rule.shape,
        dtype=rule.dtype,
        class_names=tree.class_names,
        chunks=chunks(),
        origin=origin(tree.path),
        notes=(*tree.notes, *notes),
        bands=rule.bands,
        file_bands=rule.channels if rule.keep else 0,
        kept_bands=tuple(place + 1 for place in rule.keep),
        title=title,
    )


_Decoded = tuple[Pixels, NDArray[np.float64]]


def _decoded(tree: ImageTree, rule: ImageRule) -> Iterator[_Decoded]:
    """Yield images and places in order: this thread reads, the pool decodes a few chunks ahead."""

    def decode_all(batch: list[tuple[TreeFile, bytes]]) -> _Decoded:
        images = np.empty((len(batch), *rule.shape), rule.dtype)
        places = np.full((len(batch), 2), np.nan)
        for row, (file, content) in enumerate(batch):
            where = tree.where(file)
            picture = open_picture(content, where, tree.limits, rule.layout)
            images[row] = rule.apply(picture, where)
            if picture.place is not None:
                places[row] = picture.place
        return images, places

    workers = os.cpu_count() or 1
    pool = ThreadPoolExecutor(workers)
    ahead: deque[Future[_Decoded]] = deque()
    image_bytes = math.prod(rule.shape) * rule.dtype.itemsize
    try:
        for batch in _batches(tree, max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // image_bytes))):
            ahead.append(pool.submit(decode_all, batch))
            if len(ahead) > workers:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


def _batches(tree: ImageTree, most: int) -> Iterator[list[tuple[TreeFile, bytes]]]:
    """Yield files with their bytes, at most so many at a time."""
    batch: list[tuple[TreeFile, bytes]] = []
    batch_bytes = 0
    for file in tree.files:
        batch.append((file, tree.read(file)))
        batch_bytes += len(batch[-1][1])
        if len(batch) == most or batch_bytes >= _CHUNK_BYTES:
            yield batch
            batch, batch_bytes = [], 0
    if batch:
        yield batch
