"""NWPU-RESISC45 in its layouts: 45 classes, shrunk with a filter."""

import io

import numpy as np
import pytest
from PIL import Image

from fedorbit.data import resisc45
from fedorbit.data.cache import downloads_root
from fedorbit.data.catalog import PrepareOptions, prepare
from fedorbit.errors import DataError
from tests.data.source_fixtures import class_files, image_bytes, under, write_rar, write_zip

FILES = under("NWPU-RESISC45/", class_files(resisc45.CLASS_NAMES, 1, size=(256, 256)))


def shrunk(content, side):
    image = Image.open(io.BytesIO(content))
    return np.asarray(image.resize((side, side), Image.Resampling.BILINEAR))


def test_the_official_classes():
    assert len(resisc45.CLASS_NAMES) == 45 and resisc45.CLASS_NAMES[0] == "airplane"
    assert list(resisc45.CLASS_NAMES) == sorted(set(resisc45.CLASS_NAMES))
    assert resisc45.CLASS_NAMES[-1] == "wetland"


@pytest.mark.parametrize("write", [write_zip, write_rar])
def test_images_are_shrunk(write, tmp_path):
    path = write(tmp_path / f"NWPU-RESISC45.{write.__name__[-3:]}", FILES)
    dataset, written = prepare("resisc45", path)
    assert written and dataset.class_names == resisc45.CLASS_NAMES
    assert dataset.images.shape == (45, 32, 32, 3) and dataset.labels.tolist() == list(range(45))
    expected = np.stack([shrunk(content, 32) for content in FILES.values()])
    assert np.array_equal(dataset.images, expected)
    assert dataset.description["notes"] == [f"{path.name} holds 45 images; published are 31,500"]


def test_size_is_an_option(tmp_path):
    path = write_zip(tmp_path / "x.zip", FILES)
    dataset, _ = prepare("resisc45", path, options=PrepareOptions(size=256))
    assert dataset.images.shape == (45, 256, 256, 3)
    assert np.array_equal(dataset.images[3], shrunk(list(FILES.values())[3], 256))


def test_official_rar_is_found_among_the_downloads():
    downloads_root().mkdir(parents=True)
    write_rar(downloads_root() / "NWPU-RESISC45.rar", FILES)
    assert prepare("resisc45", None)[1]


def test_wrong_size_and_wrong_classes_are_named(tmp_path):
    member = "NWPU-RESISC45/beach/beach_1.jpg"
    path = write_zip(tmp_path / "x.zip", FILES | {member: image_bytes(size=(255, 256))})
    with pytest.raises(DataError, match=rf"x\.zip!{member} is 255x256 pixels, but every RESISC45"):
        prepare("resisc45", path)
    path = write_zip(tmp_path / "y.zip", {k: v for k, v in FILES.items() if "/beach/" not in k})
    with pytest.raises(DataError, match=r"y\.zip is not RESISC45 .*missing: beach; unknown: none"):
        prepare("resisc45", path)


# --- A part of the classes ----------------------------------------------------------------------

SOME = class_files(("airplane", "beach", "farmland", "lake"), 2, size=(40, 40))


@pytest.mark.parametrize("classes", ["3", "as-found"])
def test_a_part_of_the_classes_is_named_as_such(classes, tmp_path):
    path = write_zip(tmp_path / "x.zip", SOME)
    options = PrepareOptions(classes=classes)
    dataset, _ = prepare("resisc45", path, options=options)
    assert dataset.name == "resisc45-3" and dataset.class_names == ("airplane", "beach", "lake")
    assert dataset.description["title"] == "NWPU-RESISC45 (3 classes)"
    assert dataset.labels.tolist() == [0, 0, 1, 1, 2, 2]
    kept = [content for name, content in SOME.items() if not name.startswith("farmland")]
    assert np.array_equal(dataset.images, np.stack([shrunk(content, 32) for content in kept]))
    assert dataset.description["notes"] == [
        "class folders left out: farmland",
        "3 of 45 classes",
        "images are 40x40; published are 256x256",
    ]
    assert prepare("resisc45", path, options=PrepareOptions(classes="as-found"))[1] is False


@pytest.mark.parametrize(
    ("options", "name", "message"),
    [
        (PrepareOptions(), None, "or accept a part of its classes with --classes as-found"),
        (PrepareOptions(classes="4"), None, "holds 3 of the 45 classes of RESISC45, and --classes is 4"),
        (PrepareOptions(classes="3"), "resisc45", "'resisc45' is kept for all classes of NWPU-RESISC45"),
    ],
)  # fmt: skip
def test_a_part_is_never_taken_for_the_whole(options, name, message, tmp_path):
    with pytest.raises(DataError) as caught:
        prepare("resisc45", write_zip(tmp_path / "x.zip", SOME), name=name, options=options)
    assert message in str(caught.value)


def test_the_real_part(real_file):
    path = real_file("RESISC45_13classes_32px.zip")
    dataset, _ = prepare("resisc45", path, options=PrepareOptions(classes="13"))
    assert dataset.images.shape == (9094, 32, 32, 3) and len(dataset.class_names) == 13
