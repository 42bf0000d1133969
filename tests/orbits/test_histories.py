"""Satellites with element sets of several epochs: the nearest counts, and contacts stay right."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from sgp4.api import Satrec

from fedorbit.errors import ElementSetError
from fedorbit.orbits.constellation import Constellation, from_element_sets
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.earth import julian_date, latitude_longitude_deg
from fedorbit.orbits.elements import histories, read_element_sets
from fedorbit.orbits.places import Place, PlaceArrays
from tests.orbits.element_files import EPOCH, made_satellite, tle_text

HOUR = timedelta(hours=1)
SWITCH_S = 1800.0  # half-way between epochs at 0 and 1 h


def later_set(first: Satrec, number: int, hours: float, ahead_rad: float) -> Satrec:
    """Return a set of the same satellite some hours later, a little ahead of where it should be."""
    minutes = 60.0 * hours
    along_rad = first.argpo + first.mo + (first.argpdot + first.mdot) * minutes + ahead_rad
    return made_satellite(
        number,
        float(np.degrees(first.nodeo + first.nodedot * minutes)),
        float(np.degrees(along_rad)),
        epoch=EPOCH + hours * HOUR,
    )


def jumping(folder: Path, ahead_rad: float = 2e-3) -> Constellation:
    """Return two satellites; the first has two sets, the second's epochs come in no order."""
    one, two = made_satellite(1, 0.0, 30.0), made_satellite(2, 120.0)
    sets = [
        ("ONE", one),
        ("TWO", later_set(two, 2, 2.0, 1e-3)),
        ("ONE", later_set(one, 1, 1.0, ahead_rad)),
        ("TWO", two),
        ("TWO", later_set(two, 2, 1.0, 0.0)),
    ]
    file = folder / "history.tle"
    file.write_text(tle_text(sets))
    return from_element_sets(read_element_sets(file), start=EPOCH)


def test_sets_are_gathered_by_satellite_and_epoch(tmp_path: Path) -> None:
    jumping(tmp_path)
    found = histories(read_element_sets(tmp_path / "history.tle"))
    assert [[s.name for s in sets] for sets in found] == [["ONE"] * 2, ["TWO"] * 3]
    for sets in found:
        assert [s.epoch for s in sets] == sorted(s.epoch for s in sets)


def test_the_set_of_the_nearest_epoch_counts(tmp_path: Path) -> None:
    constellation = jumping(tmp_path)
    times_s = np.array([-9e4, 0.0, 1799.0, 1801.0, 3600.0, 5399.0, 5401.0, 1799.0, 9e4])
    grid_km = constellation.motion.r_eci_km(times_s)
    by_name = {h[0].name: h for h in histories(read_element_sets(tmp_path / "history.tle"))}
    for column, name in enumerate(constellation.satellite_names):
        for row, time_s in enumerate(times_s):
            moment = EPOCH + timedelta(seconds=time_s)
            sets = by_name[name]
            nearest = min(sets, key=lambda s: abs(s.epoch - moment))
            _, r_km, _ = nearest.satrec.sgp4(*julian_date(moment))
            np.testing.assert_allclose(grid_km[row, column], r_km, atol=1e-4)
    # Pairs in any order have the same positions, to the bit.
    satellites = np.array([1, 0, 1, 0, 0, 1, 1, 0, 0])
    pairs_km = constellation.motion.r_eci_km_at(satellites, times_s)
    np.testing.assert_array_equal(pairs_km, grid_km[np.arange(9), satellites])


def test_the_position_jumps_where_another_set_takes_over(tmp_path: Path) -> None:
    constellation = jumping(tmp_path)
    one = constellation.satellite_names.index("ONE")
    satellites, moments_s = constellation.motion.switches
    np.testing.assert_allclose(moments_s[satellites == one], SWITCH_S, atol=1e-3)
    [switch_s] = moments_s[satellites == one]
    around_km = constellation.motion.r_eci_km(np.array([np.nextafter(switch_s, 0.0), switch_s]))
    jump_km = np.linalg.norm(np.diff(around_km[:, one], axis=0))
    assert jump_km == pytest.approx(2e-3 * 6925.0, rel=0.1)


@pytest.mark.parametrize("ahead_rad", [5e-3, -5e-3])
@pytest.mark.parametrize("seen_from_s", [-150.0, -20.0, -3.0, 1.0, 120.0])
def test_a_pass_that_contains_a_switch(
    tmp_path: Path, ahead_rad: float, seen_from_s: float
) -> None:
    constellation = jumping(tmp_path, ahead_rad)
    one = constellation.satellite_names.index("ONE")
    # A station under the satellite's place before or after the switch.
    under_km = constellation.r_ecef_km(np.array([SWITCH_S + seen_from_s]))[0, one]
    latitude_deg, longitude_deg = latitude_longitude_deg(under_km)
    place = Place("under", float(latitude_deg), float(longitude_deg), 10.0)
    contacts = find_contacts(constellation, [place], 12, 300.0)
    [mine] = np.flatnonzero((contacts.satellite == one) & (contacts.rise_s < SWITCH_S)
                            & (contacts.set_s > SWITCH_S))  # fmt: skip

    def sines(times_s: np.ndarray) -> np.ndarray:
        arrays = PlaceArrays.of([place], constellation.geoid)
        satellites = np.full(len(times_s), one)
        return arrays.sin_elevation_at(
            np.zeros(len(times_s), dtype=np.int64), constellation.r_ecef_km_at(satellites, times_s)
        )

    times_s = np.arange(SWITCH_S - 600.0, SWITCH_S + 600.0, 0.01)
    elevations = sines(times_s)
    up_s = times_s[elevations >= np.sin(np.radians(10.0))]
    assert contacts.rise_s[mine] == pytest.approx(up_s[0], abs=0.011)
    assert contacts.set_s[mine] == pytest.approx(up_s[-1], abs=0.011)
    highest_deg = np.degrees(np.arcsin(elevations.max()))
    assert contacts.max_elevation_deg[mine] == pytest.approx(highest_deg, abs=0.01)
    assert contacts.max_elevation_deg[mine] >= highest_deg - 1e-9


def test_a_rise_at_the_switch_itself(tmp_path: Path) -> None:
    constellation = jumping(tmp_path, 5e-3)  # 35 km ahead: up at once
    one = constellation.satellite_names.index("ONE")
    satellites, moments_s = constellation.motion.switches
    [switch_s] = moments_s[satellites == one]
    ahead_km = constellation.r_ecef_km(np.array([switch_s + 240.0]))[0, one]
    latitude_deg, longitude_deg = latitude_longitude_deg(ahead_km)
    lat, lon = float(latitude_deg), float(longitude_deg)
    # A mask between the elevations right before and right after the switch.
    arrays = PlaceArrays.of([Place("ahead", lat, lon)], constellation.geoid)
    around_s = np.array([np.nextafter(switch_s, 0.0), switch_s])
    around_km = constellation.r_ecef_km_at(np.full(2, one), around_s)
    before_deg, after_deg = np.degrees(
        np.arcsin(arrays.sin_elevation_at(np.zeros(2, dtype=np.int64), around_km))
    )
    assert after_deg - before_deg > 0.1
    place = Place("ahead", lat, lon, float(before_deg + after_deg) / 2.0)
    contacts = find_contacts(constellation, [place], 12, 300.0)
    mine = np.flatnonzero(contacts.satellite == one)
    nearest = mine[np.argmin(np.abs(contacts.rise_s[mine] - switch_s))]
    assert contacts.rise_s[nearest] == pytest.approx(switch_s, abs=1e-4)


def test_the_age_limit_is_that_of_the_nearest_epoch(tmp_path: Path) -> None:
    # Epochs on days 0 and 20: from 0 to 20 days no moment is more than 10 from one of them.
    first = made_satellite(1, 0.0)
    file = tmp_path / "history.tle"
    file.write_text(tle_text([("A", first), ("A", later_set(first, 1, 480.0, 0.0))]))
    sets = read_element_sets(file)
    twenty_s = 20 * 86400.0
    from_element_sets(sets, start=EPOCH, horizon_s=twenty_s, max_age_days=10.1)
    with pytest.raises(ElementSetError, match=r"A is 10\.0 days from its nearest epoch"):
        from_element_sets(sets, start=EPOCH, horizon_s=twenty_s, max_age_days=9.9)
    with pytest.raises(ElementSetError, match=r"A is 5\.0 days from its nearest epoch"):
        from_element_sets(sets, start=EPOCH + 25 * 24 * HOUR, max_age_days=4.0)


def test_planets_flock_of_november_2022(real_elements: Callable[[str], Path]) -> None:
    sets = read_element_sets(real_elements("planet-flock-2022-11.tle"))
    satellites = histories(sets)
    assert (len(sets), len(satellites)) == (897, 131)
    constellation = from_element_sets(
        sets, start=datetime(2022, 11, 4, tzinfo=UTC), horizon_s=2 * 86400.0, max_age_days=2.0
    )
    assert constellation.satellites_per_orbit.tolist() == [4, 5, 1, 44, 8, 42, 10, 11]
    # Sets of neighbouring epochs agree within kilometres where one takes over from the other.
    moved, moments_s = constellation.motion.switches
    jump_km = np.linalg.norm(
        constellation.motion.r_eci_km_at(moved, moments_s)
        - constellation.motion.r_eci_km_at(moved, np.nextafter(moments_s, -np.inf)),
        axis=1,
    )
    assert len(jump_km) > 500
    assert np.median(jump_km) < 2.0
