import tracemalloc

import numpy as np
import pytest

from fedorbit.build import build_constellation, build_plan, build_schedule
from fedorbit.config import load_config
from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.earth import SPHERE, WGS84
from fedorbit.orbits.places import Place, PlaceArrays
from fedorbit.orbits.plan import plan_of
from fedorbit.orbits.visibility import Schedule, round_times_s

LONDON = Place("London", 51.0, -0.1, 10.0)


@pytest.mark.parametrize("preset", ["paper", "quickstart"])
def test_the_papers_visibility_figures(preset: str) -> None:
    config = load_config(preset)
    constellation = build_constellation(config)
    schedule = build_schedule(config, constellation, build_plan(config, constellation))
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
    station = PlaceArrays.of([Place("equator", 0.0, 0.0)], SPHERE)
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
    stations = [Place(str(i), -60.0 + 13 * i, 36.0 * i, 25.0) for i in range(10)]
    tracemalloc.start()
    found = find_contacts(constellation, stations, 20, 300.0)
    plan = plan_of(found, 1584, stations, 6000.0)
    visible = plan.orbits_in_view(round_times_s(600, 10.0), constellation.orbit_of_satellite)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All elevations at once would take 600 x 1584 x 10 x 8 bytes = 76 MB per array.
    assert peak_bytes < 60e6
    assert visible.shape == (600, 72)
    assert visible.any(axis=0).all()
