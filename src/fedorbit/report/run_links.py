"""Links between satellites of a run's contact plan, for the page's map and tables.

Names and orbits are known of the satellites that the map shows, so links of others are left out.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.linkage import overlaps
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.orbits.plan_files import from_document

MAX_LINES = 30_000
"""Links x rounds on the map; 8 bytes each."""
LISTED = 100
"""Rows of a table of the page; `fedorbit orbits --links --out` writes all windows."""

Ints = NDArray[np.int64]


class OrbitPair(NamedTuple):
    """Links of two orbits, or within one, over a run."""

    first: int
    second: int
    windows: int
    median_s: float
    share: float
    """Share of the run's time in which any two satellites of the pair are linked."""


class LinkWindow(NamedTuple):
    """One link between two satellites, within a run."""

    first: str
    second: str
    begin_s: float
    end_s: float


class RunLinks:
    """The links between the satellites shown of a run that is described by `world.json`."""

    def __init__(self, world: dict[str, Any], plan: ContactPlan) -> None:
        self._positions = world["positions"]
        self._round_s = float(world["round_s"])
        self.run_s = world["rounds"] * self._round_s
        place = np.full(plan.satellites, -1)
        place[self._positions["satellites"]] = np.arange(len(self._positions["satellites"]))
        links = plan.between_satellites
        first, second = place[links.first], place[links.second]
        kept = (first >= 0) & (second >= 0) & (links.begin_s < self.run_s)
        self.first, self.second = first[kept], second[kept]
        self.begin_s = links.begin_s[kept]
        self.end_s = np.minimum(links.end_s[kept], self.run_s)

    def __len__(self) -> int:
        return len(self.first)

    def on_map(self) -> list[list[list[int]]] | None:
        """Return pairs of shown satellites at every row of positions; None if they are too many."""
        rows = len(self._positions["latitude_deg"])
        times_s = np.arange(rows) * self._positions["every_round"] * self._round_s
        low, high = np.searchsorted(times_s, (self.begin_s, self.end_s))
        if (high - low).sum() > MAX_LINES:
            return None
        drawn: list[list[list[int]]] = [[] for _ in range(rows)]
        columns = (low, high, self.first, self.second)
        for begin, end, first, second in zip(*(c.tolist() for c in columns), strict=True):
            for row in drawn[begin:end]:
                row.append([first, second])
        return drawn

    def orbit_pairs(self) -> list[OrbitPair]:
        """Return the pairs of orbits that are ever linked, and orbits linked within."""
        orbit = np.asarray(self._positions["orbit_of_satellite"], dtype=np.int64)
        ends = np.sort(np.column_stack((orbit[self.first], orbit[self.second])), axis=1)
        pairs, group = np.unique(ends, axis=0, return_inverse=True)
        group = group.ravel()
        linked_s, _ = overlaps(group, self.begin_s, self.end_s, len(pairs))
        duration_s = self.end_s - self.begin_s
        return [
            OrbitPair(
                first,
                second,
                int((group == number).sum()),
                float(np.median(duration_s[group == number])),
                float(linked_s[number]) / self.run_s,
            )
            for number, (first, second) in enumerate(pairs.tolist())
        ]

    def windows(self) -> list[LinkWindow]:
        """Return the first windows, by begin."""
        names = self._positions["names"]
        return [
            LinkWindow(
                names[self.first[i]],
                names[self.second[i]],
                float(self.begin_s[i]),
                float(self.end_s[i]),
            )
            for i in range(min(len(self), LISTED))
        ]


def direct_windows(world: dict[str, Any]) -> list[list[list[int]]] | None:
    """Return rounds [begin, end) per orbit that are reached without other satellites in between.

    None where the world lacks contacts or the orbit of a satellite.
    """
    contacts, positions = world.get("contacts"), world["positions"]
    if contacts is None or contacts["first"] is None:
        return None
    if len(positions["satellites"]) < positions["of_satellites"]:
        return None
    plan = from_document(contacts)
    orbit = np.zeros(plan.satellites, dtype=np.int64)
    orbit[positions["satellites"]] = positions["orbit_of_satellite"]
    with_ground = plan.kind != KINDS.index("isl")
    satellite = np.minimum(plan.first, plan.second)[with_ground]  # servers have higher numbers
    begin = np.floor(plan.begin_s[with_ground] / world["round_s"]).astype(np.int64)
    end = np.ceil(plan.end_s[with_ground] / world["round_s"]).astype(np.int64)
    direct = np.zeros((len(world["visible"]), world["rounds"]), dtype=bool)
    for row, first, last in zip(orbit[satellite], begin, end, strict=True):
        direct[row, first:last] = True
    reached = np.zeros_like(direct)
    for row, windows in enumerate(world["visible"]):
        for first, last in windows:
            reached[row, first:last] = True
    return [_windows(row) for row in direct & reached]


def _windows(rounds: NDArray[np.bool_]) -> list[list[int]]:
    edges = np.flatnonzero(np.diff(rounds, prepend=False, append=False))
    windows: list[list[int]] = edges.reshape(-1, 2).tolist()
    return windows


def run_links(world: dict[str, Any] | None) -> RunLinks | None:
    """Return the links of a run; None without any, or where a file beside the world has them."""
    contacts = (world or {}).get("contacts")
    if world is None or contacts is None or contacts["first"] is None:
        return None
    links = RunLinks(world, from_document(contacts))
    return links if len(links) else None
