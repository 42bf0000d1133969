"""Seconds of sunlight of satellites: the Sun's direction, and the Earth's shadow.

The Sun comes from the Astronomical Almanac's low-precision formulas, good to 0.01 degrees from
1950 to 2050 and to a few hundredths in the years a schedule allows. The shadow is a cylinder: the
penumbra, which a satellite in low orbit crosses in some ten seconds, is divided between light and
shadow. Sunlight is bent by no atmosphere.
"""

from datetime import UTC, datetime

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import SECONDS_PER_DAY, Floats, julian_date
from fedorbit.orbits.visibility import time_chunks
from fedorbit.progress import Progress

MARCH_EQUINOX = datetime(2000, 3, 20, 7, 35, tzinfo=UTC)
"""Moment of t = 0 for a constellation without a date: the Sun is on the inertial x axis."""
GRID_STEP_S = 10.0
"""Shadow borders are interpolated between points of this grid, to about 0.05 s in low orbits."""


def sun_direction_eci(julian_day: float, day_fraction: ArrayLike) -> Floats:
    """Unit vectors `[..., 3]` to the Sun, in the equator and equinox of date.

    UTC stands in for terrestrial time; the Sun moves 0.001 degrees in their difference.
    """
    days = (julian_day - 2451545.0) + np.asarray(day_fraction, dtype=np.float64)
    mean_longitude_deg = 280.460 + 0.9856474 * days
    mean_anomaly_rad = np.radians(357.528 + 0.9856003 * days)
    longitude_rad = np.radians(
        mean_longitude_deg
        + 1.915 * np.sin(mean_anomaly_rad)
        + 0.020 * np.sin(2.0 * mean_anomaly_rad)
    )
    obliquity_rad = np.radians(23.439 - 0.0000004 * days)
    return np.stack(
        (
            np.cos(longitude_rad),
            np.cos(obliquity_rad) * np.sin(longitude_rad),
            np.sin(obliquity_rad) * np.sin(longitude_rad),
        ),
        axis=-1,
    )


def sunlit_seconds(
    constellation: Constellation,
    rounds: int,
    round_s: float,
    progress: Progress | None = None,
) -> NDArray[np.float32]:
    """Seconds that each satellite is in sunlight during each round, `[round, satellite]`.

    A shadow shorter than the grid step may be missed.
    """
    julian_day, day_fraction = julian_date(constellation.start or MARCH_EQUINOX)
    steps = max(1, int(np.ceil(round_s / GRID_STEP_S)))
    sunlit_s = np.empty((rounds, constellation.satellites), dtype=np.float32)
    values_per_round = 3 * steps * constellation.satellites
    for rows in time_chunks(rounds, values_per_round, "computing sunlight", progress):
        times_s = np.arange(rows.start * steps, rows.stop * steps + 1) * (round_s / steps)
        sun = sun_direction_eci(julian_day, day_fraction + times_s / SECONDS_PER_DAY)
        r_eci_km = constellation.motion.r_eci_km(times_s)
        clearance_km = shadow_clearance_km(
            r_eci_km, sun[:, None], constellation.geoid.equatorial_radius_km
        )
        shares = _share_above_zero(clearance_km[:-1], clearance_km[1:])
        sunlit_s[rows] = round_s * shares.reshape(-1, steps, shares.shape[1]).mean(axis=1)
    return sunlit_s


def shadow_clearance_km(r_eci_km: Floats, sun: Floats, radius_km: float) -> Floats:
    """Return the distance of positions `[..., 3]` from the Earth's shadow; negative inside.

    On the day side it is the height above the Earth, which continues the distance from the
    cylinder without a step, so that borders can be interpolated.
    """
    toward_sun_km = np.einsum("...i,...i->...", r_eci_km, np.broadcast_to(sun, r_eci_km.shape))
    distance2_km2 = np.einsum("...i,...i->...", r_eci_km, r_eci_km)
    behind_km = np.minimum(toward_sun_km, 0.0)
    return np.asarray(np.sqrt(distance2_km2 - behind_km**2) - radius_km)


def _share_above_zero(begin: Floats, end: Floats) -> Floats:
    """Share of each step in which a straight line between its two values is above zero."""
    above, total = np.maximum(begin, 0.0) + np.maximum(end, 0.0), np.abs(begin) + np.abs(end)
    return np.divide(above, total, out=np.ones_like(total), where=total > 0.0)
