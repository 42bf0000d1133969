"""Statistics of the links between satellites of a contact plan: windows, degrees, orbit pairs.

Shares of time are exact: they are sums over the moments at which a link begins or ends.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats
from fedorbit.orbits.plan import ContactPlan

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class LinkKind:
    """Links of one kind in numbers: within orbits, or between orbits."""

    pairs: int
    """Pairs of satellites that are ever linked."""
    possible: int
    """All pairs of satellites of this kind."""
    windows: int
    permanent: int
    """Windows that last over the whole horizon."""
    median_s: float | None
    """Median length of all windows, cut at the horizon's ends; None without any."""
    shortest_s: float | None
    """Shortest window that begins and ends within the horizon; None without one."""
    longest_s: float | None
    """Longest window that begins and ends within the horizon; None without one."""
    at_a_time: float
    """Mean number of links."""
    nearest_km: float | None
    """Shortest range of any window; None where no range is known."""


@dataclass(frozen=True, eq=False)
class Linkage:
    """The links of a plan in numbers."""

    in_plane: LinkKind
    cross_plane: LinkKind
    none: float
    """Share of time without any link."""
    alone: float
    """Share of time in which a satellite has no link, mean over satellites."""
    most: int
    """Most links of a satellite at a time."""
    orbit_pairs: Floats
    """Share of time in which any two satellites of two orbits are linked, `[orbit, orbit]`."""


def linkage(plan: ContactPlan, orbit_of_satellite: Ints) -> Linkage:
    """Count the links of a plan."""
    links = plan.between_satellites
    first, second = orbit_of_satellite[links.first], orbit_of_satellite[links.second]
    is_same = first == second
    orbits, satellites = int(orbit_of_satellite[-1]) + 1, plan.satellites
    per_orbit = np.bincount(orbit_of_satellite)
    within = int((per_orbit * (per_orbit - 1) // 2).sum())
    between = satellites * (satellites - 1) // 2 - within
    any_s, _ = overlaps(np.zeros(len(links), dtype=np.int64), links.begin_s, links.end_s, 1)
    ends = np.concatenate((links.first, links.second)).astype(np.int64)
    linked_s, most = overlaps(ends, np.tile(links.begin_s, 2), np.tile(links.end_s, 2), satellites)
    pair_s, _ = overlaps(first * orbits + second, links.begin_s, links.end_s, orbits**2)
    pair_s = pair_s.reshape(orbits, orbits)
    return Linkage(
        in_plane=_kind(links, is_same, within),
        cross_plane=_kind(links, ~is_same, between),
        none=1.0 - float(any_s[0]) / plan.horizon_s,
        alone=1.0 - float(linked_s.mean()) / plan.horizon_s,
        most=int(most.max(initial=0)),
        orbit_pairs=np.maximum(pair_s, pair_s.T) / plan.horizon_s,
    )


def _kind(links: ContactPlan, chosen: Flags, possible: int) -> LinkKind:
    begin_s, end_s = links.begin_s[chosen], links.end_s[chosen]
    at_start, at_end = begin_s <= 0.0, end_s >= links.horizon_s
    duration_s = end_s - begin_s
    whole_s = duration_s[~(at_start | at_end)]
    range_km = links.range_km[chosen]
    known_km = range_km[np.isfinite(range_km)]
    pairs = links.first[chosen].astype(np.int64) * links.satellites + links.second[chosen]
    return LinkKind(
        pairs=len(np.unique(pairs)),
        possible=possible,
        windows=len(pairs),
        permanent=int((at_start & at_end).sum()),
        median_s=float(np.median(duration_s)) if len(duration_s) else None,
        shortest_s=float(whole_s.min()) if len(whole_s) else None,
        longest_s=float(whole_s.max()) if len(whole_s) else None,
        at_a_time=float(duration_s.sum()) / links.horizon_s,
        nearest_km=float(known_km.min()) if len(known_km) else None,
    )


def overlaps(group: Ints, begin_s: Floats, end_s: Floats, groups: int) -> tuple[Floats, Ints]:
    """Return the seconds that intervals of each group cover, and how many at most at a time.

    An interval covers its begin and no longer its end.
    """
    owner, time_s = np.tile(group, 2), np.concatenate((begin_s, end_s))
    change = np.repeat([1, -1], len(group))
    order = np.lexsort((change, time_s, owner))  # ends before begins: they share no moment
    owner, time_s = owner[order], time_s[order]
    count = np.cumsum(change[order])  # every group ends at 0
    covered_s, most = np.zeros(groups), np.zeros(groups, dtype=np.int64)
    inside = np.flatnonzero(count > 0)
    np.add.at(covered_s, owner[inside], time_s[inside + 1] - time_s[inside])
    np.maximum.at(most, owner, count)
    return covered_s, most
