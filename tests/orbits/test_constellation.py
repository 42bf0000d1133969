import numpy as np
import pytest
from numpy.testing import assert_allclose

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.earth import latitude_longitude_deg


def argument_of_latitude_deg(r_eci_km: np.ndarray, inclination_deg: float) -> np.ndarray:
    """Angle from the ascending node, from the position alone (for one quadrant pair)."""
    sine = (
        r_eci_km[..., 2] / np.linalg.norm(r_eci_km, axis=-1) / np.sin(np.radians(inclination_deg))
    )
    return np.degrees(np.arcsin(sine))


def test_circular_motion_has_the_keplerian_period_and_height() -> None:
    constellation = walker(1, 1, 0, 550.0, 53.0)
    period_s = 2 * np.pi * np.sqrt(6921.0**3 / 3.986e5)
    times_s = np.linspace(0.0, period_s, 9)
    r_km = constellation.motion.r_eci_km(times_s)[:, 0]
    assert_allclose(np.linalg.norm(r_km, axis=-1), 6921.0, rtol=1e-12)
    assert_allclose(r_km[-1], r_km[0], atol=1e-6)
    # At the node it heads north, at a quarter it is at its highest latitude.
    assert_allclose(r_km[0], [6921.0, 0.0, 0.0], atol=1e-9)
    assert_allclose(
        r_km[2],
        [0.0, 6921.0 * np.cos(np.radians(53.0)), 6921.0 * np.sin(np.radians(53.0))],
        atol=1e-6,
    )


def test_planes_are_spread_evenly_in_right_ascension() -> None:
    constellation = walker(5, 4, 0, 550.0, 53.0)
    nodes_km = constellation.motion.r_eci_km(np.zeros(1))[0, ::4]
    raan_deg = np.degrees(np.arctan2(nodes_km[:, 1], nodes_km[:, 0])) % 360
    assert_allclose(raan_deg, [0, 72, 144, 216, 288], atol=1e-9)
    assert constellation.orbit_of_satellite.tolist() == [o for o in range(5) for _ in range(4)]


def test_a_star_spreads_over_half_the_equator() -> None:
    constellation = walker(6, 1, 0, 780.0, 86.4, raan_spread_deg=180.0, raan_offset_deg=10.0)
    nodes_km = constellation.motion.r_eci_km(np.zeros(1))[0]
    raan_deg = np.degrees(np.arctan2(nodes_km[:, 1], nodes_km[:, 0]))
    assert_allclose(raan_deg, 10.0 + np.arange(6) * 30.0, atol=1e-9)


def test_phasing_moves_neighbouring_planes_by_f_over_t() -> None:
    constellation = walker(3, 4, 2, 550.0, 53.0)
    first_of_plane_km = constellation.motion.r_eci_km(np.zeros(1))[0, ::4]
    # F x 360 / T = 2 x 360 / 12 = 60 degrees from plane to plane; sin 120 = sin 60.
    assert_allclose(argument_of_latitude_deg(first_of_plane_km, 53.0), [0, 60, 60], atol=1e-9)


def test_planes_with_different_numbers_of_satellites() -> None:
    constellation = walker(3, [4, 1, 2], 1, 550.0, 53.0, raan_spread_deg=180.0)
    assert constellation.orbit_of_satellite.tolist() == [0, 0, 0, 0, 1, 2, 2]
    assert constellation.satellites_per_orbit.tolist() == [4, 1, 2]
    assert constellation.satellite_names == (
        "sat 0.0", "sat 0.1", "sat 0.2", "sat 0.3", "sat 1.0", "sat 2.0", "sat 2.1",
    )  # fmt: skip
    r_km = constellation.motion.r_eci_km(np.zeros(1))[0]
    assert_allclose(r_km[2], -r_km[0], atol=1e-6)  # four to a circle: the third is opposite
    assert_allclose(r_km[0] @ r_km[1], 0.0, atol=1e-6)
    assert_allclose(r_km[6], -r_km[5], atol=1e-6)
    # F x 360 / T = 360 / 7 degrees from the first of a plane to the first of the next.
    first_of_plane_km = r_km[[0, 4, 5]]
    assert_allclose(
        argument_of_latitude_deg(first_of_plane_km, 53.0), [0, 360 / 7, 180 - 720 / 7], atol=1e-9
    )


def test_a_list_of_equal_numbers_is_that_number() -> None:
    one = walker(3, 4, 2, 550.0, 53.0, argument_of_latitude_deg=11.0)
    several = walker(3, (4, 4, 4), 2, 550.0, 53.0, argument_of_latitude_deg=11.0)
    times_s = np.array([0.0, 1234.5])
    assert np.array_equal(one.r_ecef_km(times_s), several.r_ecef_km(times_s))


def test_one_satellite_at_one_time_equals_the_grid() -> None:
    constellation = walker(4, 3, 1, 700.0, 98.0, argument_of_latitude_deg=33.0)
    times_s = np.array([0.0, 100.0, 5000.0])
    grid_km = constellation.r_ecef_km(times_s)
    satellites = np.array([11, 0, 5])
    pairs_km = constellation.r_ecef_km_at(satellites, times_s)
    assert_allclose(pairs_km, grid_km[np.arange(3), satellites], atol=1e-9)


def test_the_earth_turns_below_the_orbit() -> None:
    constellation = walker(1, 1, 0, 550.0, 53.0)
    times_s = np.array([0.0, 3600.0])
    _, fixed_deg = latitude_longitude_deg(constellation.r_ecef_km(times_s)[:, 0])
    _, inertial_deg = latitude_longitude_deg(constellation.motion.r_eci_km(times_s)[:, 0])
    turned_deg = np.degrees(7.292e-5 * 3600.0)
    assert (inertial_deg - fixed_deg) % 360 == pytest.approx([0.0, turned_deg])
