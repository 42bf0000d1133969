"""The geometry against skyfield, which shares no code with ours.

Skyfield gives elevations; SciPy finds where they cross the minimum and where they culminate.

Tolerances. Kepler: skyfield places an inertial orbit over a spherical Earth with full precession,
nutation and sidereal time; ours has a uniform rotation of 7.292e-5 rad/s. Near J2000 nutation is
17 arc seconds at most (0.005 deg), and the rounded rotation rate adds 0.006 deg in a day: below
0.1 deg in the elevation of a satellite at 550 km, and 0.3 s in rise and set. SGP4: the same
propagator under both, but skyfield knows UT1 and polar motion; |UT1 - UTC| < 0.9 s is 0.42 km on
the ground, 0.06 deg seen from below a satellite at 420 km, and 0.1 s in rise and set.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from skyfield.api import EarthSatellite, load, wgs84
from skyfield.keplerlib import _KeplerOrbit
from skyfield.toposlib import Geoid
from skyfield.units import Distance, Velocity

from fedorbit.orbits.constellation import Constellation, from_element_sets, walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.elements import read_element_sets
from fedorbit.orbits.places import Place, PlaceArrays
from tests.orbits.element_files import ISS_TLE

KEPLER_ELEVATION_TOLERANCE_DEG = 0.1
KEPLER_EVENT_TOLERANCE_S = 0.3
SGP4_ELEVATION_TOLERANCE_DEG = 0.06
SGP4_EVENT_TOLERANCE_S = 0.1

ts = load.timescale(builtin=True)
Elevation = Callable[[np.ndarray], np.ndarray]


def skyfield_elevation_deg(satellite, place, start: datetime) -> Elevation:
    moment = ts.from_datetime(start)

    def elevation_deg(times_s: np.ndarray) -> np.ndarray:
        times = ts.tt_jd(moment.tt + np.asarray(times_s) / 86400.0)
        return (satellite - place).at(times).altaz()[0].degrees

    return elevation_deg


def compare(
    elevation_deg: Elevation,
    constellation: Constellation,
    station: Place,
    horizon_s: float,
    elevation_tolerance_deg: float,
    event_tolerance_s: float,
) -> None:
    """Compare all elevations on a grid, and all rises, sets and culminations found on it."""
    grid_s = np.arange(0.0, horizon_s, 20.0)
    theirs_deg = elevation_deg(grid_s)
    arrays = PlaceArrays.of([station], constellation.geoid)
    sines = arrays.sin_elevation(constellation.r_ecef_km(grid_s))[:, 0, 0]
    np.testing.assert_allclose(
        np.degrees(np.arcsin(sines)), theirs_deg, atol=elevation_tolerance_deg
    )

    above = theirs_deg >= station.min_elevation_deg
    assert not above[0] and not above[-1]
    rises, sets = (np.flatnonzero(np.diff(above.astype(int)) == sign) for sign in (1, -1))
    crossings_s = [
        [brentq(lambda t: elevation_deg(t) - station.min_elevation_deg, grid_s[i], grid_s[i + 1])
         for i in brackets]
        for brackets in (rises, sets)
    ]  # fmt: skip
    culminations_s = [
        minimize_scalar(
            lambda t: -elevation_deg(t), bounds=bounds, method="bounded", options={"xatol": 1e-3}
        ).x
        for bounds in zip(*crossings_s, strict=True)
    ]
    contacts = find_contacts(constellation, [station], 1, horizon_s)
    assert len(contacts) == len(rises) >= 3
    np.testing.assert_allclose(contacts.rise_s, crossings_s[0], atol=event_tolerance_s)
    np.testing.assert_allclose(contacts.set_s, crossings_s[1], atol=event_tolerance_s)
    np.testing.assert_allclose(contacts.culmination_s, culminations_s, atol=event_tolerance_s)


def test_a_kepler_satellite_agrees_with_skyfield() -> None:
    start = datetime(2000, 1, 1, 12, tzinfo=UTC)
    station = Place("London", 51.0, -0.1, 10.0)
    constellation = walker(
        1, 1, 0, 550.0, 53.0, raan_offset_deg=200.0, argument_of_latitude_deg=260.0, start=start
    )
    # The initial state, by hand: position and velocity on a circle of 6921 km.
    u, i, node = np.radians([260.0, 53.0, 200.0])
    speed_km_s = np.sqrt(3.986e5 / 6921.0)
    p = np.array([np.cos(node), np.sin(node), 0.0])
    q = np.array([-np.sin(node) * np.cos(i), np.cos(node) * np.cos(i), np.sin(i)])
    satellite = _KeplerOrbit(
        Distance(km=6921.0 * (np.cos(u) * p + np.sin(u) * q)),
        Velocity(km_per_s=speed_km_s * (np.cos(u) * q - np.sin(u) * p)),
        ts.from_datetime(start),
        mu_au3_d2=3.986e5 / 149597870.7**3 * 86400.0**2,
        center=399,
    )
    sphere = Geoid("sphere", 6371000.0, inverse_flattening=1e12)
    place = sphere.latlon(station.latitude_deg, station.longitude_deg)
    compare(
        skyfield_elevation_deg(satellite, place, start),
        constellation,
        station,
        86400.0,
        KEPLER_ELEVATION_TOLERANCE_DEG,
        KEPLER_EVENT_TOLERANCE_S,
    )


@pytest.mark.parametrize(
    ("latitude_deg", "longitude_deg", "altitude_km", "min_elevation_deg"),
    [
        (51.0, -0.1, 0.0, 10.0),
        (-33.9, 18.4, 0.1, 5.0),
        (28.3, -16.5, 2.4, 25.0),
        (51.0, -0.1, 20.0, 0.0),  # platforms: at the horizontal, and down to the dip of the horizon
        (38.0, -91.8, 20.0, -4.0),
    ],
)
def test_an_sgp4_satellite_agrees_with_skyfield(
    tmp_path: Path,
    latitude_deg: float,
    longitude_deg: float,
    altitude_km: float,
    min_elevation_deg: float,
) -> None:
    file = tmp_path / "iss.tle"
    file.write_text(ISS_TLE)
    start = datetime(2014, 1, 21, tzinfo=UTC)
    station = Place("s", latitude_deg, longitude_deg, min_elevation_deg, altitude_km)
    satellite = EarthSatellite(*ISS_TLE.splitlines()[1:3], "ISS", ts)
    place = wgs84.latlon(latitude_deg, longitude_deg, elevation_m=1000.0 * altitude_km)
    compare(
        skyfield_elevation_deg(satellite, place, start),
        from_element_sets(read_element_sets(file), start=start),
        station,
        timedelta(days=2).total_seconds(),
        SGP4_ELEVATION_TOLERANCE_DEG,
        SGP4_EVENT_TOLERANCE_S,
    )
