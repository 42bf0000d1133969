"""What moves between nodes: links, bytes by kind of link, and mail under way.

Nodes are numbers: satellites 0 to K - 1, then servers (ground stations and platforms). Everything
that moves passes through here, so that bytes are counted in one place and a transfer without a
link cannot happen unnoticed: with `links = "causal"` it raises `LinkError`; with `links = "ideal"`,
as the paper's algorithm assumes, it is counted apart as `unlinked_bytes`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet.facts import Fact, plain
from fedorbit.fleet.keeping import Arrays, Keeper, Shelf
from fedorbit.fleet.ledger import Ledger
from fedorbit.fleet.roster import Ints
from fedorbit.learning.parameters import Vector

Flags = NDArray[np.bool_]
Links = Literal["ideal", "causal"]


@dataclass(frozen=True, eq=False)
class Mail:
    """A message that has arrived, or is under way."""

    source: int
    target: int
    payload: Vector
    """Not to be written to: several messages may share it."""
    sent: int
    """Slot in which it was sent."""
    arrival: int
    """First slot in which its target can read it."""
    about: dict[str, Fact]
    """What the sender wrote on it, such as the version of a model."""
    moved: bool
    """Whether it has left its source, where it waits until the slot of its arrival."""


class Network:
    """Links between satellites and servers, slot by slot, and what is on its way over them."""

    def __init__(
        self,
        *,
        links: Links,
        slots: int,
        servers: int,
        in_contact: Callable[[], Flags],
        orbit_of_satellite: Ints,
        activity: Activity,
        ledger: Ledger,
    ) -> None:
        """`in_contact()` returns contacts `[slot, satellite, server]`; called when first needed."""
        self.links, self.slots, self.servers = links, slots, servers
        self.satellites = len(orbit_of_satellite)
        self._sample_contacts = in_contact
        self._orbit_of_satellite = orbit_of_satellite
        self._activity = activity
        self._ledger = ledger
        self._mail: list[Mail] = []
        self._keeper = Keeper()

    @cached_property
    def _in_contact(self) -> Flags:
        return self._sample_contacts()

    # --- Links ----------------------------------------------------------------------------------

    def is_server(self, node: int) -> bool:
        """Tell a server from a satellite."""
        return node >= self.satellites

    def satellites_of(self, t: int, server: int | None = None) -> list[int]:
        """Active satellites in contact with a server in slot t, or with any."""
        if server is not None:
            self.require_server(server)
        seen = self._in_contact[t] & self._activity.during(t)[:, None]
        column = seen.any(axis=1) if server is None else seen[:, self._place(server)]
        return [int(k) for k in np.flatnonzero(column)]

    def servers_of(self, t: int, satellite: int) -> list[int]:
        """Servers in contact with a satellite in slot t."""
        self.require_satellite(satellite)
        if not self._activity.active(t, satellite):
            return []
        return [self.satellites + int(s) for s in np.flatnonzero(self._in_contact[t, satellite])]

    def next_server(self, t: int, satellite: int) -> int | None:
        """Return the server that a satellite is in contact with first, from slot t on."""
        self.require_satellite(satellite)
        slots = np.arange(t, self.slots)
        active = self._activity.active(slots, satellite)
        contacts = np.argwhere(self._in_contact[t:, satellite] & active[:, None])
        return self.satellites + int(contacts[0, 1]) if len(contacts) else None

    def neighbours(self, t: int, satellite: int) -> list[int]:
        """Active satellites that have a link to this one in slot t."""
        self.require_satellite(satellite)
        active = self._activity.during(t)
        if not active[satellite]:
            return []
        near = active & (self._orbit_of_satellite == self._orbit_of_satellite[satellite])
        return [int(k) for k in np.flatnonzero(near) if k != satellite]

    def linked(self, slots: int | Ints, a: int, b: int) -> Flags:
        """Tell in which of the slots two nodes have a link.

        Satellites of one orbit always have one, as the paper assumes; servers, too, on the ground.
        """
        low, high = min(a, b), max(a, b)
        if self.is_server(low):
            return np.ones(np.shape(slots), dtype=np.bool_)
        active = self._activity.active(slots, low)
        if self.is_server(high):
            return np.asarray(active & self._in_contact[slots, low, self._place(high)])
        same_orbit = self._orbit_of_satellite[low] == self._orbit_of_satellite[high]
        return np.asarray(active & self._activity.active(slots, high) & same_orbit)

    def linked_from(self, t: int, a: int, b: int) -> Flags:
        """Tell in which slots from t on two nodes have a link."""
        self._require_nodes(a, b)
        return self.linked(np.arange(t, self.slots), a, b)

    def require(self, linked: bool, what: str, remedy: str) -> None:
        """Refuse a transfer without a link, unless links are ideal."""
        if not linked and self.links != "ideal":
            raise LinkError(f'{what}; {remedy}, or set links = "ideal"')

    def _place(self, server: int) -> int:
        return server - self.satellites

    # --- Mail -----------------------------------------------------------------------------------

    def send(
        self,
        t: int,
        source: int,
        target: int,
        payload: Vector,
        wait: bool,
        about: Mapping[str, Any],
    ) -> int | None:
        """Send a vector in slot t; return the slot of its arrival, None if it never arrives."""
        self._require_nodes(source, target)
        _require_vector(payload)
        self._require_active(t, source, "send")
        if not wait:
            self._require_active(t, target, "receive")
        arrival, linked = t, bool(self.linked(t, source, target))
        if wait and not linked:
            ahead = np.flatnonzero(self.linked_from(t, source, target))
            if not len(ahead):
                return None
            arrival, linked = t + int(ahead[0]), True
        self.require(
            linked,
            f"node {source} cannot send to node {target} in round {t}: they have no link",
            "look for one with now.satellites_of, or send with wait=True",
        )
        vector = self._keeper.keep(payload)
        mail = Mail(source, target, vector, t, arrival, plain(about), moved=arrival == t)
        self._mail.append(mail)
        if mail.moved:
            self._book(mail, linked)
        return arrival

    def begin(self, t: int) -> None:
        """Move the mail that has waited for slot t; nothing happens if it has moved."""
        for place, mail in enumerate(self._mail):
            if not mail.moved and mail.arrival <= t:
                self._mail[place] = replace(mail, moved=True)
                self._book(mail)

    def receive(self, t: int, node: int) -> list[Mail]:
        """Hand over what has arrived at a node, in the order of arrival; nothing while inactive."""
        self._require_nodes(node)
        if not self.is_server(node) and not self._activity.active(t, node):
            return []
        arrived = [mail for mail in self._mail if mail.target == node and mail.arrival <= t]
        self._mail = [m for m in self._mail if m.target != node or m.arrival > t]
        return sorted(arrived, key=lambda mail: mail.arrival)  # stable: then as sent

    def _book(self, mail: Mail, linked: bool = True) -> None:
        """Count what moves; between servers it does over the ground, which costs nothing."""
        to_server = self.is_server(mail.target)
        if not self.is_server(mail.source):
            self._ledger.book("to_ground" if to_server else "isl", mail.payload.size, linked)
        elif not to_server:
            self._ledger.book("from_ground", mail.payload.size, linked)

    # --- Checks ---------------------------------------------------------------------------------

    def require_satellite(self, node: int) -> None:
        """Refuse the number of something else."""
        if not 0 <= node < self.satellites:
            raise LinkError(f"there is no satellite {node}: {self._numbers()}")

    def require_server(self, node: int) -> None:
        """Refuse the number of something else."""
        if not self.satellites <= node < self.satellites + self.servers:
            raise LinkError(f"there is no server {node}: {self._numbers()}")

    def _require_nodes(self, *nodes: int) -> None:
        for node in nodes:
            if not 0 <= node < self.satellites + self.servers:
                raise LinkError(f"there is no node {node}: {self._numbers()}")

    def _numbers(self) -> str:
        first, last = self.satellites, self.satellites + self.servers - 1
        return f"satellites are 0 to {first - 1}, servers {first} to {last}"

    def _require_active(self, t: int, node: int, what: str) -> None:
        if not self.is_server(node) and not self._activity.active(t, node):
            raise LinkError(
                f"node {node} cannot {what} in round {t}: it is not active (see events); choose "
                "from now.satellites and now.servers only"
            )

    # --- Checkpoints ----------------------------------------------------------------------------

    def saved(self) -> tuple[list[dict[str, Any]], Arrays]:
        """Return the mail for a checkpoint: plain values, and arrays by name."""
        shelf = Shelf("mail")
        letters = [
            {**vars(mail), "payload": shelf.put(mail.payload), "about": dict(mail.about)}
            for mail in self._mail
        ]
        return letters, shelf.arrays

    def restore(self, letters: list[dict[str, Any]], arrays: Arrays) -> None:
        """Continue with the mail that a checkpoint kept."""
        self._mail = []
        for letter in letters:
            payload = self._keeper.keep(arrays[letter["payload"]])
            self._mail.append(Mail(**{**letter, "payload": payload, "about": {**letter["about"]}}))


def _require_vector(payload: NDArray[Any]) -> None:
    """Refuse what would not have four bytes per parameter."""
    if payload.ndim != 1 or payload.dtype != np.float32:
        raise ModelError(
            f"an array of {payload.dtype} of shape {payload.shape} cannot be sent: a message is "
            "one flat vector of float32; flatten it, or send several"
        )
