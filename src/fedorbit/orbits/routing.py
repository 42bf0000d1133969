"""Earliest arrival by store and forward: how fast a message gets from node to node of a plan.

A message waits at a node until a contact carries it on. It may leave at any moment of a contact
(its begin included, its end not), takes a fixed time for the hop, and must be through by the
contact's end. Leaving as early as possible is never worse, so the earliest arrival at every node
follows from earliest arrivals alone: Dijkstra's algorithm over time. The latest departure that
still meets a deadline is the same search with time reversed.

Light needs 17 ms for 5,000 km and is left out, as is the queue behind other messages: what a
contact carries in total is up to the caller.
"""

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedorbit.hardware import transfer_s
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.plan import ContactPlan
from fedorbit.progress import Progress, SilentProgress

Ints = NDArray[np.int64]

NONE = -1
BATCH_VALUES = 8_000_000
"""Arrival times held at a time when delays are computed: 64 MB."""
BATCH_STEPS = 300_000_000
"""Contacts x messages computed at a time: a second or two between two reports of progress."""


DONE_EVERY, DONE_MOST = 32, 4096
"""After how many edges to look for messages that are everywhere, and at how many at most.

In a large graph it is as many edges as it has vertices: a look takes as long as so many edges.
"""


@dataclass(frozen=True)
class HopTimes:
    """Seconds that a message takes over one contact; 0 is at once."""

    to_server_s: float = 0.0
    to_satellite_s: float = 0.0
    """Seconds from a server to a satellite."""
    between_satellites_s: float = 0.0

    @classmethod
    def of(
        cls,
        size_bytes: float,
        to_server_mbps: float | None = None,
        to_satellite_mbps: float | None = None,
        between_satellites_mbps: float | None = None,
    ) -> "HopTimes":
        """Return the times for a message; a rate of None is as good as infinitely fast."""
        return cls(
            transfer_s(size_bytes, to_server_mbps),
            transfer_s(size_bytes, to_satellite_mbps),
            transfer_s(size_bytes, between_satellites_mbps),
        )


@dataclass(frozen=True)
class Hop:
    """A message on its way from one node to the next."""

    first: int
    second: int
    depart_s: float
    arrive_s: float


@dataclass(frozen=True, eq=False)
class _Edges:
    """Contacts as edges, two for each, sorted by the node at which the search leaves them.

    A message leaves between `open_s` and `close_s`, both included, and arrives `took_s` later.
    """

    source: Ints
    target: Ints
    open_s: Floats
    close_s: Floats
    took_s: Floats
    contact: Ints
    """The contact; plus the number of contacts if it is used from its second node."""
    row: Ints
    """Index of the first edge of each node, and of the end of the last."""


@dataclass(frozen=True, eq=False)
class Arrivals:
    """Earliest arrival at each node of a message that starts at some nodes."""

    start_s: float
    arrival_s: Floats
    """Infinity where no contacts of the plan lead."""
    _search: "_Search" = field(repr=False)

    def route(self, target: int) -> list[Hop]:
        """Return the hops from a start to a node; none from a start to itself, or without a way."""
        return self._search.hops(target, forward=True)


@dataclass(frozen=True, eq=False)
class Departures:
    """Latest departure from each node with which a message is at a target by a deadline."""

    deadline_s: float
    departure_s: Floats
    """The last moment; minus infinity where no contacts of the plan lead in time."""
    _search: "_Search" = field(repr=False)

    def route(self, source: int) -> list[Hop]:
        """Return the hops of a message that leaves a node, and every one after, at the last moment.

        None from a target to itself, or without a way.
        """
        return self._search.hops(source, forward=False)


class ContactGraph:
    """A plan as a graph of its nodes, for any number of searches.

    Servers of one group share a vertex: what one has received all have at once, and a route can go
    on from another server than it has come to. `server_groups` has a number for each server; None
    is one group, a backhaul over the ground.
    """

    def __init__(
        self,
        plan: ContactPlan,
        hop_times: HopTimes | None = None,
        server_groups: Sequence[int] | None = None,
    ) -> None:
        self.plan = plan
        self.nodes = plan.satellites + plan.servers
        self.server_groups = [0] * plan.servers if server_groups is None else list(server_groups)
        self._times = hop_times or HopTimes()

    def earliest_arrival(
        self, sources: int | Sequence[int], start_s: float | Sequence[float] | Floats
    ) -> Arrivals:
        """Search forward: from a message that the sources hold at a moment, or each at its own."""
        starts_s = np.broadcast_to(start_s, np.shape(np.atleast_1d(sources)))
        search = _Search(self, self._forward, self._starts(sources, starts_s))
        return Arrivals(float(starts_s.min()), search.labels[self.vertex], search)

    def latest_departure(self, targets: int | Sequence[int], deadline_s: float) -> Departures:
        """Search backward: to any of the targets, which must have the message by a moment."""
        deadlines_s = np.full(np.shape(np.atleast_1d(targets)), -deadline_s)
        search = _Search(self, self._backward, self._starts(targets, deadlines_s))
        return Departures(deadline_s, -search.labels[self.vertex], search)

    def arrivals(self, starts_s: Floats, sources: Sequence[int] | Ints) -> Floats:
        """Return earliest arrivals `[start, source, node]` for many starts and sources at once.

        Contacts are passed on in the order of their begins, each for all messages, again and again
        for those that have improved, until none has. The result takes 8 bytes a value.
        """
        order = np.argsort(starts_s, kind="stable")
        begin_s = np.repeat(np.asarray(starts_s, dtype=np.float64)[order], len(sources))
        labels = np.full((self._vertices, len(begin_s)), np.inf)
        place = np.tile(self.vertex[np.asarray(sources, dtype=np.int64)], len(order))
        labels[place, np.arange(len(place))] = begin_s
        _relax(self._forward, labels, begin_s)
        found = np.empty((len(order), len(sources), self.nodes))
        found[order] = labels[self.vertex].T.reshape(len(order), len(sources), self.nodes)
        return found

    @property
    def _vertices(self) -> int:
        return int(self.vertex.max(initial=NONE)) + 1

    @cached_property
    def vertex(self) -> Ints:
        """The vertex of every node: servers of a group share one."""
        groups = np.unique(self.server_groups, return_inverse=True)[1].astype(np.int64)
        return np.concatenate((np.arange(self.plan.satellites), self.plan.satellites + groups))

    def _starts(self, nodes: int | Sequence[int], times_s: Floats) -> dict[int, float]:
        """The vertices of nodes in their order, each with the earliest of its times."""
        starts: dict[int, float] = {}
        places = self.vertex[np.atleast_1d(np.asarray(nodes, dtype=np.int64))]
        for vertex, time_s in sorted(zip(places.tolist(), times_s.tolist(), strict=True)):
            starts.setdefault(vertex, time_s)
        return starts

    @cached_property
    def _forward(self) -> _Edges:
        plan = self.plan
        a, b = plan.first.astype(np.int64), plan.second.astype(np.int64)
        source, target = np.concatenate((a, b)), np.concatenate((b, a))
        took_s = np.where(
            target >= plan.satellites,
            self._times.to_server_s,
            np.where(
                source >= plan.satellites,
                self._times.to_satellite_s,
                self._times.between_satellites_s,
            ),
        )
        open_s, end_s = np.tile(plan.begin_s, 2), np.tile(plan.end_s, 2)
        # A contact does not cover its end: at once means the last moment before.
        close_s = np.where(took_s > 0.0, end_s - took_s, np.nextafter(end_s, -np.inf))
        fits = np.flatnonzero(open_s <= close_s)
        fits = fits[np.lexsort((open_s[fits], self.vertex[source[fits]]))]
        source, target = self.vertex[source[fits]], self.vertex[target[fits]]
        row = np.searchsorted(source, np.arange(self._vertices + 1))
        return _Edges(source, target, open_s[fits], close_s[fits], took_s[fits], fits, row)

    @cached_property
    def _backward(self) -> _Edges:
        """The same edges from their other end, with time reversed: the first is the last."""
        edges = self._forward
        order = np.lexsort((-edges.close_s, edges.target))
        took_s = edges.took_s[order]
        source = edges.target[order]
        return _Edges(
            source,
            edges.source[order],
            -edges.close_s[order] - took_s,
            -edges.open_s[order] - took_s,
            took_s,
            edges.contact[order],
            np.searchsorted(source, np.arange(self._vertices + 1)),
        )


class _Search:
    """Dijkstra's algorithm over time; with equal times the fewer hops count."""

    def __init__(self, graph: ContactGraph, edges: _Edges, starts: dict[int, float]) -> None:
        """`starts`: vertices, and when each has the message; infinite if never."""
        self._graph = graph
        self._edges = edges
        self.labels = np.full(graph._vertices, np.inf)
        self._hops = np.zeros(graph._vertices, dtype=np.int64)
        self._via = np.full(graph._vertices, NONE)
        self.labels[list(starts)] = list(starts.values())
        queue = [(time_s, 0, vertex) for vertex, time_s in starts.items() if time_s < np.inf]
        heapq.heapify(queue)
        while queue:
            label, hops, vertex = heapq.heappop(queue)
            if (label, hops) == (self.labels[vertex], self._hops[vertex]):
                for improved in self._improve(vertex):
                    heapq.heappush(queue, improved)

    def _improve(self, vertex: int) -> Iterator[tuple[float, int, int]]:
        """Pass on along the edges of a vertex."""
        edges, rows = self._edges, slice(*self._edges.row[vertex : vertex + 2])
        hops = int(self._hops[vertex]) + 1
        depart_s = np.maximum(edges.open_s[rows], self.labels[vertex])
        arrive_s = depart_s + edges.took_s[rows]
        target = edges.target[rows]
        old_s = self.labels[target]
        better = (arrive_s < old_s) | ((arrive_s == old_s) & (hops < self._hops[target]))
        chosen = np.flatnonzero(better & (depart_s <= edges.close_s[rows]))
        for k in chosen[np.argsort(arrive_s[chosen], kind="stable")].tolist():
            to, label = int(target[k]), float(arrive_s[k])
            if (label, hops) < (self.labels[to], self._hops[to]):
                self.labels[to], self._hops[to], self._via[to] = label, hops, rows.start + k
                yield label, hops, to

    def hops(self, node: int, forward: bool) -> list[Hop]:
        """Return the way between a node and where the search started, in the message's order."""
        edges, found = self._edges, []
        vertex = int(self._graph.vertex[node])
        while (edge := int(self._via[vertex])) != NONE:
            # The time of a hop is that of the search: reversed, its arrival is the departure.
            arrive_s = float(self.labels[vertex])
            vertex = int(edges.source[edge])
            depart_s = max(float(edges.open_s[edge]), float(self.labels[vertex]))
            times_s = (depart_s, arrive_s) if forward else (-arrive_s, -depart_s)
            found.append(Hop(*self._ends(int(edges.contact[edge])), *times_s))
        return found[::-1] if forward else found

    def _ends(self, contact: int) -> tuple[int, int]:
        plan = self._graph.plan
        from_second, index = divmod(contact, len(plan))
        first, second = int(plan.first[index]), int(plan.second[index])
        return (second, first) if from_second else (first, second)


def round_trips(
    plan: ContactPlan,
    hop_times: HopTimes,
    orbit_of_satellite: Ints,
    rounds: int,
    round_s: float,
    server_groups: Sequence[int] | None = None,
) -> NDArray[np.bool_]:
    """Return in which rounds a message can go from the ground to an orbit and back.

    `[round, orbit]`, over any number of hops, to any satellite of the orbit, all within the round.
    The ground is the first server, and those of its group.
    """
    servers = range(plan.satellites, plan.satellites + min(plan.servers, 1))
    orbits = int(orbit_of_satellite[-1]) + 1
    found = np.zeros((rounds, orbits), dtype=np.bool_)
    for t in range(rounds if servers else 0):
        begin_s, end_s = t * round_s, (t + 1) * round_s
        graph = ContactGraph(plan.overlapping(begin_s, end_s), hop_times, server_groups)
        down_s = graph.earliest_arrival(servers, begin_s).arrival_s[: plan.satellites]
        up = graph.latest_departure(servers, np.nextafter(end_s, -np.inf))
        there = down_s <= up.departure_s[: plan.satellites]
        found[t, orbit_of_satellite[there]] = True
    return found


def _relax(edges: _Edges, labels: Floats, begin_s: Floats) -> None:
    """Lower labels `[vertex, message]` to the earliest arrivals; messages are sorted by start."""
    order = np.argsort(edges.open_s, kind="stable")
    # Messages that start after an edge has closed never use it.
    within = np.searchsorted(begin_s, edges.close_s[order], side="right")
    order, within = order[within > 0], within[within > 0]
    columns = (edges.source, edges.target, edges.open_s, edges.close_s, edges.took_s)
    rows = list(zip(*(c[order].tolist() for c in columns), within.tolist(), strict=True))
    changes, seen = [1] * len(labels), [0] * len(rows)
    every = max(DONE_EVERY, len(labels))
    improved = True
    while improved:
        improved = False
        done = 0
        for k, (source, target, open_s, close_s, took_s, count) in enumerate(rows):
            if k % every == 0:
                done += _done(labels[:, done : done + DONE_MOST], open_s)
                if done == len(begin_s):  # all are everywhere before any later edge opens
                    break
            if seen[k] == changes[source]:
                continue
            seen[k] = changes[source]
            to = labels[target, done:count]
            depart_s = np.maximum(labels[source, done:count], open_s)
            better = (depart_s <= close_s) & (depart_s + took_s < to)
            if better.any():
                to[better] = depart_s[better] + took_s
                changes[target] += 1
                improved = True


def _done(labels: Floats, time_s: float) -> int:
    """Count the first messages that are everywhere by a moment: later edges cannot help them."""
    under_way = np.flatnonzero(labels.max(axis=0) > time_s)
    return int(under_way[0]) if len(under_way) else labels.shape[1]


@dataclass(frozen=True)
class Spread:
    """Delays in numbers; messages without a way within the plan are counted and left out."""

    mean_s: float
    median_s: float
    p90_s: float
    max_s: float
    unreached: float
    """Share of delays without a way before the plan ends."""

    @classmethod
    def of(cls, delays_s: Floats) -> "Spread":
        """Summarise delays; NaN if none is finite."""
        reached = delays_s[np.isfinite(delays_s)]
        unreached = 1.0 - reached.size / delays_s.size if delays_s.size else 0.0
        if not reached.size:
            return cls(np.nan, np.nan, np.nan, np.nan, unreached)
        median_s, p90_s = np.quantile(reached, (0.5, 0.9))
        return cls(
            float(reached.mean()), float(median_s), float(p90_s), float(reached.max()), unreached
        )


@dataclass(frozen=True, eq=False)
class Delays:
    """Delays of messages that start at given moments, such as begins of rounds.

    Infinity where the plan ends before: it should be longer than the moments by some hours.
    """

    orbit_to_server_s: Floats
    """Delay from the first satellite of an orbit to reach any server, `[start, orbit]`."""
    satellite_to_server_s: Floats
    """Delay from each satellite to the first server that it reaches, `[start, satellite]`."""
    server_to_satellite_s: Floats
    """Delay from the servers, which all hold the message, `[start, satellite]`."""
    slowest_to_server_s: Floats
    """Delay from the last satellite of an orbit to reach any server, `[start, orbit]`."""
    to_mates_s: Floats
    """Delay from each satellite to each other of its orbit, `[start, pair]`, pairs in order."""
    all_to_all_s: Floats
    """Longest of `to_mates_s` in each orbit, `[start, orbit]`; 0 for an orbit of one satellite."""

    def summary(self) -> dict[str, Spread]:
        """Return every kind of delay in numbers, over all starts."""
        return {name.removesuffix("_s"): Spread.of(values) for name, values in vars(self).items()}


def delays(
    graph: ContactGraph,
    starts_s: Floats,
    orbit_of_satellite: Ints,
    progress: Progress | None = None,
) -> Delays:
    """Return the delays of messages from and to servers and within orbits.

    For contacts with servers alone give the graph of `plan.with_servers`: what satellites then
    exchange goes through servers. All satellites are sources: 400 starts of 20 satellites take
    about a second, every start of 1,600 satellites about ten.
    """
    parts = [
        _delays_of(graph, starts, delay_s, orbit_of_satellite)
        for starts, delay_s in _batches(graph, starts_s, progress)
    ]
    return Delays(
        *(np.concatenate([getattr(part, name) for part in parts]) for name in vars(parts[0]))
    )


def mean_delays(
    graph: ContactGraph, starts_s: Floats, progress: Progress | None = None
) -> tuple[Floats, Floats]:
    """Return the mean delay from node to node, and the share of starts without a way.

    Both `[node, node]`. The mean is that of the starts with a way, and NaN where there is none.
    """
    total_s, reached = np.zeros((2, graph.nodes, graph.nodes))
    for starts, up_s in _batches(graph, starts_s, progress):
        down_s = graph.arrivals(starts, np.arange(graph.plan.satellites, graph.nodes))
        delay_s = np.concatenate((up_s, down_s - starts[:, None, None]), axis=1)
        has_way = np.isfinite(delay_s)
        total_s += np.where(has_way, delay_s, 0.0).sum(axis=0)
        reached += has_way.sum(axis=0)
    mean_s = np.divide(total_s, reached, out=np.full_like(total_s, np.nan), where=reached > 0)
    return mean_s, 1.0 - reached / max(1, len(starts_s))


def _batches(
    graph: ContactGraph, starts_s: Floats, progress: Progress | None
) -> Iterator[tuple[Floats, Floats]]:
    """Yield some starts, and the delays `[start, satellite, node]` of messages that begin then."""
    progress = progress or SilentProgress()
    satellites = graph.plan.satellites
    size = BATCH_VALUES // (satellites * graph.nodes)
    size = max(1, min(size, BATCH_STEPS // (satellites * max(1, 2 * len(graph.plan)))))
    progress.start("computing delays", len(starts_s), "starts")
    try:
        for low in range(0, max(1, len(starts_s)), size):
            starts = starts_s[low : low + size]
            delay_s = graph.arrivals(starts, np.arange(satellites)) - starts[:, None, None]
            yield starts, delay_s
            progress.advance(len(starts))
    finally:
        progress.finish()


def _delays_of(
    graph: ContactGraph, starts_s: Floats, delay_s: Floats, orbit_of_satellite: Ints
) -> Delays:
    satellites = graph.plan.satellites
    up_s = delay_s[..., satellites:].min(axis=2, initial=np.inf)
    servers = np.arange(satellites, graph.nodes)
    down_s = graph.arrivals(starts_s, servers)[..., :satellites] - starts_s[:, None, None]
    begins = np.flatnonzero(np.diff(orbit_of_satellite, prepend=NONE))
    first, second = np.nonzero(orbit_of_satellite[:, None] == orbit_of_satellite)
    between_s = delay_s[:, first, second]
    # Pairs are sorted by their first satellite, so those of an orbit follow each other.
    runs = np.flatnonzero(np.diff(orbit_of_satellite[first], prepend=NONE))
    return Delays(
        orbit_to_server_s=np.minimum.reduceat(up_s, begins, axis=1),
        satellite_to_server_s=up_s,
        server_to_satellite_s=down_s.min(axis=1, initial=np.inf),
        slowest_to_server_s=np.maximum.reduceat(up_s, begins, axis=1),
        to_mates_s=between_s[:, first != second],
        all_to_all_s=np.maximum.reduceat(between_s, runs, axis=1),
    )
