"""Choice of bands: those that are kept, their order and their names."""

import pytest

from fedorbit.data.bands import EUROSAT, PRESETS, SENSORS, chosen, colours, named
from fedorbit.errors import DataError


def test_eurosat_has_b8a_last_and_sentinel_2_after_b08():
    assert EUROSAT[-1] == "B8A" and EUROSAT[7:9] == ("B08", "B09") and len(EUROSAT) == 13
    assert SENSORS["sentinel-2"][7:10] == ("B08", "B8A", "B09") and len(SENSORS["sentinel-2"]) == 13


def test_the_ten_bands_of_so2sat_of_eurosat():
    places, names = chosen("so2sat", EUROSAT, 13, "x")
    assert names == ("B02", "B03", "B04", "B05", "B06", "B07", "B08", "B8A", "B11", "B12")
    assert places == (1, 2, 3, 4, 5, 6, 7, 12, 10, 11)
    assert set(PRESETS) == {"so2sat", "rgb"}


def test_all_bands_without_a_choice():
    assert chosen(None, (), 4, "x") == ((), ())
    assert chosen("1,2,3,4", (), 4, "x") == ((), ())


@pytest.mark.parametrize(
    ("wanted", "names", "message"),
    [
        ("0", EUROSAT, "--bands has 0, but x.tif has bands 1 to 13"),
        ("14", EUROSAT, "--bands has 14, but x.tif has bands 1 to 13"),
        ("B04,B13", EUROSAT, "--bands has 'B13', but the bands of x.tif are B01, B02"),
        ("B04", (), "--bands has 'B04', but x.tif does not name its 13 band(s); give their numbers, or --sensor"),
        ("4,B04", EUROSAT, "--bands names 4 twice"),
        ("", EUROSAT, "--bands has ''"),
    ],
)  # fmt: skip
def test_wrong_choices(wanted, names, message):
    with pytest.raises(DataError) as caught:
        chosen(wanted, names, 13, "x.tif")
    assert message in str(caught.value)


def test_a_sensor_must_fit():
    assert named("naip", (), 4, "x") == ("red", "green", "blue", "nir")
    assert named(None, ("a", "b"), 2, "x") == ("a", "b")
    with pytest.raises(DataError, match=r"x has 12 band\(s\), but those of sentinel-2 are 13: B01"):
        named("sentinel-2", (), 12, "x")
    with pytest.raises(DataError, match="did you mean 'landsat-8'"):
        named("landsat8", (), 11, "x")


def test_colours():
    assert colours(EUROSAT) == (3, 2, 1) and colours(SENSORS["planetscope-4"]) == (2, 1, 0)
    assert colours(("B04", "B03")) is None
