"""Places above the ground, with masks of their own: what altitude and mask do to contacts."""

import numpy as np
import pytest

from fedorbit.build import build_constellation, build_places, build_plan, build_schedule
from fedorbit.config import load_config
from fedorbit.errors import ConfigError
from fedorbit.orbits.earth import EARTH_RADIUS_KM
from fedorbit.orbits.places import Place, PlaceArrays, groups_in_sight, horizon_dip_deg

GRAZING_10_KM_DEG = -float(np.degrees(np.arccos((EARTH_RADIUS_KM + 10) / (EARTH_RADIUS_KM + 20))))
"""From 20 km, the lowest line of sight that stays above 10 km."""


@pytest.mark.parametrize(
    ("altitude_km", "mask_deg", "passes", "mean_min", "rounds", "idle"),
    [
        (0.0, 10.0, 147, 7.3, [61, 41, 34, 21, 56], 187),
        # With the same mask a platform sees less than the ground: it is closer to the shell.
        (20.0, 10.0, 147, 7.0, [58, 41, 33, 21, 54], 193),
        (20.0, 0.0, 179, 10.9, [105, 69, 56, 69, 92], 23),
        (20.0, GRAZING_10_KM_DEG, 194, 12.5, [129, 96, 69, 82, 111], 0),
    ],
)
def test_a_platform_over_the_papers_station(
    altitude_km: float, mask_deg: float, passes: int, mean_min: float, rounds: list, idle: int
) -> None:
    place = {"altitude_km": altitude_km, "min_elevation_deg": mask_deg, "role": "platform"}
    config = load_config("paper", [f"stations.0.{key}={value}" for key, value in place.items()])
    constellation = build_constellation(config)
    plan = build_plan(config, constellation)
    schedule = build_schedule(config, constellation, plan)
    assert len(plan) == passes
    assert plan.duration_s.mean() / 60.0 == pytest.approx(mean_min, abs=0.05)
    assert schedule.visible_rounds.tolist() == rounds
    assert schedule.idle_rounds == idle


def test_a_negative_mask_is_a_line_of_sight_above_the_air() -> None:
    """Against the segment itself: its point closest to the Earth's centre is 10 km up."""
    config = load_config("paper")
    constellation = build_constellation(config)
    place = Place("HAP", 51.0, -0.1, GRAZING_10_KM_DEG, 20.0, "platform")
    satellite_km = constellation.r_ecef_km(np.arange(0.0, 120_000.0, 60.0))
    arrays = PlaceArrays.of([place], constellation.geoid)
    seen = arrays.sin_elevation(satellite_km)[..., 0] >= arrays.sin_min_elevation[0]

    p_km = arrays.r_ecef_km[0]
    d_km = satellite_km - p_km
    along = np.clip(-(d_km @ p_km) / np.einsum("...i,...i", d_km, d_km), 0.0, 1.0)
    closest_km = np.linalg.norm(p_km + along[..., None] * d_km, axis=-1)
    clear = closest_km >= EARTH_RADIUS_KM + 10.0 - 1e-6
    np.testing.assert_array_equal(seen, clear)
    assert 0 < (seen & (arrays.sin_elevation(satellite_km)[..., 0] < 0.0)).sum() < seen.sum()


def test_the_horizon_dips_with_altitude() -> None:
    assert horizon_dip_deg(20.0) == pytest.approx(4.53, abs=0.005)
    assert horizon_dip_deg(0.0) == horizon_dip_deg(-0.4) == 0.0


@pytest.mark.parametrize(
    ("altitude_km", "mask_deg", "least"), [(0.0, -1.0, "-0.00"), (20.0, -5.0, "-4.53")]
)
def test_a_mask_below_the_horizon_is_refused(
    altitude_km: float, mask_deg: float, least: str
) -> None:
    given = [f"stations.0.altitude_km={altitude_km}", f"stations.0.min_elevation_deg={mask_deg}"]
    with pytest.raises(
        ConfigError, match=f"stations.0: min_elevation_deg must be at least {least}"
    ):
        load_config("paper", given)


def test_the_reach_of_a_place_is_where_its_mask_meets_the_shell() -> None:
    radius_km = EARTH_RADIUS_KM + 550.0
    for place in (Place("GS", 0.0, 0.0, 10.0), Place("HAP", 0.0, 0.0, -3.0, 20.0)):
        angle_rad = place.reach_rad(radius_km)
        satellite_km = radius_km * np.array([np.cos(angle_rad), np.sin(angle_rad), 0.0])
        sight_km = satellite_km - [EARTH_RADIUS_KM + place.altitude_km, 0.0, 0.0]
        elevation_deg = np.degrees(np.arcsin(sight_km[0] / np.linalg.norm(sight_km)))
        assert elevation_deg == pytest.approx(place.min_elevation_deg)


def test_roles_come_from_the_configuration() -> None:
    config = load_config("paper", ["stations.0.role=platform", "stations.0.altitude_km=20"])
    [place] = build_places(config)
    assert (place.role, place.altitude_km, place.min_elevation_deg) == ("platform", 20.0, 10.0)
    with pytest.raises(ConfigError, match=r"stations.0.role must be one of 'ground', 'platform'"):
        load_config("paper", ["stations.0.role=ship"])


def test_platforms_see_each_other_up_to_their_common_horizon() -> None:
    """At 20 km each sees 4.534 degrees of the surface: 1,008 km of arc apart they just do."""
    reach_deg = 2 * horizon_dip_deg(20.0)
    assert reach_deg == pytest.approx(9.07, abs=0.01)

    def groups(*longitudes_deg: float, altitude_km: float = 20.0) -> list[int]:
        return groups_in_sight(
            [Place("x", 0.0, lon, altitude_km=altitude_km) for lon in longitudes_deg]
        )

    assert groups(0.0, reach_deg - 0.001) == [0, 0]
    assert groups(0.0, reach_deg + 0.001) == [0, 1]
    assert groups(0.0, 18.0, 9.0) == [0, 0, 0]  # by the one in between
    assert groups(0.0, 1.0, altitude_km=0.0) == [0, 1]
    assert groups(0.0, 0.0, altitude_km=0.0) == [0, 0]
    assert groups(0.0, 180.0, altitude_km=1e9) == [0, 1]  # behind the Earth, however high


def test_the_line_of_sight_between_places_clears_the_surface() -> None:
    """Against the nearest point of many segments to the Earth's centre."""
    rng = np.random.default_rng(3)
    for _ in range(300):
        latitude, longitude = rng.uniform(-60, 60, 2), rng.uniform(0, 12, 2)
        altitude = rng.uniform(0, 40, 2)
        pair = [
            Place("x", *place, altitude_km=height)
            for *place, height in zip(latitude, longitude, altitude, strict=True)
        ]
        lat, lon = np.radians(latitude), np.radians(longitude)
        unit = np.array([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)]).T
        ends_km = unit * (EARTH_RADIUS_KM + altitude)[:, None]
        share = np.linspace(0.0, 1.0, 20001)[:, None]
        lowest_km = np.linalg.norm(ends_km[0] + share * (ends_km[1] - ends_km[0]), axis=1).min()
        if abs(lowest_km - EARTH_RADIUS_KM) > 1e-3:
            assert (groups_in_sight(pair) == [0, 0]) == (lowest_km > EARTH_RADIUS_KM)
