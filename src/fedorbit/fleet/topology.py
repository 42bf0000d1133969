"""Nodes, and which of them have a link when.

Nodes are numbers: satellites 0 to K - 1, then servers (ground stations and platforms). Two nodes
have a link in a slot if one of their contacts in the plan overlaps it: within a slot nothing is
ordered. Satellites of one orbit always have one while they are active where that is assumed, as in
the paper; otherwise only their contacts count. Servers have one over the ground, or if they see
each other.
"""

from collections.abc import Collection, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.errors import LinkError
from fedorbit.fleet.ledger import Direction
from fedorbit.fleet.roster import Ints
from fedorbit.hardware import Floats
from fedorbit.orbits.plan import Contact, ContactPlan, Pass, Window, with_lasting_links

Flags = NDArray[np.bool_]

ROUNDING_S = 1e-6
"""A period that fits into a contact but for rounding errors fits."""


class Topology:
    """Links between satellites and servers, slot by slot and in seconds."""

    def __init__(
        self,
        contacts: ContactPlan,
        orbit_of_satellite: Ints,
        activity: Activity,
        slots: int,
        slot_s: float,
        assumed_isl: bool = True,
        unlinked_orbits: Collection[int] = (),
        server_groups: Sequence[int] | None = None,
        geometry: ContactPlan | None = None,
    ) -> None:
        """`contacts`: of active satellites only. `assumed_isl`: satellites of an orbit are linked.

        `unlinked_orbits`: orbits whose links are assumed and do not exist.

        `server_groups`: servers with the same number are linked; all unless given. `geometry`:
        contacts of all satellites, also of inactive ones; as `contacts` unless given.
        """
        self.server_groups = [0] * contacts.servers if server_groups is None else server_groups
        self.satellites, self.servers = contacts.satellites, contacts.servers
        self.slots, self.slot_s = slots, slot_s
        self._contacts, self._geometry = contacts, geometry or contacts
        self._orbit_of_satellite = orbit_of_satellite
        self._activity = activity
        self._assumed_isl, self.unlinked_orbits = assumed_isl, frozenset(unlinked_orbits)

    # --- Nodes ----------------------------------------------------------------------------------

    def is_server(self, node: int) -> bool:
        """Return whether a node is a server, not a satellite."""
        return node >= self.satellites

    def orbit_of(self, node: int) -> int | None:
        """Return the orbit of a satellite; None for a server."""
        return None if self.is_server(node) else int(self._orbit_of_satellite[node])

    def group(self, node: int) -> int:
        """Return the orbit of a satellite, or the number of orbits plus that of a server."""
        if self.is_server(node):
            return int(self._orbit_of_satellite[-1]) + 1 + node - self.satellites
        return int(self._orbit_of_satellite[node])

    def active(self, slots: int | Ints, node: int) -> Flags:
        """Return in which of the slots a node is active; servers always are."""
        if self.is_server(node):
            return np.ones(np.shape(slots), dtype=np.bool_)
        return self._activity.active(slots, node)

    def direction(self, source: int, target: int) -> Direction | None:
        """Return the kind of a link; between servers it is the ground, which costs nothing."""
        if self.is_server(source):
            return None if self.is_server(target) else "from_ground"
        return "to_ground" if self.is_server(target) else "isl"

    def exists(self, source: int, target: int) -> bool:
        """Return whether a link between two nodes, where there is one, is more than assumed."""
        orbit = self.orbit_of(source)
        return orbit != self.orbit_of(target) or orbit not in self.unlinked_orbits

    def require_satellite(self, node: int) -> None:
        """Refuse the number of something else."""
        if not 0 <= node < self.satellites:
            raise LinkError(f"there is no satellite {node}: {self._numbers()}")

    def require_server(self, node: int) -> None:
        """Refuse the number of something else."""
        if not self.satellites <= node < self.satellites + self.servers:
            raise LinkError(f"there is no server {node}: {self._numbers()}")

    def require_nodes(self, *nodes: int) -> None:
        """Refuse numbers of no node."""
        for node in nodes:
            if not 0 <= node < self.satellites + self.servers:
                raise LinkError(f"there is no node {node}: {self._numbers()}")

    def require_active(self, t: int, node: int, what: str) -> None:
        """Refuse a satellite that is away."""
        if not self.active(t, node):
            raise LinkError(
                f"node {node} cannot {what} in round {t}: it is not active (see events); choose "
                "from now.satellites and now.servers only"
            )

    def _numbers(self) -> str:
        first, last = self.satellites, self.satellites + self.servers - 1
        return f"satellites are 0 to {first - 1}, servers {first} to {last}"

    # --- As a slot begins -----------------------------------------------------------------------

    def _of_ground(self, plan: ContactPlan) -> ContactPlan:
        """Return the contacts with servers that share the global model."""
        return plan.with_servers.of_servers(self.ground)

    @cached_property
    def _ground_contacts(self) -> ContactPlan:
        return self._of_ground(self._contacts)

    @cached_property
    def _predicted_contacts(self) -> ContactPlan:
        """Contacts that geometry gives, whatever happens to satellites."""
        return self._of_ground(self._geometry)

    @cached_property
    def _seen(self) -> Flags:
        """Contacts `[slot, satellite, server]` as slots begin, as V is sampled."""
        begins_s = np.arange(self.slots, dtype=np.float64) * self.slot_s
        return self._ground_contacts.visible(begins_s)

    def satellites_of(self, t: int, server: int | None = None) -> list[int]:
        """Active satellites in contact with a server as slot t begins, or with any."""
        if server is not None:
            self.require_server(server)
        seen = self._seen[t]
        column = seen.any(axis=1) if server is None else seen[:, server - self.satellites]
        return [int(k) for k in np.flatnonzero(column)]

    def servers_of(self, t: int, satellite: int) -> list[int]:
        """Servers in contact with a satellite as slot t begins."""
        self.require_satellite(satellite)
        return [self.satellites + int(s) for s in np.flatnonzero(self._seen[t, satellite])]

    # --- Slot by slot ---------------------------------------------------------------------------

    def linked(self, slots: int | Ints, a: int, b: int) -> Flags:
        """Return in which of the slots two nodes have a link."""
        if self._is_lasting(a, b):
            return np.asarray(self.active(slots, a) & self.active(slots, b))
        begins_s, ends_s = self._contacts.between(a, b)
        # As everywhere, to the bit: begin + length may round to after the next slot's begin.
        begin_s, end_s = np.asarray(slots) * self.slot_s, (np.asarray(slots) + 1) * self.slot_s
        begun = np.searchsorted(begins_s, end_s)
        over = np.searchsorted(ends_s, begin_s, side="right")
        return np.asarray(begun > over)

    def link_begin_s(self, t: int, a: int, b: int) -> float:
        """Moment of slot t from which two nodes have a link; its begin if always, or never."""
        begin_s, end_s = t * self.slot_s, (t + 1) * self.slot_s
        begins_s, ends_s = self._contacts.between(a, b)
        within = begins_s[(ends_s > begin_s) & (begins_s < end_s)]
        if self._is_lasting(a, b) or not len(within):
            return begin_s
        return max(float(within[0]), begin_s)

    def linked_slots(self, begin: int, end: int, a: int, b: int) -> list[int]:
        """Return the slots from one on and before another in which two nodes have a link."""
        slots = np.arange(begin, end)
        found: list[int] = slots[self.linked(slots, a, b)].tolist()
        return found

    def neighbours(self, t: int, satellite: int) -> list[int]:
        """Active satellites that have a link to this one in slot t."""
        self.require_satellite(satellite)
        active = self._activity.during(t)
        if not active[satellite]:
            return []
        near = active & (self._orbit_of_satellite == self._orbit_of_satellite[satellite])
        near &= self._assumed_isl
        crosslinks = self._crosslinks
        for node in np.unique(crosslinks[(crosslinks == satellite).any(axis=1)]).tolist():
            near[node] |= bool(self.linked(t, satellite, node))
        return [int(k) for k in np.flatnonzero(near) if k != satellite]

    def links(self, t: int, seconds: float) -> list[tuple[int, int]]:
        """Pairs of active satellites that have a link for so many seconds of slot t, in order."""
        begin_s, end_s = t * self.slot_s, (t + 1) * self.slot_s
        plan = self.routable.overlapping(begin_s, end_s)
        within_s = np.minimum(plan.end_s, end_s) - np.maximum(plan.begin_s, begin_s)
        found = (plan.second < self.satellites) & (within_s >= seconds)
        ends = np.column_stack((plan.first[found], plan.second[found]))
        pairs: list[list[int]] = np.unique(np.sort(ends, axis=1), axis=0).tolist()
        return [(a, b) for a, b in pairs]

    @cached_property
    def _crosslinks(self) -> NDArray[np.int32]:
        """Pairs of satellites `[pair, 2]` that the plan has contacts of."""
        plan = self._contacts
        isl = plan.second < self.satellites
        return np.unique(np.column_stack((plan.first[isl], plan.second[isl])), axis=0)

    def _is_lasting(self, a: int, b: int) -> bool:
        """Return whether a link depends on nothing but that its nodes are active."""
        if self.is_server(a) != self.is_server(b):
            return False
        if self.is_server(a):
            return self._group_of(a) == self._group_of(b)
        return a == b or (self._assumed_isl and self.orbit_of(a) == self.orbit_of(b))

    def _group_of(self, server: int) -> int:
        return self.server_groups[server - self.satellites]

    @cached_property
    def ground(self) -> list[int]:
        """Nodes of the servers that share the global model: the first, and those linked to it."""
        servers = range(self.satellites, self.satellites + self.servers)
        return [server for server in servers if self._group_of(server) == self.server_groups[0]]

    @cached_property
    def routable(self) -> ContactPlan:
        """The contacts, with the links that are assumed within orbits among them."""
        if not self._assumed_isl:
            return self._contacts
        by_orbit = self._orbit_of_satellite
        members = (np.flatnonzero(by_orbit == orbit) for orbit in np.unique(by_orbit))
        pairs = np.concatenate(
            [np.column_stack(np.triu_indices(len(own), 1)) + own[0] for own in members]
        )
        lasting = with_lasting_links(self._contacts, pairs)
        return lasting.restricted(self._activity, self.slot_s)

    def visits_ahead(self, t: int, slots: int | None) -> Flags:
        """Return in which slots from t on satellites are predicted to meet a server."""
        end = self.slots if slots is None else min(t + slots, self.slots)
        return np.asarray(self._predicted[t:end] & self._activity.during(t))

    @cached_property
    def _predicted(self) -> Flags:
        """Slots that a contact with any server overlaps, `[slot, satellite]`, by geometry alone."""
        plan = self._predicted_contacts
        flags = np.zeros((self.slots, self.satellites), dtype=np.bool_)
        begins_s = np.arange(self.slots + 1, dtype=np.float64) * self.slot_s
        first = np.searchsorted(begins_s, plan.begin_s, side="right") - 1
        end = np.searchsorted(begins_s, plan.end_s)
        for low, high, k in zip(first.tolist(), end.tolist(), plan.first.tolist(), strict=True):
            flags[low:high, k] = True
        return flags

    # --- In seconds -----------------------------------------------------------------------------

    def contacts(self, t: int, server: int | None = None) -> list[Contact]:
        """Contacts with a server, or with any, that overlap slot t, cut to it, by begin."""
        if server is not None:
            self.require_server(server)
        found = self._ground_contacts.during(t * self.slot_s, (t + 1) * self.slot_s)
        return [contact for contact in found if server is None or contact.server == server]

    def contact_s(self, t: int, a: int, b: int) -> float:
        """Seconds within slot t in which two nodes are in contact."""
        begins_s, ends_s = self._contacts.between(a, b)
        slot = t * self.slot_s, (t + 1) * self.slot_s
        return float((np.clip(ends_s, *slot) - np.clip(begins_s, *slot)).sum())

    def passes(self, t: int) -> list[Pass]:
        """Contacts with servers that overlap slot t, whole, by begin and satellite."""
        plan = self._ground_contacts.overlapping(t * self.slot_s, (t + 1) * self.slot_s)
        columns = (plan.first, plan.second, plan.begin_s, plan.end_s, plan.range_km)
        return [Pass(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def in_contact(self, t: int, a: int, b: int, begin_s: float, end_s: float) -> bool:
        """Return whether two nodes are in contact for all of a period that begins in slot t."""
        begins_s, ends_s = self._contacts.between(a, b)
        here = (begins_s <= begin_s) & (end_s <= ends_s + ROUNDING_S)
        return bool(here.any()) and t * self.slot_s <= begin_s < (t + 1) * self.slot_s

    def contacts_of(self, satellite: int) -> tuple[Floats, Floats]:
        """Begins and ends of all predicted contacts of a satellite with servers, by begin."""
        self.require_satellite(satellite)
        plan = self._predicted_contacts
        mine = plan.first == satellite
        return plan.begin_s[mine], plan.end_s[mine]

    def next_contact(self, t: int, satellite: int) -> Contact | None:
        """Predict the contact with a server that a satellite has in slot t, or next, if any.

        Cut to begin with the slot. By geometry alone: losses to come are not known.
        """
        self.require_satellite(satellite)
        plan, now_s = self._predicted_contacts, t * self.slot_s
        ahead = np.flatnonzero((plan.first == satellite) & (plan.end_s > now_s)).tolist()
        found = [(max(float(plan.begin_s[i]), now_s), int(plan.second[i]), i) for i in ahead]
        if not found:
            return None
        begin_s, server, i = min(found)
        return Contact(satellite, server, begin_s, float(plan.end_s[i]))

    def window(
        self, t: int, a: int, b: int, seconds: float, after_s: float | None = None
    ) -> Window | None:
        """Return the contact of two nodes in slot t, or the next, that is long enough.

        Seconds are counted from the slot's begin on, or from a later moment.
        """
        self.require_nodes(a, b)
        after_s = max(t * self.slot_s, t * self.slot_s if after_s is None else after_s)
        if not self._is_lasting(a, b):
            return self._contacts.window(a, b, after_s, seconds)
        linked = self.linked(np.arange(t, self.slots), a, b)
        changes = np.flatnonzero(np.diff(linked.astype(np.int8), prepend=0, append=0))
        for begin_s, end_s in ((t + changes) * self.slot_s).reshape(-1, 2).tolist():
            begin_s = max(begin_s, after_s)
            if begin_s < end_s and end_s - begin_s >= seconds:
                return Window(begin_s, end_s)
        return None
