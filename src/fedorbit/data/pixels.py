"""One image file, from bytes to pixels `[height, width, channels]` in the type of the file.

Headers are read first: they announce how large an image is, and one beyond `data/limits.py` is
refused before its pixels are decoded. Pictures of 8 bits, grey or RGB, are decoded by Pillow,
whatever their format. Every other TIFF is decoded by tifffile: any number of bands, 8 or 16 bits or
float. An `.npy` file is read as it is.
"""

import io
import logging
import math
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFile

from fedorbit.data import geotiff
from fedorbit.data.containers import blame_file
from fedorbit.data.limits import Limits
from fedorbit.errors import DataError
from fedorbit.extras import install_extra

logging.getLogger("tifffile").setLevel(logging.CRITICAL)  # errors are raised, and named here

Pixels = NDArray[Any]  # uint8, uint16 or float32

# Formats of the suffixes in `data/imagetree.py`. Pillow has more, some of which call other
# programs, and it recognises a format by content: the list keeps it to these.
_FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM")
_TIFF_MAGIC = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_CMYK = 5  # PhotometricInterpretation
_NPY_MAGIC = b"\x93NUMPY"
_NPY_HEADER_BYTES = 1 << 12
_KEPT = {"uint8": "uint8", "uint16": "uint16", "float32": "float32"}
_WIDENED = {"int8": "float32", "int16": "float32", "float16": "float32", "float64": "float32"}
_STORED_AS = _KEPT | _WIDENED
"""Type of the values of a file, and that in which they are kept: three types train."""


@dataclass(frozen=True)
class Picture:
    """An image whose header was read; `decode` reads its pixels.

    `place` is the latitude and longitude of its centre in degrees, and `bands` names its channels,
    where the file has them.
    """

    height: int
    width: int
    channels: int
    dtype: np.dtype[Any]
    decode: Callable[[], Pixels]
    place: tuple[float, float] | None = None
    bands: tuple[str, ...] = ()


@contextmanager
def pillow_limits(limits: Limits) -> Iterator[None]:
    """Hold Pillow to the same limits meanwhile."""
    before = Image.MAX_IMAGE_PIXELS
    with warnings.catch_warnings():
        # Pillow refuses what has twice as many pixels, and warns of what has more.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        Image.MAX_IMAGE_PIXELS = limits.image_bytes
        try:
            yield
        finally:
            Image.MAX_IMAGE_PIXELS = before


def open_picture(content: bytes, where: str, limits: Limits, layout: str | None = None) -> Picture:
    """Read the header of an image file; `layout` is that of arrays, see `channel_axis`."""
    if content.startswith(_NPY_MAGIC):
        return _open_npy(content, where, limits, layout)
    if content.startswith(_TIFF_MAGIC):
        return _open_tiff(content, where, limits)
    return _open_with_pillow(content, where, limits)


def stored_type(dtype: np.dtype[Any], where: str) -> np.dtype[Any]:
    """Return the type in which values of a type are kept; refuse those that do not train."""
    if dtype.name not in _STORED_AS:
        raise DataError(
            f"{where} holds {dtype.name} values; allowed are {', '.join(_STORED_AS)} (the last "
            f"{len(_WIDENED)} are kept as float32); convert it to one of these"
        )
    return np.dtype(_STORED_AS[dtype.name])


def stored(values: Pixels, where: str) -> Pixels:
    """Return values in the type in which they are kept."""
    with np.errstate(over="ignore"):  # too large for float32 is infinite, and refused as such
        return values.astype(stored_type(values.dtype, where), copy=False)


def channel_axis(shape: tuple[int, ...], layout: str | None) -> int:
    """Return which axis of an image array holds the channels: the first, 0, or the last, 2.

    Without a layout, the two axes of equal length are height and width. If that does not decide,
    the shorter of the first and the last axis holds the channels; the last if they are equal.

    >>> [channel_axis(shape, None) for shape in ((8, 8, 13), (13, 8, 8), (3, 9, 8))]
    [2, 0, 0]
    """
    if layout is None:
        height, width, last = shape
        if (height == width) != (width == last):
            return 2 if height == width else 0
        return 0 if height < last else 2
    return 0 if layout == "chw" else 2


def resized(pixels: Pixels, side: int) -> Pixels:
    """Return an image as a square of `side` pixels, interpolated bilinearly, antialiased."""
    if pixels.shape[:2] == (side, side):
        return pixels

    def resize(image: Pixels) -> Pixels:
        # Bilinear in Pillow widens its support when it shrinks, so this is antialiased.
        drawn = Image.fromarray(image).resize((side, side), Image.Resampling.BILINEAR)
        return np.asarray(drawn)

    if pixels.dtype == np.uint8 and pixels.shape[2] == 3:
        return resize(pixels)
    # Pillow interpolates 16 bits as floats, which hold them exactly.
    work = pixels if pixels.dtype == np.uint8 else pixels.astype(np.float32, copy=False)
    bands = [resize(np.ascontiguousarray(work[:, :, c])) for c in range(pixels.shape[2])]
    values = np.stack(bands, axis=2)
    return np.rint(values).astype(np.uint16) if pixels.dtype == np.uint16 else values


# --- Pillow -------------------------------------------------------------------------------------


def _open_with_pillow(
    content: bytes, where: str, limits: Limits, place: tuple[float, float] | None = None
) -> Picture:
    """Read a header; refuse too many pixels, and modes that are not 8-bit grey or RGB."""
    with blame_file(where):
        try:
            image = Image.open(io.BytesIO(content), formats=_FORMATS)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise DataError(
                f"{where} has too many pixels ({str(error).rstrip('.')}); allowed are "
                f"{limits.image_bytes:,} bytes of them; leave it out, or raise --max-image-mb if "
                "it is genuine"
            ) from error
    channels = 1 if image.mode == "L" else 3
    pixels_bytes = math.prod(image.size) * channels
    limits.require_image(where, f"is {image.width}x{image.height} pixels, decoded", pixels_bytes)
    mode = image.mode
    if mode == "P" and "transparency" in image.info:
        mode = "P with transparency"
    if any(";16" in str(tile) for tile in image.tile):  # Pillow would silently drop the low byte
        mode = "16 bit"
    if mode not in {"L", "RGB", "P"}:
        raise DataError(
            f"{where} is of mode {mode}; allowed are 8-bit grey (L), RGB and opaque palette (P) "
            "images, TIFF of any bands and .npy; convert it to one of these"
        )

    def decode() -> Pixels:
        with blame_file(where):
            image.load()
            drawn: ImageFile.ImageFile | Image.Image = image
            if mode == "P":
                drawn = image.convert("RGB")
            return np.asarray(drawn, np.uint8).reshape(image.height, image.width, channels)

    return Picture(image.height, image.width, channels, np.dtype(np.uint8), decode, place)


# --- TIFF ---------------------------------------------------------------------------------------


def _open_tiff(content: bytes, where: str, limits: Limits) -> Picture:
    """Read the tags of a TIFF: its first image, with the bands of it or one page for each."""
    import tifffile  # slow to import: only commands that read TIFF wait for it

    with blame_file(where):
        file = tifffile.TiffFile(io.BytesIO(content))
        page: Any = file.pages.first
        place = geotiff.centre(page, where)
        if page.photometric == _CMYK or (page.dtype == np.uint8 and page.samplesperpixel == 3):
            return _open_with_pillow(content, where, limits, place)
        image: Any = file.series[0]
        is_grey = page.samplesperpixel == 1 and page.dtype in (None, np.uint8, np.bool_)
        if is_grey and len(image.pages) == 1:
            return _open_with_pillow(content, where, limits, place)
        shape, axes = image.shape, image.axes
    if len(shape) not in (2, 3) or (axes[-2:] != "YX" and axes != "YXS"):
        raise DataError(
            f"{where} has axes {axes or 'unknown'} of {' x '.join(map(str, shape)) or 'no'} values;"
            " an image has rows, columns and bands; convert it"
        )
    axis = axes.find("S") if "S" in axes else 0
    bands = shape[axis] if len(shape) == 3 else 1
    height, width = shape[axes.index("Y")], shape[axes.index("X")]
    dtype = stored_type(image.dtype, where)
    limits.require_image(
        where, f"is {width}x{height} pixels of {bands} bands, decoded",
        math.prod(shape) * image.dtype.itemsize,
    )  # fmt: skip

    def decode() -> Pixels:
        with blame_file(where):
            for each in image.pages:
                _require_codec(each, where)
                _require_announced(each, content, where, limits)
            values = image.asarray()
            values = values[:, :, None] if values.ndim == 2 else np.moveaxis(values, axis, 2)
        return stored(values, where)

    return Picture(height, width, bands, dtype, decode, place, geotiff.band_names(page, bands))


def _require_codec(page: Any, where: str) -> None:
    """Refuse a compression that needs a package which is not installed."""
    import tifffile

    try:
        _ = tifffile.TIFF.DECOMPRESSORS[page.compression]
    except KeyError as error:
        raise DataError(
            f"{where} is compressed by {page.compression.name}, which needs the package "
            f"imagecodecs; {install_extra('tiff')}, or write the file uncompressed or deflated"
        ) from error


def _require_announced(page: Any, content: bytes, where: str, limits: Limits) -> None:
    """Refuse strips and tiles that are too large, or hold more than announced."""
    rows, columns = (
        (page.tilelength, page.tilewidth)
        if page.is_tiled
        else (min(page.rowsperstrip, page.imagelength), page.imagewidth)
    )
    samples = page.samplesperpixel if page.planarconfig == 1 else 1
    most = rows * columns * samples * page.dtype.itemsize
    limits.require_image(where, "is kept in strips or tiles of", most)
    if page.compression.name not in ("DEFLATE", "ADOBE_DEFLATE"):
        return
    for offset, length in zip(page.dataoffsets, page.databytecounts, strict=True):
        # Without imagecodecs tifffile inflates without a bound.
        plain = zlib.decompressobj().decompress(content[offset : offset + length], most + 1)
        if len(plain) > most:
            raise EOFError(f"a strip or tile holds more than the {most:,} bytes announced")


# --- NumPy --------------------------------------------------------------------------------------


def read_npy_header(file: Any, where: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Return shape and type of an array and stop at its first value; refuse objects."""
    version = np.lib.format.read_magic(file)
    reader: Any = {
        (1, 0): np.lib.format.read_array_header_1_0,
        (2, 0): np.lib.format.read_array_header_2_0,
    }.get(version)
    if reader is None:
        raise DataError(f"{where} is of NPY version {version}; allowed are 1.0 and 2.0; save it so")
    shape, fortran_order, dtype = reader(file, max_header_size=_NPY_HEADER_BYTES)
    if dtype.hasobject:
        raise DataError(f"{where} holds Python objects, which are never read; save plain numbers")
    if fortran_order and len(shape) > 1:
        raise DataError(
            f"{where} is in Fortran order; save it with numpy.ascontiguousarray, rows first"
        )
    return shape, dtype


def _open_npy(content: bytes, where: str, limits: Limits, layout: str | None) -> Picture:
    """Read an array of one image: `[height, width]`, or with channels last or first."""
    with blame_file(where):
        file = io.BytesIO(content)
        shape, dtype = read_npy_header(file, where)
        begin = file.tell()
    if len(shape) not in (2, 3) or 0 in shape:
        raise DataError(
            f"{where} has shape {shape}; an image is [height, width], [height, width, channels] or "
            "[channels, height, width]; many images in one file are a source of their own "
            "(docs/data.md)"
        )
    kept = stored_type(dtype, where)
    limits.require_image(where, "is, decoded,", math.prod(shape) * dtype.itemsize)
    axis = channel_axis(shape, layout) if len(shape) == 3 else 2
    height, width, channels = _moved(shape, axis) if len(shape) == 3 else (*shape, 1)

    def decode() -> Pixels:
        with blame_file(where):
            values = np.frombuffer(content, dtype, math.prod(shape), begin).reshape(shape)
            values = values[:, :, None] if values.ndim == 2 else np.moveaxis(values, axis, 2)
        return stored(values, where)

    return Picture(height, width, channels, kept, decode)


def _moved(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    """Return a shape with the channels last."""
    height, width = (side for i, side in enumerate(shape) if i != axis)
    return height, width, shape[axis]
