"""Satellites grouped into orbits: Walker patterns, and real satellites by shell and plane."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np
from numpy.typing import NDArray
from sgp4.api import Satrec

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
from fedorbit.orbits.elements import ElementSet, histories
from fedorbit.orbits.planes import Drifting, Elements, Grouping, Ints, group_by_plane
from fedorbit.orbits.propagation import CircularKepler, Motion, Sgp4


@dataclass(frozen=True)
class Shell:
    """Neighbouring orbits of real satellites with one inclination and height."""

    inclination_deg: float
    altitude_km: float
    """Medians; the height is that of the semi-major axis above a sphere of 6371 km."""
    orbits: int
    satellites: int


@dataclass(frozen=True)
class Constellation:
    """Moving satellites, sorted by orbit: `orbit_of_satellite` never decreases."""

    motion: Motion
    geoid: Geoid
    orbit_of_satellite: NDArray[np.int64]
    satellite_names: tuple[str, ...]
    start: datetime | None
    shells: tuple[Shell, ...] = ()
    """Shells of real satellites: the first has the first orbits, and orbits after those of the
    last shell are of drifting satellites that were kept."""
    left_out: tuple[str, ...] = ()
    """Names of real satellites that drift and are therefore in no orbit."""

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
    drifting: Drifting = "leave-out",
) -> Constellation:
    """Group real satellites into orbits by shell and plane; see `planes`.

    Of a satellite with sets of several epochs, the nearest counts at each moment; see `Sgp4`.

    An orbit is at most `plane_tolerance_deg` wide and a shell `altitude_tolerance_km` high; both
    are also the widest gap between neighbours. The width of an orbit is the angle between planes,
    about sin(inclination) times the difference of nodes: near the equator a node has no meaning.
    Nodes are compared at one moment, the start (default: the newest epoch), since they drift by
    degrees per day. Orbits come sorted by inclination, altitude and node, satellites by their angle
    along the orbit. Satellites between planes or shells are left out, kept in orbits of their own
    after all others, or refused.
    """
    if not element_sets:
        raise ElementSetError("there is no element set; a constellation needs at least one")
    start = as_utc(start) if start else max(e.epoch for e in element_sets)
    satellites = histories(element_sets)
    _refuse_expired(satellites, start, horizon_s, max_age_days)
    julian_day, day_fraction = julian_date(start)

    nearest = [min(sets, key=lambda e: abs(e.epoch - start)) for sets in satellites]
    satrecs = [e.satrec for e in nearest]
    minutes = np.array([(start - e.epoch).total_seconds() / 60.0 for e in nearest])
    elements = _elements(satrecs, minutes)
    latitude_argument_rad = (
        np.array([s.argpo + s.mo for s in satrecs])
        + np.array([s.argpdot + s.mdot for s in satrecs]) * minutes
    ) % (2.0 * np.pi)
    grouping = group_by_plane(elements, plane_tolerance_deg, altitude_tolerance_km)
    left_out = np.concatenate([np.empty(0, dtype=np.int64), *grouping.drifting])
    groups = [plane for shell in grouping.shells for plane in shell]
    if drifting == "keep":
        groups, left_out = [*groups, *grouping.drifting], left_out[:0]
    _refuse_drifting(nearest, left_out, groups, drifting)
    orbits = [
        group[
            np.argsort(
                _angle_along_orbit_rad(elements, latitude_argument_rad, group), kind="stable"
            )
        ]
        for group in groups
    ]
    order = np.concatenate(orbits)
    names = [nearest[i].name for i in order]
    flown = [[e.satrec for e in satellites[i]] for i in order]
    return Constellation(
        motion=Sgp4(flown, names, julian_day, day_fraction),
        geoid=WGS84,
        orbit_of_satellite=np.repeat(np.arange(len(orbits)), [len(o) for o in orbits]),
        satellite_names=tuple(names),
        start=start,
        shells=_shells(elements, grouping),
        left_out=tuple(nearest[i].name for i in left_out),
    )


def _elements(satrecs: Sequence[Satrec], minutes: Floats) -> Elements:
    """Return what decides on orbits, each satellite's so many minutes after its epoch."""
    mean_motion_rad_s = np.array([s.no_kozai for s in satrecs]) / 60.0
    node_drift_rad = np.array([s.nodedot for s in satrecs]) * minutes
    return Elements(
        inclination_deg=np.degrees([s.inclo for s in satrecs]),
        altitude_km=(EARTH_MU_KM3_S2 / mean_motion_rad_s**2) ** (1.0 / 3.0) - EARTH_RADIUS_KM,
        raan_deg=np.degrees(np.array([s.nodeo for s in satrecs]) + node_drift_rad) % 360.0,
    )


def _shells(elements: Elements, grouping: Grouping) -> tuple[Shell, ...]:
    members = [np.concatenate(planes) for planes in grouping.shells]
    return tuple(
        Shell(
            inclination_deg=float(np.median(elements.inclination_deg[shell])),
            altitude_km=float(np.median(elements.altitude_km[shell])),
            orbits=len(planes),
            satellites=len(shell),
        )
        for shell, planes in zip(members, grouping.shells, strict=True)
    )


def _refuse_drifting(
    satellites: Sequence[ElementSet], left_out: Ints, groups: Sequence[Ints], drifting: Drifting
) -> None:
    """Refuse drifting satellites where that is asked for, and a file with no others."""
    names = listed_names([satellites[i].name for i in left_out])
    if len(left_out) and drifting == "refuse":
        raise ElementSetError(
            f"{len(left_out)} of {len(satellites)} satellites drift between planes or shells "
            f'({names}), and constellation.drifting is "refuse"; remove them from the file, or '
            'set it to "leave-out" or "keep"'
        )
    if not groups:
        raise ElementSetError(
            f"none of the {len(satellites)} satellites ({names}) shares a shell with others; set "
            'constellation.drifting to "keep" to give each an orbit of its own'
        )


def listed_names(names: Sequence[str], most: int = 3) -> str:
    """Name the first of some satellites."""
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")


def _angle_along_orbit_rad(
    elements: Elements, latitude_argument_rad: Floats, orbit: Ints
) -> Floats:
    """Angles of one orbit's satellites from the node of its first, which counts for all."""
    raan_deg = elements.raan_deg[orbit]
    node_rad = np.radians((raan_deg - raan_deg[0] + 180.0) % 360.0 - 180.0)
    shift_rad = np.cos(np.radians(elements.inclination_deg[orbit])) * node_rad
    return np.asarray((latitude_argument_rad[orbit] + shift_rad) % (2.0 * np.pi))


def _refuse_expired(
    satellites: Sequence[Sequence[ElementSet]],
    start: datetime,
    horizon_s: float,
    max_age_days: float,
) -> None:
    age_days = np.array([_age_days(sets, start, horizon_s) for sets in satellites])
    expired = np.flatnonzero(age_days > max_age_days)
    if expired.size:
        worst = int(expired[np.argmax(age_days[expired])])
        name = satellites[worst][0].name
        raise ElementSetError(
            f"{expired.size} of {len(satellites)} element sets are too old for the period from "
            f"{start:%Y-%m-%d %H:%M} UTC: {name} is {age_days[worst]:.1f} days from its "
            f"nearest epoch, allowed are {max_age_days:g}; get newer elements, set schedule.start "
            "nearer to their epoch, or raise constellation.max_age_days"
        )


def _age_days(sets: Sequence[ElementSet], start: datetime, horizon_s: float) -> float:
    """Return how far a satellite is from its nearest epoch, at the worst moment of a period."""
    epochs_s = np.array([(e.epoch - start).total_seconds() for e in sets])
    half_way_s = (epochs_s[:-1] + epochs_s[1:]) / 2.0
    moments_s = np.concatenate(
        ([0.0, horizon_s], half_way_s[(half_way_s > 0.0) & (half_way_s < horizon_s)])
    )
    return float(np.abs(moments_s[:, None] - epochs_s).min(axis=1).max() / SECONDS_PER_DAY)
