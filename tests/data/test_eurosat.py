"""EuroSAT: its layouts, its coordinates, and the real archive where it is at hand."""

import io
import zipfile

import numpy as np
import pytest
from PIL import Image

from fedorbit.data import eurosat
from fedorbit.data.cache import downloads_root
from fedorbit.data.catalog import PrepareOptions, prepare
from fedorbit.errors import DataError
from tests.data.source_fixtures import (
    class_files,
    image_bytes,
    pixels_of,
    under,
    write_folder,
    write_zip,
)

FILES = class_files(eurosat.CLASS_NAMES, 3)
HEADER = "name,latitude_deg,longitude_deg\n"


@pytest.fixture
def archive(tmp_path):
    return write_zip(tmp_path / "EuroSAT_RGB.zip", under("EuroSAT_RGB/", FILES))


def geo_rows(names):
    return HEADER + "".join(f"{name},{40 + i},{-i}\n" for i, name in enumerate(names))


STEMS = [name.split("/")[1].removesuffix(".jpg") for name in FILES]


@pytest.mark.parametrize("prefix", ["EuroSAT_RGB/", "2750/", ""])
@pytest.mark.parametrize("kind", ["zip", "folder"])
def test_official_layouts(prefix, kind, tmp_path):
    write = write_zip if kind == "zip" else write_folder
    dataset, written = prepare("eurosat", write(tmp_path / f"x.{kind}", under(prefix, FILES)))
    assert written and dataset.name == "eurosat" and dataset.class_names == eurosat.CLASS_NAMES
    assert dataset.images.shape == (30, 64, 64, 3) and dataset.images.dtype == np.uint8
    assert dataset.labels.tolist() == [label for label in range(10) for _ in range(3)]
    assert np.array_equal(dataset.images, np.stack([pixels_of(c) for c in FILES.values()]))
    assert dataset.latitude_deg is None and dataset.split is None
    assert dataset.description["notes"] == [f"x.{kind} holds 30 images; published are 27,000"]


def test_size_resizes(archive):
    dataset, _ = prepare("eurosat", archive, options=PrepareOptions(size=32))
    assert dataset.images.shape == (30, 32, 32, 3) and dataset.description["options"] == {
        "size": 32
    }
    first = Image.open(io.BytesIO(FILES["AnnualCrop/AnnualCrop_1.jpg"]))
    expected = first.resize((32, 32), Image.Resampling.BILINEAR)
    assert np.array_equal(dataset.images[0], np.asarray(expected))


@pytest.mark.parametrize("given", [True, False])
def test_coordinates_beside_or_given(given, archive, tmp_path):
    folder = tmp_path / "elsewhere" if given else tmp_path
    folder.mkdir(exist_ok=True)
    geo = folder / "eurosat_geo.csv"
    geo.write_text(geo_rows(STEMS))
    options = PrepareOptions(geo=geo if given else None)
    dataset, _ = prepare("eurosat", archive, options=options)
    assert dataset.latitude_deg.tolist() == list(range(40, 70))
    assert dataset.longitude_deg.tolist() == list(range(0, -30, -1))


def test_missing_coordinates_are_nan_with_a_note(archive, tmp_path):
    (tmp_path / "eurosat_geo.csv").write_text(geo_rows(STEMS[:28]))
    dataset, _ = prepare("eurosat", archive)
    assert np.isnan(dataset.latitude_deg).tolist() == [False] * 28 + [True] * 2
    assert "2 of 30 images have no coordinates" in dataset.description["notes"]


def test_broken_coordinates_name_the_line(archive, tmp_path):
    geo = tmp_path / "eurosat_geo.csv"
    geo.write_text(HEADER + "AnnualCrop_1,44.0,28.5\nAnnualCrop_2,52.6\n")
    with pytest.raises(DataError, match=r"eurosat_geo\.csv, line 3: longitude_deg is None"):
        prepare("eurosat", archive)


def test_other_classes_are_refused(tmp_path):
    files = {name.replace("SeaLake", "Ocean"): content for name, content in FILES.items()}
    path = write_zip(tmp_path / "x.zip", files)
    with pytest.raises(
        DataError, match=r"x\.zip is not EuroSAT .*missing: SeaLake; unknown: Ocean"
    ):
        prepare("eurosat", path)


@pytest.mark.parametrize(
    ("image", "message"),
    [
        (image_bytes(size=(64, 63)), "is 64x63 pixels, but every EuroSAT RGB image is 64x64"),
        (image_bytes(mode="L"), r"has 1 channel\(s\), but every EuroSAT RGB image is 64x64 with 3"),
        (image_bytes(kind="JPEG")[:500], r"cannot be read \(OSError: Truncated"),
    ],
    ids=["size", "channels", "truncated"],
)
def test_wrong_images_are_named(image, message, tmp_path, own_cache):
    path = write_zip(tmp_path / "x.zip", FILES | {"River/River_2.jpg": image})
    with pytest.raises(DataError, match=r"x\.zip!River/River_2\.jpg " + message):
        prepare("eurosat", path)
    assert not (own_cache / "eurosat").exists()


def test_downloaded_archive_is_found_and_may_go_afterwards():
    with pytest.raises(DataError, match=r"no EuroSAT_RGB\.zip in .*`fedorbit data fetch eurosat`"):
        prepare("eurosat", None)
    downloads_root().mkdir(parents=True)
    archive = write_zip(downloads_root() / "EuroSAT_RGB.zip", FILES)
    assert prepare("eurosat", None)[1]
    assert not prepare("eurosat", None)[1]
    archive.unlink()
    assert not prepare("eurosat", None)[1]


def test_the_real_archive(real_data, own_cache):
    path = real_data / "EuroSAT_RGB.zip"
    dataset, _ = prepare("eurosat", path)
    counts = [3000, 3000, 3000, 2500, 2500, 2000, 2500, 3000, 2500, 3000]
    assert dataset.images.shape == (27_000, 64, 64, 3) and dataset.description["notes"] == []
    assert np.bincount(dataset.labels).tolist() == counts
    assert np.isfinite(dataset.latitude_deg).all() and np.isfinite(dataset.longitude_deg).all()
    assert (dataset.latitude_deg[0], dataset.longitude_deg[0]) == (44.03522, 28.55905)
    with zipfile.ZipFile(path) as archive:
        for row, member in (
            (0, "AnnualCrop/AnnualCrop_1.jpg"),
            (26_999, "SeaLake/SeaLake_3000.jpg"),
        ):
            assert np.array_equal(
                dataset.images[row], pixels_of(archive.read(f"EuroSAT_RGB/{member}"))
            )
