"""Contacts of single satellites with single places, their moments refined far below a second.

A coarse grid brackets every rise, set and culmination; bisection and golden-section search then
run on all brackets at once. A pass that rises and sets between two grid points is still found,
because its culmination is a local maximum of the elevation. An interruption shorter than the grid
step inside one pass is not resolved; satellites below geostationary height have none, unless the
position of one near its mask jumps, where one of its element sets takes over from another. Rises
and sets are right at such a moment too, and culminations are looked for on both sides of it.

The begin of every round is a grid point. A satellite is up at a grid point exactly if one of its
contacts covers that point, so V taken from contacts equals V sampled at the rounds' begins, even
where a satellite rises or sets within a rounding error of one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.places import Place, PlaceArrays
from fedorbit.orbits.search import GRID_STEP_S, TimeGrid, bisect, maximise
from fedorbit.orbits.visibility import time_chunks
from fedorbit.progress import Progress

MISS_FLOOR = 0.35
"""A grid maximum this far (in sine of elevation) below the minimum cannot hide a pass.

Half a grid step from the zenith, even a satellite at 200 km has lost only 0.14.
"""

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Contacts:
    """One entry per contact, sorted by rise, satellite and station; seconds since the start.

    A contact covers its rise, and no longer its set. `cut_at_start` and `cut_at_end` mark contacts
    that continue beyond the horizon: their rise or set is the horizon's end, not an event.
    """

    satellite: Ints
    orbit: Ints
    station: Ints
    rise_s: Floats
    culmination_s: Floats
    set_s: Floats
    max_elevation_deg: Floats
    range_km: Floats
    """Range at culmination: the shortest of the contact."""
    cut_at_start: NDArray[np.bool_]
    cut_at_end: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.satellite)

    @property
    def duration_s(self) -> Floats:
        """Length of each contact."""
        return self.set_s - self.rise_s


@dataclass(frozen=True)
class _Brackets:
    """Pairs of satellite and station with a time interval each."""

    satellite: Ints
    station: Ints
    low_s: Floats
    high_s: Floats


def find_contacts(
    constellation: Constellation,
    places: Sequence[Place],
    rounds: int,
    round_s: float,
    grid_step_s: float = GRID_STEP_S,
    progress: Progress | None = None,
) -> Contacts:
    """Find every contact from 0 to the end of the last round."""
    margin = _Margin(constellation, PlaceArrays.of(places, constellation.geoid))
    grid = TimeGrid.of(rounds, round_s, grid_step_s)
    horizon_s = rounds * round_s
    rises, sets, peaks, *misses = _scan(margin, grid, progress)
    hidden, hidden_s = _hidden(margin, *misses)
    hidden_rises = replace(hidden, high_s=hidden_s)
    hidden_sets = replace(hidden, low_s=hidden_s)
    peak = _join(peaks, hidden)
    peak_s, peak_margin = _maximise(margin, peak)

    rises, sets = _join(rises, hidden_rises), _join(sets, hidden_sets)
    rise_s, set_s = _bisect(margin, rises, rising=True), _bisect(margin, sets, rising=False)

    # Per pair, rises and sets alternate: sorted alike, the i-th rise belongs to the i-th set.
    by_rise = np.lexsort((rise_s, rises.station, rises.satellite))
    by_set = np.lexsort((set_s, sets.station, sets.satellite))
    satellite, station = rises.satellite[by_rise], rises.station[by_rise]
    rise_s, set_s = rise_s[by_rise], set_s[by_set]

    pairs = _Brackets(satellite, station, rise_s, set_s)
    jumps = _beside_switches(pairs, *constellation.motion.switches, 2.0 * grid_step_s)
    if len(jumps.satellite):
        jump_s, jump_margin = _maximise(margin, jumps)
        peak = _join(peak, jumps)
        peak_s = np.concatenate((peak_s, jump_s))
        peak_margin = np.concatenate((peak_margin, jump_margin))
    culmination_s, sines = _culminations(margin, pairs, peak, peak_s, peak_margin)

    range_km = margin.stations.range_km_at(
        station, constellation.r_ecef_km_at(satellite, culmination_s)
    )

    order = np.lexsort((station, satellite, rise_s))
    order = order[rise_s[order] < set_s[order]]  # what rises at the horizon's end has no contact
    return Contacts(
        satellite=satellite[order],
        orbit=constellation.orbit_of_satellite[satellite[order]],
        station=station[order],
        rise_s=rise_s[order],
        culmination_s=culmination_s[order],
        set_s=set_s[order],
        max_elevation_deg=np.degrees(np.arcsin(np.clip(sines[order], -1.0, 1.0))),
        range_km=range_km[order],
        cut_at_start=rise_s[order] <= 0.0,
        cut_at_end=set_s[order] >= horizon_s,
    )


def _hidden(
    margin: "_Margin", misses: "_Brackets", middles: "_Brackets"
) -> tuple["_Brackets", Floats]:
    """Return passes between two grid points, and when each culminates.

    Such a pass looks like a near miss until its maximum is refined. The middle of a near miss is a
    grid point at which the satellite is down, so the pass lies on one side of it.
    """
    peak_s, peak_margin = _maximise(margin, misses)
    middle_s = middles.low_s
    later = peak_s > middle_s
    sides = replace(
        misses,
        low_s=np.where(later, middle_s, misses.low_s),
        high_s=np.where(later, misses.high_s, middle_s),
    )
    is_pass = (peak_margin >= 0.0) & (peak_s != middle_s)
    return _select(sides, is_pass), peak_s[is_pass]


def _beside_switches(
    contacts: "_Brackets", satellites: Ints, switches_s: Floats, reach_s: float
) -> "_Brackets":
    """Return brackets before and after each moment at which a satellite jumps during a contact."""
    span_s = 2.0 * contacts.high_s.max(initial=0.0) + 1.0
    during = (switches_s > 0.0) & (switches_s < span_s)
    satellites, switches_s = satellites[during], switches_s[during]
    keys = satellites * span_s + switches_s  # in order: by satellite, and then by time
    first = np.searchsorted(keys, contacts.satellite * span_s + contacts.low_s, side="right")
    count = np.searchsorted(keys, contacts.satellite * span_s + contacts.high_s) - first
    contact = np.repeat(np.arange(len(count)), count)
    ordinal = np.arange(len(contact)) - np.repeat(np.cumsum(count) - count, count)
    switch_s = switches_s[first[contact] + ordinal]
    mine = _select(contacts, contact)
    before = replace(
        mine,
        low_s=np.maximum(mine.low_s, switch_s - reach_s),
        high_s=np.nextafter(switch_s, -np.inf),
    )
    after = replace(mine, low_s=switch_s, high_s=np.minimum(mine.high_s, switch_s + reach_s))
    return _join(before, after)


def _culminations(
    margin: "_Margin", contacts: "_Brackets", peak: "_Brackets", peak_s: Floats, peak_margin: Floats
) -> tuple[Floats, Floats]:
    """Take the best of the refined maxima in each contact and of its two ends.

    Contacts are sorted by pair and rise. Returns times and sines of the elevation.
    """
    stations = len(margin.stations.zenith)
    span_s = 2.0 * max(contacts.high_s.max(initial=0.0), peak_s.max(initial=0.0)) + 1.0
    begin_key = (contacts.satellite * stations + contacts.station) * span_s + contacts.low_s
    peak_key = (peak.satellite * stations + peak.station) * span_s + peak_s
    owner = np.searchsorted(begin_key, peak_key, side="right") - 1
    everyone = np.arange(len(begin_key))
    contact = np.concatenate((everyone, everyone, owner))
    candidate_s = np.concatenate((contacts.low_s, contacts.high_s, peak_s))
    ends = (margin(contacts, contacts.low_s), margin(contacts, contacts.high_s))
    candidate = np.concatenate((*ends, peak_margin))
    best = np.lexsort((candidate, contact))
    best = best[np.searchsorted(contact[best], everyone, side="right") - 1]
    return candidate_s[best], candidate[best] + margin.stations.sin_min_elevation[contacts.station]


class _Margin:
    """Sine of elevation minus sine of minimum elevation; at least 0 means in contact."""

    def __init__(self, constellation: Constellation, stations: PlaceArrays) -> None:
        self.constellation = constellation
        self.stations = stations

    def grid(self, times_s: Floats) -> Floats:
        """Margins `[time, satellite, station]`."""
        sines = self.stations.sin_elevation(self.constellation.r_ecef_km(times_s))
        sines -= self.stations.sin_min_elevation
        return sines

    def __call__(self, pairs: _Brackets, times_s: Floats) -> Floats:
        """Margins of every pair at its own time."""
        r_ecef_km = self.constellation.r_ecef_km_at(pairs.satellite, times_s)
        sines = self.stations.sin_elevation_at(pairs.station, r_ecef_km)
        return sines - self.stations.sin_min_elevation[pairs.station]


def _scan(margin: _Margin, grid: TimeGrid, progress: Progress | None) -> list[_Brackets]:
    """Bracket rises, sets, and local maxima above and below the minimum elevation.

    The last are near misses: their brackets, and their middles.
    """
    parts: tuple[list[_Brackets], ...] = ([], [], [], [], [])
    pairs = margin.constellation.satellites * len(margin.stations.zenith)
    for rows in time_chunks(len(grid), pairs, "finding contacts", progress):
        at_start, at_end = rows.start == 0, rows.stop == len(grid)
        times_s = grid.times_s(rows.start - (not at_start), rows.stop + (not at_end))
        # Beyond the horizon nothing is up: a satellite up at its ends rises or sets there.
        beyond = ((int(at_start), int(at_end)), (0, 0), (0, 0))
        margins = np.pad(margin.grid(times_s), beyond, constant_values=-np.inf)
        times_s = np.pad(times_s, beyond[0], mode="edge")
        before, here, after = margins[:-2], margins[1:-1], margins[2:]
        up = here >= 0.0
        is_peak = (here > before) & (here >= after) & (here > -MISS_FLOOR)
        parts[0].append(_bracket(up & (before < 0.0), times_s, 0, 1))
        parts[1].append(_bracket(up & (after < 0.0), times_s, 1, 2))
        parts[2].append(_bracket(is_peak & up, times_s, 0, 2))
        parts[3].append(_bracket(is_peak & ~up, times_s, 0, 2))
        parts[4].append(_bracket(is_peak & ~up, times_s, 1, 1))
    return [_join(*part) for part in parts]


def _bracket(flags: NDArray[np.bool_], times_s: Floats, low: int, high: int) -> _Brackets:
    # Faster than nonzero of three dimensions, where few flags are set.
    step, satellite, station = np.unravel_index(np.flatnonzero(flags), flags.shape)
    return _Brackets(satellite, station, times_s[step + low], times_s[step + high])


def _join(*parts: _Brackets) -> _Brackets:
    return _Brackets(
        *(
            np.concatenate([getattr(part, field) for part in parts])
            for field in ("satellite", "station", "low_s", "high_s")
        )
    )


def _select(brackets: _Brackets, which: NDArray[np.bool_] | Ints) -> _Brackets:
    return _Brackets(
        brackets.satellite[which],
        brackets.station[which],
        brackets.low_s[which],
        brackets.high_s[which],
    )


def _bisect(margin: _Margin, brackets: _Brackets, rising: bool) -> Floats:
    return bisect(
        lambda times_s: margin(brackets, times_s) >= 0.0, brackets.low_s, brackets.high_s, rising
    )


def _maximise(margin: _Margin, brackets: _Brackets) -> tuple[Floats, Floats]:
    return maximise(lambda times_s: margin(brackets, times_s), brackets.low_s, brackets.high_s)
