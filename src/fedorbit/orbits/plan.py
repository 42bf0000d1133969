"""The contact plan: which two nodes can exchange models, from when to when.

Nodes are numbers: satellites 0 to K-1 in the constellation's order, then servers (stations and
platforms) K to K+S-1 in the configuration's order. A contact covers its begin and no longer its
end, so that contacts which follow each other share no moment. It is computed once for a run, from
geometry or from a file (see `plan_files`); V[round, orbit], V[round, satellite, server], seconds of
contact and passes all derive from it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.orbits.contacts import Contacts
from fedorbit.orbits.crosslinks import Links
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.places import Place

Kind = Literal["ground", "platform", "isl"]
KINDS: tuple[Kind, ...] = ("ground", "platform", "isl")
"""Kinds of contacts: of a satellite and a server of that role, or of two satellites."""

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


class Window(NamedTuple):
    """Contacts of pairs of nodes, in seconds since the run's start."""

    begin_s: float
    """No earlier than was asked for."""
    end_s: float


class Contact(NamedTuple):
    """A contact of a satellite with a server, or the part of it that lies in a period."""

    satellite: int
    server: int
    """Number of its node."""
    begin_s: float
    end_s: float


class Pass(NamedTuple):
    """A whole contact of a satellite with a server, from rise to set."""

    satellite: int
    server: int
    """Number of its node."""
    begin_s: float
    end_s: float
    range_km: float
    """The shortest; NaN where it is not known."""


@dataclass(frozen=True, eq=False)
class ContactPlan:
    """One entry per contact, sorted by begin, first and second node."""

    satellites: int
    servers: int
    horizon_s: float
    first: NDArray[np.int32]
    """The node with the smaller number."""
    second: NDArray[np.int32]
    begin_s: Floats
    end_s: Floats
    kind: NDArray[np.uint8]
    """Index into `KINDS`."""
    range_km: Floats
    """Shortest of the contact; NaN where it is not known."""

    def __len__(self) -> int:
        return len(self.first)

    @property
    def duration_s(self) -> Floats:
        """Length of each contact."""
        return self.end_s - self.begin_s

    @cached_property
    def with_servers(self) -> "ContactPlan":
        """The contacts between a satellite and a server alone."""
        chosen = self.second >= self.satellites
        return self if chosen.all() else self._select(chosen)

    def of_servers(self, nodes: Sequence[int]) -> "ContactPlan":
        """Return the contacts with some of the servers, given as nodes."""
        chosen = np.isin(self.second, nodes)
        return self if chosen.all() else self._select(chosen)

    @cached_property
    def between_satellites(self) -> "ContactPlan":
        """The links between satellites alone."""
        return self._select(self.second < self.satellites)

    @property
    def server(self) -> NDArray[np.int32]:
        """The server of each contact, from 0; negative for a contact between satellites."""
        return self.second - np.int32(self.satellites)

    def visible(self, times_s: Floats) -> Flags:
        """V[time, satellite, server]; times in increasing order, such as begins of rounds."""
        plan = self.with_servers
        pair = plan.first.astype(np.int64) * self.servers + plan.server
        flags = plan._covered(times_s, pair, self.satellites * self.servers)
        return flags.reshape(len(times_s), self.satellites, self.servers)

    def satellites_in_view(self, times_s: Floats, satellites: Ints) -> Flags:
        """Return which satellites are in contact with any server, `[time, satellite]`."""
        column = np.full(self.satellites, -1)
        column[satellites] = np.arange(len(satellites))
        plan = self.with_servers
        plan = plan._select(column[plan.first] >= 0)
        return plan._covered(times_s, column[plan.first], len(satellites))

    def orbits_in_view(self, times_s: Floats, orbit_of_satellite: Ints) -> Flags:
        """V[time, orbit]: any satellite of the orbit is in contact with any server."""
        plan = self.with_servers
        orbits = int(orbit_of_satellite[-1]) + 1
        return plan._covered(times_s, orbit_of_satellite[plan.first], orbits)

    def _covered(self, times_s: Floats, group: NDArray[np.integer], groups: int) -> Flags:
        """Times that a contact of each group covers, `[time, group]`."""
        covered = np.zeros((len(times_s), groups), dtype=np.bool_)
        begin, end = np.searchsorted(times_s, (self.begin_s, self.end_s))
        held = np.flatnonzero(begin < end)
        rows = zip(begin[held].tolist(), end[held].tolist(), group[held].tolist(), strict=True)
        for low, high, column in rows:
            covered[low:high, column] = True
        return covered

    def passes(self, orbit_of_satellite: Ints, until_s: float) -> Ints:
        """Contacts with servers per orbit that begin before a moment."""
        plan = self.with_servers
        begun = plan.first[plan.begin_s < until_s]
        return np.bincount(orbit_of_satellite[begun], minlength=int(orbit_of_satellite[-1]) + 1)

    def during(self, begin_s: float, end_s: float) -> list[Contact]:
        """Return contacts with servers in a period, cut to it, by begin, satellite and server."""
        plan = self.with_servers
        begun = int(np.searchsorted(plan.begin_s, end_s))
        chosen = np.flatnonzero(plan.end_s[:begun] > begin_s)
        nodes = plan.first[chosen].tolist(), plan.second[chosen].tolist()
        begins = np.maximum(plan.begin_s[chosen], begin_s).tolist()
        ends = np.minimum(plan.end_s[chosen], end_s).tolist()
        found = map(Contact, *nodes, begins, ends)
        return sorted(found, key=lambda contact: (contact.begin_s, *contact))

    def overlapping(self, begin_s: float, end_s: float) -> "ContactPlan":
        """Return the contacts of which a part lies in a period, whole."""
        begun = int(np.searchsorted(self.begin_s, end_s))
        return self._select(np.flatnonzero(self.end_s[:begun] > begin_s))

    def between(self, a: int, b: int) -> tuple[Floats, Floats]:
        """Begins and ends of all contacts of two nodes, by time."""
        keys, order = self._by_pair
        key = min(a, b) * (self.satellites + self.servers) + max(a, b)
        mine = order[np.searchsorted(keys, key) : np.searchsorted(keys, key, side="right")]
        return self.begin_s[mine], self.end_s[mine]

    def window(self, a: int, b: int, after_s: float, seconds: float = 0.0) -> Window | None:
        """Return the contact of two nodes at a moment, or else the next; None if none is left.

        One that lasts for less than so many seconds from that moment on is passed over.
        """
        begins_s, ends_s = self.between(a, b)
        begins_s = np.maximum(begins_s, after_s)
        chosen = np.flatnonzero((ends_s > after_s) & (ends_s - begins_s >= seconds))
        if not len(chosen):
            return None
        return Window(float(begins_s[chosen[0]]), float(ends_s[chosen[0]]))

    @cached_property
    def _by_pair(self) -> tuple[Ints, Ints]:
        """Keys of the pairs in order, and the contacts in that order, each pair's by time."""
        keys = self.first.astype(np.int64) * (self.satellites + self.servers) + self.second
        order = np.argsort(keys, kind="stable")
        return keys[order], order

    def restricted(self, activity: Activity, round_s: float) -> "ContactPlan":
        """Return the contacts of active satellites; a contact is cut where one leaves or joins."""
        if activity.satellites.all():
            return self
        parts = list(self._active_parts(activity, round_s))
        rows = [np.concatenate(column) for column in zip(*parts, strict=True)]
        chosen, begin_s, end_s = rows
        return merged(replace(self._select(chosen), begin_s=begin_s, end_s=end_s))

    def _active_parts(
        self, activity: Activity, round_s: float
    ) -> Iterator[tuple[Ints, Floats, Floats]]:
        """Yield contacts cut at the ends of each segment between events."""
        servers = np.ones(self.servers, dtype=np.bool_)
        borders_s = np.append(activity.begins * round_s, np.inf)
        for segment, active in enumerate(activity.satellites):
            nodes = np.concatenate((active, servers))
            begin_s = np.maximum(self.begin_s, borders_s[segment])
            end_s = np.minimum(self.end_s, borders_s[segment + 1])
            chosen = np.flatnonzero((begin_s < end_s) & nodes[self.first] & nodes[self.second])
            yield chosen, begin_s[chosen], end_s[chosen]

    def _select(self, chosen: Flags | Ints) -> "ContactPlan":
        return replace(
            self,
            first=self.first[chosen],
            second=self.second[chosen],
            begin_s=self.begin_s[chosen],
            end_s=self.end_s[chosen],
            kind=self.kind[chosen],
            range_km=self.range_km[chosen],
        )


def plan_of(
    contacts: Contacts, satellites: int, places: Sequence[Place], horizon_s: float
) -> ContactPlan:
    """Return the plan of the contacts that geometry gives."""
    return ContactPlan(
        satellites=satellites,
        servers=len(places),
        horizon_s=horizon_s,
        first=contacts.satellite.astype(np.int32),
        second=(satellites + contacts.station).astype(np.int32),
        begin_s=contacts.rise_s,
        end_s=contacts.set_s,
        kind=kinds_of_servers(places)[contacts.station],
        range_km=contacts.range_km,
    )


def plan_of_slots(in_contact: Flags, slot_s: float) -> ContactPlan:
    """Return the plan of contacts that fill whole slots, of `in_contact[slot, satellite, server]`.

    Without geometry, such as in tests: servers are on the ground, and ranges are not known.
    """
    slots, satellites, servers = in_contact.shape
    held = np.zeros((slots + 2, satellites, servers), dtype=np.int8)
    held[1:-1] = in_contact
    change = np.diff(held, axis=0).transpose(1, 2, 0)
    satellite, server, begin = np.nonzero(change == 1)
    end = np.nonzero(change == -1)[2]
    plan = ContactPlan(
        satellites=satellites,
        servers=servers,
        horizon_s=slots * slot_s,
        first=satellite.astype(np.int32),
        second=(satellites + server).astype(np.int32),
        begin_s=begin.astype(np.float64) * slot_s,
        end_s=end.astype(np.float64) * slot_s,
        kind=np.full(len(begin), KINDS.index("ground"), dtype=np.uint8),
        range_km=np.full(len(begin), np.nan),
    )
    return plan._select(np.lexsort((plan.second, plan.first, plan.begin_s)))


def with_links(plan: ContactPlan, links: Links) -> ContactPlan:
    """Return a plan with the links that geometry gives between satellites as further contacts."""
    kind = np.full(len(links), KINDS.index("isl"), dtype=np.uint8)
    joined = replace(
        plan,
        first=np.concatenate((plan.first, links.first)),
        second=np.concatenate((plan.second, links.second)),
        begin_s=np.concatenate((plan.begin_s, links.begin_s)),
        end_s=np.concatenate((plan.end_s, links.end_s)),
        kind=np.concatenate((plan.kind, kind)),
        range_km=np.concatenate((plan.range_km, links.range_km)),
    )
    return merged(joined)


def with_lasting_links(plan: ContactPlan, pairs: NDArray[np.integer]) -> ContactPlan:
    """Return a plan in which pairs of satellites `[pair, 2]` have a link all the time."""
    first, second = np.sort(pairs, axis=1).astype(np.int32).T
    always = np.ones(len(pairs), dtype=np.bool_)
    return with_links(
        plan,
        Links(
            first=first,
            second=second,
            begin_s=np.zeros(len(pairs)),
            end_s=np.full(len(pairs), plan.horizon_s),
            range_km=np.full(len(pairs), np.nan),
            cut_at_start=always,
            cut_at_end=always,
        ),
    )


def kinds_of_servers(places: Sequence[Place]) -> NDArray[np.uint8]:
    """Return the kind of every server's contacts, as an index into `KINDS`."""
    return np.array([KINDS.index(place.role) for place in places], dtype=np.uint8)


def merged(plan: ContactPlan) -> ContactPlan:
    """Sort a plan, and join contacts of the same nodes that overlap or follow without a gap."""
    plan = plan._select(np.lexsort((plan.begin_s, plan.second, plan.first)))
    columns = (plan.first, plan.second, plan.begin_s, plan.end_s, plan.range_km)
    first, second, begin_s, end_s, range_km = (column.tolist() for column in columns)
    kept: list[int] = []
    for i in range(len(plan)):
        last = kept[-1] if kept else -1
        same = kept and (first[i], second[i]) == (first[last], second[last])
        if same and begin_s[i] <= end_s[last]:
            end_s[last] = max(end_s[last], end_s[i])
            range_km[last] = float(np.fmin(range_km[last], range_km[i]))
        else:
            kept.append(i)
    joined = replace(
        plan,
        end_s=np.array(end_s, dtype=np.float64),
        range_km=np.array(range_km, dtype=np.float64),
    )._select(np.array(kept, dtype=np.int64))
    return joined._select(np.lexsort((joined.second, joined.first, joined.begin_s)))
