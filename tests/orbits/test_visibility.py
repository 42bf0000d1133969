import tracemalloc
from dataclasses import replace

import numpy as np
import pytest

from fedorbit.config import load_config
from fedorbit.orbits import visibility
from fedorbit.orbits.constellation import walker
from fedorbit.orbits.earth import SPHERE, WGS84
from fedorbit.orbits.visibility import (
    GroundStation,
    Schedule,
    StationArrays,
    compute_schedule,
    round_times_s,
)
from fedorbit.presence import Presence
from fedorbit.scenario import build_constellation, build_schedule

LONDON = GroundStation("London", 51.0, -0.1, 10.0)


@pytest.mark.parametrize("preset", ["paper", "quickstart"])
def test_the_papers_visibility_figures(preset: str) -> None:
    config = load_config(preset)
    schedule = build_schedule(config, build_constellation(config))
    assert schedule.rounds == 400
    assert schedule.visible_rounds.tolist() == [61, 41, 34, 21, 56]
    assert schedule.idle_rounds == 187
    assert schedule.tau_max == 191
    assert schedule.longest_idle_rounds == 4
    # As published: 15.2, 10.2, 8.5, 5.2 and 14.0 %.
    published = np.array([15.2, 10.2, 8.5, 5.2, 14.0])
    np.testing.assert_allclose(100 * schedule.visible_rounds / 400, published, atol=0.05 + 1e-9)


def test_elevation_worked_by_hand() -> None:
    # A station on the equator at longitude 0; satellites straight above, and 90 degrees away at
    # one Earth radius of height: the line of sight (-1, 2) falls below the horizon.
    station = StationArrays.of([GroundStation("equator", 0.0, 0.0)], SPHERE)
    r = SPHERE.equatorial_radius_km
    above, beside = [r + 550.0, 0.0, 0.0], [0.0, 2.0 * r, 0.0]
    diagonal = [r + 100.0, 100.0, 0.0]  # as far up as sideways: 45 degrees
    sines = station.sin_elevation(np.array([above, beside, diagonal]))[:, 0]
    np.testing.assert_allclose(sines, [1.0, -1.0 / np.sqrt(5.0), np.sqrt(0.5)], atol=1e-12)
    pairs = station.sin_elevation_at(np.zeros(3, dtype=int), np.array([above, beside, diagonal]))
    np.testing.assert_allclose(pairs, sines, atol=1e-12)


def test_zenith_of_the_ellipsoid_is_its_normal() -> None:
    r_km, zenith = WGS84.place([0.0, 90.0, 45.0], [0.0, 0.0, 0.0])
    np.testing.assert_allclose(r_km[0], [6378.137, 0.0, 0.0], atol=1e-9)
    np.testing.assert_allclose(r_km[1], [0.0, 0.0, 6356.752314], atol=1e-6)
    # At 45 degrees the position is geocentrically 0.19 degrees lower, the zenith is not.
    np.testing.assert_allclose(zenith[2], [np.sqrt(0.5), 0.0, np.sqrt(0.5)], atol=1e-12)
    assert np.degrees(np.arctan2(r_km[2, 2], r_km[2, 0])) == pytest.approx(44.8076, abs=1e-4)


def test_an_orbit_is_visible_when_any_satellite_is_for_any_station() -> None:
    constellation = walker(3, 4, 1, 1200.0, 70.0)
    stations = [LONDON, GroundStation("south", -40.0, 170.0, 25.0)]
    times_s = round_times_s(50, 120.0)
    schedule = compute_schedule(constellation, stations, times_s)
    r_km = constellation.r_ecef_km(times_s)
    for station in stations:
        position_km, zenith = SPHERE.place(station.latitude_deg, station.longitude_deg)
        sight_km = r_km - position_km
        elevation_deg = np.degrees(
            np.arcsin((sight_km @ zenith) / np.linalg.norm(sight_km, axis=-1))
        )
        seen = (elevation_deg >= station.min_elevation_deg).reshape(50, 3, 4).any(axis=2)
        assert not (seen & ~schedule.visible).any()
    alone = [compute_schedule(constellation, [s], times_s).visible for s in stations]
    np.testing.assert_array_equal(schedule.visible, alone[0] | alone[1])
    assert alone[0].any() and alone[1].any() and not schedule.visible.all()


@pytest.mark.parametrize("chunk_values", [1_000_000, 40])
def test_only_satellites_that_are_there_make_an_orbit_visible(chunk_values, monkeypatch) -> None:
    monkeypatch.setattr(visibility, "CHUNK_VALUES", chunk_values)
    constellation = walker(3, 4, 1, 1200.0, 70.0)
    times_s = round_times_s(60, 600.0)
    # Every satellite as an orbit of its own tells who is seen.
    alone = replace(constellation, orbit_of_satellite=np.arange(12))
    seen = compute_schedule(alone, [LONDON], times_s).visible
    there = np.ones((60, 12), dtype=bool)
    there[17:, 0] = there[30:, 4:8] = there[:41, 9] = False
    presence = Presence(np.array([0, 17, 30, 41]), there[[0, 17, 30, 41]])
    schedule = compute_schedule(constellation, [LONDON], times_s, presence=presence)
    expected = (seen & there).reshape(60, 3, 4).any(axis=2)
    np.testing.assert_array_equal(schedule.visible, expected)
    whole = compute_schedule(constellation, [LONDON], times_s).visible
    assert (whole & ~expected).any(axis=0).all(), "every orbit must have lost a contact"


@pytest.mark.parametrize(
    ("column", "gap"),
    [("1111", 0), ("0000", 4), ("0110", 1), ("1001", 2), ("0010", 2), ("0100", 2)],
)
def test_gaps_count_the_ends_of_the_horizon(column: str, gap: int) -> None:
    visible = np.array([[c == "1"] for c in column])
    schedule = Schedule(round_times_s(4, 300.0), visible)
    assert schedule.longest_gaps_rounds.tolist() == [gap]
    assert schedule.tau_max == schedule.longest_idle_rounds == gap
    assert schedule.idle_rounds == column.count("0")


def test_longest_gap_is_of_one_orbit_and_longest_idle_of_all() -> None:
    visible = np.array([[1, 0], [0, 0], [0, 1], [0, 0], [1, 0]], dtype=bool)
    schedule = Schedule(round_times_s(5, 300.0), visible)
    assert schedule.longest_gaps_rounds.tolist() == [3, 2]
    assert schedule.longest_idle_rounds == 1


def test_memory_stays_bounded_however_long_the_horizon() -> None:
    constellation = walker(72, 22, 17, 550.0, 53.0)
    stations = [GroundStation(str(i), -60.0 + 13 * i, 36.0 * i, 25.0) for i in range(10)]
    tracemalloc.start()
    schedule = compute_schedule(constellation, stations, round_times_s(600, 10.0))
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All elevations at once would take 600 x 1584 x 10 x 8 bytes = 76 MB per array.
    assert peak_bytes < 60e6
    assert schedule.visible.shape == (600, 72)
    assert schedule.visible.any(axis=0).all()
