"""Satellites grouped into orbits: Walker patterns, and real satellites by plane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ElementSetError
from fedorbit.orbits.earth import (
    EARTH_MU_KM3_S2,
    EARTH_RADIUS_KM,
    SECONDS_PER_DAY,
    SPHERE,
    WGS84,
    Floats,
    Geoid,
    as_utc,
    greenwich_angle_rad,
    julian_date,
    rotate_to_earth_fixed,
)
from fedorbit.orbits.elements import ElementSet
from fedorbit.orbits.propagation import CircularKepler, Motion, Sgp4


@dataclass(frozen=True)
class Constellation:
    """Moving satellites, sorted by orbit: `orbit_of_satellite` never decreases."""

    motion: Motion
    geoid: Geoid
    orbit_of_satellite: NDArray[np.int64]
    satellite_names: tuple[str, ...]
    start: datetime | None

    @property
    def satellites(self) -> int:
        """Number of satellites."""
        return len(self.satellite_names)

    @property
    def orbits(self) -> int:
        """Number of orbits."""
        return int(self.orbit_of_satellite[-1]) + 1

    @property
    def satellites_per_orbit(self) -> NDArray[np.int64]:
        """Satellites in each orbit; real orbits differ."""
        return np.bincount(self.orbit_of_satellite, minlength=self.orbits)

    def r_ecef_km(self, times_s: Floats) -> Floats:
        """Earth-fixed positions `[time, satellite, 3]`."""
        earth_angle_rad = self.motion.earth_angle_rad(times_s)
        return rotate_to_earth_fixed(self.motion.r_eci_km(times_s), earth_angle_rad[:, None])

    def r_ecef_km_at(self, satellites: NDArray[np.int64], times_s: Floats) -> Floats:
        """Earth-fixed positions `[n, 3]` of satellite `satellites[i]` at `times_s[i]`."""
        earth_angle_rad = self.motion.earth_angle_rad(times_s)
        return rotate_to_earth_fixed(self.motion.r_eci_km_at(satellites, times_s), earth_angle_rad)


def walker(
    planes: int,
    satellites_per_plane: int | Sequence[int],
    phasing: float,
    altitude_km: float,
    inclination_deg: float,
    raan_spread_deg: float = 360.0,
    raan_offset_deg: float = 0.0,
    argument_of_latitude_deg: float = 0.0,
    start: datetime | None = None,
) -> Constellation:
    """Lay out a Walker constellation: delta for a RAAN spread of 360 degrees, star for 180.

    In Walker's notation `i: T/P/F`, T is the number of satellites, P = planes, F = phasing:
    a satellite leads its neighbour in the plane before by F x 360/T degrees of latitude argument.
    The nodes of neighbouring planes are spread / P apart. Planes may differ in their number of
    satellites, which are evenly spaced in each; F x 360/T is then between their satellites 0.
    `argument_of_latitude_deg` is that of satellite 0 of plane 0 at t = 0. Without `start` the
    Greenwich meridian is on the inertial x axis at t = 0; with it, where it was at that moment.
    """
    start = as_utc(start) if start else None
    counts = np.broadcast_to(np.asarray(satellites_per_plane, dtype=np.int64), planes)
    total = int(counts.sum())
    plane = np.repeat(np.arange(planes), counts)
    slot = np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts)
    return Constellation(
        motion=CircularKepler(
            radius_km=np.full(total, EARTH_RADIUS_KM + altitude_km),
            inclination_rad=np.full(total, np.radians(inclination_deg)),
            raan_rad=np.radians(raan_offset_deg + raan_spread_deg * plane / planes),
            argument_of_latitude_rad=np.radians(
                argument_of_latitude_deg
                + 360.0 * slot / counts[plane]
                + 360.0 * phasing * plane / total
            ),
            earth_angle_at_start_rad=(
                float(greenwich_angle_rad(*julian_date(start))) if start else 0.0
            ),
        ),
        geoid=SPHERE,
        orbit_of_satellite=plane,
        satellite_names=tuple(f"sat {p}.{k}" for p, k in zip(plane, slot, strict=True)),
        start=start,
    )


def from_element_sets(
    element_sets: Sequence[ElementSet],
    start: datetime | None = None,
    horizon_s: float = 0.0,
    max_age_days: float = 14.0,
    plane_tolerance_deg: float = 3.0,
    altitude_tolerance_km: float = 50.0,
) -> Constellation:
    """Group real satellites into orbits by plane.

    Satellites share an orbit when no gap in inclination or node between neighbours exceeds
    `plane_tolerance_deg`, nor one in altitude `altitude_tolerance_km`. The gap between two nodes is
    the angle that it puts between their planes, about sin(inclination) times the difference: near
    the equator a node says nothing. Nodes are compared at one moment, the start (default: the
    newest epoch), since they drift by degrees per day. Orbits come sorted by inclination, altitude
    and node, satellites by their angle along the orbit.
    """
    if not element_sets:
        raise ElementSetError("there is no element set; a constellation needs at least one")
    start = as_utc(start) if start else max(e.epoch for e in element_sets)
    _refuse_expired(element_sets, start, horizon_s, max_age_days)
    julian_day, day_fraction = julian_date(start)

    satrecs = [e.satrec for e in element_sets]
    minutes = np.array([(start - e.epoch).total_seconds() / 60.0 for e in element_sets])
    mean_motion_rad_s = np.array([s.no_kozai for s in satrecs]) / 60.0
    altitude_km = (EARTH_MU_KM3_S2 / mean_motion_rad_s**2) ** (1.0 / 3.0) - EARTH_RADIUS_KM
    inclination_deg = np.degrees([s.inclo for s in satrecs])
    node_drift_rad = np.array([s.nodedot for s in satrecs]) * minutes
    raan_deg = np.degrees(np.array([s.nodeo for s in satrecs]) + node_drift_rad) % 360.0
    latitude_argument_rad = (
        np.array([s.argpo + s.mo for s in satrecs])
        + np.array([s.argpdot + s.mdot for s in satrecs]) * minutes
    ) % (2.0 * np.pi)

    orbits = [np.arange(len(element_sets))]
    for values, tolerance in (
        (inclination_deg, plane_tolerance_deg),
        (altitude_km, altitude_tolerance_km),
    ):
        orbits = [part for orbit in orbits for part in _split(orbit, values, tolerance)]
    orbits = [
        part
        for orbit in orbits
        for part in _split_by_node(orbit, raan_deg, inclination_deg, plane_tolerance_deg)
    ]
    orbits = [
        orbit[
            np.argsort(
                _angle_along_orbit_rad(
                    latitude_argument_rad[orbit], raan_deg[orbit], inclination_deg[orbit]
                ),
                kind="stable",
            )
        ]
        for orbit in orbits
    ]
    order = np.concatenate(orbits)
    names = [element_sets[i].name for i in order]
    return Constellation(
        motion=Sgp4([satrecs[i] for i in order], names, julian_day, day_fraction),
        geoid=WGS84,
        orbit_of_satellite=np.repeat(np.arange(len(orbits)), [len(o) for o in orbits]),
        satellite_names=tuple(names),
        start=start,
    )


def _split(members: NDArray[np.int64], values: Floats, tolerance: float) -> list[NDArray[np.int64]]:
    """Sort members by value and cut where neighbours differ by more than the tolerance."""
    order = members[np.argsort(values[members], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(values[order]) > tolerance) + 1)


def _split_by_node(
    members: NDArray[np.int64], raan_deg: Floats, inclination_deg: Floats, tolerance_deg: float
) -> list[NDArray[np.int64]]:
    """Sort members by node and cut where the planes of neighbours differ too much."""
    order = members[np.argsort(raan_deg[members], kind="stable")]
    # On a circle, begin after the widest gap, so that no orbit spans the end.
    gaps_deg = np.append(np.diff(raan_deg[order]), raan_deg[order[0]] + 360.0 - raan_deg[order[-1]])
    order = np.roll(order, -1 - int(np.argmax(gaps_deg)))
    half_step_rad = np.radians(np.diff(raan_deg[order]) % 360.0) / 2.0
    tilt = np.sin(np.radians(inclination_deg[members].mean()))
    between_planes_deg = np.degrees(2.0 * np.arcsin(tilt * np.sin(half_step_rad)))
    parts = np.split(order, np.flatnonzero(between_planes_deg > tolerance_deg) + 1)
    return sorted(parts, key=lambda part: float(raan_deg[part[0]]))


def _angle_along_orbit_rad(
    latitude_argument_rad: Floats, raan_deg: Floats, inclination_deg: Floats
) -> Floats:
    """Angles of one orbit's satellites from the node of its first, which counts for all."""
    node_rad = np.radians((raan_deg - raan_deg[0] + 180.0) % 360.0 - 180.0)
    shift_rad = np.cos(np.radians(inclination_deg)) * node_rad
    return np.asarray((latitude_argument_rad + shift_rad) % (2.0 * np.pi))


def _refuse_expired(
    element_sets: Sequence[ElementSet], start: datetime, horizon_s: float, max_age_days: float
) -> None:
    offset_days = np.array([(start - e.epoch).total_seconds() for e in element_sets])
    offset_days /= SECONDS_PER_DAY
    age_days = np.maximum(np.abs(offset_days), np.abs(offset_days + horizon_s / SECONDS_PER_DAY))
    expired = np.flatnonzero(age_days > max_age_days)
    if expired.size:
        worst = int(expired[np.argmax(age_days[expired])])
        raise ElementSetError(
            f"{expired.size} of {len(element_sets)} element sets are too old for the period from "
            f"{start:%Y-%m-%d %H:%M} UTC: {element_sets[worst].name} is {age_days[worst]:.1f} days "
            f"from its epoch, allowed are {max_age_days:g}; get newer elements, set schedule.start "
            "nearer to their epoch, or raise constellation.max_age_days"
        )
