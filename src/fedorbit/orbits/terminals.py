"""Selection of links where a satellite has fewer terminals than partners in sight.

Terminals are assigned at the points of the time grid, in order:

1. A link that geometry has ended frees its terminals. A link that is still possible is kept, even
   if a nearer partner has come: a link in use is not given up.
2. Free terminals link within the plane, nearest pairs first: a satellite has at most one such link
   ahead and one behind, which makes a ring of evenly spaced satellites.
3. Terminals still free link across planes, nearest pairs first.

Equal ranges, to the metre, go by the numbers of the satellites. A link begins at the grid point at
which it is assigned. Its terminals are free again at the first grid point at which geometry does
not permit it; an interruption between two points interrupts the link and frees nothing.

Only satellites with a free terminal are searched for partners, so the work of a step grows with
the links that ended, not with the pairs in range.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats
from fedorbit.orbits.nearby import nearby_pairs
from fedorbit.orbits.search import TimeGrid
from fedorbit.orbits.sight import Sight
from fedorbit.orbits.visibility import time_chunks
from fedorbit.progress import Progress

Ints = NDArray[np.int64]

NONE = -1


@dataclass(frozen=True, eq=False)
class Assignments:
    """Pairs and the grid points between which they have a terminal each for the other."""

    first: Ints
    second: Ints
    begin: Ints
    """The grid point of the assignment."""
    end: Ints
    """The first at which the link is not possible, or the last of the grid."""


def assign(
    sight: Sight, terminals: int, grid: TimeGrid, begin: int, progress: Progress | None = None
) -> Assignments:
    """Assign terminals at every grid point from `begin`, which can lie before 0."""
    board = _Board(sight, terminals)
    satellites = sight.constellation.satellites
    steps = len(grid) - begin
    for rows in time_chunks(steps, 3 * satellites, "assigning terminals", progress):
        # One more point: the next position shows which way a satellite flies.
        states = sight.states(grid.times_s(begin + rows.start, begin + rows.stop + 1))
        for step, (here, after) in enumerate(pairwise(states)):
            board.release(here, begin + rows.start + step)
            board.assign(here, after, begin + rows.start + step)
    return board.finish(len(grid) - 1)


class _Board:
    """Links in being, and what each satellite has left.

    `_left` counts a satellite's free terminals, then its free places for a link ahead and behind
    in the plane. A link takes one of each that it names in its row of `_uses`.
    """

    def __init__(self, sight: Sight, terminals: int) -> None:
        self._sight = sight
        self._satellites = sight.constellation.satellites
        self._left = np.ones(3 * self._satellites, dtype=np.int64)
        self._left[: self._satellites] = terminals
        self._uses = np.empty((0, 4), dtype=np.int64)
        self._begin = np.empty(0, dtype=np.int64)
        self._ended: list[tuple[Ints, Ints, Ints, Ints]] = []

    def release(self, states: Floats, step: int) -> None:
        """End the links that are no longer possible."""
        margin = self._sight.margin(states[self._uses[:, 0]], states[self._uses[:, 1]])
        self._close(margin < 0.0, step)

    def assign(self, states: Floats, after: Floats, step: int) -> None:
        """Link free terminals, in the plane and then across planes."""
        first, second, metres = self._possible(states)
        orbit = self._sight.constellation.orbit_of_satellite
        same = orbit[first] == orbit[second]
        for chosen, slots in ((same, True), (~same, False)):
            uses = np.full((np.count_nonzero(chosen), 4), NONE)
            uses[:, 0], uses[:, 1] = first[chosen], second[chosen]
            if slots:
                uses[:, 2:] = self._places(uses[:, 0], uses[:, 1], states, after)
            order = np.lexsort((uses[:, 1], uses[:, 0], metres[chosen]))
            granted = _grant(uses[order, : 4 if slots else 2], self._left)
            self._uses = np.concatenate((self._uses, uses[order][granted]))
            self._begin = np.concatenate((self._begin, np.full(len(granted), step)))

    def finish(self, last: int) -> Assignments:
        """End all links with the grid, and return them in the order in which they ended."""
        self._close(np.ones(len(self._uses), dtype=np.bool_), last)
        columns = [np.concatenate(column) for column in zip(*self._ended, strict=True)]
        return Assignments(*columns)

    def _close(self, over: NDArray[np.bool_], step: int) -> None:
        ended = self._uses[over]
        self._ended.append((ended[:, 0], ended[:, 1], self._begin[over], np.full(len(ended), step)))
        np.add.at(self._left, ended[ended != NONE], 1)
        self._uses, self._begin = self._uses[~over], self._begin[~over]

    def _possible(self, states: Floats) -> tuple[Ints, Ints, Ints]:
        """Return links possible between satellites with free terminals, and ranges in metres."""
        free = np.flatnonzero(self._left[: self._satellites])
        parts: list[tuple[Ints, Ints, Ints]] = [(free[:0], free[:0], free[:0])]
        for a, b in nearby_pairs(states[free, :3], self._sight.reach_km(states)):
            first, second = free[a], free[b]
            chosen = self._sight.allowed(first, second) & ~self._linked(first, second)
            first, second = first[chosen], second[chosen]
            chosen = self._sight.margin(states[first], states[second]) >= 0.0
            first, second = first[chosen], second[chosen]
            range_km = np.linalg.norm(states[first, :3] - states[second, :3], axis=-1)
            parts.append((first, second, np.rint(1000.0 * range_km).astype(np.int64)))
        first, second, metres = (np.concatenate(column) for column in zip(*parts, strict=True))
        return first, second, metres

    def _linked(self, first: Ints, second: Ints) -> NDArray[np.bool_]:
        keys = self._uses[:, 0] * self._satellites + self._uses[:, 1]
        return np.isin(first * self._satellites + second, keys)

    def _places(self, first: Ints, second: Ints, states: Floats, after: Floats) -> Ints:
        """Return the two places that a link within a plane takes: one ahead, the other behind."""
        across = np.cross(states[first, :3], after[first, :3])
        towards = np.cross(states[first, :3], states[second, :3])
        is_ahead = np.einsum("ni,ni->n", across, towards) > 0.0
        ahead, behind = self._satellites, 2 * self._satellites
        return np.stack(
            (
                first + np.where(is_ahead, ahead, behind),
                second + np.where(is_ahead, behind, ahead),
            ),
            axis=1,
        )


def _grant(uses: Ints, left: Ints) -> Ints:
    """Grant links in their order while all that they use is left; take it, return the granted.

    A link that is the first of those that remain in everything it uses is granted by the order
    too, whatever becomes of others: so many are granted at a time, with the same result.
    """
    remaining = np.arange(len(uses))
    granted = [remaining[:0]]
    while True:
        remaining = remaining[(left[uses[remaining]] > 0).all(axis=1)]
        if not len(remaining):
            return np.sort(np.concatenate(granted))
        mine = uses[remaining]
        best = np.full(len(left), len(uses))
        np.minimum.at(best, mine.ravel(), np.repeat(remaining, mine.shape[1]))
        leads = (best[mine] == remaining[:, None]).all(axis=1)
        np.subtract.at(left, mine[leads].ravel(), 1)
        granted.append(remaining[leads])
        remaining = remaining[~leads]
