"""Class folders of multispectral images, from files to a prepared dataset."""

import io

import numpy as np
import pytest

from fedorbit.data import catalog
from fedorbit.data.catalog import PrepareOptions, prepare
from fedorbit.data.geotiff import utm_to_degrees
from fedorbit.errors import DataError
from tests.data.source_fixtures import image_bytes, write_folder
from tests.data.tiff_fixtures import geo_tags, scene, tiff_bytes

IMAGES = np.stack([scene(seed) for seed in range(4)])
NAMES = ("A/1.tif", "A/2.tif", "B/1.tif", "B/2.tif")
PLACES = [geo_tags(32631, 4e5 + 1000 * i, 5e6, 10.0) for i in range(4)]


def folder(path, write=tiff_bytes, tags=PLACES):
    made = zip(NAMES, IMAGES, tags, strict=True)
    return write_folder(path, {name: write(image, tag) for name, image, tag in made})


def npy(image, tags=()):
    buffer = io.BytesIO()
    np.save(buffer, image)
    return buffer.getvalue()


def test_thirteen_bands_with_places(tmp_path):
    dataset, _ = prepare("folder", folder(tmp_path / "mine"))
    assert dataset.name == "mine" and np.array_equal(dataset.images, IMAGES)
    assert dataset.images.dtype == np.uint16
    expected = [utm_to_degrees(400_040 + 1000 * i, 4_999_960, 31, True) for i in range(4)]
    assert np.array_equal(np.stack([dataset.latitude_deg, dataset.longitude_deg], 1), expected)


def test_images_without_place_have_none(tmp_path):
    dataset, _ = prepare("folder", folder(tmp_path / "mine", tags=[(), PLACES[1], PLACES[2], ()]))
    assert np.isnan(dataset.latitude_deg).tolist() == [True, False, False, True]
    assert dataset.description["notes"] == ["2 of 4 images have no coordinates"]
    without, _ = prepare("folder", folder(tmp_path / "other", tags=[()] * 4))
    assert without.latitude_deg is None


def test_a_list_goes_before_tags(tmp_path):
    rows = "".join(f"{name},{i},{-i}\n" for i, name in enumerate(NAMES))
    path = folder(tmp_path / "mine")
    (path / "coordinates.csv").write_text("name,latitude_deg,longitude_deg\n" + rows)
    dataset, _ = prepare("folder", path)
    assert dataset.latitude_deg.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("bands", "sensor", "kept"),
    [
        ("4,3,2", None, [3, 2, 1]),
        ("B04,B03,B02", "sentinel-2", [3, 2, 1]),
        ("b8a", "sentinel-2", [8]),
        ("B8A", "eurosat", [12]),
        ("rgb", "sentinel-2", [3, 2, 1]),
    ],
)
def test_bands(bands, sensor, kept, tmp_path):
    options = PrepareOptions(bands=bands, sensor=sensor)
    dataset, _ = prepare("folder", folder(tmp_path / "mine"), options=options)
    assert np.array_equal(dataset.images, IMAGES[..., kept])
    assert dataset.description["options"]["bands"] == bands


def test_names_of_bands_need_a_sensor(tmp_path):
    with pytest.raises(DataError, match=r"does not name its 13 band.*--sensor: sentinel-2, "):
        prepare("folder", folder(tmp_path / "mine"), options=PrepareOptions(bands="B04"))


def test_class_folders_of_arrays(tmp_path):
    write_folder(
        tmp_path / "mine",
        {f"{name[:-4]}.npy": npy(i) for name, i in zip(NAMES, IMAGES, strict=True)},
    )
    dataset, _ = prepare("folder", tmp_path / "mine")
    assert np.array_equal(dataset.images, IMAGES) and dataset.class_names == ("A", "B")


def test_mixed_types_are_refused(tmp_path):
    path = folder(tmp_path / "mine")
    (path / "B/2.tif").write_bytes(tiff_bytes(IMAGES[3].astype(np.float32)))
    with pytest.raises(
        DataError, match=r"2\.tif holds float32 values, but the first image, .* of uint16"
    ):
        prepare("folder", path)
    (path / "B/2.tif").write_bytes(image_bytes(size=(8, 8)))
    with pytest.raises(DataError, match=r"2\.tif has 3 channel\(s\), but the first image"):
        prepare("folder", path)


def test_large_images_are_prepared_with_a_warning_unless_a_size_is_given(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "LARGE_BYTES", 100_000)
    large = {name: image_bytes(size=(128, 128)) for name in NAMES}
    path = write_folder(tmp_path / "mine", large)
    message = (
        r"4 images of 128 x 128 x 3 take 0 MB in the cache, and as much memory in every run; with "
        r"--size 64 mine takes 0 MB"
    )
    with pytest.warns(UserWarning, match=message):
        prepare("folder", path)
    prepare("folder", path, name="small", options=PrepareOptions(size=128))
