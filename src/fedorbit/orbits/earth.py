"""The Earth under a constellation: its shape, its rotation, and places on it.

Two shapes are in use. A Walker constellation flies over the paper's sphere; real element sets
need the WGS84 ellipsoid, or a station would be up to 21 km off.
"""

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

EARTH_MU_KM3_S2 = 3.986e5
EARTH_RADIUS_KM = 6371.0
EARTH_ROTATION_RAD_S = 7.292e-5
SECONDS_PER_DAY = 86400.0
JULIAN_DATE_OF_UNIX_EPOCH = 2440587.5


@dataclass(frozen=True)
class Geoid:
    """An ellipsoid of revolution; a sphere has flattening 0."""

    equatorial_radius_km: float
    flattening: float

    def place(
        self, latitude_deg: ArrayLike, longitude_deg: ArrayLike, altitude_km: ArrayLike = 0.0
    ) -> tuple[Floats, Floats]:
        """Return Earth-fixed positions in km and local zenith unit vectors, both `[..., 3]`.

        The zenith is normal to the ellipsoid, as an antenna mount is levelled.
        """
        zenith = unit_vectors(latitude_deg, longitude_deg)
        eccentricity2 = self.flattening * (2.0 - self.flattening)
        normal_km = self.equatorial_radius_km / np.sqrt(1.0 - eccentricity2 * zenith[..., 2] ** 2)
        height_km = np.asarray(altitude_km, dtype=np.float64)
        r_ecef_km = zenith * (normal_km + height_km)[..., None]
        r_ecef_km[..., 2] = zenith[..., 2] * (normal_km * (1.0 - eccentricity2) + height_km)
        return r_ecef_km, zenith


SPHERE = Geoid(EARTH_RADIUS_KM, 0.0)
WGS84 = Geoid(6378.137, 1.0 / 298.257223563)


def unit_vectors(latitude_deg: ArrayLike, longitude_deg: ArrayLike) -> Floats:
    """Directions `[..., 3]` of latitude and longitude in the Earth-fixed frame."""
    latitude_rad, longitude_rad = np.radians(latitude_deg), np.radians(longitude_deg)
    return np.stack(
        np.broadcast_arrays(
            np.cos(latitude_rad) * np.cos(longitude_rad),
            np.cos(latitude_rad) * np.sin(longitude_rad),
            np.sin(latitude_rad),
        ),
        axis=-1,
    )


def latitude_longitude_deg(r_ecef_km: Floats) -> tuple[Floats, Floats]:
    """Geocentric latitude and longitude of Earth-fixed positions `[..., 3]`."""
    x, y, z = np.moveaxis(r_ecef_km, -1, 0)
    return np.degrees(np.arctan2(z, np.hypot(x, y))), np.degrees(np.arctan2(y, x))


def rotate_to_earth_fixed(r_eci_km: Floats, earth_angle_rad: Floats) -> Floats:
    """Turn inertial positions `[..., 3]` by the Earth's rotation angle, which broadcasts."""
    cos, sin = np.cos(earth_angle_rad), np.sin(earth_angle_rad)
    r_ecef_km = np.empty_like(r_eci_km)
    r_ecef_km[..., 0] = cos * r_eci_km[..., 0] + sin * r_eci_km[..., 1]
    r_ecef_km[..., 1] = cos * r_eci_km[..., 1] - sin * r_eci_km[..., 0]
    r_ecef_km[..., 2] = r_eci_km[..., 2]
    return r_ecef_km


def as_utc(moment: datetime) -> datetime:
    """Return the same moment in UTC; one without an offset is in UTC already."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def julian_date(moment: datetime) -> tuple[float, float]:
    """Split a moment into a whole-day Julian date and a day fraction; naive means UTC.

    Two numbers, since one float64 Julian date resolves only about 40 microseconds.
    """
    since_epoch = as_utc(moment) - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = since_epoch.seconds + since_epoch.microseconds / 1e6
    return JULIAN_DATE_OF_UNIX_EPOCH + since_epoch.days, seconds / SECONDS_PER_DAY


def greenwich_angle_rad(julian_day: float, day_fraction: ArrayLike) -> Floats:
    """Greenwich mean sidereal time, IAU 1982: the angle that goes with SGP4's TEME frame.

    UTC stands in for UT1; they differ by under 0.9 s, a rotation of 0.004 degrees.
    """
    fraction = np.asarray(day_fraction, dtype=np.float64)
    centuries = (julian_day - 2451545.0 + fraction) / 36525.0
    # Whole turns are taken out first: 876600 h per century would cost six digits of the angle.
    turns = (julian_day - 2451545.0) % 1.0 + fraction + 0.5
    drift_s = (
        24110.54841 + 8640184.812866 * centuries + 0.093104 * centuries**2 - 6.2e-6 * centuries**3
    )
    angle_turns = (turns + drift_s / SECONDS_PER_DAY) % 1.0
    return np.asarray(2.0 * np.pi * angle_turns)
