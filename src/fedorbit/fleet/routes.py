"""Routes: earliest arrival by store and forward, hop by hop.

Where satellites of an orbit have no links but those of the contact plan, what they exchange takes
any way that exists: over links within the plane, over other planes, through the ground. A message
leaves at once and takes the earliest route to each of its targets. Where routes share hops, it
passes over them once. All hops are booked in the slot in which the message is sent.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain

import numpy as np

from fedorbit.fleet.ledger import Ledger
from fedorbit.fleet.roster import Ints
from fedorbit.fleet.topology import Topology
from fedorbit.hardware import Floats
from fedorbit.orbits.routing import Arrivals, ContactGraph, HopTimes

Starts = float | Floats
"""A moment for all sources, or one for each."""


class Ways:
    """The earliest routes from some nodes to all others."""

    def __init__(self, found: Arrivals, sources: Sequence[int], vertex: Ints) -> None:
        """`vertex`: of each node; servers that are linked share one."""
        self._found, self._sources, self._vertex = found, sources, vertex

    @property
    def arrival_s(self) -> Floats:
        """Earliest arrival at each node, in seconds since the run's start; infinite: never."""
        return self._found.arrival_s

    def path(self, target: int) -> list[int]:
        """Return all nodes of the route to a target, source and target among them.

        Between servers that are linked there is no hop, but two nodes. Empty without a route.
        """
        if not np.isfinite(self.arrival_s[target]):
            return []
        hops = self._found.route(target)
        first = self._vertex[hops[0].first if hops else target]
        nodes = [next(node for node in self._sources if self._vertex[node] == first)]
        for node in chain(*((hop.first, hop.second) for hop in hops), [target]):
            if node != nodes[-1]:
                nodes.append(node)
        return nodes

    def source(self, target: int) -> int:
        """Return the node from which the route to a target starts; there must be one."""
        return self.path(target)[0]

    def departure_s(self, target: int) -> float:
        """Return when the route to a target leaves its source; infinite without a route."""
        hops = self._found.route(target)
        return hops[0].depart_s if hops else float(np.inf)

    def through(self, target: int) -> list[int]:
        """Return the nodes between source and target, for `now.send(route=…)`."""
        return self.path(target)[1:-1]


class Routes:
    """Routes over the contacts of active satellites."""

    def __init__(self, topology: Topology, hop_times: HopTimes, ledger: Ledger) -> None:
        """`hop_times`: those of a model, which all messages take."""
        self.contacts, self.hop_times = topology.routable, hop_times
        self.server_groups = topology.server_groups
        self._graph = ContactGraph(self.contacts, hop_times, self.server_groups)
        self._topology, self._ledger = topology, ledger
        self.ground = topology.ground
        """Nodes of the servers that share the global model; what one has, all have."""

    def ways(self, sources: int | Sequence[int], start_s: Starts, by_servers: bool = True) -> Ways:
        """Return the earliest routes of a message that the sources hold from a moment on."""
        graph = self._graph if by_servers else self._between_satellites
        found = graph.earliest_arrival(sources, start_s)
        return Ways(found, np.atleast_1d(sources).tolist(), graph.vertex)

    @cached_property
    def _between_satellites(self) -> ContactGraph:
        """The graph without contacts with servers."""
        return ContactGraph(self.contacts.between_satellites, self.hop_times, self.server_groups)

    def arrival_s(self, sources: Sequence[int], start_s: Starts, targets: Sequence[int]) -> Floats:
        """Return the earliest arrival at each target of a message that all sources hold."""
        if not np.isfinite(start_s).any() or not sources:
            return np.full(len(targets), np.inf)
        return self._graph.earliest_arrival(sources, start_s).arrival_s[list(targets)]

    def arrivals_of_each_s(self, sources: Ints, start_s: float) -> Floats:
        """Return the earliest arrivals of a message from each source, `[source, node]`."""
        return self._graph.arrivals(np.array([start_s]), sources)[0]

    def carry(
        self, sources: Sequence[int], start_s: Starts, targets: Sequence[int], size_bytes: int
    ) -> Floats:
        """Send a message from the nearest source to every target; return when it arrives.

        Infinity where there is no way before the plan ends; nothing is booked there.
        """
        if not np.isfinite(start_s).any() or not sources:
            return np.full(len(targets), np.inf)
        found = self._graph.earliest_arrival(sources, start_s)
        for hop in set(chain.from_iterable(map(found.route, targets))):
            if (direction := self._topology.direction(hop.first, hop.second)) is not None:
                ends = self._topology.group(hop.first), self._topology.group(hop.second)
                passed = (hop.depart_s, hop.first, hop.second)
                self._ledger.book(direction, ends, size_bytes, hop=passed)
        return found.arrival_s[list(targets)]
