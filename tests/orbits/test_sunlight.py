"""The Sun against published positions, shadows against the beta-angle formula."""

from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.earth import EARTH_MU_KM3_S2, EARTH_RADIUS_KM, julian_date
from fedorbit.orbits.sunlight import (
    MARCH_EQUINOX,
    shadow_clearance_km,
    sun_direction_eci,
    sunlit_seconds,
)

ALMANAC_DEG = 0.01


def angle_deg(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.degrees(np.arctan2(np.linalg.norm(np.cross(a, b)), a @ b)))


def direction(right_ascension_deg: float, declination_deg: float) -> np.ndarray:
    ra, dec = np.radians([right_ascension_deg, declination_deg])
    return np.array([np.cos(dec) * np.cos(ra), np.cos(dec) * np.sin(ra), np.sin(dec)])


def test_the_sun_of_meeus_example_25() -> None:
    """Astronomical Algorithms: 1992 October 13.0 TD, apparent 198.38082, -7.78507 degrees."""
    sun = sun_direction_eci(*julian_date(datetime(1992, 10, 13, tzinfo=UTC)))
    assert angle_deg(sun, direction(198.38082, -7.78507)) < ALMANAC_DEG


@pytest.mark.parametrize(
    ("moment", "longitude_deg"),
    [
        (MARCH_EQUINOX, 0.0),
        (datetime(2024, 3, 20, 3, 6, tzinfo=UTC), 0.0),
        (datetime(2024, 6, 20, 20, 51, tzinfo=UTC), 90.0),
        (datetime(2024, 9, 22, 12, 44, tzinfo=UTC), 180.0),
        (datetime(2024, 12, 21, 9, 20, tzinfo=UTC), 270.0),
    ],
)
def test_the_sun_at_published_equinoxes_and_solstices(
    moment: datetime, longitude_deg: float
) -> None:
    obliquity, longitude = np.radians([23.4365, longitude_deg])
    expected = np.array(
        [
            np.cos(longitude),
            np.cos(obliquity) * np.sin(longitude),
            np.sin(obliquity) * np.sin(longitude),
        ]
    )
    assert angle_deg(sun_direction_eci(*julian_date(moment)), expected) < ALMANAC_DEG


def test_a_day_has_one_sun_direction_per_moment() -> None:
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    several = sun_direction_eci(*julian_date(begin)[:1], np.array([0.0, 0.5, 1.0]))
    for row, hours in zip(several, (0, 12, 24), strict=True):
        alone = sun_direction_eci(*julian_date(begin + timedelta(hours=hours)))
        assert angle_deg(row, alone) < 1e-9
        np.testing.assert_allclose(np.linalg.norm(row), 1.0)


def test_clearance_in_simple_places() -> None:
    sun = np.array([1.0, 0.0, 0.0])
    places = np.array([[7000.0, 0, 0], [0, 7000, 0], [-9000, 0, 0], [-9000, 6400, 0]])
    # Above noon, above the terminator, on the shadow's axis, and just beside the cylinder.
    np.testing.assert_allclose(
        shadow_clearance_km(places, sun, 6371.0), [629.0, 629.0, -6371.0, 29.0]
    )


def eclipse_share(altitude_km: float, beta_deg: float) -> float:
    """Share of a circular orbit in a cylindrical shadow, by the angle of Sun and orbital plane."""
    cosine = np.sqrt(altitude_km**2 + 2.0 * EARTH_RADIUS_KM * altitude_km)
    cosine /= (EARTH_RADIUS_KM + altitude_km) * np.cos(np.radians(beta_deg))
    return float(np.arccos(min(cosine, 1.0)) / np.pi)


@pytest.mark.parametrize("altitude_km", [350.0, 550.0, 1200.0, 20_000.0])
@pytest.mark.parametrize(
    ("inclination_deg", "raan_deg", "beta_deg"),
    [
        (0.0, 0.0, 0.0),  # the Sun of an equinox lies in the equator
        (53.0, 0.0, 0.0),  # and on the line of nodes
        (53.0, 90.0, 53.0),  # whose normal now is turned from it by 90 - 53
        (90.0, 30.0, 30.0),  # a polar plane 30 degrees from the Sun
        (90.0, 90.0, 90.0),  # dawn and dusk: no eclipse
    ],
)
def test_eclipses_by_the_beta_angle(
    altitude_km: float, inclination_deg: float, raan_deg: float, beta_deg: float
) -> None:
    radius_km = EARTH_RADIUS_KM + altitude_km
    period_s = 2.0 * np.pi * np.sqrt(radius_km**3 / EARTH_MU_KM3_S2)
    constellation = walker(1, 3, 0, altitude_km, inclination_deg, raan_offset_deg=raan_deg)
    rounds = 8  # one orbit, begun at three places
    sunlit_s = sunlit_seconds(constellation, rounds, period_s / rounds)
    shares = 1.0 - sunlit_s.sum(axis=0) / period_s
    # The Sun moves by 0.07 degrees per revolution in low orbit, by half a degree in the highest.
    np.testing.assert_allclose(shares, eclipse_share(altitude_km, beta_deg), atol=2e-3)
    assert (sunlit_s >= 0).all()
    assert (sunlit_s <= period_s / rounds * 1.000001).all()


def test_borders_are_found_between_grid_points() -> None:
    """In an equatorial orbit at equinox the shadow begins at a known angle from the anti-Sun."""
    altitude_km, round_s = 550.0, 7.0
    radius_km = EARTH_RADIUS_KM + altitude_km
    motion_rad_s = np.sqrt(EARTH_MU_KM3_S2 / radius_km**3)
    half_rad = np.arcsin(EARTH_RADIUS_KM / radius_km)
    # It starts 3 s before it enters the shadow, which it reaches at pi minus the half angle.
    begin_deg = np.degrees(np.pi - half_rad - 3.0 * motion_rad_s)
    constellation = walker(1, 1, 0, altitude_km, 0.0, argument_of_latitude_deg=begin_deg)
    [[first], [second]] = sunlit_seconds(constellation, 2, round_s)
    assert first == pytest.approx(3.0, abs=0.3)  # 0.01 degrees of the Sun are 0.2 s
    assert second == 0.0


def test_dates_move_the_shadow() -> None:
    """A dawn-dusk plane of March is, three months later, in the noon-midnight plane."""
    march, june = (
        sunlit_seconds(
            walker(1, 1, 0, 550.0, 90.0, raan_offset_deg=90.0, start=start), 19, 301.9
        ).sum()
        for start in (MARCH_EQUINOX, datetime(2000, 6, 21, tzinfo=UTC))
    )
    period_s = 19 * 301.9
    assert march == pytest.approx(period_s, rel=1e-6)
    # The Sun's declination of 23.4 degrees lies in the plane, so beta is 0.
    assert 1.0 - june / period_s == pytest.approx(eclipse_share(550.0, 0.0), abs=2e-3)
