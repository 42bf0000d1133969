"""Active satellites and their samples, worked out once for all rounds between two events."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Roster:
    """Satellites that are away own no samples; an orbit without satellites is away."""

    orbits: list[int]
    """Orbits with at least one satellite."""
    satellites_of_orbit: Ints
    """Active satellites, per orbit."""
    class_counts: Ints
    """Training samples `[satellite, class]`."""
    orbit_class_counts: Ints
    """Training samples `[orbit, class]`."""
    samples: Ints
    """Training samples `[satellite]`."""
    orbit_samples: Ints
    """Training samples `[orbit]`."""
    trainers: list[list[int]]
    """Satellites with training samples, per orbit."""

    @classmethod
    def of(
        cls, there: NDArray[np.bool_], class_counts: Ints, orbit_of_satellite: Ints, orbits: int
    ) -> "Roster":
        """Count active satellites and their samples."""
        satellites_of_orbit = np.bincount(orbit_of_satellite[there], minlength=orbits)
        class_counts = np.where(there[:, None], class_counts, 0)
        orbit_class_counts = np.zeros((orbits, class_counts.shape[1]), dtype=np.int64)
        np.add.at(orbit_class_counts, orbit_of_satellite, class_counts)
        samples, orbit_samples = class_counts.sum(axis=1), orbit_class_counts.sum(axis=1)
        for counts in (class_counts, orbit_class_counts, samples, orbit_samples):
            counts.flags.writeable = False  # lent to methods for many rounds
        trainers: list[list[int]] = [[] for _ in range(orbits)]
        for satellite in np.flatnonzero(samples):
            trainers[orbit_of_satellite[satellite]].append(int(satellite))
        return cls(
            orbits=[int(orbit) for orbit in np.flatnonzero(satellites_of_orbit)],
            satellites_of_orbit=satellites_of_orbit,
            class_counts=class_counts,
            orbit_class_counts=orbit_class_counts,
            samples=samples,
            orbit_samples=orbit_samples,
            trainers=trainers,
        )


class Rosters:
    """The roster of every round; worked out anew at an event only, from activity alone."""

    def __init__(self, activity: Activity, class_counts: Ints, orbit_of_satellite: Ints) -> None:
        self.activity = activity
        self._class_counts, self._orbit_of_satellite = class_counts, orbit_of_satellite
        self._orbits = int(orbit_of_satellite[-1]) + 1
        self._last: tuple[int, Roster] | None = None

    def at(self, t: int) -> Roster:
        """Return the roster of round t."""
        segment = self.activity.segment(t)
        if self._last is None or self._last[0] != segment:
            there = self.activity.satellites[segment]
            roster = Roster.of(there, self._class_counts, self._orbit_of_satellite, self._orbits)
            self._last = segment, roster
        return self._last[1]
