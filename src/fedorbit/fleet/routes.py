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

    def __init__(self, found: Arrivals) -> None:
        self._found = found

    @property
    def arrival_s(self) -> Floats:
        """When a message can be at each node, in seconds since the run's start; infinite: never."""
        return self._found.arrival_s

    def source(self, target: int) -> int:
        """Return the node from which the route to a target starts."""
        hops = self._found.route(target)
        return hops[0].first if hops else target

    def departure_s(self, target: int) -> float:
        """Return when the route to a target leaves its source; infinite without a route."""
        hops = self._found.route(target)
        return hops[0].depart_s if hops else float(np.inf)

    def through(self, target: int) -> list[int]:
        """Return the nodes between source and target, for `now.send(route=…)`.

        The way to a server may lead through another that is linked to it.
        """
        nodes: list[int] = []
        for hop in self._found.route(target):  # between servers there is no hop
            nodes += [hop.second] if nodes and nodes[-1] == hop.first else [hop.first, hop.second]
        return nodes[1:-1] if nodes and nodes[-1] == target else nodes[1:]


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
        return Ways(graph.earliest_arrival(sources, start_s))

    @cached_property
    def _between_satellites(self) -> ContactGraph:
        """The graph without contacts with servers."""
        return ContactGraph(self.contacts.between_satellites, self.hop_times, self.server_groups)

    def arrival_s(self, sources: Sequence[int], start_s: Starts, targets: Sequence[int]) -> Floats:
        """When a message that all sources hold at a moment can be at each target."""
        if not np.isfinite(start_s).any() or not sources:
            return np.full(len(targets), np.inf)
        return self._graph.earliest_arrival(sources, start_s).arrival_s[list(targets)]

    def arrivals_s(self, start_s: float, sources: Ints) -> Floats:
        """When a message that leaves each source at a moment can be at each node."""
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
                self._ledger.book(direction, size_bytes)
        return found.arrival_s[list(targets)]
