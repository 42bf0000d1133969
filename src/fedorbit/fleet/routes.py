"""What orbits send over routes: earliest arrival by store and forward, hop by hop.

Where satellites of an orbit have no links but those of the contact plan, what they exchange takes
any way that exists: over links within the plane, over other planes, through the ground. A message
leaves at once and takes the earliest route to each of its targets. Where routes share hops, it
passes over them once. All hops are booked in the slot in which the message is sent.
"""

from collections.abc import Sequence
from itertools import chain

import numpy as np

from fedorbit.fleet.ledger import Ledger
from fedorbit.fleet.topology import Topology
from fedorbit.hardware import Floats
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.routing import ContactGraph, HopTimes


class Routes:
    """Routes over the contacts of active satellites."""

    def __init__(
        self, contacts: ContactPlan, hop_times: HopTimes, topology: Topology, ledger: Ledger
    ) -> None:
        """`hop_times`: those of a model, which all messages take."""
        self.contacts, self.hop_times = contacts, hop_times
        self._graph = ContactGraph(contacts, hop_times)
        self._topology, self._ledger = topology, ledger
        self.ground = list(range(contacts.satellites, contacts.satellites + contacts.servers))
        """Nodes of the servers; what one has, all have."""

    def arrival_s(self, sources: Sequence[int], start_s: float, targets: Sequence[int]) -> Floats:
        """When a message that all sources hold at a moment can be at each target."""
        if not np.isfinite(start_s) or not sources:
            return np.full(len(targets), np.inf)
        return self._graph.earliest_arrival(sources, start_s).arrival_s[list(targets)]

    def carry(
        self, sources: Sequence[int], start_s: float, targets: Sequence[int], size_bytes: int
    ) -> Floats:
        """Send a message from the nearest source to every target; return when it arrives.

        Infinity where there is no way before the plan ends; nothing is booked there.
        """
        if not np.isfinite(start_s) or not sources:
            return np.full(len(targets), np.inf)
        found = self._graph.earliest_arrival(sources, start_s)
        for hop in set(chain.from_iterable(map(found.route, targets))):
            if (direction := self._topology.direction(hop.first, hop.second)) is not None:
                self._ledger.book(direction, size_bytes)
        return found.arrival_s[list(targets)]
