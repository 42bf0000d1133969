"""Places from the tags of GeoTIFFs, against PROJ and against the published list of EuroSAT."""

import csv
import io
import zipfile

import numpy as np
import pytest
import tifffile

from fedorbit.data.geotiff import band_names, centre, utm_to_degrees
from fedorbit.errors import DataError
from tests.data.tiff_fixtures import geo_tags, tiff_bytes


def page_of(content):
    return tifffile.TiffFile(io.BytesIO(content)).pages.first


def place(epsg=32633, x=500_000.0, y=5_000_000.0, pixel=10.0, **options):
    tags = geo_tags(epsg, x, y, pixel, **options)
    return centre(page_of(tiff_bytes(np.zeros((6, 4, 2), np.uint16), tags)), "x.tif")


@pytest.mark.parametrize("zone", [1, 17, 31, 33, 60])
@pytest.mark.parametrize("north", [True, False])
def test_utm_agrees_with_proj(zone, north):
    pyproj = pytest.importorskip("pyproj", reason="pyproj is not installed; see fedorbit[test]")
    rng = np.random.default_rng(zone)
    latitude = rng.uniform(0, 84, 50) * (1 if north else -1)
    longitude = 6 * zone - 183 + rng.uniform(-3.5, 3.5, 50)
    code = (32600 if north else 32700) + zone
    forward = pyproj.Transformer.from_crs(4326, code, always_xy=True)
    for x, y, lat, lon in zip(
        *forward.transform(longitude, latitude), latitude, longitude, strict=True
    ):
        found = utm_to_degrees(x, y, zone, north)
        assert found[0] == pytest.approx(lat, abs=1e-9)  # 0.1 mm
        assert (found[1] - lon + 180) % 360 - 180 == pytest.approx(
            0, abs=2e-9 / np.cos(np.radians(lat))
        )


def test_utm_of_the_equator_and_of_a_published_point():
    assert utm_to_degrees(500_000, 0, 31, True) == pytest.approx((0, 3), abs=1e-12)
    assert utm_to_degrees(500_000, 10_000_000, 31, False) == pytest.approx((0, 3), abs=1e-12)
    # CN Tower in Toronto, as Wikipedia's article on UTM gives it, to the metre.
    assert utm_to_degrees(630_084, 4_833_438, 17, True) == pytest.approx(
        (43.642567, -79.387139), abs=2e-5
    )


def test_centre_of_areas_and_of_points():
    # Four columns and six rows of 10 m: the middle is 20 m east and 30 m south of the corner.
    assert place() == pytest.approx(utm_to_degrees(500_020, 4_999_970, 33, True), abs=1e-12)
    # As points, the tie point is the middle of the first pixel: 5 m less each way.
    assert place(raster_type=2) == pytest.approx(
        utm_to_degrees(500_015, 4_999_975, 33, True), abs=1e-12
    )


def test_degrees_are_taken_as_they_are():
    assert place(4326, 10.0, 50.0, 0.5, geographic=True) == (48.5, 11.0)


def test_a_whole_transformation():
    matrix = (0.0, 10.0, 0.0, 500_000.0, -10.0, 0.0, 0.0, 5_000_000.0) + (0.0,) * 8
    keys = geo_tags(32633, 0, 0, 1)[2]
    content = tiff_bytes(np.zeros((6, 4, 2), np.uint16), [(34264, "d", 16, matrix, True), keys])
    # Rotated by a quarter turn: rows lead east, columns south.
    assert centre(page_of(content), "x") == pytest.approx(
        utm_to_degrees(500_030, 4_999_980, 33, True)
    )


@pytest.mark.parametrize("epsg", [3857, 2154, 32767])
def test_other_projections_give_no_place(epsg):
    assert place(epsg) is None


def test_no_tags_no_place():
    assert centre(page_of(tiff_bytes(np.zeros((6, 4, 2), np.uint16))), "x") is None


def test_impossible_places_are_refused():
    with pytest.raises(DataError, match=r"x\.tif says that it lies at latitude 97, longitude 11;"):
        place(4326, 10.0, 98.5, 0.5, geographic=True)


def test_band_names_of_gdal():
    text = "<GDALMetadata>" + "".join(
        f'<Item name="DESCRIPTION" sample="{i}" role="description">{name}</Item>'
        for i, name in enumerate(("B4", "B3"))
    )
    content = tiff_bytes(
        np.zeros((6, 4, 2), np.uint16), [(42112, "s", 0, text + "</GDALMetadata>", True)]
    )
    assert band_names(page_of(content), 2) == ("B4", "B3")
    assert band_names(page_of(content), 3) == ()  # not all of them


def test_real_images_lie_where_the_published_list_has_them(real_file):
    with real_file("eurosat_geo.csv").open(encoding="utf-8") as file:
        listed = {row["name"]: row for row in csv.DictReader(file)}
    with zipfile.ZipFile(real_file("EuroSAT_MS_sample.zip")) as archive:
        for name in archive.namelist()[::10]:
            expected = listed[name.rpartition("/")[2].removesuffix(".tif")]
            found = centre(page_of(archive.read(name)), name)
            assert found[0] == pytest.approx(float(expected["latitude_deg"]), abs=1e-5)
            assert found[1] == pytest.approx(float(expected["longitude_deg"]), abs=1e-5)
