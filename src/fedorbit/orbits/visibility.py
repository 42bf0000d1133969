"""The schedule V[round, orbit], and numbers from it: rounds in view, gaps, idle rounds.

V is taken from the contact plan at the begin of every round; see `plan`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats
from fedorbit.progress import Progress, SilentProgress

CHUNK_VALUES = 1_000_000
"""Elevations held at a time: a few arrays of 8 MB, whatever the size of the constellation."""


@dataclass(frozen=True)
class Schedule:
    """Rounds in which each orbit is in view of at least one station."""

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
    """Begins of the rounds: the moments at which V is taken."""
    return np.arange(rounds, dtype=np.float64) * round_s


def time_chunks(
    steps: int,
    values_per_step: int,
    label: str,
    progress: Progress | None = None,
    least: int = 1,
) -> Iterator[slice]:
    """Cut a time grid into pieces that keep memory bounded, and report each as done.

    A piece has at least `least` steps, however many values they hold.
    """
    progress = progress or SilentProgress()
    length = max(least, CHUNK_VALUES // values_per_step)
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
