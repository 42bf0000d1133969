"""Links between satellites from geometry, their moments refined far below a second.

A pair can link while its margin is at least 0 (see `sight`). The method is that of `contacts`: a
coarse grid, which has the begin of every round in it, brackets begins, ends and extrema of the
margin; bisection then runs on all brackets at once. A link is possible at a grid point exactly if a
window covers it. A window between two grid points is a local maximum, an interruption between two
a local minimum: both are found. Only pairs near each other are looked at: those that, at the middle
of a few grid steps, are within reach plus the way that both can have gone since.

With `terminals` a satellite links with some partners only: `terminals` assigns them on the grid,
and windows are then searched for within the assignments.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ConfigError
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.nearby import nearby_pairs
from fedorbit.orbits.search import GRID_STEP_S, TimeGrid, bisect, maximise
from fedorbit.orbits.sight import LinkSettings, Sight
from fedorbit.orbits.terminals import Assignments, assign
from fedorbit.orbits.visibility import time_chunks
from fedorbit.progress import Progress

SEARCH_STEPS = 8
"""Fewest grid steps for which pairs nearby are searched once."""
BLOCK_VALUES = 500_000
"""Margins computed at a time, which bounds memory to some ten arrays of 4 to 12 MB."""
MOST_WINDOWS = 5_000_000
"""Windows that are listed: about a gigabyte while they are searched for."""
USUAL_WINDOW_S = 300.0
"""Length of a short window, for a guess of how many there are."""
LEAST_BEND_KM2 = 1e-3
"""A minimum of the squared range below this on the grid is rounding: neighbours in a ring."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Links:
    """One entry per window in which two satellites are linked, sorted by begin, first and second.

    A window covers its begin and no longer its end. `cut_at_start` and `cut_at_end` mark windows
    that reach the horizon's ends, where they need not begin or end.
    """

    first: NDArray[np.int32]
    """The satellite with the smaller number."""
    second: NDArray[np.int32]
    begin_s: Floats
    end_s: Floats
    range_km: Floats
    """The shortest of the window."""
    cut_at_start: Flags
    cut_at_end: Flags

    def __len__(self) -> int:
        return len(self.first)

    @property
    def duration_s(self) -> Floats:
        """Length of each window."""
        return self.end_s - self.begin_s


def find_links(
    constellation: Constellation,
    settings: LinkSettings,
    rounds: int,
    round_s: float,
    grid_step_s: float = GRID_STEP_S,
    progress: Progress | None = None,
) -> Links:
    """Find every link between satellites from 0 to the end of the last round.

    A window begins `acquisition_s` after the link became possible (with `terminals`: was assigned)
    and is left out if the link ends before. The search begins that much before 0, so that a link
    which was possible then can be used at 0. More windows than memory holds are refused before.
    """
    sight = Sight(constellation, settings)
    if settings.terminals is None:
        _require_listable(sight, rounds * round_s)
    grid = TimeGrid.of(rounds, round_s, grid_step_s)
    begin = -int(np.ceil(settings.acquisition_s / grid.step_s))
    if settings.terminals is None:
        search = _Search(sight, grid, begin, None)
    else:
        assignments = assign(sight, settings.terminals, grid, begin, progress)
        search = _Search(sight, grid, begin, assignments)
    windows, nearest = search.windows(progress)
    usable_s = np.maximum(windows.low_s + settings.acquisition_s, 0.0)
    windows = replace(windows, low_s=usable_s)._select(usable_s < windows.high_s)
    range_km = np.sqrt(_shortest_km2(sight, windows, nearest, grid.step_s))
    order = np.lexsort((windows.second, windows.first, windows.low_s))
    return Links(
        first=windows.first[order].astype(np.int32),
        second=windows.second[order].astype(np.int32),
        begin_s=windows.low_s[order],
        end_s=windows.high_s[order],
        range_km=range_km[order],
        cut_at_start=windows.low_s[order] <= 0.0,
        cut_at_end=windows.high_s[order] >= rounds * round_s,
    )


def _require_listable(sight: Sight, horizon_s: float) -> None:
    """Refuse a search with too many results, from the number of links at the start."""
    [states] = sight.states(np.zeros(1))
    linked = 0
    for first, second in nearby_pairs(states[:, :3], sight.reach_km(states)):
        chosen = sight.allowed(first, second)
        linked += int((sight.margin(states[first[chosen]], states[second[chosen]]) >= 0.0).sum())
    windows = linked * horizon_s / USUAL_WINDOW_S
    if windows > MOST_WINDOWS:
        raise ConfigError(
            f"{linked:,} links between satellites at a time would be about "
            f"{windows / 1e6:.0f} million windows over {horizon_s / 3600.0:.3g} h, and at most "
            f"{MOST_WINDOWS / 1e6:.0f} million are listed; set network.terminals (4 is usual), "
            "a shorter network.max_range_km or fewer schedule.rounds"
        )


@dataclass(frozen=True, eq=False)
class _Brackets:
    """Pairs of satellites with a time interval each, and a moment in it."""

    first: Ints
    second: Ints
    low_s: Floats
    middle_s: Floats
    high_s: Floats

    def __len__(self) -> int:
        return len(self.first)

    def _select(self, which: Flags | Ints | slice) -> "_Brackets":
        return _Brackets(
            self.first[which],
            self.second[which],
            self.low_s[which],
            self.middle_s[which],
            self.high_s[which],
        )

    def blocks(self) -> Iterator["_Brackets"]:
        """Cut into pieces that keep memory bounded."""
        for begin in range(0, len(self), BLOCK_VALUES):
            yield self._select(slice(begin, begin + BLOCK_VALUES))


def _join(parts: "list[_Brackets]") -> _Brackets:
    return _Brackets(
        *(
            np.concatenate([getattr(part, field) for part in parts])
            for field in ("first", "second", "low_s", "middle_s", "high_s")
        )
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """Windows found on the grid, each bracketed by grid points."""

    begins: _Brackets
    ends: _Brackets
    peaks: _Brackets
    """Local maxima below 0 that can hide a window."""
    dips: _Brackets
    """Local minima above 0 that can hide an interruption."""
    nearest: _Brackets
    """Local minima of the range."""


class _Search:
    """The search for windows on a grid, of all pairs or within assignments."""

    def __init__(
        self, sight: Sight, grid: TimeGrid, begin: int, assignments: Assignments | None
    ) -> None:
        self.sight = sight
        self.grid = grid
        self.begin = begin
        self.assignments = assignments

    def windows(self, progress: Progress | None) -> tuple[_Brackets, _Brackets]:
        """Return windows by pair and begin, and minima of the range on the grid."""
        found = self._scan(progress)
        gaps = self._hidden(found.dips, -1.0)
        short = self._hidden(found.peaks, 1.0)
        begins = _join([found.begins, _before(short), _after(gaps)])
        ends = _join([found.ends, _after(short), _before(gaps)])
        begin_s, end_s = self._crossings(begins, True), self._crossings(ends, False)
        # Per pair, begins and ends alternate: sorted alike, the i-th of each belong together.
        by_begin = np.lexsort((begin_s, begins.second, begins.first))
        by_end = np.lexsort((end_s, ends.second, ends.first))
        begins, begin_s, end_s = begins._select(by_begin), begin_s[by_begin], end_s[by_end]
        windows = replace(begins, low_s=begin_s, middle_s=begin_s, high_s=end_s)
        return windows, found.nearest

    def _crossings(self, brackets: _Brackets, rising: bool) -> Floats:
        parts = [
            bisect(_is_up(self.sight, part), part.low_s, part.high_s, rising)
            for part in brackets.blocks()
        ]
        return np.concatenate([np.empty(0), *parts])

    def _hidden(self, brackets: _Brackets, sign: float) -> _Brackets:
        """Return what lies between two grid points, around its extremum.

        The middle of a bracket is a grid point on the other side of 0, so that what is hidden is
        before or after it.
        """
        parts = [brackets._select(slice(0, 0))]
        for part in brackets.blocks():
            margin = _signed_margin(self.sight, part, sign)
            extremum_s, value = maximise(margin, part.low_s, part.high_s)
            later = extremum_s > part.middle_s
            sides = replace(
                part,
                low_s=np.where(later, part.middle_s, part.low_s),
                middle_s=extremum_s,
                high_s=np.where(later, part.high_s, part.middle_s),
            )
            crosses = value >= 0.0 if sign > 0.0 else value > 0.0
            parts.append(sides._select(crosses & (extremum_s != part.middle_s)))
        return _join(parts)

    def _scan(self, progress: Progress | None) -> _Found:
        satellites = self.sight.constellation.satellites
        pairs = max(1, satellites * (satellites - 1) // 2)
        found: list[_Found] = [_nothing()]
        steps = len(self.grid) - self.begin
        for rows in time_chunks(steps, pairs, "finding links", progress, SEARCH_STEPS):
            begin, end = self.begin + rows.start, self.begin + rows.stop
            times_s = self.grid.times_s(begin - 1, end + 1)
            states = self.sight.states(times_s)
            for columns in self._columns(states, begin - 1, end + 1):
                found.append(self._look(columns, states, times_s, begin))
        return _Found(
            *(
                _join([getattr(part, field) for part in found])
                for field in ("begins", "ends", "peaks", "dips", "nearest")
            )
        )

    def _columns(self, states: Floats, begin: int, end: int) -> Iterator[Assignments]:
        """Yield the pairs to look at between grid points, in blocks, and since and until when."""
        size = max(1, BLOCK_VALUES // len(states))
        if self.assignments is not None:
            given = self.assignments
            here = np.flatnonzero((given.begin < end) & (given.end >= begin))
            for low in range(0, len(here), size):
                part = here[low : low + size]
                yield Assignments(
                    given.first[part], given.second[part], given.begin[part], given.end[part]
                )
            return
        for first, second in nearby_pairs(*_middle(self.sight, states)):
            chosen = self.sight.allowed(first, second)
            first, second = first[chosen], second[chosen]
            for low in range(0, len(first), size):
                a, b = first[low : low + size], second[low : low + size]
                yield Assignments(
                    a, b, np.full(len(a), self.begin), np.full(len(a), len(self.grid) - 1)
                )

    def _look(self, columns: Assignments, states: Floats, times_s: Floats, begin: int) -> _Found:
        """Bracket what the grid shows of some pairs; states and times have a point more at ends."""
        a, b = states[:, columns.first], states[:, columns.second]
        margin = self.sight.margin(a, b)
        step = np.arange(begin - 1, begin - 1 + len(times_s))[:, None]
        is_inside = (step >= columns.begin) & (step <= columns.end)
        up = (margin >= 0.0) & is_inside
        before, here, after = margin[:-2], margin[1:-1], margin[2:]
        # Where the margin bends one way, its extremum lies beyond the grid's by no more than the
        # larger of the steps beside it.
        swing = np.maximum(np.abs(here - before), np.abs(here - after))
        is_peak = (here < 0.0) & (here > before) & (here >= after) & (here + swing >= 0.0)
        is_dip = up[1:-1] & (here < before) & (here <= after) & (here - swing < 0.0)

        d_km = b[..., :3] - a[..., :3]
        range2 = np.einsum("...i,...i->...", d_km, d_km)
        fall, rise = range2[:-2] - range2[1:-1], range2[2:] - range2[1:-1]
        is_nearest = (fall > 0.0) & (rise >= 0.0) & (fall + rise > LEAST_BEND_KM2)
        is_nearest &= up[:-2] | up[1:-1] | up[2:]

        def brackets(flags: Flags, low: int, high: int) -> _Brackets:
            row, column = np.nonzero(flags)
            is_first = begin + row == columns.begin[column]
            is_last = begin + row == columns.end[column]
            return _Brackets(
                columns.first[column],
                columns.second[column],
                times_s[row + 1 + np.where(is_first, 0, low)],
                times_s[row + 1],
                times_s[row + 1 + np.where(is_last, 0, high)],
            )

        return _Found(
            begins=brackets(up[1:-1] & ~up[:-2], -1, 0),
            ends=brackets(up[1:-1] & ~up[2:], 0, 1),
            peaks=brackets(is_peak & is_inside[1:-1], -1, 1),
            dips=brackets(is_dip, -1, 1),
            nearest=brackets(is_nearest, -1, 1),
        )


def _nothing() -> _Found:
    none, never = np.empty(0, dtype=np.int64), np.empty(0)
    empty = _Brackets(none, none, never, never, never)
    return _Found(empty, empty, empty, empty, empty)


def _before(hidden: _Brackets) -> _Brackets:
    return replace(hidden, high_s=hidden.middle_s)


def _after(hidden: _Brackets) -> _Brackets:
    return replace(hidden, low_s=hidden.middle_s)


def _is_up(sight: Sight, pairs: _Brackets) -> Callable[[Floats], Flags]:
    return lambda times_s: sight.margin_at(pairs.first, pairs.second, times_s) >= 0.0


def _signed_margin(sight: Sight, pairs: _Brackets, sign: float) -> Callable[[Floats], Floats]:
    return lambda times_s: sign * sight.margin_at(pairs.first, pairs.second, times_s)


def _middle(sight: Sight, states: Floats) -> tuple[Floats, float]:
    """Return positions at the middle of some grid points, and how near a pair must be there."""
    r_km = states[..., :3]
    middle = len(r_km) // 2
    way_km = np.linalg.norm(r_km - r_km[middle], axis=-1).max()
    # Between two points a satellite is within half the way from one of them; an arc is longer.
    step_km = 0.6 * np.linalg.norm(np.diff(r_km, axis=0), axis=-1).max()
    return r_km[middle], float(sight.reach_km(states) + 2.0 * (way_km + step_km))


def _shortest_km2(sight: Sight, windows: _Brackets, nearest: _Brackets, step_s: float) -> Floats:
    """Return the squared shortest range of each window: at an end, or at a minimum within.

    The squared range is nearly a parabola between grid points, and all the more within a second.
    """
    best = [np.empty(0)]
    for part in windows.blocks():
        ends = (
            sight.range2_km2_at(part.first, part.second, moment_s)
            for moment_s in (part.low_s, part.high_s)
        )
        best.append(np.minimum(*ends))
    shortest = np.concatenate(best)
    order = np.lexsort((windows.low_s, windows.second, windows.first))
    for part in nearest.blocks():
        time_s = part.middle_s
        for half_s in (step_s, 1.0):
            time_s = time_s + half_s * _vertex(sight, part, time_s, half_s)
        owner = _owners(windows._select(order), part.first, part.second, time_s)
        held = np.flatnonzero(owner >= 0)
        range2 = sight.range2_km2_at(part.first[held], part.second[held], time_s[held])
        np.minimum.at(shortest, order[owner[held]], range2)
    return shortest


def _vertex(sight: Sight, pairs: _Brackets, time_s: Floats, half_s: float) -> Floats:
    """Return the minimum of the parabola through three moments, in steps from the middle one."""
    before, here, after = (
        sight.range2_km2_at(pairs.first, pairs.second, time_s + shift_s)
        for shift_s in (-half_s, 0.0, half_s)
    )
    bend = before + after - 2.0 * here
    steps = (before - after) / (2.0 * np.maximum(bend, np.finfo(np.float64).tiny))
    return np.asarray(np.clip(steps, -1.0, 1.0))


def _owners(windows: _Brackets, first: Ints, second: Ints, time_s: Floats) -> Ints:
    """Return the window, of windows by pair and begin, that holds each moment, or -1."""
    if not len(windows):
        return np.full(len(first), -1)
    width = 1 + max(int(windows.second.max()), int(second.max(initial=0)))
    pair, number = np.unique(windows.first * width + windows.second, return_inverse=True)
    mine = np.searchsorted(pair, first * width + second)
    known = mine < len(pair)
    known[known] = pair[mine[known]] == (first * width + second)[known]
    # One number for pair and time; there are as many numbers as pairs that link, so none is large.
    span_s = 2.0 + max(float(np.abs(windows.high_s).max()), float(np.abs(time_s).max(initial=0.0)))
    key = number * (2.0 * span_s) + windows.low_s
    owner = np.searchsorted(key, mine * (2.0 * span_s) + time_s, side="right") - 1
    inside = known & (owner >= 0) & (number[owner] == mine)
    inside &= (windows.low_s[owner] <= time_s) & (time_s < windows.high_s[owner])
    return np.where(inside, owner, -1)
