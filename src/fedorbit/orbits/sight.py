"""Conditions of links between satellites: line of sight, range, and pointing rate.

The segment between them must stay `grazing_km` above the Earth's surface: the point c = p + s (q -
p), 0 <= s <= 1, that is nearest to the Earth's centre must be outside the surface raised by that
height. Over an ellipsoid the z axis is stretched first, which makes the raised surface a sphere and
leaves segments straight; raising both half-axes by the height moves the surface by less than a
metre from the true parallel.

All conditions are written as differences of squares, which are smooth in time. An angular rate
itself is not: where two satellites pass each other closely it peaks for seconds.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import EARTH_RADIUS_KM, Floats

Ints = NDArray[np.int64]

RATE_LENGTH_KM = 1000.0  # brings the margin of the rate, in km^4, to the scale of the others
HALF_DIFFERENCE_S = 0.5
"""Velocities are differences of positions a second apart, wrong by under 1e-6 km/s."""


@dataclass(frozen=True)
class LinkSettings:
    """Limits of links between satellites; the defaults are those of an optical terminal."""

    grazing_km: float = 80.0
    """Least height of the line of sight above the Earth's surface."""
    max_range_km: float | None = 5000.0
    """Longest link; None: no limit but the line of sight."""
    in_plane: bool = True
    """True if satellites of the same orbit can link."""
    cross_plane: bool = True
    """True if satellites of different orbits can link."""
    terminals: int | None = None
    """Most links of a satellite at a time, see `terminals`; None: all that geometry gives."""
    acquisition_s: float = 0.0
    """Time from when a link is possible to when it can be used."""
    max_rate_deg_s: float | None = None
    """Fastest turn of the line of sight that a terminal follows, in the frame of its satellite.

    A satellite points to the Earth's centre and turns with its orbit: the neighbour in a ring
    stands still. Both ends must be able to follow.
    """


class Sight:
    """Conditions of a link as one margin: at least 0 where a link is possible."""

    def __init__(self, constellation: Constellation, settings: LinkSettings) -> None:
        self.constellation = constellation
        self.settings = settings
        geoid = constellation.geoid
        equatorial_km = geoid.equatorial_radius_km + settings.grazing_km
        polar_km = geoid.equatorial_radius_km * (1.0 - geoid.flattening) + settings.grazing_km
        self._surface_km = equatorial_km
        self._lowest_km = min(equatorial_km, polar_km)
        self._stretch = np.array([1.0, 1.0, equatorial_km / polar_km])
        self._is_sphere = equatorial_km == polar_km

    def states(self, times_s: Floats) -> Floats:
        """States `[time, satellite, 3 or 6]`: positions, and velocities if rates are limited."""
        motion = self.constellation.motion
        if self.settings.max_rate_deg_s is None:
            return motion.r_eci_km(times_s)
        before, here, after = (motion.r_eci_km(times_s + shift) for shift in _SHIFTS_S)
        return _with_velocity(before, here, after)

    def states_at(self, satellites: Ints, times_s: Floats) -> Floats:
        """States `[n, 3 or 6]` of satellite `satellites[i]` at `times_s[i]`."""
        motion = self.constellation.motion
        if self.settings.max_rate_deg_s is None:
            return motion.r_eci_km_at(satellites, times_s)
        before, here, after = (
            motion.r_eci_km_at(satellites, times_s + shift) for shift in _SHIFTS_S
        )
        return _with_velocity(before, here, after)

    def margin(self, a: Floats, b: Floats) -> Floats:
        """Margins of pairs of states `[..., 3 or 6]`: at least 0 where a link is possible."""
        p_km, d_km = a[..., :3], b[..., :3] - a[..., :3]
        margin = self._grazing(p_km, d_km)
        range2_km2 = _dot(d_km, d_km)
        if self.settings.max_range_km is not None:
            margin = np.minimum(margin, self.settings.max_range_km**2 - range2_km2)
        if self.settings.max_rate_deg_s is not None:
            limit = np.radians(self.settings.max_rate_deg_s) ** 2 * range2_km2**2
            for state in (a, b):
                turn2 = _turn2(state, d_km, b[..., 3:] - a[..., 3:])
                margin = np.minimum(margin, (limit - turn2) / RATE_LENGTH_KM**2)
        return np.asarray(margin)

    def margin_at(self, first: Ints, second: Ints, times_s: Floats) -> Floats:
        """Margins of pair `first[i]`, `second[i]` at `times_s[i]`."""
        return self.margin(self.states_at(first, times_s), self.states_at(second, times_s))

    def range2_km2_at(self, first: Ints, second: Ints, times_s: Floats) -> Floats:
        """Squared distance of pair `first[i]`, `second[i]` at `times_s[i]`."""
        motion = self.constellation.motion
        d_km = motion.r_eci_km_at(second, times_s) - motion.r_eci_km_at(first, times_s)
        return _dot(d_km, d_km)

    def reach_km(self, states: Floats) -> float:
        """Longest link that these states can have: the range limit, or the line of sight."""
        distance2_km2 = _dot(states[..., :3], states[..., :3]).max(initial=0.0)
        sight_km = 2.0 * np.sqrt(max(distance2_km2 - self._lowest_km**2, 0.0))
        limit_km = self.settings.max_range_km
        return float(sight_km if limit_km is None else min(sight_km, limit_km))

    def allowed(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        """Return whether the orbits of two satellites permit a link."""
        orbit = self.constellation.orbit_of_satellite
        same = orbit[first] == orbit[second]
        return (same & self.settings.in_plane) | (~same & self.settings.cross_plane)

    def _grazing(self, p_km: Floats, d_km: Floats) -> Floats:
        if not self._is_sphere:
            p_km, d_km = p_km * self._stretch, d_km * self._stretch
        p2, pd, d2 = _dot(p_km, p_km), _dot(p_km, d_km), _dot(d_km, d_km)
        share = np.clip(-pd / np.maximum(d2, np.finfo(np.float64).tiny), 0.0, 1.0)
        return np.asarray(p2 + share * (2.0 * pd + share * d2) - self._surface_km**2)


def longest_sight_deg(altitude_km: float, grazing_km: float = 80.0) -> float:
    """Widest angle at the Earth's centre between satellites of equal altitude that see each other.

    Over a sphere. 0 below the grazing height.
    """
    ratio = (EARTH_RADIUS_KM + grazing_km) / (EARTH_RADIUS_KM + altitude_km)
    return float(np.degrees(2.0 * np.arccos(min(ratio, 1.0))))


def ring_satellites(altitude_km: float, grazing_km: float = 80.0) -> int:
    """Fewest satellites, evenly spaced in a plane, whose neighbours always see each other.

    The altitude must be above the grazing height.
    """
    # At least three: two are opposite each other at any altitude.
    return max(3, int(np.ceil(360.0 / longest_sight_deg(altitude_km, grazing_km))))


def ring_hop_km(altitude_km: float, satellites: int) -> float:
    """Distance of neighbours in a ring of evenly spaced satellites."""
    return float(2.0 * (EARTH_RADIUS_KM + altitude_km) * np.sin(np.pi / satellites))


_SHIFTS_S = (-HALF_DIFFERENCE_S, 0.0, HALF_DIFFERENCE_S)


def _with_velocity(before: Floats, here: Floats, after: Floats) -> Floats:
    return np.concatenate((here, (after - before) / (2.0 * HALF_DIFFERENCE_S)), axis=-1)


def _turn2(state: Floats, d_km: Floats, d_km_s: Floats) -> Floats:
    """Square of range^2 x rate of the line of sight, in the frame that turns with an orbit."""
    r_km, v_km_s = state[..., :3], state[..., 3:]
    orbit_rad_s = np.cross(r_km, v_km_s) / _dot(r_km, r_km)[..., None]
    turn = np.cross(d_km, d_km_s - np.cross(orbit_rad_s, d_km))
    return _dot(turn, turn)


def _dot(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("...i,...i->...", a, b))
