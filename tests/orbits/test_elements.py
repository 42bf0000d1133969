import csv
import io
import json
import os
from datetime import timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedorbit.errors import ElementSetError
from fedorbit.orbits.constellation import from_element_sets
from fedorbit.orbits.elements import read_element_sets
from tests.orbits.element_files import EPOCH, ISS_TLE, made_satellite, omm_json, tle_text


@pytest.fixture
def two_satellites() -> list[tuple[str, object]]:
    return [("ALPHA", made_satellite(101, 10.0)), ("BETA", made_satellite(102, 50.0, 90.0))]


def written(tmp_path: Path, text: str, name: str = "elements.txt") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def omm_csv(records: list[dict[str, object]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]))
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def omm_xml(records: list[dict[str, object]]) -> str:
    tags = ("MEAN_MOTION", "ECCENTRICITY", "INCLINATION", "RA_OF_ASC_NODE", "ARG_OF_PERICENTER",
            "MEAN_ANOMALY", "EPOCH")  # fmt: skip
    segments = ""
    for record in records:
        mean = "".join(f"<{t}>{record[t]}</{t}>" for t in tags)
        rest = "".join(f"<{t}>{v}</{t}>" for t, v in record.items() if t not in tags)
        segments += (
            f"<body><segment><metadata>{rest}</metadata><data><meanElements>{mean}</meanElements>"
            "<tleParameters></tleParameters></data></segment></body>"
        )
    return f"<?xml version='1.0'?><ndm><omm>{segments}</omm></ndm>"


@pytest.mark.parametrize("style", ["tle", "json", "csv", "xml"])
def test_every_format_gives_the_same_orbits(tmp_path: Path, two_satellites, style: str) -> None:
    records = json.loads(omm_json(two_satellites))
    text = {
        "tle": tle_text(two_satellites),
        "json": json.dumps(records),
        "csv": omm_csv(records),
        "xml": omm_xml(records),
    }[style]
    sets = read_element_sets(written(tmp_path, text))
    assert [s.name for s in sets] == ["ALPHA", "BETA"]
    for element_set, (_, satrec) in zip(sets, two_satellites, strict=True):
        assert abs(element_set.epoch - EPOCH) < timedelta(seconds=0.01)
        assert element_set.satrec.nodeo == pytest.approx(satrec.nodeo, abs=1e-6)
        _, expected_km, _ = satrec.sgp4(satrec.jdsatepoch, satrec.jdsatepochF)
        _, r_km, _ = element_set.satrec.sgp4(satrec.jdsatepoch, satrec.jdsatepochF)
        np.testing.assert_allclose(r_km, expected_km, atol=0.1)  # TLE rounds angles to 1e-4 deg


def test_two_line_sets_need_no_name(tmp_path: Path) -> None:
    lines = ISS_TLE.splitlines()[1:]
    [iss] = read_element_sets(written(tmp_path, "\n".join(lines) + "\n\n"))
    assert iss.name == "satellite 25544"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda t: t.replace("51.6498", "51.6499"), "line 3: checksum is 3"),
        (lambda t: t.replace("15.49815350868473", "15.4981535086847"), "69 characters, got 68"),
        (lambda t: "\n".join(t.splitlines()[:2]), "line 2: TLE line 1 without a line 2"),
        (lambda t: t.splitlines()[0] + "\n" + t, "expected TLE line 1 after the name"),
        (lambda t: "", "holds no element set"),
        (lambda t: "[{]", "not a well-formed OMM"),
        (lambda t: "<ndm><omm>", "not a well-formed OMM"),
        (lambda t: "<ndm><segment/></ndm>", "without mean elements"),
        (lambda t: '[{"OBJECT_NAME": "X"}]', "record 1: the OMM field CLASSIFICATION_TYPE"),
        (lambda t: "[3]", "record 1: expected an object"),
    ],
)
def test_broken_files_are_refused_with_the_place(tmp_path: Path, damage, message: str) -> None:
    file = written(tmp_path, damage(ISS_TLE))
    with pytest.raises(ElementSetError, match=message) as error:
        read_element_sets(file)
    assert str(file) in str(error.value)
    assert "\n" not in str(error.value)


def test_a_second_line_of_another_satellite_is_refused(tmp_path: Path, two_satellites) -> None:
    lines = tle_text(two_satellites).splitlines()
    swapped = "\n".join([lines[0], lines[1], lines[5]])
    with pytest.raises(ElementSetError, match="line 2 is of satellite 00102, but line 1 of 00101"):
        read_element_sets(written(tmp_path, swapped))


def test_a_value_that_is_no_number_is_refused(tmp_path: Path, two_satellites) -> None:
    records = json.loads(omm_json(two_satellites))
    records[1]["INCLINATION"] = "steep"
    with pytest.raises(ElementSetError, match=r"record 2: .*steep"):
        read_element_sets(written(tmp_path, json.dumps(records)))


def omm_with(changes: dict[str, object]) -> str:
    [record] = json.loads(omm_json([("ALPHA", made_satellite(101, 10.0))]))
    return json.dumps([{**record, **changes}])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"MEAN_MOTION": float("nan")}, "MEAN_MOTION must be from 0.001 to 20 .*got nan"),
        ({"MEAN_MOTION": -3}, "MEAN_MOTION must be .*got -3"),
        ({"MEAN_MOTION": "1e400"}, "MEAN_MOTION must be .*got inf"),
        ({"INCLINATION": float("nan")}, "INCLINATION must be from 0 to 180 degrees, got nan"),
        ({"INCLINATION": 500}, "INCLINATION must be from 0 to 180 degrees, got 500"),
        ({"ECCENTRICITY": 1.2}, "ECCENTRICITY must be"),
        ({"RA_OF_ASC_NODE": 1e9}, "RA_OF_ASC_NODE must be"),
        ({"BSTAR": float("inf")}, "BSTAR must be a finite number, got inf"),
        ({"EPOCH": "yesterday"}, "EPOCH must be a moment such as"),
        ({"EPOCH": "2100-01-01T00:00:00"}, "EPOCH must be .*1957 to 2056"),
        ({"NORAD_CAT_ID": "x"}, "NORAD_CAT_ID must be a number, got 'x'"),
        ({"NORAD_CAT_ID": [1]}, "NORAD_CAT_ID must be a number"),
        ({"OBJECT_ID": None}, "OBJECT_ID is empty"),
    ],
)  # fmt: skip
def test_elements_out_of_range_are_refused(tmp_path: Path, changes, message: str) -> None:
    with pytest.raises(ElementSetError, match=f"record 1: .*{message}"):
        read_element_sets(written(tmp_path, omm_with(changes)))


@pytest.mark.parametrize(
    "epoch",
    ["2026-03-01T12:00:00", "2026-03-01T12:00:00Z", "2026-03-01T12:00:00.000000Z",
     "2026-03-01T14:00:00.0+02:00", "2026-03-01T12:00:00.000000"],
)  # fmt: skip
def test_epochs_with_and_without_zone_and_fraction(tmp_path: Path, epoch: str) -> None:
    [element_set] = read_element_sets(written(tmp_path, omm_with({"EPOCH": epoch})))
    assert abs(element_set.epoch - EPOCH - timedelta(hours=12)) < timedelta(milliseconds=1)


def test_a_tle_out_of_range_is_refused(tmp_path: Path) -> None:
    steep = ISS_TLE.replace(" 51.6498", "510.6498")
    with pytest.raises(ElementSetError, match=r"line 2: INCLINATION must be .*got 510.65"):
        read_element_sets(written(tmp_path, steep))


def test_foreign_digits_in_a_tle_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "foreign.tle"
    file.write_text(ISS_TLE.replace("14020", "1402²"), encoding="utf-8")
    with pytest.raises(ElementSetError, match=r"line 2: .*ASCII characters only, got '²'"):
        read_element_sets(file)


@pytest.mark.parametrize("style", [tle_text, omm_json])
def test_two_orbits_of_a_satellite_at_one_epoch_are_refused(tmp_path: Path, style) -> None:
    twice = [("ONE", made_satellite(7, 10.0)), ("TWO", made_satellite(8, 10.0)),
             ("ONE AGAIN", made_satellite(7, 10.1))]  # fmt: skip
    places = "line 8: satellite 7 has another orbit at the same epoch in .*line 2; keep one"
    if style is omm_json:
        places = "record 3: satellite 7 has another orbit .* in .*record 1; keep one"
    with pytest.raises(ElementSetError, match=places):
        read_element_sets(written(tmp_path, style(twice)))


def test_two_satellites_under_one_number_are_refused(tmp_path: Path) -> None:
    # Sets of several epochs are a history only if they can be of one satellite.
    later = EPOCH + timedelta(days=1)
    other = made_satellite(7, 10.0, inclination_deg=97.5, epoch=later)
    file = written(tmp_path, tle_text([("ONE", made_satellite(7, 10.0)), ("OTHER", other)]))
    with pytest.raises(
        ElementSetError,
        match=r"line 5: satellite 7 has an inclination of 97\.50 degrees, and of 53\.00 in .*line 2;",
    ):
        read_element_sets(file)


@pytest.mark.parametrize("style", [tle_text, omm_json])
def test_the_same_set_twice_counts_once(tmp_path: Path, style) -> None:
    # Downloads of a history repeat sets, at times with another number of revolutions.
    again = made_satellite(7, 10.0)
    again.revnum = 2
    twice = [("ONE", made_satellite(7, 10.0)), ("TWO", made_satellite(8, 10.0)), ("ONE", again)]
    sets = read_element_sets(written(tmp_path, style(twice)))
    assert [s.name for s in sets] == ["ONE", "TWO"]


def test_a_short_csv_row_is_refused(tmp_path: Path, two_satellites) -> None:
    text = omm_csv(json.loads(omm_json(two_satellites))).rstrip()
    with pytest.raises(ElementSetError, match=r"record 2: the OMM field .* is empty; .*cut short"):
        read_element_sets(written(tmp_path, text.rsplit(",", 3)[0]))


def test_an_xml_segment_without_metadata_is_refused(tmp_path: Path) -> None:
    text = "<ndm><segment><data><meanElements/></data></segment></ndm>"
    with pytest.raises(ElementSetError, match="without mean elements"):
        read_element_sets(written(tmp_path, text))


def test_missing_and_binary_files(tmp_path: Path) -> None:
    with pytest.raises(ElementSetError, match="does not exist"):
        read_element_sets(tmp_path / "none.tle")
    binary = tmp_path / "binary.tle"
    binary.write_bytes(bytes(range(128, 256)))
    with pytest.raises(ElementSetError, match="cannot read"):
        read_element_sets(binary)


def test_expired_sets_are_refused_with_the_remedy(tmp_path: Path, two_satellites) -> None:
    sets = read_element_sets(written(tmp_path, tle_text(two_satellites)))
    from_element_sets(sets, start=EPOCH + timedelta(days=13))
    with pytest.raises(
        ElementSetError, match=r"2 of 2 .*15\.0 days .*allowed are 14.*max_age_days"
    ):
        from_element_sets(sets, start=EPOCH + timedelta(days=15))
    with pytest.raises(ElementSetError, match="too old"):  # the horizon's end counts too
        from_element_sets(sets, start=EPOCH + timedelta(days=13), horizon_s=2 * 86400.0)
    with pytest.raises(ElementSetError, match="too old"):  # and so do sets from the future
        from_element_sets(sets, start=EPOCH - timedelta(days=15))


def test_satellites_are_grouped_by_plane(tmp_path: Path) -> None:
    # Three planes, one of them astride 0 degrees, one at another inclination but the same node.
    satellites = [
        ("A0", made_satellite(1, 359.5, 200.0)),
        ("B0", made_satellite(2, 60.0, 10.0)),
        ("A1", made_satellite(3, 0.7, 20.0)),
        ("C0", made_satellite(4, 60.0, 0.0, inclination_deg=97.5)),
        ("B1", made_satellite(5, 60.5, 190.0)),
        ("D0", made_satellite(6, 60.0, 0.0, revolutions_per_day=14.3)),
    ]
    sets = read_element_sets(written(tmp_path, tle_text(satellites)))
    constellation = from_element_sets(sets)
    groups = [
        {
            constellation.satellite_names[i]
            for i in np.flatnonzero(constellation.orbit_of_satellite == o)
        }
        for o in range(constellation.orbits)
    ]
    # By inclination, then altitude (B before the higher D), then node.
    assert groups == [{"B0", "B1"}, {"A0", "A1"}, {"D0"}, {"C0"}]
    assert constellation.satellites_per_orbit.tolist() == [2, 2, 1, 1]
    # Within an orbit by latitude argument at the start.
    assert constellation.satellite_names[2:4] == ("A1", "A0")


def test_a_naive_start_is_utc(tmp_path: Path, two_satellites) -> None:
    sets = read_element_sets(written(tmp_path, tle_text(two_satellites)))
    naive = from_element_sets(sets, start=EPOCH.replace(tzinfo=None))
    shifted = from_element_sets(sets, start=EPOCH.astimezone(timezone(timedelta(hours=5))))
    assert naive.start == shifted.start == EPOCH
    assert shifted.start.utcoffset() == timedelta(0)


@pytest.mark.parametrize("inclination_deg", [0.04, 179.96])
def test_near_the_equator_nodes_do_not_divide_an_orbit(
    tmp_path: Path, inclination_deg: float
) -> None:
    # The same ring of 12, with nodes that are anywhere: planes differ by less than 0.1 degrees.
    nodes_deg = np.random.default_rng(3).uniform(0.0, 360.0, 12)
    turn = 1.0 if inclination_deg < 90.0 else -1.0
    satellites = [
        (f"RING {k:02d}", made_satellite(k + 1, node, 30.0 * k - turn * node, inclination_deg))
        for k, node in enumerate(nodes_deg)
    ]
    sets = read_element_sets(written(tmp_path, tle_text(satellites)))
    constellation = from_element_sets(sets)
    assert constellation.satellites_per_orbit.tolist() == [12]
    # Neighbours follow each other along the ring, not by arguments from nodes of their own.
    r_km = constellation.motion.r_eci_km(np.zeros(1))[0]
    longitude_deg = np.degrees(np.arctan2(r_km[:, 1], r_km[:, 0]))
    np.testing.assert_allclose(np.diff(longitude_deg) % 360.0, turn * 30.0 % 360.0, atol=0.2)


@pytest.mark.parametrize(("inclination_deg", "orbits"), [(90.0, 2), (30.0, 2), (25.0, 1)])
def test_nodes_count_by_the_angle_between_their_planes(
    tmp_path: Path, inclination_deg: float, orbits: int
) -> None:
    # Nodes 7 degrees apart: 7, 3.5 and 2.96 degrees between the planes, 3 divide an orbit.
    satellites = [
        (f"SAT {k}", made_satellite(k + 1, 7.0 * k, 0.0, inclination_deg)) for k in range(2)
    ]
    sets = read_element_sets(written(tmp_path, tle_text(satellites)))
    assert from_element_sets(sets).orbits == orbits


def test_nodes_are_compared_at_one_moment(tmp_path: Path) -> None:
    # At 53 degrees and 550 km nodes drift by about -4.5 degrees a day: the same node on two days
    # is another plane, and nodes 4.5 degrees apart may be one plane.
    later = EPOCH + timedelta(days=2)
    satellites = [
        ("DAY 0", made_satellite(1, 100.0)),
        ("SAME PLANE", made_satellite(2, 100.0 - 2 * 4.48, 180.0, epoch=later)),
        ("OTHER PLANE", made_satellite(3, 100.0, 90.0, epoch=later)),
    ]
    constellation = from_element_sets(read_element_sets(written(tmp_path, tle_text(satellites))))
    orbit_of = dict(
        zip(constellation.satellite_names, constellation.orbit_of_satellite, strict=True)
    )
    assert orbit_of["DAY 0"] == orbit_of["SAME PLANE"] != orbit_of["OTHER PLANE"]
    assert constellation.start is not None
    assert abs(constellation.start - later) < timedelta(seconds=0.01)


def test_one_satellite_at_one_time_equals_the_grid(tmp_path: Path, two_satellites) -> None:
    sets = read_element_sets(written(tmp_path, tle_text(two_satellites)))
    constellation = from_element_sets(sets)
    times_s = np.array([0.0, 90000.0, 100.0, 7.0])
    satellites = np.array([1, 0, 1, 0])
    grid_km = constellation.r_ecef_km(times_s)
    pairs_km = constellation.r_ecef_km_at(satellites, times_s)
    np.testing.assert_allclose(pairs_km, grid_km[np.arange(4), satellites], atol=1e-9)


def test_a_decaying_satellite_is_named(tmp_path: Path) -> None:
    falling = made_satellite(9, 0.0, revolutions_per_day=16.4)
    falling_fast = tle_text([("FALLING", falling)])
    sets = read_element_sets(written(tmp_path, falling_fast))
    constellation = from_element_sets(sets)
    with pytest.raises(ElementSetError, match="SGP4 cannot propagate FALLING"):
        constellation.r_ecef_km(np.array([0.0, 3000 * 86400.0]))
    with pytest.raises(ElementSetError, match="SGP4 cannot propagate FALLING"):
        constellation.r_ecef_km_at(np.array([0]), np.array([3000 * 86400.0]))


# --- Damage that a checksum does not show -------------------------------------------------------


def with_columns(line: int, first: int, text: str) -> str:
    """Return the published set with other columns in one line, and the checksum to fit."""
    lines = ISS_TLE.splitlines()
    changed = lines[line][: first - 1] + text + lines[line][first - 1 + len(text) : 68]
    total = sum(int(c) if c.isdigit() else c == "-" for c in changed)
    lines[line] = f"{changed}{total % 10}"
    return "\n".join(lines)


@pytest.mark.parametrize(
    "day",
    ["000.93268519", "-30.00000000", "999.93268519", "367.00000000", "366.00000000", "1e9         ",
     "nan         ", "            ", "0X0.00000000", "068132721500"],
)  # fmt: skip
def test_an_epoch_day_that_no_year_has_is_refused(tmp_path: Path, day: str) -> None:
    file = written(tmp_path, with_columns(1, 21, day))
    with pytest.raises(ElementSetError, match=r"line 2: the epoch day \(columns 21 to 32") as error:
        read_element_sets(file)
    assert f"got {day!r}" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("epoch", "moment"),
    [
        ("14365.50000000", "2014-12-31 12:00"),
        ("12366.50000000", "2012-12-31 12:00"),
        ("14  1.50000000", "2014-01-01 12:00"),
        ("56366.50000000", "2056-12-31 12:00"),
        ("57001.50000000", "1957-01-01 12:00"),
    ],
)
def test_the_first_and_last_days_of_years(tmp_path: Path, epoch: str, moment: str) -> None:
    [iss] = read_element_sets(written(tmp_path, with_columns(1, 19, epoch)))
    assert f"{iss.epoch:%Y-%m-%d %H:%M}" == moment


@pytest.mark.parametrize(
    ("line", "first", "text", "message"),
    [
        (1, 18, "9", "line 2: column 18 must be blank, got '9'"),
        (1, 19, "x4", r"line 2: the epoch year \(columns 19 to 20\) .* got 'x4'"),
        (1, 34, " .0000987a", r"the first derivative .* got ' \.0000987a'"),
        (1, 54, " 1820x-3", r"the drag term .* got ' 1820x-3'"),
        (2, 9, " 51.6a98", r"line 3: the inclination \(columns 9 to 16\) .* got ' 51\.6a98'"),
        (2, 27, "-003572", "the eccentricity"),
        (2, 53, "1e.49815350", "the mean motion"),
        (2, 52, "5", "column 52 must be blank"),
    ],
)
def test_columns_of_a_tle_that_are_no_numbers_are_refused(
    tmp_path: Path, line: int, first: int, text: str, message: str
) -> None:
    with pytest.raises(ElementSetError, match=message):
        read_element_sets(written(tmp_path, with_columns(line, first, text)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"NORAD_CAT_ID": 340_000}, "NORAD_CAT_ID must be from 0 to 339999, got 340000"),
        ({"NORAD_CAT_ID": -1}, "NORAD_CAT_ID must be from 0"),
        ({"EPHEMERIS_TYPE": 2**40}, "EPHEMERIS_TYPE must be from 0 to 9"),
        ({"REV_AT_EPOCH": 2**70}, "REV_AT_EPOCH must be"),
        ({"OBJECT_NAME": "9" * 5000}, "name must have at most 100 characters.*got 5,000: '9{40}'"),
        ({"OBJECT_NAME": "A\nB"}, "all of them printable"),
        ({"OBJECT_NAME": "\ud800"}, "all of them printable"),
    ],
)
def test_fields_that_no_satellite_has_are_refused(tmp_path: Path, changes, message: str) -> None:
    with pytest.raises(ElementSetError, match=f"record 1: .*{message}") as error:
        read_element_sets(written(tmp_path, omm_with(changes)))
    assert "\n" not in str(error.value)


TLE_ALPHABET = "0123456789 +-.eEnaNX"


@settings(max_examples=400)
@given(
    line=st.sampled_from([1, 2]),
    first=st.integers(3, 68),
    text=st.text(TLE_ALPHABET, min_size=1, max_size=14),
)
def test_any_columns_give_positions_or_one_sentence(
    tmp_path_factory, line: int, first: int, text: str
) -> None:
    file = written(tmp_path_factory.getbasetemp(), with_columns(line, first, text[: 69 - first]))
    try:
        [element_set] = read_element_sets(file)
    except ElementSetError as error:
        assert "\n" not in str(error) and len(str(error)) < 500
    else:
        assert 1957 <= element_set.epoch.year <= 2057


# --- What is no file of elements ----------------------------------------------------------------


def test_a_fifo_a_device_and_a_folder_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo")
    for name, kind in (("zero", "a device"), ("fifo", "a FIFO"), (".", "a folder")):
        with pytest.raises(ElementSetError, match=f"cannot read .*: it is {kind}, not a regular"):
            read_element_sets(tmp_path / name)


def test_a_huge_file_is_not_read(tmp_path: Path) -> None:
    file = written(tmp_path, ISS_TLE)
    os.truncate(file, (1 << 26) + 1)
    with pytest.raises(ElementSetError, match="it has 67,108,865 bytes, allowed are 67,108,864;"):
        read_element_sets(file)
