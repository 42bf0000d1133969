"""The constellations of the presets against published figures, oblateness and skyfield."""

import runpy
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from skyfield.api import EarthSatellite, load, wgs84

from fedorbit.build import build_constellation, build_places
from fedorbit.config import load_config
from fedorbit.config.bundled import bundled_elements
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import julian_date
from fedorbit.orbits.places import PlaceArrays
from fedorbit.orbits.sunlight import MARCH_EQUINOX, sun_direction_eci

WALKERS = ("starlink-shell1", "oneweb", "iridium-next", "planet-flock", "kepler-leo-fl")
PRESETS = (*WALKERS, "iridium-next-tle")


def inertial_km(constellation: Constellation, times_s: np.ndarray) -> np.ndarray:
    return constellation.motion.r_eci_km(times_s)


def nodes_deg(constellation: Constellation, step_s: float = 60.0) -> np.ndarray:
    """Right ascension of every satellite's plane, from two positions a minute apart."""
    before, after = inertial_km(constellation, np.array([0.0, step_s]))
    normal = np.cross(before, after)
    return np.degrees(np.arctan2(normal[:, 0], -normal[:, 1])) % 360.0


def plane_nodes_deg(constellation: Constellation) -> np.ndarray:
    nodes = nodes_deg(constellation)
    first = np.searchsorted(constellation.orbit_of_satellite, np.arange(constellation.orbits))
    return nodes[first]


def in_plane_steps_deg(constellation: Constellation, orbit: int) -> np.ndarray:
    """Angles between neighbours of one orbit, as seen from the centre of the Earth."""
    r_km = inertial_km(constellation, np.zeros(1))[0][constellation.orbit_of_satellite == orbit]
    unit = r_km / np.linalg.norm(r_km, axis=1)[:, None]
    cosines = np.einsum("si,si->s", unit, np.roll(unit, -1, axis=0))
    return np.degrees(np.arccos(np.clip(cosines, -1.0, 1.0)))


@pytest.mark.parametrize(
    ("preset", "orbits", "satellites", "stations"),
    [
        ("starlink-shell1", 72, 1584, 5),
        ("oneweb", 12, 588, 5),
        ("iridium-next", 6, 66, 4),
        ("iridium-next-tle", 7, 75, 4),
        ("planet-flock", 2, 136, 4),
        ("kepler-leo-fl", 5, 40, 2),
    ],
)
def test_sizes(preset: str, orbits: int, satellites: int, stations: int) -> None:
    config = load_config(preset)
    constellation = build_constellation(config)
    assert (constellation.orbits, constellation.satellites) == (orbits, satellites)
    assert len({station.name for station in build_places(config)}) == stations
    assert config.run.method == ("fedavg", "fedorbit")
    assert config.run.rounds <= config.schedule.rounds
    assert config.data.name == "synthetic"


@pytest.mark.parametrize(
    ("preset", "period_min"),
    [
        ("starlink-shell1", 95.6),
        ("oneweb", 109.4),  # ISRO: one trip in 109 minutes
        ("iridium-next", 100.4),  # 14.342 revolutions a day in its element sets
        ("planet-flock", 94.0),
        ("kepler-leo-fl", 127.0),
    ],
)
def test_periods(preset: str, period_min: float) -> None:
    constellation = build_constellation(load_config(preset))
    times_s = np.array([0.0, 60.0 * period_min])
    before, after = inertial_km(constellation, times_s)[:, 0]
    # Published to a tenth of a minute or so; 0.2 minutes are 0.8 degrees of a revolution.
    along = np.degrees(np.arccos(before @ after / np.linalg.norm(before) / np.linalg.norm(after)))
    assert along < 0.8


@pytest.mark.parametrize(
    ("preset", "spacing_deg", "remainder_deg"),
    [
        ("starlink-shell1", 5.0, 5.0),
        ("oneweb", 15.225, 12.525 + 180.0),
        ("iridium-next", 31.6, 22.0 + 180.0),
        ("planet-flock", 30.0, 330.0),
        ("kepler-leo-fl", 72.0, 72.0),
    ],
)
def test_planes_and_the_seam(preset: str, spacing_deg: float, remainder_deg: float) -> None:
    nodes = plane_nodes_deg(build_constellation(load_config(preset)))
    gaps_deg = (np.roll(nodes, -1) - nodes) % 360.0
    assert_allclose(gaps_deg[:-1], spacing_deg, atol=1e-6)
    assert gaps_deg[-1] == pytest.approx(remainder_deg, abs=1e-6)


@pytest.mark.parametrize("preset", WALKERS)
def test_satellites_of_a_plane_are_evenly_spaced(preset: str) -> None:
    constellation = build_constellation(load_config(preset))
    for orbit, count in enumerate(constellation.satellites_per_orbit):
        assert_allclose(in_plane_steps_deg(constellation, orbit), 360.0 / count, atol=1e-6)


def closest_km(phasing: int) -> float:
    """Least distance in Starlink's pattern ever, by the closed form of Speckman et al. (1990)."""
    plane, slot = (grid.ravel()[1:] for grid in np.meshgrid(range(72), range(22), indexing="ij"))
    node, i = np.radians(360.0 * plane / 72), np.radians(53.0)
    ahead = np.radians(360.0 * slot / 22 + 360.0 * phasing * plane / 1584)
    between_planes = np.cos(i) ** 2 + np.sin(i) ** 2 * np.cos(node)
    ahead_at_crossing = ahead + 2.0 * np.arctan2(np.cos(i) * np.sin(node / 2), np.cos(node / 2))
    half = np.sqrt((1.0 + between_planes) / 2.0) * np.abs(np.sin(ahead_at_crossing / 2.0))
    return float(2.0 * 6921.0 * half.min())


def test_starlinks_satellites_keep_apart() -> None:
    constellation = build_constellation(load_config("starlink-shell1"))
    expected_km = closest_km(39)
    assert expected_km > 40.0
    assert closest_km(38) == pytest.approx(0.0, abs=1e-6)  # other phasings collide
    # All satellites of a Walker delta see the same: one against the others is enough.
    times_s = np.linspace(0.0, 5736.0, 1201)
    r_km = inertial_km(constellation, times_s)
    distances_km = np.linalg.norm(r_km[:, 1:] - r_km[:, :1], axis=-1)
    coarse, other = np.unravel_index(distances_km.argmin(), distances_km.shape)
    fine_s = times_s[coarse] + np.linspace(-5.0, 5.0, 2001)
    pair = [
        constellation.motion.r_eci_km_at(np.full(len(fine_s), satellite), fine_s)
        for satellite in (0, int(other) + 1)
    ]
    nearest_km = np.linalg.norm(pair[1] - pair[0], axis=-1).min()
    assert nearest_km == pytest.approx(expected_km, abs=0.01)


def test_planets_orbit_is_sun_synchronous() -> None:
    section = load_config("planet-flock").constellation
    # Secular drift of the node from the Earth's oblateness: -3/2 J2 (R/a)^2 n cos i.
    j2, radius_km, mu_km3_s2 = 1.08263e-3, 6378.137, 398600.44
    a_km = 6371.0 + section.altitude_km
    rate_rad_s = np.sqrt(mu_km3_s2 / a_km**3)
    cos_i = np.cos(np.radians(section.inclination_deg))
    drift_rad_s = -1.5 * j2 * (radius_km / a_km) ** 2 * rate_rad_s * cos_i
    assert np.degrees(drift_rad_s) * 86400.0 == pytest.approx(360.0 / 365.2422, abs=0.001)


def test_planets_orbits_cross_the_equator_in_the_morning() -> None:
    """Local time is 12 hours where the Sun is, and one more for 15 degrees to the east."""
    x, y, _ = sun_direction_eci(*julian_date(MARCH_EQUINOX))
    nodes = plane_nodes_deg(build_constellation(load_config("planet-flock")))
    hours = (12.0 + (nodes - np.degrees(np.arctan2(y, x))) / 15.0) % 24.0
    assert_allclose(hours, [9.5, 11.5], atol=0.01)


def operating(constellation: Constellation) -> np.ndarray:
    """Satellites in service: 14.342 revolutions a day, no spares below."""
    r_km = np.linalg.norm(inertial_km(constellation, np.linspace(0.0, 6000.0, 61)), axis=-1)
    return r_km.mean(axis=0) > 7150.0


def test_the_real_iridium_planes_confirm_the_designed_ones() -> None:
    real = build_constellation(load_config("iridium-next-tle"))
    assert real.satellites_per_orbit.tolist() == [3, 12, 12, 11, 12, 12, 13]
    in_service, orbit = operating(real), real.orbit_of_satellite
    nodes = nodes_deg(real)
    means = np.array([nodes[in_service & (orbit == o)].mean() for o in range(1, 7)])
    assert_allclose(np.diff(means), 31.6, atol=0.15)
    section = load_config("iridium-next").constellation
    assert section.raan_spread_deg / section.planes == pytest.approx(31.6)


def arguments_of_latitude_rad(constellation: Constellation) -> np.ndarray:
    """Angle from the ascending node of every satellite, from two positions a minute apart."""
    before, after = inertial_km(constellation, np.array([0.0, 60.0]))
    normal = np.cross(before, after)
    towards_node = np.cross([0.0, 0.0, 1.0], normal)
    along = np.cross(normal, towards_node)
    y = np.einsum("si,si->s", before, along) / np.linalg.norm(along, axis=1)
    x = np.einsum("si,si->s", before, towards_node) / np.linalg.norm(towards_node, axis=1)
    return np.arctan2(y, x)


def test_the_real_iridium_satellites_give_the_phasing() -> None:
    real = build_constellation(load_config("iridium-next-tle"))
    u_rad, in_service = arguments_of_latitude_rad(real), operating(real)
    phase_deg = []
    for orbit in range(1, 7):
        # Eleven times the angle is the same for all slots of a plane: what is left is its phase.
        turned = np.exp(11j * u_rad[in_service & (real.orbit_of_satellite == orbit)])
        middle = turned.mean() / abs(turned.mean())
        off_slot_deg = np.degrees(np.abs(np.angle(turned / middle))) / 11
        assert (off_slot_deg < 0.5).sum() == 11  # the design's; a spare may stand between them
        phase_deg.append(np.degrees(np.angle(middle)) / 11)
    steps_deg = np.diff(phase_deg) % (360.0 / 11)
    assert_allclose(steps_deg, 15.06, atol=0.3)
    phasing = load_config("iridium-next").constellation.phasing
    assert phasing * 360.0 / 66 == pytest.approx(steps_deg.mean(), abs=0.05)


def test_bundled_satellites_are_where_skyfield_has_them() -> None:
    config = load_config("iridium-next-tle")
    constellation = build_constellation(config)
    station = build_places(config)[0]
    ts = load.timescale(builtin=True)
    lines = bundled_elements()["iridium-next-2021-01-30"].read_text().splitlines()
    theirs = {
        name: EarthSatellite(first, second, name, ts)
        for name, first, second in zip(lines[0::3], lines[1::3], lines[2::3], strict=True)
    }
    times_s = np.linspace(0.0, 86400.0, 97)
    moments = ts.tt_jd(ts.from_datetime(constellation.start).tt + times_s / 86400.0)
    place = wgs84.latlon(
        station.latitude_deg, station.longitude_deg, elevation_m=1000.0 * station.altitude_km
    )
    arrays = PlaceArrays.of([station], constellation.geoid)
    ours_km = constellation.motion.r_eci_km(times_s)
    ours_deg = np.degrees(
        np.arcsin(arrays.sin_elevation(constellation.r_ecef_km(times_s))[:, :, 0])
    )
    assert set(constellation.satellite_names) == set(theirs)
    for column, name in enumerate(constellation.satellite_names):
        if column % 5:  # fifteen of them, from every orbit
            continue
        teme_km = theirs[name]._position_and_velocity_TEME_km(moments)[0].T
        # SGP4 is the same; the time differs by the rounding of one Julian date, 20 microseconds.
        assert_allclose(ours_km[:, column], teme_km, atol=1e-3, err_msg=name)
        elevation_deg = (theirs[name] - place).at(moments).altaz()[0].degrees
        # |UT1 - UTC| < 0.9 s turns the Earth by 0.42 km; 780 km above, that is 0.03 degrees.
        assert_allclose(ours_deg[:, column], elevation_deg, atol=0.04, err_msg=name)


@pytest.mark.parametrize("preset", PRESETS)
def test_stations_lie_where_their_names_say(preset: str) -> None:
    latitudes_and_longitudes = {
        "North Bend": (47.50, -121.79), "Conrad": (48.17, -111.95), "Merrillan": (44.45, -90.84),
        "Greenville": (41.40, -80.39), "Hawthorne": (33.92, -118.35), "Talkeetna": (62.32, -150.11),
        "Santa Paula": (34.35, -119.06), "Southbury": (41.48, -73.21), "Clewiston": (26.75, -80.93),
        "Svalbard": (78.23, 15.39), "Tempe": (33.41, -111.91), "Fairbanks": (64.84, -147.72),
        "Punta Arenas": (-53.16, -70.91), "Brewster": (48.10, -119.78), "Inuvik": (68.36, -133.72),
        "Awarua": (-46.53, 168.38), "Bremen": (53.08, 8.80), "Rolla": (37.95, -91.77),
    }  # fmt: skip
    for station in build_places(load_config(preset)):
        latitude_deg, longitude_deg = latitudes_and_longitudes[station.name]
        assert station.latitude_deg == pytest.approx(latitude_deg, abs=0.3)
        assert station.longitude_deg == pytest.approx(longitude_deg, abs=0.3)
        assert 5.0 <= station.min_elevation_deg <= 25.0


def test_the_table_in_the_docs_is_what_the_script_prints() -> None:
    root = Path(__file__).parents[2]
    table = runpy.run_path(str(root / "scripts" / "constellation_table.py"))["table"]()
    assert table in (root / "docs" / "constellations.md").read_text(encoding="utf-8")
