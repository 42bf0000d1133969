"""Places with links to satellites: ground stations and platforms, each with a mask of its own.

A place sees a satellite above its elevation mask: sin(elevation) is the part of the line of sight
along the local zenith, and the elevation is at least the place's minimum, its mask. The mask is
negative where the horizon dips: from 20 km the Earth's edge is 4.5 degrees below the horizontal.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import EARTH_RADIUS_KM, Floats, Geoid

Role = Literal["ground", "platform"]


@dataclass(frozen=True)
class Place:
    """A station or platform that is in contact with satellites above its minimum elevation."""

    name: str
    latitude_deg: float
    longitude_deg: float
    min_elevation_deg: float = 10.0
    altitude_km: float = 0.0
    role: Role = "ground"

    def reach_rad(self, radius_km: float) -> float:
        """Angle at the Earth's centre to the farthest satellite in view at a distance from it."""
        elevation_rad = np.radians(self.min_elevation_deg)
        ratio = (EARTH_RADIUS_KM + self.altitude_km) * np.cos(elevation_rad) / radius_km
        return float(np.arccos(ratio) - elevation_rad)


def horizon_dip_deg(altitude_km: float) -> float:
    """Return the angle of the Earth's edge below the horizontal, from an altitude over a sphere."""
    height_km = max(altitude_km, 0.0)
    return float(np.degrees(np.arccos(EARTH_RADIUS_KM / (EARTH_RADIUS_KM + height_km))))


def groups_in_sight(places: Sequence[Place]) -> list[int]:
    """Return a number for each place: places that see each other, also by others, share one.

    The line of sight must not pass below the surface, that of a sphere. Two platforms at 20 km see
    each other up to 1,010 km apart.
    """
    latitude_rad, longitude_rad = (
        np.radians([getattr(place, name) for place in places])
        for name in ("latitude_deg", "longitude_deg")
    )
    distance_km = EARTH_RADIUS_KM + np.array([place.altitude_km for place in places])
    horizon_rad = np.arccos(np.minimum(EARTH_RADIUS_KM / distance_km, 1.0))
    x, y = (
        np.cos(latitude_rad) * np.cos(longitude_rad),
        np.cos(latitude_rad) * np.sin(longitude_rad),
    )
    zenith = np.column_stack((x, y, np.sin(latitude_rad)))
    chord = np.linalg.norm(zenith[:, None] - zenith, axis=-1)
    angle_rad = 2.0 * np.arcsin(np.minimum(chord / 2.0, 1.0))
    groups = list(range(len(places)))
    for a, b in np.argwhere(angle_rad <= horizon_rad[:, None] + horizon_rad).tolist():
        old, new = max(groups[a], groups[b]), min(groups[a], groups[b])
        groups = [new if group == old else group for group in groups]
    return groups


@dataclass(frozen=True)
class PlaceArrays:
    """All places as arrays in the Earth-fixed frame."""

    r_ecef_km: Floats
    zenith: Floats
    sin_min_elevation: Floats

    @classmethod
    def of(cls, places: Sequence[Place], geoid: Geoid) -> "PlaceArrays":
        """Put the places above the Earth's surface."""
        r_ecef_km, zenith = geoid.place(
            [p.latitude_deg for p in places],
            [p.longitude_deg for p in places],
            [p.altitude_km for p in places],
        )
        sines = np.sin(np.radians([p.min_elevation_deg for p in places]))
        return cls(r_ecef_km, zenith, sines)

    def sin_elevation(self, r_ecef_km: Floats) -> Floats:
        """Sine of the elevation of positions `[..., 3]` for every place."""
        # One matrix product instead of a difference vector for every satellite and place.
        up_km = r_ecef_km @ self.zenith.T - np.einsum("gi,gi->g", self.r_ecef_km, self.zenith)
        range2_km2 = r_ecef_km @ (-2.0 * self.r_ecef_km.T)
        range2_km2 += np.einsum("...i,...i->...", r_ecef_km, r_ecef_km)[..., None]
        range2_km2 += np.einsum("gi,gi->g", self.r_ecef_km, self.r_ecef_km)
        np.sqrt(range2_km2, out=range2_km2)
        up_km /= range2_km2
        return up_km

    def sin_elevation_at(self, places: NDArray[np.int64], r_ecef_km: Floats) -> Floats:
        """Sine of the elevation of position `r_ecef_km[i]` for place `places[i]`."""
        sight_km = r_ecef_km - self.r_ecef_km[places]
        up_km = np.einsum("ni,ni->n", sight_km, self.zenith[places])
        return np.asarray(up_km / np.linalg.norm(sight_km, axis=-1))

    def range_km_at(self, places: NDArray[np.int64], r_ecef_km: Floats) -> Floats:
        """Distance of position `r_ecef_km[i]` from place `places[i]`."""
        return np.asarray(np.linalg.norm(r_ecef_km - self.r_ecef_km[places], axis=-1))
