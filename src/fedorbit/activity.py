"""Active satellites, round by round: some are lost, others are launched during a run."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Activity:
    """Segments of rounds between events. Memory grows with events, not with rounds."""

    begins: Ints
    """First round of every segment; that of the first is 0."""
    satellites: Flags
    """True where a satellite is active, `[segment, satellite]`."""

    @classmethod
    def always(cls, satellites: int) -> "Activity":
        """All satellites are active in all rounds."""
        return cls(np.zeros(1, dtype=np.int64), np.ones((1, satellites), dtype=np.bool_))

    def segment(self, t: int) -> int:
        """Segment that round t belongs to."""
        return int(self._segments(t))

    def during(self, rounds: ArrayLike) -> Flags:
        """Return whether satellites are active in the given rounds, `[round, satellite]`."""
        return self.satellites[self._segments(rounds)]

    def active(self, rounds: ArrayLike, satellite: int) -> Flags:
        """Return whether one satellite is active in the given rounds."""
        return np.asarray(self.satellites[self._segments(rounds), satellite])

    def worked_until_s(
        self, satellite: int, begin_s: float, work_s: float, round_s: float
    ) -> float:
        """Return the moment at which a satellite has been active for `work_s` since `begin_s`.

        In seconds since the run's start. Infinite if the satellite is lost before and never
        returns.
        """
        ends = [*self.begins[1:].tolist(), math.inf]
        for begin, end, segment in zip(self.begins.tolist(), ends, self.satellites, strict=True):
            since_s = max(begin_s, begin * round_s)
            active_s = end * round_s - since_s
            if not segment[satellite] or active_s < 0:
                continue
            if work_s <= active_s:
                return since_s + work_s
            work_s -= active_s
        return math.inf

    def orbits(self, orbit_of_satellite: Ints) -> Flags:
        """Orbits with at least one satellite, `[segment, orbit]`; satellites sorted by orbit."""
        first_of_orbit = np.searchsorted(orbit_of_satellite, np.arange(orbit_of_satellite[-1] + 1))
        return np.logical_or.reduceat(self.satellites, first_of_orbit, axis=1)

    def orbits_during(self, rounds: ArrayLike, orbit_of_satellite: Ints) -> Flags:
        """Return whether orbits are active in the given rounds, `[round, orbit]`."""
        return self.orbits(orbit_of_satellite)[self._segments(rounds)]

    def _segments(self, rounds: ArrayLike) -> Ints:
        return np.asarray(np.searchsorted(self.begins, rounds, side="right") - 1)
