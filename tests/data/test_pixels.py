"""Pixels of multispectral files: every layout and compression of TIFF, arrays, types, sizes."""

import io
import zlib

import numpy as np
import pytest
import tifffile
from PIL import Image

from fedorbit.data.limits import Limits
from fedorbit.data.pixels import open_picture, resized
from fedorbit.errors import DataError
from tests.data.tiff_fixtures import scene, tiff_bytes


def decode(content, limits=Limits(), **options):  # noqa: B008 (a value that does not change)
    picture = open_picture(content, "x.tif", limits, **options)
    values = picture.decode()
    assert values.shape == (picture.height, picture.width, picture.channels)
    assert values.dtype == picture.dtype
    return values


def refuse(content, **options):
    with pytest.raises(DataError) as caught:
        decode(content, **options)
    return str(caught.value)


def npy(values):
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


VALUES = scene(0, bands=5)[:, :6]
LAYOUTS = {
    "pixel by pixel": (VALUES, {}),
    "strips of two rows": (VALUES, {"rowsperstrip": 2}),
    "tiles": (VALUES, {"tile": (16, 16)}),
    "band by band": (np.moveaxis(VALUES, 2, 0), {"planarconfig": "separate"}),
    "page by page": (np.moveaxis(VALUES, 2, 0), {"planarconfig": None, "metadata": {}}),
    "big-endian": (VALUES, {"byteorder": ">"}),
    "BigTIFF": (VALUES, {"bigtiff": True}),
    "deflate": (VALUES, {"compression": "zlib"}),
    "deflate, differences": (VALUES, {"compression": "zlib", "predictor": 2}),
    "deflate, tiles": (VALUES, {"compression": "zlib", "tile": (16, 16)}),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_tiff_gives_the_same_values(layout):
    values, options = LAYOUTS[layout]
    assert np.array_equal(decode(tiff_bytes(values, **options)), VALUES)


@pytest.mark.parametrize("compression", ["lzw", "zstd", "packbits"])
def test_other_compressions_with_imagecodecs(compression):
    pytest.importorskip("imagecodecs", reason="imagecodecs is not installed; see fedorbit[tiff]")
    assert np.array_equal(decode(tiff_bytes(VALUES, compression=compression)), VALUES)


def test_a_compression_without_its_package_names_the_remedy(monkeypatch):
    content = bytearray(tiff_bytes(VALUES))
    tag = content.index(bytes((3, 1, 3, 0, 1, 0, 0, 0, 1, 0)))  # Compression, SHORT, one: none
    content[tag + 8] = 5  # LZW
    monkeypatch.setattr(tifffile.TIFF, "DECOMPRESSORS", {1: None})
    message = refuse(bytes(content))
    assert message.startswith("x.tif is compressed by LZW, which needs the package imagecodecs; ")
    assert "pip install 'imagecodecs>=" in message


@pytest.mark.parametrize("kept", ["uint8", "uint16", "float32"])
@pytest.mark.parametrize("write", [tiff_bytes, npy])
def test_three_types_stay_as_they_are(kept, write):
    values = VALUES.astype(kept)
    found = decode(write(values))
    assert found.dtype == kept and np.array_equal(found, values)


@pytest.mark.parametrize("given", ["int16", "float64"])
@pytest.mark.parametrize("write", [tiff_bytes, npy])
def test_others_become_float32(given, write):
    values = VALUES.astype(given) - 100
    found = decode(write(values))
    assert found.dtype == np.float32 and np.array_equal(found, values.astype(np.float32))


def test_types_that_float32_cannot_hold_are_refused():
    assert refuse(tiff_bytes(VALUES.astype(np.uint32))).startswith(
        "x.tif holds uint32 values; allowed are uint8,"
    )
    assert "complex64" in refuse(npy(VALUES.astype(np.complex64)))


def test_grey_of_16_bits_and_of_floats_has_one_channel():
    grey = VALUES[:, :, 0]
    assert np.array_equal(decode(tiff_bytes(grey, planarconfig=None)), grey[:, :, None])
    floats = grey.astype(np.float32)
    assert np.array_equal(decode(tiff_bytes(floats, planarconfig=None)), floats[:, :, None])


def test_rgb_of_8_bits_is_as_pillow_has_it():
    values = scene(1, bands=3, dtype=np.uint8)
    content = tiff_bytes(values, photometric="rgb", compression="zlib")
    assert np.array_equal(decode(content), values)
    assert np.array_equal(decode(content), np.asarray(Image.open(io.BytesIO(content))))


def test_two_dimensional_pages_of_several_bands_are_no_image():
    values = np.zeros((3, 8, 6, 2), np.uint16)
    assert "rows, columns and bands" in refuse(
        tiff_bytes(values, planarconfig="contig", metadata={})
    )


@pytest.mark.parametrize("layout", [None, "chw"])
def test_arrays_with_channels_first(layout):
    content = npy(np.moveaxis(VALUES, 2, 0))
    assert np.array_equal(decode(content, layout=layout), VALUES)


def test_a_layout_overrules_the_guess():
    values = scene(2, bands=13)[:3]  # three rows, 13 bands
    assert np.array_equal(decode(npy(values), layout="hwc"), values)
    assert decode(npy(values)).shape == (8, 13, 3)  # the guess, which is wrong here


def test_arrays_of_objects_are_never_read():
    content = io.BytesIO()
    np.save(content, np.array([[{}]], object), allow_pickle=True)
    assert refuse(content.getvalue()).startswith("x.tif holds Python objects, which are never read")


@pytest.mark.parametrize(
    "content", [tiff_bytes(VALUES), tiff_bytes(VALUES, compression="zlib"), npy(VALUES)]
)
def test_damage_is_one_sentence(content):
    for cut in (9, len(content) // 2, len(content) - 3):
        assert "x.tif cannot be read" in refuse(content[:cut])


def test_large_images_are_refused_before_they_are_decoded():
    limits = Limits(image_bytes=VALUES.nbytes - 1)
    assert "480 bytes; allowed are 479" in refuse(
        tiff_bytes(VALUES, compression="zlib"), limits=limits
    )
    assert "480 bytes; allowed are 479" in refuse(npy(VALUES), limits=limits)


def test_a_strip_that_holds_more_than_announced_is_refused():
    content = tiff_bytes(VALUES, compression="zlib")
    page = tifffile.TiffFile(io.BytesIO(content)).pages.first
    bomb = zlib.compress(bytes(50_000_000))
    begin, length = len(content), len(bomb)
    changed = bytearray(content + bomb)
    for code, value in (("StripOffsets", begin), ("StripByteCounts", length)):
        tag = page.tags[code]
        changed[tag.valueoffset : tag.valueoffset + 4] = value.to_bytes(4, "little")
    assert "holds more than the 480 bytes announced" in refuse(bytes(changed))


def test_tiles_far_larger_than_the_image_are_refused():
    content = bytearray(tiff_bytes(VALUES, tile=(16, 16), compression="zlib"))
    page = tifffile.TiffFile(io.BytesIO(content)).pages.first
    for name in ("TileWidth", "TileLength"):
        begin = page.tags[name].valueoffset
        content[begin : begin + 4] = (1 << 15).to_bytes(4, "little")
    assert "is kept in strips or tiles of 10,737,418,240 bytes; allowed are" in refuse(
        bytes(content)
    )


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_resizing_averages_when_it_shrinks(dtype):
    checkerboard = (np.indices((64, 64)).sum(axis=0) % 2 * 200).astype(dtype)
    values = np.stack([checkerboard, np.full_like(checkerboard, 7), checkerboard, checkerboard], 2)
    small = resized(values, 8)
    assert small.shape == (8, 8, 4) and small.dtype == dtype
    assert np.abs(small[:, :, 0].astype(float) - 100).max() < 10  # without a filter: 0 or 200
    assert (small[:, :, 1] == 7).all()


def test_resizing_colours_and_bands_is_the_same():
    values = scene(3, bands=3, side=20, dtype=np.uint8)
    single = np.concatenate([resized(values[:, :, c : c + 1], 7) for c in range(3)], axis=2)
    assert np.array_equal(resized(values, 7), single)
