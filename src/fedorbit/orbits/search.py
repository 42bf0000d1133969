"""Search in time: a coarse grid that has every round's begin in it, and refinement between points.

Contacts with places and links between satellites are found alike: a grid brackets events and
extrema of a margin, then bisection and golden-section search run on all brackets at once.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats

GRID_STEP_S = 30.0
BISECTIONS = 20  # 30 s / 2^20: 30 microseconds
GOLDEN_STEPS = 32  # 60 s x 0.618^32: 12 microseconds
GOLDEN = (np.sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class TimeGrid:
    """Begins of the rounds, each round in equal steps, and the end of the last."""

    rounds: int
    round_s: float
    steps: int

    @classmethod
    def of(cls, rounds: int, round_s: float, step_s: float) -> "TimeGrid":
        """Cut rounds into as many equal steps as it takes for none to exceed a length."""
        return cls(rounds, round_s, max(1, int(np.ceil(round_s / step_s))))

    def __len__(self) -> int:
        return self.rounds * self.steps + 1

    @property
    def step_s(self) -> float:
        """Distance of two grid points."""
        return self.round_s / self.steps

    def times_s(self, begin: int, end: int) -> Floats:
        """Return part of the grid; a long horizon as a whole would not fit into memory.

        Points before 0 continue it into the past.
        """
        t, step = np.divmod(np.arange(begin, end), self.steps)
        # Exactly the begin of a round where the step is 0: the same product as elsewhere.
        return np.asarray(t * self.round_s + step * (self.round_s / self.steps))


def bisect(
    is_up: Callable[[Floats], NDArray[np.bool_]], low_s: Floats, high_s: Floats, rising: bool
) -> Floats:
    """Return, for each bracket, the first moment found up (rising) or found down again.

    A bracket whose ends are equal keeps them.
    """
    low_s, high_s = low_s.copy(), high_s.copy()
    for _ in range(BISECTIONS):
        middle_s = (low_s + high_s) / 2.0
        before = is_up(middle_s) != rising
        low_s = np.where(before, middle_s, low_s)
        high_s = np.where(before, high_s, middle_s)
    return high_s


def maximise(
    value: Callable[[Floats], Floats], low_s: Floats, high_s: Floats
) -> tuple[Floats, Floats]:
    """Return when a value is largest in each bracket, and that value; one maximum in each."""
    left_s, right_s = high_s - GOLDEN * (high_s - low_s), low_s + GOLDEN * (high_s - low_s)
    left, right = value(left_s), value(right_s)
    for _ in range(GOLDEN_STEPS):
        go_left = left >= right
        low_s, high_s = np.where(go_left, low_s, left_s), np.where(go_left, right_s, high_s)
        probe_s = np.where(
            go_left, high_s - GOLDEN * (high_s - low_s), low_s + GOLDEN * (high_s - low_s)
        )
        probe = value(probe_s)
        left_s, right_s = np.where(go_left, probe_s, right_s), np.where(go_left, left_s, probe_s)
        left, right = np.where(go_left, probe, right), np.where(go_left, left, probe)
    middle_s = (low_s + high_s) / 2.0
    return middle_s, value(middle_s)
