"""Pixels and places of any class folders, and what `prepare` promises, tried on them."""

import io
import os
import shutil
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from fedorbit.data import catalog, folder
from fedorbit.data.cache import open_dataset, prepared_names
from fedorbit.data.catalog import PrepareOptions, prepare, synthetic_dataset
from fedorbit.data.synthetic import SyntheticSpec, generate
from fedorbit.errors import DataError
from tests.data.source_fixtures import (
    class_files,
    image_bytes,
    pixels_of,
    under,
    write_folder,
    write_zip,
)


def read(path, **options):
    """Return all images, labels and the stream itself."""
    with folder.open_stream(path, **options) as stream:
        chunks = list(stream.chunks)
    images = np.concatenate([chunk.images for chunk in chunks])
    assert images.shape == (stream.samples, *stream.image_shape) and images.dtype == np.uint8
    return images, np.concatenate([chunk.labels for chunk in chunks]), stream, chunks


def refuse(path, **options):
    with pytest.raises(DataError) as caught:
        read(path, **options)
    return str(caught.value)


def saved(image, kind="PNG", **options):
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def png_16_bit_rgb():
    """A PNG of 16 bits per channel, which Pillow cannot write."""

    def block(kind, body):
        return (
            struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        )

    rows = b"".join(b"\0" + bytes(8 * 6) for _ in range(8))
    return (
        b"\x89PNG\r\n\x1a\n"
        + block(b"IHDR", struct.pack(">IIBBBBB", 8, 8, 16, 2, 0, 0, 0))
        + block(b"IDAT", zlib.compress(rows))
        + block(b"IEND", b"")
    )


# --- Pixels -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "x.zip"])
def test_pixels_are_exactly_as_decoded_in_order(kind, tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_CHUNK_IMAGES", 7)  # so that many chunks are decoded at once
    files = class_files(("A", "B", "C"), 40, size=(9, 6))
    path = (write_folder if kind == "folder" else write_zip)(tmp_path / kind, files)
    images, labels, stream, chunks = read(path)
    assert stream.image_shape == (6, 9, 3) and stream.class_names == ("A", "B", "C")
    assert labels.tolist() == [0] * 40 + [1] * 40 + [2] * 40 and len(chunks) == 18
    assert np.array_equal(images, np.stack([pixels_of(content) for content in files.values()]))


def test_memory_is_bounded_by_bytes_too(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_CHUNK_BYTES", 2 * 8 * 8 * 3)
    path = write_folder(tmp_path, class_files(("A", "B"), 3, size=(8, 8)))
    assert [len(chunk.images) for chunk in read(path)[3]] == [1] * 6  # a file is larger than that
    assert [len(chunk.images) for chunk in read(path, size=1)[3]] == [1] * 6


def test_abandoned_stream_stops_its_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "_CHUNK_IMAGES", 1)
    path = write_zip(tmp_path / "x.zip", class_files(("A", "B"), 30))
    with folder.open_stream(path) as stream:
        next(stream.chunks)
        stream.chunks.close()


def test_grey_and_palette(tmp_path):
    grey = {f"{c}/1.png": image_bytes(5, mode="L", size=(8, 8)) for c in "AB"}
    images, _, stream, _ = read(write_folder(tmp_path / "grey", grey))
    assert stream.image_shape == (8, 8, 1)
    assert np.array_equal(images[0, :, :, 0], pixels_of(grey["A/1.png"]))

    rgb = Image.open(io.BytesIO(image_bytes(5, size=(8, 8))))
    palette = saved(rgb.quantize(256))
    mixed = {"A/1.png": saved(rgb), "B/1.png": palette}
    images, _, stream, _ = read(write_folder(tmp_path / "mixed", mixed))
    assert stream.image_shape == (8, 8, 3)
    expected = Image.open(io.BytesIO(palette)).convert("RGB")
    assert np.array_equal(images[1], np.asarray(expected))


def test_resizing_is_antialiased_and_square(tmp_path):
    checkerboard = (np.indices((64, 32)).sum(0) % 2 * 255).astype(np.uint8)
    content = saved(Image.fromarray(checkerboard))
    path = write_folder(tmp_path, {"A/1.png": content, "B/1.png": image_bytes(mode="L")})
    images, _, stream, _ = read(path, size=8)
    assert stream.image_shape == (8, 8, 1)
    assert np.abs(images[0].astype(int) - 127).max() < 10  # without a filter: only 0 and 255
    expected = Image.fromarray(checkerboard).resize((8, 8), Image.Resampling.BILINEAR)
    assert np.array_equal(images[0, :, :, 0], np.asarray(expected))


@pytest.mark.parametrize(
    ("mode", "content"),
    [
        ("RGBA", image_bytes(mode="RGBA", size=(8, 8))),
        ("LA", image_bytes(mode="LA", size=(8, 8))),
        ("1", image_bytes(mode="1", size=(8, 8))),
        ("16 bit", saved(Image.fromarray(np.zeros((8, 8), np.uint16)))),
        ("CMYK", image_bytes(mode="CMYK", kind="TIFF", size=(8, 8))),
        ("P with transparency", saved(Image.new("P", (8, 8)), transparency=0)),
        ("16 bit", png_16_bit_rgb()),
    ],
    ids=["RGBA", "LA", "1", "I;16", "CMYK", "transparent-palette", "RGB-16-bit"],
)
@pytest.mark.parametrize("first", [True, False])
def test_other_modes_are_refused(mode, content, first, tmp_path):
    plain = image_bytes(size=(8, 8))
    files = {"A/1.png": content if first else plain, "B/1.png": plain if first else content}
    message = refuse(write_folder(tmp_path, files))
    name = "A/1.png" if first else "B/1.png"
    assert message.startswith(
        f"{tmp_path / name} is of mode {mode}; allowed are 8-bit grey (L), RGB"
    )


def test_wrong_size_names_file_and_remedy(tmp_path):
    files = class_files(("A", "B"), 2, size=(8, 8)) | {"B/B_2.jpg": image_bytes(size=(8, 6))}
    path = write_zip(tmp_path / "x.zip", files)
    message = refuse(path)
    assert (
        f"{path}!B/B_2.jpg is 8x6 pixels, but the first image, {path}!A/A_1.jpg, is 8x8" in message
    )
    assert "--size 8" in message
    assert read(path, size=8)[0].shape == (4, 8, 8, 3)


def test_wrong_channel_count_names_file(tmp_path):
    files = class_files(("A", "B"), 2, size=(8, 8))
    files["B/B_1.jpg"] = image_bytes(size=(8, 8), mode="L")
    write_folder(tmp_path, files)
    for options in ({}, {"size": 4}):
        message = refuse(tmp_path, **options)
        assert message.startswith(f"{tmp_path}/B/B_1.jpg has 1 channel(s), but the first image")


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP"])
def test_truncated_image_is_named(kind, tmp_path):
    content = image_bytes(size=(64, 64), kind=kind)
    suffix = kind.lower().replace("jpeg", "jpg").replace("tiff", "tif")
    files = {f"A/1.{suffix}": content, f"B/1.{suffix}": content[: len(content) // 2]}
    path = write_zip(tmp_path / "x.zip", files)
    message = refuse(path)
    assert f"{path}!B/1.{suffix} cannot be read" in message and "get this file again" in message


@pytest.mark.parametrize("content", [b"", b"not an image", b"\x89PNG\r\n\x1a\n" + bytes(40)])
def test_unreadable_image_is_named(content, tmp_path):
    path = write_folder(tmp_path, class_files(("A", "B"), 2) | {"B/B_2.jpg": content})
    message = refuse(path)
    assert f"{tmp_path}/B/B_2.jpg cannot be read" in message
    assert "_io" not in message  # a buffer's address is no use to anybody
    path = write_folder(tmp_path, {"A/A_1.jpg": content})
    assert f"{tmp_path}/A/A_1.jpg cannot be read" in refuse(path)


def test_impossible_size_is_refused(tmp_path):
    path = write_folder(tmp_path, class_files(("A", "B")))
    assert "size is 0; it must be at least 1 pixel" in refuse(path, size=0)


# --- Places -------------------------------------------------------------------------------------

HEADER = "name,latitude_deg,longitude_deg\n"


@pytest.fixture
def pictures(tmp_path):
    return write_folder(tmp_path / "set", class_files(("A", "B"), 2, size=(8, 8)))


@pytest.mark.parametrize("names", [("A_1", "B_2"), ("A/A_1", "B/B_2.jpg"), ("A_1.jpg", "B/B_2")])
@pytest.mark.parametrize("place", ["inside", "beside", "given"])
def test_coordinates_by_name(names, place, pictures, tmp_path):
    csv = {"inside": pictures, "beside": tmp_path, "given": tmp_path / "other"}[place]
    csv.mkdir(exist_ok=True)
    csv = csv / "coordinates.csv"
    # A byte order mark and more columns in another order do no harm.
    csv.write_text(
        f"\ufefflongitude_deg,extra,latitude_deg,name\n7.5,,51,{names[0]}\n-180,x,-90,{names[1]}\n"
    )
    *_, _stream, chunks = read(pictures, geo=csv if place == "given" else None)
    assert np.array_equal(chunks[0].latitude_deg, [51, np.nan, np.nan, -90], equal_nan=True)
    assert np.array_equal(chunks[0].longitude_deg, [7.5, np.nan, np.nan, -180], equal_nan=True)


def test_without_coordinates(pictures):
    dataset, _ = prepare("folder", pictures)
    assert dataset.latitude_deg is dataset.longitude_deg is None
    assert dataset.description["notes"] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1: no column name, latitude_deg, longitude_deg; needed are"),
        ("name,lat,lon\nA_1,1,2\n", "line 1: no column latitude_deg, longitude_deg"),
        (HEADER + "A_1,1,2\nA_2,north,2\n", "line 3: latitude_deg is 'north'; it must be a number"),
        (
            HEADER + "A_1,90.5,2\n",
            "line 2: latitude_deg is '90.5'; it must be a number from -90 to",
        ),
        (HEADER + "A_1,1,181\n", "line 2: longitude_deg is '181'"),
        (HEADER + "A_1,1,nan\n", "line 2: longitude_deg is 'nan'"),
        (HEADER + "A_1,1\n", "line 2: longitude_deg is None"),
        (HEADER + "A_1,1,2\nA_1,1,2\n", "line 3: name 'A_1' is empty or stands there twice"),
        (HEADER + ",1,2\n", "line 2: name '' is empty"),
        (HEADER + 'A_1,1,"2\n', "line 2: unexpected end of data"),
        (HEADER + "Z_1,1,2\n", "names no image of"),
    ],
)
def test_broken_coordinates_name_file_and_line(text, message, pictures):
    csv = pictures / "coordinates.csv"
    csv.write_text(text)
    error = refuse(pictures)
    assert error.startswith(str(csv)) and message in error


def test_coordinate_file_that_cannot_be_read(pictures, tmp_path):
    assert f"{tmp_path}/no.csv cannot be read (No such file" in refuse(
        pictures, geo=tmp_path / "no.csv"
    )
    (pictures / "coordinates.csv").write_bytes(b"name\xff")
    assert "coordinates.csv is not UTF-8 text" in refuse(pictures)


def test_bare_name_of_two_images_is_refused(tmp_path):
    path = write_folder(tmp_path, {f"{c}/1.png": image_bytes() for c in "AB"})
    (tmp_path / "coordinates.csv").write_text(HEADER + "1,2,3\n")
    assert "names 1, but 2 images have this name; write A/1 there" in refuse(path)
    (tmp_path / "coordinates.csv").write_text(HEADER + "A/1,2,3\n")
    assert read(path)[3][0].latitude_deg[0] == 2


# --- Preparing ----------------------------------------------------------------------------------


def test_prepare_twice_writes_once(pictures):
    dataset, written = prepare("folder", pictures)
    assert written and dataset.name == "set" and dataset.description["source"] == "folder"
    stamp = (dataset.folder / "images.npy").stat()
    again, written = prepare("folder", pictures)
    assert not written and (again.folder / "images.npy").stat() == stamp


def test_other_options_or_files_need_force_or_a_name(pictures):
    prepare("folder", pictures)
    with pytest.raises(
        DataError, match=r"'set' is already .*\(size was None, now 4\).*--force.*--name"
    ):
        prepare("folder", pictures, options=PrepareOptions(size=4))
    small, written = prepare("folder", pictures, name="small", options=PrepareOptions(size=4))
    assert written and small.images.shape == (4, 4, 4, 3)
    replaced, written = prepare("folder", pictures, options=PrepareOptions(size=4), force=True)
    assert written and replaced.images.shape == (4, 4, 4, 3)
    with pytest.raises(DataError, match="source was folder, now eurosat"):
        prepare("eurosat", pictures, name="set")


def change_one_file(pictures):
    (pictures / "A" / "A_1.jpg").write_bytes(image_bytes(99, size=(8, 8)))


def rename_one_file(pictures):
    (pictures / "A" / "A_1.jpg").rename(pictures / "A" / "A_3.jpg")
    os.utime(pictures / "A", ns=(0, 2**61))  # as if time had passed


def add_coordinates(pictures):
    (pictures.parent / "coordinates.csv").write_text(HEADER + "A_1,1,2\n")


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (change_one_file, "its files have changed"),
        (rename_one_file, "its files have changed"),
        (add_coordinates, "files were those of set, now of set, coordinates.csv"),
    ],
)
def test_changed_files_are_noticed(change, what, pictures):
    prepare("folder", pictures)
    change(pictures)
    with pytest.raises(DataError, match=rf"from something else \({what}\); pass --force"):
        prepare("folder", pictures)


def test_failed_replacement_keeps_the_old_dataset(pictures):
    prepare("folder", pictures)
    (pictures / "B" / "B_2.jpg").write_bytes(b"broken")
    with pytest.raises(DataError, match=r"B_2\.jpg cannot be read"):
        prepare("folder", pictures, force=True)
    assert len(open_dataset("set").images) == 4


def test_names_are_made_from_paths(tmp_path):
    files = class_files(("A", "B"), size=(8, 8))
    path = write_zip(tmp_path / "My Pictures (2).zip", under("x/", files))
    assert prepare("folder", path)[0].name == "my-pictures-2"
    path = write_folder(tmp_path / "downloads", files)
    with pytest.raises(DataError, match=r"'downloads' cannot name a dataset.*with --name"):
        prepare("folder", path)
    with pytest.raises(DataError, match="'Ä' cannot name a dataset"):
        prepare("folder", path, name="Ä")


@pytest.mark.parametrize("name", ["eurosat", "so2sat", "synthetic", "synthetic-6e0fd10ae2"])
def test_names_of_sources_are_kept_for_them(name, pictures, tmp_path):
    with pytest.raises(DataError, match=f"'{name}' is kept for images of the source .*--name"):
        prepare("folder", pictures, name=name)
    named = write_folder(tmp_path / "other" / name, class_files(("A", "B"), size=(8, 8)))
    with pytest.raises(DataError, match=f"'{name}' is kept for images of the source"):
        prepare("folder", named)
    assert prepared_names() == ()


def test_synthetic_is_no_name_of_a_dataset():
    with pytest.raises(DataError, match="'synthetic' is kept"):
        prepare("synthetic", None, name="synthetic", options=PrepareOptions(spec=SPEC))
    dataset, _ = prepare("synthetic", None, name="chips", options=PrepareOptions(spec=SPEC))
    assert dataset.name == "chips"


def test_a_copy_of_an_archive_is_the_same_dataset(tmp_path):
    files = class_files(("A", "B"), size=(8, 8))
    archive = write_zip(tmp_path / "set.zip", files)
    assert prepare("folder", archive)[1]
    copy = tmp_path / "elsewhere" / "copy.zip"
    copy.parent.mkdir()
    copy.write_bytes(archive.read_bytes())
    os.utime(copy, ns=(0, 2**61))
    assert not prepare("folder", copy, name="set")[1]
    with pytest.raises(DataError, match="size was None, now 4"):
        prepare("folder", copy, name="set", options=PrepareOptions(size=4))
    # Coordinates beside the copy would change the result, as would other images.
    (copy.parent / "coordinates.csv").write_text(HEADER + "A_1,1,2\n")
    with pytest.raises(DataError, match="'set' is already prepared from something else"):
        prepare("folder", copy, name="set")
    (copy.parent / "coordinates.csv").unlink()
    write_zip(copy, {**files, "A/A_1.jpg": image_bytes(77, size=(8, 8))})
    with pytest.raises(DataError, match="'set' is already prepared from something else"):
        prepare("folder", copy, name="set")


def test_a_copy_with_its_coordinates_is_the_same_dataset(tmp_path):
    archive = write_zip(tmp_path / "set.zip", class_files(("A", "B"), size=(8, 8)))
    geo = tmp_path / "coordinates.csv"
    geo.write_text(HEADER + "A_1,1,2\n")
    assert prepare("folder", archive)[1]
    shutil.copytree(tmp_path, tmp_path.parent / f"{tmp_path.name}-copy")
    copy = tmp_path.parent / f"{tmp_path.name}-copy" / "set.zip"
    for file in (copy, copy.with_name("coordinates.csv")):
        os.utime(file, ns=(0, 2**61))
    assert not prepare("folder", copy)[1]
    copy.with_name("coordinates.csv").write_text(HEADER + "A_1,1,3\n")
    with pytest.raises(DataError, match="already prepared from something else"):
        prepare("folder", copy)


def test_folder_needs_a_path_that_exists(tmp_path):
    with pytest.raises(DataError, match="`fedorbit data prepare folder --source PATH`"):
        prepare("folder", None)
    with pytest.raises(DataError, match=r"nowhere cannot be read \(No such file"):
        prepare("folder", tmp_path / "nowhere")


@pytest.mark.parametrize(("typo", "meant"), [("eurosta", "eurosat"), ("So2Sat", "so2sat")])
def test_unknown_source_suggests_the_nearest(typo, meant):
    with pytest.raises(
        DataError, match=f"no source '{typo}'; did you mean '{meant}'.*known are eurosat"
    ):
        prepare(typo, None)


def test_unknown_options_are_refused(tmp_path):
    with pytest.raises(DataError, match="so2sat has no option size; allowed are: none"):
        prepare("so2sat", tmp_path, options=PrepareOptions(size=8))
    with pytest.raises(DataError, match="resisc45 has no option geo; allowed are: size"):
        prepare("resisc45", tmp_path, options=PrepareOptions(geo=tmp_path))


def test_generated_images_need_neither_files_nor_options(tmp_path):
    with pytest.raises(DataError, match=r"is generated from no files; leave --source out"):
        prepare("synthetic", tmp_path)
    with pytest.raises(DataError, match=r"has no --size; set it there.*data\.synthetic\.size=16"):
        prepare("synthetic", None, options=PrepareOptions(size=16))


# --- Generated instead of read ------------------------------------------------------------------

SPEC = SyntheticSpec(classes=3, samples=20, size=8, seed=1)


def test_synthetic_is_made_on_first_use():
    dataset = synthetic_dataset(SPEC)
    assert dataset.name.startswith("synthetic-") and len(dataset.name) == len("synthetic-") + 10
    drawn = next(iter(generate(SPEC, 1024)))
    assert np.array_equal(dataset.images, drawn.images)
    assert np.array_equal(dataset.labels, drawn.labels)
    assert np.array_equal(dataset.latitude_deg, drawn.latitude_deg)
    assert dataset.description["options"]["spec"]["seed"] == 1
    assert not prepare("synthetic", None, options=PrepareOptions(spec=SPEC))[1]
    assert (
        synthetic_dataset(SyntheticSpec(classes=3, samples=20, size=8, seed=2)).name != dataset.name
    )
    assert len(prepared_names()) == 2


def test_synthetic_is_made_again_when_damaged_or_outdated(monkeypatch):
    dataset = synthetic_dataset(SPEC)
    (dataset.folder / "images.npy").unlink()
    assert len(synthetic_dataset(SPEC).images) == 20
    source = catalog.SOURCES["synthetic"]
    newer = catalog.replace(source, fingerprint=lambda path, geo: "another generator")
    monkeypatch.setitem(catalog.SOURCES, "synthetic", newer)
    options = PrepareOptions(spec=SPEC)
    assert prepare("synthetic", None, options=options)[1]
    assert not prepare("synthetic", None, options=options)[1]
