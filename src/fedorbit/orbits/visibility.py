"""Who sees whom: elevations, the visibility matrix V[round, orbit], and what it says.

A station sees a satellite when `eq:elevation` holds: sin(elevation) is the part of the line of
sight along the local zenith, and the elevation is at least the station's minimum.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import Floats, Geoid
from fedorbit.presence import Presence
from fedorbit.progress import Progress, SilentProgress

CHUNK_VALUES = 1_000_000
"""Elevations held at a time: a few arrays of 8 MB, whatever the size of the constellation."""


@dataclass(frozen=True)
class GroundStation:
    """A place that can talk to satellites above its minimum elevation."""

    name: str
    latitude_deg: float
    longitude_deg: float
    min_elevation_deg: float = 10.0
    altitude_km: float = 0.0


@dataclass(frozen=True)
class StationArrays:
    """All stations as arrays in the Earth-fixed frame."""

    r_ecef_km: Floats
    zenith: Floats
    sin_min_elevation: Floats

    @classmethod
    def of(cls, stations: Sequence[GroundStation], geoid: Geoid) -> "StationArrays":
        """Place the stations on the Earth's surface."""
        r_ecef_km, zenith = geoid.place(
            [s.latitude_deg for s in stations],
            [s.longitude_deg for s in stations],
            [s.altitude_km for s in stations],
        )
        sines = np.sin(np.radians([s.min_elevation_deg for s in stations]))
        return cls(r_ecef_km, zenith, sines)

    def sin_elevation(self, r_ecef_km: Floats) -> Floats:
        """Sine of the elevation (`eq:elevation`) of positions `[..., 3]` for every station."""
        # One matrix product instead of a difference vector for every satellite and station.
        up_km = r_ecef_km @ self.zenith.T - np.einsum("gi,gi->g", self.r_ecef_km, self.zenith)
        range2_km2 = r_ecef_km @ (-2.0 * self.r_ecef_km.T)
        range2_km2 += np.einsum("...i,...i->...", r_ecef_km, r_ecef_km)[..., None]
        range2_km2 += np.einsum("gi,gi->g", self.r_ecef_km, self.r_ecef_km)
        np.sqrt(range2_km2, out=range2_km2)
        up_km /= range2_km2
        return up_km

    def sin_elevation_at(self, stations: NDArray[np.int64], r_ecef_km: Floats) -> Floats:
        """Sine of the elevation of position `r_ecef_km[i]` for station `stations[i]`."""
        sight_km = r_ecef_km - self.r_ecef_km[stations]
        up_km = np.einsum("ni,ni->n", sight_km, self.zenith[stations])
        return np.asarray(up_km / np.linalg.norm(sight_km, axis=-1))


@dataclass(frozen=True)
class Schedule:
    """When each orbit is in view of at least one station."""

    times_s: Floats
    visible: NDArray[np.bool_]

    @property
    def rounds(self) -> int:
        """Length of the horizon in rounds."""
        return self.visible.shape[0]

    @property
    def orbits(self) -> int:
        """Number of orbits."""
        return self.visible.shape[1]

    @property
    def visible_rounds(self) -> NDArray[np.int64]:
        """Rounds in view, per orbit."""
        return self.visible.sum(axis=0)

    @property
    def idle_rounds(self) -> int:
        """Rounds in which no orbit is in view."""
        return int(self._idle.sum())

    @property
    def longest_gaps_rounds(self) -> NDArray[np.int64]:
        """Longest run of rounds out of view, per orbit, counting those at the horizon's ends."""
        return np.array([_longest_run(~column) for column in self.visible.T], dtype=np.int64)

    @property
    def tau_max(self) -> int:
        """The longest gap of any single orbit: the paper's tau^max."""
        return int(self.longest_gaps_rounds.max())

    @property
    def longest_idle_rounds(self) -> int:
        """Longest run of rounds in which no orbit at all is in view."""
        return _longest_run(self._idle)

    @property
    def _idle(self) -> NDArray[np.bool_]:
        return np.logical_not(self.visible.any(axis=1))


def round_times_s(rounds: int, round_s: float) -> Floats:
    """Moments at which the rounds are sampled: the begin of each."""
    return np.arange(rounds, dtype=np.float64) * round_s


def compute_schedule(
    constellation: Constellation,
    stations: Sequence[GroundStation],
    times_s: Floats,
    progress: Progress | None = None,
    presence: Presence | None = None,
) -> Schedule:
    """Sample V[round, orbit]: an orbit is visible when any station sees any of its satellites.

    Given a presence, only satellites that are there in a round count.
    """
    arrays = StationArrays.of(stations, constellation.geoid)
    first_of_orbit = np.searchsorted(
        constellation.orbit_of_satellite, np.arange(constellation.orbits)
    )
    visible = np.empty((len(times_s), constellation.orbits), dtype=np.bool_)
    values_per_step = constellation.satellites * len(stations)
    for rows in time_chunks(len(times_s), values_per_step, "computing visibility", progress):
        sines = arrays.sin_elevation(constellation.r_ecef_km(times_s[rows]))
        seen = (sines >= arrays.sin_min_elevation).any(axis=2)
        if presence is not None:
            seen &= presence.during(np.arange(rows.start, rows.stop))
        np.logical_or.reduceat(seen, first_of_orbit, axis=1, out=visible[rows])
    return Schedule(times_s, visible)


def time_chunks(
    steps: int, values_per_step: int, label: str, progress: Progress | None = None
) -> Iterator[slice]:
    """Cut a time grid into pieces that keep memory bounded, and report each as done."""
    progress = progress or SilentProgress()
    length = max(1, CHUNK_VALUES // values_per_step)
    progress.start(label, steps, "steps")
    try:
        for begin in range(0, steps, length):
            end = min(begin + length, steps)
            yield slice(begin, end)
            progress.advance(end - begin)
    finally:
        progress.finish()


def _longest_run(flags: NDArray[np.bool_]) -> int:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False]))))
    return int((edges[1::2] - edges[::2]).max(initial=0))
