"""Any images in class folders, and what all datasets of that kind share: pixels and places.

EuroSAT and RESISC45 are such folders with a stricter `ImageRule`. Pixels are decoded in threads,
in order, and never more than a few chunks at a time. Places come from a CSV file with the columns
`name`, `latitude_deg` and `longitude_deg`, where a name is an image file's name with or without
its suffix, alone (`Forest_12`) or after its class (`Forest/Forest_12`). Headers announce how large
an image is; one beyond `data/limits.py` is refused before its pixels are decoded.
"""

import csv
import math
import os
import warnings
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO, StringIO
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from fedorbit.data.imagetree import ImageTree, TreeFile, blame_file, open_tree
from fedorbit.data.limits import Limits
from fedorbit.data.stream import Chunk, ImageStream
from fedorbit.errors import DataError
from fedorbit.inputs import read_regular

COORDINATES_FILE = "coordinates.csv"

_CHUNK_IMAGES = 512
_CHUNK_BYTES = 1 << 24  # of files or of pixels: bounds memory whatever the size of an image
_COORDINATES_BYTES = 1 << 27  # of a CSV file: 2 million rows of 64 characters
# What the suffixes of `data/imagetree.py` stand for. Pillow knows more, and recognises them by
# content: some call other programs.
_FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM")


@contextmanager
def open_images(path: Path, limits: Limits | None = None) -> Iterator[ImageTree]:
    """Open a folder or archive of images and hold Pillow to the same limits meanwhile."""
    limits = limits or Limits()
    with open_tree(path, limits) as tree, pillow_within(limits):
        yield tree


@contextmanager
def pillow_within(limits: Limits) -> Iterator[None]:
    """Hold Pillow to the limits of a source."""
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        # Pillow refuses what has twice as many pixels, and warns of what has more.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        Image.MAX_IMAGE_PIXELS = limits.image_bytes
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


@contextmanager
def open_stream(
    path: Path,
    *,
    limits: Limits | None = None,
    size: int | None = None,
    geo: Path | None = None,
) -> Iterator[ImageStream]:
    """Read a folder or archive of class folders; the first image decides what all others must be.

    `size` resizes every image to a square; without it all must be of one size. `geo` is a CSV of
    coordinates, looked for as `coordinates.csv` in or beside `path` if not given.
    """
    with open_images(path, limits) as tree:
        width, height, channels = probe(tree)
        first = tree.where(tree.files[0])
        if size is None:
            rule = ImageRule(
                channels=channels,
                width=width,
                height=height,
                resize_to=None,
                expected=f"the first image, {first}, is {width}x{height} of {channels} channel(s)",
                remedy=f"convert it, or pass --size {min(width, height)} if only sizes differ",
            )
        else:
            rule = ImageRule(
                channels=channels,
                width=None,
                height=None,
                resize_to=size,
                expected=f"the first image, {first}, has {channels} channel(s)",
                remedy="convert one of them",
            )
        places = locate(tree, geo or find_beside(path, COORDINATES_FILE))
        yield image_stream(tree, rule, places)


# --- Pixels -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageRule:
    """What every image must be, and the side it is resized to.

    `width` and `height` of None allow any size. `expected` and `remedy` complete the sentence of
    an error: "x.jpg is 32x64 pixels, but {expected}; {remedy}".
    """

    channels: int
    width: int | None
    height: int | None
    resize_to: int | None
    expected: str
    remedy: str

    @classmethod
    def originals(cls, dataset: str, side: int, resize_to: int) -> "ImageRule":
        """Return the rule of a dataset whose images are squares of one size, in colour."""
        expected = f"every {dataset} image is {side}x{side} with 3 channels"
        return cls(3, side, side, resize_to, expected, "get the original archive again")


@dataclass(frozen=True)
class Places:
    """Where the images of a tree were taken; None without a coordinate file, NaN where unknown."""

    latitude_deg: NDArray[np.float64] | None = None
    longitude_deg: NDArray[np.float64] | None = None
    notes: tuple[str, ...] = ()


def probe(tree: ImageTree) -> tuple[int, int, int]:
    """Return width, height and channels of the first image."""
    image = _open_image(tree.read(tree.files[0]), tree.where(tree.files[0]), tree.limits)
    return (*image.size, 1 if image.mode == "L" else 3)


def image_stream(
    tree: ImageTree, rule: ImageRule, places: Places, notes: tuple[str, ...] = ()
) -> ImageStream:
    """Return the images of a tree, decoded while they are asked for; the tree must stay open."""
    if rule.resize_to is not None:
        if rule.resize_to < 1:
            raise DataError(f"size is {rule.resize_to}; it must be at least 1 pixel; set --size")
        height = width = rule.resize_to
    else:
        assert rule.height is not None and rule.width is not None, "a rule fixes the output size"
        height, width = rule.height, rule.width
    shape = (height, width, rule.channels)
    labels = np.array([file.label for file in tree.files], np.int64)

    def chunks() -> Iterator[Chunk]:
        start = 0
        for images in _decoded(tree, rule, shape):
            part = slice(start, start + len(images))
            start += len(images)
            yield Chunk(
                images,
                labels[part],
                None if places.latitude_deg is None else places.latitude_deg[part],
                None if places.longitude_deg is None else places.longitude_deg[part],
            )

    return ImageStream(
        samples=len(tree.files),
        image_shape=shape,
        dtype=np.dtype(np.uint8),
        class_names=tree.class_names,
        chunks=chunks(),
        origin=tree.origin(),
        notes=(*tree.notes, *notes, *places.notes),
    )


def _decoded(
    tree: ImageTree, rule: ImageRule, shape: tuple[int, int, int]
) -> Iterator[NDArray[np.uint8]]:
    """Yield the images in order: this thread reads, the pool decodes a few chunks ahead."""

    def decode_all(batch: list[tuple[TreeFile, bytes]]) -> NDArray[np.uint8]:
        images = np.empty((len(batch), *shape), np.uint8)
        for image, (file, content) in zip(images, batch, strict=True):
            image[:] = decode_image(content, tree.where(file), rule, tree.limits).reshape(shape)
        return images

    workers = os.cpu_count() or 1
    pool = ThreadPoolExecutor(workers)
    ahead: deque[Future[NDArray[np.uint8]]] = deque()
    try:
        for batch in _batches(tree, max(1, min(_CHUNK_IMAGES, _CHUNK_BYTES // math.prod(shape)))):
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


def decode_image(content: bytes, where: str, rule: ImageRule, limits: Limits) -> NDArray[np.uint8]:
    """Return the pixels of one image, exactly as decoded unless the rule resizes it."""
    image: Image.Image = _open_image(content, where, limits)
    channels = 1 if image.mode == "L" else 3
    if rule.width is not None and image.size != (rule.width, rule.height):
        width, height = image.size
        raise DataError(f"{where} is {width}x{height} pixels, but {rule.expected}; {rule.remedy}")
    if channels != rule.channels:
        raise DataError(f"{where} has {channels} channel(s), but {rule.expected}; {rule.remedy}")
    with blame_file(where):
        image.load()
        if image.mode == "P":
            image = image.convert("RGB")
        if rule.resize_to is not None and image.size != (rule.resize_to, rule.resize_to):
            # Bilinear in Pillow widens its support when it shrinks, so this is antialiased.
            image = image.resize((rule.resize_to, rule.resize_to), Image.Resampling.BILINEAR)
        return np.asarray(image, np.uint8)


def _open_image(content: bytes, where: str, limits: Limits) -> ImageFile.ImageFile:
    """Read an image's header; refuse too many pixels, and modes that are not 8-bit grey or RGB."""
    with blame_file(where):
        try:
            image = Image.open(BytesIO(content), formats=_FORMATS)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise DataError(
                f"{where} has too many pixels ({str(error).rstrip('.')}); allowed are "
                f"{limits.image_bytes:,} bytes of them; leave it out, or raise --max-image-mb if "
                "it is genuine"
            ) from error
    mode = image.mode
    pixels_bytes = math.prod(image.size) * (1 if mode == "L" else 3)
    limits.require_image(where, f"is {image.width}x{image.height} pixels, decoded", pixels_bytes)
    if mode == "P" and "transparency" in image.info:
        mode = "P with transparency"
    if any(";16" in str(tile) for tile in image.tile):  # Pillow would silently drop the low byte
        mode = "16 bit"
    if mode not in {"L", "RGB", "P"}:
        raise DataError(
            f"{where} is of mode {mode}; allowed are 8-bit grey (L), RGB and opaque palette (P) "
            "images; convert it to one of these"
        )
    return image


# --- Coordinates --------------------------------------------------------------------------------


def find_beside(path: Path, file_name: str) -> Path | None:
    """Return the file of this name in the folder `path` or beside `path`, if there is one."""
    for folder in (path, path.parent):
        if (found := folder / file_name).is_file():
            return found
    return None


def locate(tree: ImageTree, geo: Path | None) -> Places:
    """Look up every image of a tree in a coordinate file."""
    if geo is None:
        return Places()
    coordinates = read_coordinates(geo, tree.limits)
    stems = Counter(PurePosixPath(file.name).stem for file in tree.files)
    found = np.full((len(tree.files), 2), np.nan)
    for row, file in enumerate(tree.files):
        stem = PurePosixPath(file.name).stem
        class_name = tree.class_names[file.label]
        for key in (f"{class_name}/{file.name}", f"{class_name}/{stem}", file.name, stem):
            if key in coordinates:
                if stems[stem] > 1 and "/" not in key:
                    raise DataError(
                        f"{geo} names {key}, but {stems[stem]} images have this name; "
                        f"write {class_name}/{stem} there"
                    )
                found[row] = coordinates[key]
                break
    missing = int(np.isnan(found[:, 0]).sum())
    if missing == len(found):
        raise DataError(
            f"{geo} names no image of {tree.path}; its column `name` must hold image file names, "
            f"such as {PurePosixPath(tree.files[0].name).stem}"
        )
    note = f"{missing:,} of {len(found):,} images have no coordinates in {geo.name}"
    return Places(found[:, 0], found[:, 1], (note,) if missing else ())


def read_coordinates(geo: Path, limits: Limits) -> dict[str, tuple[float, float]]:
    """Return latitude and longitude in degrees by name from a CSV file."""
    coordinates: dict[str, tuple[float, float]] = {}
    try:
        text = read_regular(geo, _COORDINATES_BYTES).decode("utf-8-sig")
        with StringIO(text, newline="") as file:
            rows = csv.DictReader(file, strict=True)
            wanted = ("name", "latitude_deg", "longitude_deg")
            if absent := [column for column in wanted if column not in (rows.fieldnames or ())]:
                raise DataError(
                    f"{geo}, line 1: no column {', '.join(absent)}; needed are {', '.join(wanted)}"
                )
            for row in rows:
                where = f"{geo}, line {rows.line_num}"
                name, latitude, longitude = (row[column] for column in wanted)
                if not name or name in coordinates:
                    shown = repr(name and name[:40])
                    raise DataError(f"{where}: name {shown} is empty or stands there twice")
                limits.require_files(str(geo), "rows", len(coordinates) + 1)
                coordinates[name] = (
                    _degrees(latitude, 90, f"{where}: latitude_deg"),
                    _degrees(longitude, 180, f"{where}: longitude_deg"),
                )
    except csv.Error as error:
        raise DataError(
            f"{geo}, line {rows.reader.line_num}: {error}; write a plain CSV file"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{geo} is not UTF-8 text ({error}); write a plain CSV file") from error
    except OSError as error:
        raise DataError(
            f"{geo} cannot be read ({error.strerror}); give the coordinate file with --geo"
        ) from error
    return coordinates


def _degrees(text: str | None, limit: int, what: str) -> float:
    """Return an angle that lies within plus or minus `limit`."""
    try:
        value = float(text or "")
    except ValueError:
        value = math.nan
    if not abs(value) <= limit:
        shown = repr(text and text[:40])
        raise DataError(f"{what} is {shown}; it must be a number from -{limit} to {limit}")
    return value
