"""Search of aggregation schedules: they are simulated over predicted visits; the best is chosen.

A schedule is a row of flags, one per slot. Many are played at once: arrays are `[schedule,
satellite]`, and in a slot only the satellites that visit are touched.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.methods.global_model import discount
from fedorbit.methods.steps import NEVER

Flags = NDArray[np.bool_]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

MOST_ENTRIES = 1_000_000
"""Most entries of an array `[schedule, satellite]`: more schedules are played in several parts."""

UPDATES, SAMPLES, DISCOUNTS, STALENESS, OLDEST, WEIGHT = range(6)
EMPTY = np.zeros(6)
"""Statistics of a buffer: its number of updates, the samples behind them, the sums of their
discounts c(s) and of their staleness s, the largest staleness, and the sum of c(s) n_k."""

Utility = Callable[[Floats], Floats]
"""Utility of an aggregation, of each row of `[aggregation, 6]`."""


def with_updates(
    contents: Floats, staleness: Ints, samples: Ints, alpha: float, arrived: Flags
) -> Floats:
    """Return what is known of buffers `[..., 6]` after updates `[..., update]` have arrived."""
    c = np.where(arrived, discount(np.maximum(staleness, 0), alpha), 0.0)
    s, n = np.where(arrived, staleness, 0), np.where(arrived, samples, 0)
    added = np.stack([arrived.sum(-1), n.sum(-1), c.sum(-1), s.sum(-1), s.max(-1, initial=0)], -1)
    after = contents + np.concatenate([added, (c * n).sum(-1)[..., None]], axis=-1)
    after[..., OLDEST] = np.maximum(contents[..., OLDEST], added[..., OLDEST])
    return after


class Played(NamedTuple):
    """Events of one slot, of all schedules."""

    visitors: Ints
    """Satellites that visit."""
    staleness: Ints
    """Staleness of the visitors' updates, `[schedule, visitor]`; -1 for a visitor without one."""
    rows: Ints
    """Schedules that aggregate."""
    contents: Floats
    """Statistics of the buffers that these schedules aggregate, `[row, 6]`."""


@dataclass(frozen=True, eq=False)
class Outlook:
    """Forecast of the slots to come, at a server."""

    visits: Flags
    """Predicted visits, `[slot, satellite]`."""
    samples: Ints
    """Training samples of each satellite; one without samples takes no part."""
    training_slots: Ints
    """Slots from when each satellite receives a model until its update can be sent."""
    version: int
    base: Ints
    """Version that each satellite has received last; -1 before its first."""
    ready: Ints
    """Slot, counted from the first, in which the update of each can be sent; NEVER without one."""
    contents: Floats
    """Statistics of the buffer, `[6]`."""
    alpha: float

    def play(self, schedules: Flags) -> Iterator[Played]:
        """Play schedules `[schedule, slot]` side by side, slot by slot."""
        many = len(schedules)
        bases = np.tile(self.base.astype(np.int32), (many, 1))
        ready = np.tile(self.ready.astype(np.int32), (many, 1))
        version = np.full(many, self.version, dtype=np.int32)
        contents = np.tile(self.contents, (many, 1))
        for slot, visiting in enumerate(self.visits):
            here = np.flatnonzero(visiting & (self.samples > 0))
            base, due = bases[:, here], ready[:, here]
            arrived = due <= slot
            staleness = np.where(arrived, version[:, None] - base, -1).astype(np.int64)
            n = self.samples[here]
            contents = with_updates(contents, staleness, n, self.alpha, arrived)
            rows = np.flatnonzero(schedules[:, slot] & (contents[:, UPDATES] > 0))
            yield Played(here, staleness, rows, contents[rows])
            version[rows] += 1
            contents[rows] = EMPTY
            is_free = arrived | (due == NEVER)
            receives = is_free & (base < version[:, None])
            bases[:, here] = np.where(receives, version[:, None], base)
            until = np.where(receives, slot + self.training_slots[here], NEVER)
            ready[:, here] = np.where(is_free, until, due)

    def value(self, schedules: Flags, utility: Utility) -> Floats:
        """Return the sum of what the aggregations of each schedule are worth."""
        part = max(1, MOST_ENTRIES // max(1, len(self.samples)))
        values = np.zeros(len(schedules))
        for begin in range(0, len(schedules), part):
            mine = values[begin : begin + part]  # a view
            for played in self.play(schedules[begin : begin + part]):
                mine[played.rows] += utility(played.contents)
        return values

    def best(self, schedules: Flags, utility: Utility) -> Flags:
        """Return the schedule that is worth most; the first of several."""
        return np.asarray(schedules[int(np.argmax(self.value(schedules, utility)))])


def random_schedules(
    visits: Flags, count: int, least: int, most: int, rng: np.random.Generator
) -> Flags:
    """Draw schedules with `least` to `most` aggregations, in slots in which a satellite visits."""
    slots = np.flatnonzero(visits.any(axis=1))
    numbers = rng.integers(least, most, endpoint=True, size=(count, 1))
    rank = rng.random((count, len(slots))).argsort(axis=1).argsort(axis=1)
    schedules = np.zeros((count, len(visits)), dtype=np.bool_)
    schedules[:, slots] = rank < numbers
    return schedules
