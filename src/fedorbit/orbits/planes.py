"""Real satellites sorted into shells and planes; what is in neither is drifting.

Nothing is known of a file but its satellites: neither how many planes there are nor how far apart.
Groups are therefore cut at gaps, and a group that is wider than one orbit can be is cut again at
half the gap, until each part is narrow enough. A chain of satellites between two planes, or between
two heights, thus falls apart, and a loose plane with space around it stays whole.

1. Shells: near in inclination and height. Two heights, each with many satellites and far apart for
   their spread, are two shells; a few spares below the others are not a shell.
2. Planes of a shell: near in the direction of the orbit's axis, at one moment.
3. Drifting: in a shell with few of the file's satellites, in a plane with few of the shell's, or
   off the middle of a plane by a good part of the way to the next. "Few" is relative: in a file of
   lone satellites each has an orbit.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats

Ints = NDArray[np.int64]
Drifting = Literal["leave-out", "keep", "refuse"]

SHELL_SHARE, SHELL_PLANE_SHARE = 0.02, 0.1
"""A shell has at least this part of the file's satellites, and its typical plane this part of those
of the file's typical plane: batches on their way up are smaller, and have fewer in a plane."""
PLANE_SHARE = 0.15
"""A plane has at least this part of the satellites of its shell's typical plane."""
OFF_PLANE_SHARE = 0.25
"""A satellite farther from the middle of its plane than this part of the way to the next plane is
between planes."""
WIDTH_SHARE = 0.5
"""A plane is at most as wide as this part of the way to the next."""
SETTLED_SHARE = 0.9
"""Planes of a shell have been found when groups as narrow as a plane hold this part of it."""
LEVEL_SHARE, LEVEL_MEMBERS, LEVEL_SPREADS, LEVEL_FLOOR = 0.2, 10, 8.0, 0.05
"""Two levels of a value divide a shell if the smaller has this part of its satellites, this many,
and the levels are as far apart as so many of their spreads, and as this part of the tolerance."""


@dataclass(frozen=True, eq=False)
class Elements:
    """Elements by which satellites are grouped into orbits, at one moment; one entry each."""

    inclination_deg: Floats
    altitude_km: Floats
    raan_deg: Floats

    def tilt_deg(self, members: Ints, node_step_deg: Floats) -> Floats:
        """Angle between two planes whose nodes are a step apart, at the members' inclination.

        Near the equator a node has no meaning, and the angle is near 0.
        """
        half_rad = np.radians(np.minimum(node_step_deg, 360.0 - node_step_deg)) / 2.0
        tilt = np.sin(np.radians(self.inclination_deg[members].mean()))
        return np.asarray(np.degrees(2.0 * np.arcsin(tilt * np.sin(half_rad))))

    def width_deg(self, members: Ints) -> float:
        """Angle between the outer planes of members in the order of their nodes."""
        span_deg = (self.raan_deg[members[-1]] - self.raan_deg[members[0]]) % 360.0
        # Beyond half a turn the widest angle is that between opposite nodes.
        return float(self.tilt_deg(members, np.minimum(span_deg, 180.0)))


@dataclass(frozen=True, eq=False)
class Grouping:
    """Satellites by number: planes of each shell, and groups that drift, in no shell or plane."""

    shells: tuple[tuple[Ints, ...], ...]
    drifting: tuple[Ints, ...]


def group_by_plane(
    elements: Elements, plane_tolerance_deg: float, altitude_tolerance_km: float
) -> Grouping:
    """Sort satellites into shells, by inclination and height, and shells into planes, by node."""
    everyone = np.arange(len(elements.raan_deg))
    candidates: list[list[Ints]] = []
    for members, gap_km in _shells(elements, everyone, plane_tolerance_deg, altitude_tolerance_km):
        planes = list(_planes(elements, members, plane_tolerance_deg, gap_km))
        candidates.append(sorted(planes, key=lambda plane: float(elements.raan_deg[plane[0]])))
    least_members = SHELL_SHARE * len(everyone)
    least_typical = SHELL_PLANE_SHARE * _typical([p for planes in candidates for p in planes])
    shells: list[tuple[Ints, ...]] = []
    drifting: list[Ints] = []
    for planes in candidates:
        if sum(map(len, planes)) < least_members or _typical(planes) < least_typical:
            drifting += planes
            continue
        kept, off = _settled(elements, planes)
        if kept:
            shells.append(tuple(kept))
        drifting += off
    return Grouping(tuple(shells), tuple(drifting))


def _typical(planes: list[Ints]) -> float:
    """Number of satellites in the plane of a satellite in the middle, by size of their planes."""
    sizes = [len(plane) for plane in planes]
    return float(np.median(np.repeat(sizes, sizes)))


def _shells(
    elements: Elements, everyone: Ints, tolerance_deg: float, tolerance_km: float
) -> Iterator[tuple[Ints, float]]:
    """Yield shells by inclination and height, each with the gap in height that divides it."""
    inclination_deg, altitude_km = elements.inclination_deg, elements.altitude_km

    def cut(members: Ints, scale: float) -> list[Ints]:
        by_inclination = _split(members, inclination_deg, scale * tolerance_deg)
        return [
            part
            for group in by_inclination
            for part in _split(group, altitude_km, scale * tolerance_km)
        ]

    def narrow(members: Ints) -> bool:
        return bool(
            np.ptp(inclination_deg[members]) <= tolerance_deg
            and np.ptp(altitude_km[members]) <= tolerance_km
        )

    shells: list[tuple[Ints, float]] = []
    for group, scale in _narrow_groups(everyone, cut, narrow, settled_share=0.0):
        levels = [
            level
            for part in _levels(group, altitude_km, LEVEL_FLOOR * tolerance_km)
            for level in _levels(part, inclination_deg, LEVEL_FLOOR * tolerance_deg)
        ]
        shells += [(level, scale * tolerance_km) for level in levels]
    # Inclinations of one tolerance count as the same, or noise would decide the order.
    base = np.concatenate(
        [
            np.full(len(part), inclination_deg[part].min())
            for part in _split(everyone, inclination_deg, tolerance_deg)
        ]
    )
    place = np.empty(len(everyone))
    place[np.argsort(inclination_deg, kind="stable")] = base
    shells.sort(key=lambda shell: (place[shell[0][0]], np.median(altitude_km[shell[0]])))
    yield from shells


def _planes(
    elements: Elements, members: Ints, tolerance_deg: float, gap_km: float
) -> Iterator[Ints]:
    """Yield the planes of a shell; twice the gap that divides it from others divides a plane."""

    def cut(group: Ints, scale: float) -> list[Ints]:
        return _split_by_node(elements, group, scale * tolerance_deg)

    def narrower_than(limit_deg: float) -> Callable[[Ints], bool]:
        return lambda group: elements.width_deg(group) <= limit_deg

    narrow = narrower_than(tolerance_deg)
    groups = [group for group, _ in _narrow_groups(members, cut, narrow, SETTLED_SHARE)]
    # Two close planes with a satellite between them can be narrow enough for one. The steps between
    # the shell's other planes show that they are two.
    least = _least(groups)
    step_deg = _typical_step_deg(elements, [group for group in groups if len(group) >= least])
    narrow = narrower_than(min(tolerance_deg, WIDTH_SHARE * step_deg))
    for wide in groups:
        for group, _ in _narrow_groups(wide, cut, narrow, settled_share=0.0):
            parts = _split(np.arange(len(group)), elements.altitude_km[group], 2.0 * gap_km)
            yield from (group[np.sort(part)] for part in parts)  # still in the order of nodes


def _least(planes: list[Ints]) -> float:
    """Satellites that a plane of a shell has at least."""
    return PLANE_SHARE * _typical(planes)


def _typical_step_deg(elements: Elements, planes: list[Ints]) -> float:
    """Angle between neighbouring planes of a shell; infinite where there are too few."""
    if len(planes) < 3:
        return np.inf
    middles_deg = np.sort([_middle_deg(elements.raan_deg[plane]) for plane in planes])
    steps_deg = np.diff(middles_deg, append=middles_deg[0] + 360.0)
    # Not the median: planes at two heights can have the same nodes, a step of 0 for each.
    return float(np.percentile(elements.tilt_deg(np.concatenate(planes), steps_deg), 75))


def _narrow_groups(
    members: Ints,
    cut: Callable[[Ints, float], list[Ints]],
    narrow: Callable[[Ints], bool],
    settled_share: float,
    scale: float = 1.0,
) -> Iterator[tuple[Ints, float]]:
    """Cut at gaps, each time half as wide, until all groups are narrow; yield each with its scale.

    The gap is the same for all members until narrow groups hold the settled share of them.
    """
    while True:
        parts = [(part, narrow(part)) for part in cut(members, scale)]
        settled = sum(len(part) for part, done in parts if done)
        if settled == len(members) or (len(parts) > 1 and settled >= settled_share * len(members)):
            break
        scale /= 2.0
    for part, done in parts:
        if done:
            yield part, scale
        else:
            yield from _narrow_groups(part, cut, narrow, settled_share, scale / 2.0)


def _levels(members: Ints, values: Floats, floor: float) -> list[Ints]:
    """Divide members where their values have two levels, each of many, far apart for its spread."""
    order = members[np.argsort(values[members], kind="stable")]
    least = max(LEVEL_MEMBERS, int(np.ceil(LEVEL_SHARE * len(order))))
    sizes = np.arange(least, len(order) - least + 1)
    if not len(sizes):
        return [members]
    ordered = values[order] - values[order].mean()
    # Otsu's cut: the one after which the two means explain most of the variance.
    below = np.cumsum(ordered)[sizes - 1]
    cut = int(sizes[np.argmax(below**2 / (sizes * (len(order) - sizes)))])
    low, high = ordered[:cut], ordered[cut:]
    spread = max(float(np.subtract(*np.percentile(part, (75, 25)))) for part in (low, high))
    apart = float(np.median(high) - np.median(low))
    if apart < max(floor, LEVEL_SPREADS * spread):
        return [members]
    return [part for side in (order[:cut], order[cut:]) for part in _levels(side, values, floor)]


def _settled(elements: Elements, planes: list[Ints]) -> tuple[list[Ints], list[Ints]]:
    """Return the planes of a shell without what drifts in it, and that."""
    least = _least(planes)
    populous = [plane for plane in planes if len(plane) >= least]
    drifting = [plane for plane in planes if len(plane) < least]
    kept: list[Ints] = []
    limit_deg = OFF_PLANE_SHARE * _typical_step_deg(elements, populous)
    for plane in populous:
        nodes_deg = elements.raan_deg[plane]
        off_deg = elements.tilt_deg(plane, (nodes_deg - _middle_deg(nodes_deg)) % 360.0)
        inside = off_deg <= limit_deg
        if inside.sum() < least:  # a loose group rather than a plane
            drifting.append(plane)
            continue
        kept.append(plane[inside])
        drifting += [plane[[i]] for i in np.flatnonzero(~inside)]
    return kept, drifting


def _middle_deg(angles_deg: Floats) -> float:
    """Median of angles that lie together, wherever on the circle."""
    steps_deg = (angles_deg - angles_deg[0] + 180.0) % 360.0 - 180.0
    return float((angles_deg[0] + np.median(steps_deg)) % 360.0)


def _split(members: Ints, values: Floats, tolerance: float) -> list[Ints]:
    """Sort members by value and cut where neighbours differ by more than the tolerance."""
    order = members[np.argsort(values[members], kind="stable")]
    return np.split(order, np.flatnonzero(np.diff(values[order]) > tolerance) + 1)


def _split_by_node(elements: Elements, members: Ints, tolerance_deg: float) -> list[Ints]:
    """Sort members by node and cut where the planes of neighbours differ too much."""
    raan_deg = elements.raan_deg
    order = members[np.argsort(raan_deg[members], kind="stable")]
    # On a circle, begin after the widest gap, so that no orbit spans the end.
    gaps_deg = np.append(np.diff(raan_deg[order]), raan_deg[order[0]] + 360.0 - raan_deg[order[-1]])
    order = np.roll(order, -1 - int(np.argmax(gaps_deg)))
    between_deg = elements.tilt_deg(members, np.diff(raan_deg[order]) % 360.0)
    return np.split(order, np.flatnonzero(between_deg > tolerance_deg) + 1)
