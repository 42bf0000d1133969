"""EuroSAT with 13 bands: made files in both official layouts, and real ones where they are."""

import io
import zipfile

import numpy as np
import pytest
import tifffile

from fedorbit.data import eurosat
from fedorbit.data.bands import EUROSAT
from fedorbit.data.catalog import PrepareOptions, prepare
from fedorbit.data.geotiff import utm_to_degrees
from fedorbit.errors import DataError
from tests.data.source_fixtures import under, write_folder, write_zip
from tests.data.tiff_fixtures import geo_tags, scene, tiff_bytes

IMAGES = np.stack([scene(seed, side=64) for seed in range(10)])
FILES = {
    f"{name}/{name}_1.tif": tiff_bytes(IMAGES[i], geo_tags(32631 + i, 4e5, 5e6, 10.0))
    for i, name in enumerate(eurosat.CLASS_NAMES)
}


@pytest.mark.parametrize(
    "prefix", ["EuroSAT_MS/", "ds/images/remote_sensing/otherDatasets/sentinel_2/tif/"]
)
def test_both_editions(prefix, tmp_path):
    dataset, _ = prepare("eurosat-ms", write_zip(tmp_path / "x.zip", under(prefix, FILES)))
    assert np.array_equal(dataset.images, IMAGES) and dataset.images.dtype == np.uint16
    assert dataset.class_names == eurosat.CLASS_NAMES
    places = [utm_to_degrees(400_320, 4_999_680, 31 + i, True) for i in range(10)]
    assert np.array_equal(np.stack([dataset.latitude_deg, dataset.longitude_deg], 1), places)
    assert dataset.description["bands"] == list(EUROSAT)
    assert dataset.description["title"] == "EuroSAT, 13 bands"


def test_bands_of_so2sat(tmp_path):
    options = PrepareOptions(bands="so2sat")
    dataset, _ = prepare("eurosat-ms", write_folder(tmp_path / "x", FILES), options=options)
    order = [EUROSAT.index(name) for name in dataset.description["bands"]]
    assert len(order) == 10 and np.array_equal(dataset.images, IMAGES[..., order])
    assert dataset.description["title"] == "EuroSAT, 10 bands"


def test_images_of_other_types_are_refused(tmp_path):
    name = "Forest/Forest_1.tif"
    path = write_folder(tmp_path / "x", FILES | {name: tiff_bytes(IMAGES[0].astype(np.float32))})
    with pytest.raises(DataError, match=r"Forest_1.tif holds float32 values, but every EuroSAT MS"):
        prepare("eurosat-ms", path)


def test_the_real_sample(real_file):
    path = real_file("EuroSAT_MS_sample.zip")
    dataset, _ = prepare("eurosat-ms", path)
    assert dataset.images.shape == (200, 64, 64, 13) and np.isfinite(dataset.latitude_deg).all()
    with zipfile.ZipFile(path) as archive:
        name = next(name for name in archive.namelist() if "/SeaLake/" in name)
        expected = tifffile.imread(io.BytesIO(archive.read(name)))
    assert any(np.array_equal(image, expected) for image in dataset.images[dataset.labels == 9])
    # Cirrus, B10, is dark by far, as it must be if bands are named right.
    darkest = dataset.images.mean(axis=(0, 1, 2)).argmin()
    assert dataset.description["bands"][darkest] == "B10"
