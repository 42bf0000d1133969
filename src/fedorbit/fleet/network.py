"""Messages between nodes, over one link or several: their bytes and their time.

Everything that moves passes through here, so that bytes are counted in one place and a transfer
without a link cannot happen unnoticed: with `links = "causal"` or "physical" it raises `LinkError`;
with `links = "ideal"`, as the paper's algorithm assumes, it is counted apart as `unlinked_bytes`.

Where links have rates, a message takes seconds of the contact of its two nodes, in either
direction, and messages share them in the order in which they are sent. Links that are assumed
rather than planned take no time.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product
from typing import Any, Literal, NamedTuple

import numpy as np

from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet.channel import EXACT, Channel, carried, require_vector, size_bytes
from fedorbit.fleet.facts import Fact, plain
from fedorbit.fleet.keeping import Arrays, Keeper, Shelf
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER, Ledger
from fedorbit.fleet.superposition import Signal, Superposed, require_signal, superposed
from fedorbit.fleet.topology import ROUNDING_S, Topology
from fedorbit.hardware import transfer_s
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part, Span, span_of
from fedorbit.orbits.service import LinkRates
from fedorbit.randomness import generator

Links = Literal["ideal", "causal", "physical"]

ROUNDING = 1e-9
"""A message that fits but for rounding errors fits."""
BITS_PER_BYTE = 8
AIR = -1
"""Source of a signal that several satellites send at once."""


@dataclass(frozen=True, eq=False)
class Mail:
    """A message that has arrived, or is under way."""

    source: int
    target: int
    payload: Vector
    """The values that were sent: of the part, if one was. Not to be written to: several messages
    may share it."""
    sent: int
    """Slot in which it was sent."""
    arrival: int
    """First slot in which its target can read it."""
    about: dict[str, Fact]
    """Facts that the sender added, such as the version of a model."""
    size: int
    """Length of the vector that the payload is of, or a part of."""
    part: Part | None = None
    """The part of that vector; None if it is all of it."""
    arrival_s: float = 0.0
    """Moment before which it cannot have arrived: all contacts of its way have begun."""

    def into(self, vector: Vector) -> Vector:
        """Return a copy of a vector in which the part that was sent is replaced."""
        if vector.shape != (self.size,):
            raise ModelError(
                f"a message of {self.payload.size} of {self.size} values does not fit into an "
                f"array of shape {vector.shape}: it must be a vector of {self.size} values"
            )
        result = vector.copy()
        result[slice(None) if self.part is None else self.part] = self.payload
        return result


class Hop(NamedTuple):
    """One link of a message's way, and the slot in which it has passed over it."""

    source: int
    target: int
    slot: int
    linked: bool
    at_s: float
    """Moment at which the link has begun and its source has the message."""


@dataclass(frozen=True, eq=False)
class Transfer:
    """A message, and what it has still to pass over."""

    mail: Mail
    size_bytes: int
    hops: tuple[Hop, ...]


Taken = dict[tuple[int, int, int], float]
"""Seconds of contact that messages take: of two nodes, in a slot."""


class Network:
    """Messages between satellites and servers, and what is on its way."""

    def __init__(
        self,
        topology: Topology,
        *,
        links: Links,
        rates: LinkRates,
        isl_mbps: float | None = None,
        seed: int,
        ledger: Ledger,
    ) -> None:
        """`rates`: of links with the ground; `isl_mbps`: of contacts between satellites.

        `seed`: for channels.
        """
        self.topology, self.links, self.rates = topology, links, rates
        self._isl_mbps = isl_mbps
        self._seed, self._ledger = seed, ledger
        self._transfers: list[Transfer] = []
        self._taken: Taken = {}
        self._sent: Counter[tuple[int, int]] = Counter()
        """Messages of one slot by source and target, which numbers them for channels."""
        self._counted = -1
        """Slot whose messages `_sent` has."""
        self._keeper = Keeper()

    def require(self, linked: bool, what: str, remedy: str) -> None:
        """Refuse a transfer without a link, unless links are ideal."""
        if not linked and self.links != "ideal":
            raise LinkError(f'{what}; {remedy}, or set links = "ideal"')

    # --- Sending --------------------------------------------------------------------------------

    def send(
        self,
        t: int,
        source: int,
        target: int,
        vector: Vector,
        *,
        route: Sequence[int] = (),
        part: Part | None = None,
        announce: bool = False,
        channel: Channel = EXACT,
        wait: bool = False,
        about: Mapping[str, Any],
    ) -> int | None:
        """Send a vector in slot t; return the slot of its arrival, None if it never arrives."""
        nodes = tuple(map(int, (source, *route, target)))
        self._require_way(t, nodes, wait)
        require_vector(vector)
        facts = plain(about)
        span = span_of(part, vector.size)
        size = size_bytes(channel, span.count)
        if announce and isinstance(part, np.ndarray):
            size += -(-vector.size // BITS_PER_BYTE)
        where = _where(span, vector.size)
        values = vector if where is None else vector[where]
        arriving = carried(channel, values, self._rng(t, nodes[0], nodes[-1]))
        hops = self._hops(t, nodes, size, wait)
        if hops is None:
            return None
        payload, part = self._keeper.keep(arriving), self._kept_part(where)
        arrival, arrival_s = hops[-1].slot, hops[-1].at_s
        mail = Mail(nodes[0], nodes[-1], payload, t, arrival, facts, vector.size, part, arrival_s)
        self._transfers.append(self._moved(Transfer(mail, size, hops), t))
        return arrival

    def _kept_part(self, part: Part | None) -> Part | None:
        return self._keeper.keep(part) if isinstance(part, np.ndarray) else part

    def _require_way(self, t: int, nodes: Sequence[int], wait: bool) -> None:
        self.topology.require_nodes(*nodes)
        self.topology.require_active(t, nodes[0], "send")
        if not wait:
            for node in nodes[1:]:
                self.topology.require_active(t, node, "receive")

    def _rng(self, t: int, source: int, target: int) -> np.random.Generator:
        """Return the generator of this slot's next message of two nodes."""
        number = self._number(t, source, target)
        return generator(self._seed, "channel", t, source, target, number)

    def _number(self, t: int, source: int, target: int) -> int:
        """Count the messages of two nodes in slot t: return how many came before this one."""
        if self._counted != t:
            self._counted, self._sent = t, Counter()
        self._sent[source, target] += 1
        return self._sent[source, target] - 1

    # --- Sending at once --------------------------------------------------------------------------

    def superpose(
        self,
        t: int,
        server: int,
        signals: Mapping[int, Signal],
        *,
        at_s: float,
        seconds: float,
        mu: float,
        total: float,
    ) -> Superposed:
        """Transmit from satellites to a server at one moment; return the sum that it receives.

        All of them use the same band for the same time: bytes are those of one message, and each
        takes as many seconds of its contact.
        """
        self.topology.require_server(server)
        if not signals:
            raise ModelError("now.superpose needs the signal of one satellite at least, got none")
        linked, use = True, self._slots_of(at_s, seconds)
        for satellite, signal in signals.items():
            self.topology.require_satellite(satellite)
            self.topology.require_active(t, satellite, "transmit")
            require_signal(satellite, signal, next(iter(signals.values())))
            here = self.topology.in_contact(t, satellite, server, at_s, at_s + seconds)
            free = all(self._has_time(satellite, server, *each) for each in use.items())
            why = (
                "other messages take the time" if here else "they are not in contact all this time"
            )
            what = (
                f"satellite {satellite} cannot transmit to node {server} in round {t} from "
                f"{at_s:.3f} s on for {seconds:.3f} s: {why}"
            )
            self.require(here and free, what, "look for a moment in now.passes")
            linked &= here and free
        rng = generator(self._seed, "aircomp", t, server, *self._further(t, server))
        received = superposed(signals, mu, total, rng)
        for satellite, (slot, slot_s) in product(received.satellites, use.items()):
            key = (satellite, server, slot)
            self._taken[key] = self._taken.get(key, 0.0) + slot_s
        self._book_superposed(server, received, linked, at_s)
        return received

    def _book_superposed(
        self, server: int, received: Superposed, linked: bool, at_s: float
    ) -> None:
        """Count one message; orbits that send it together have equal shares of its bytes."""
        orbits = sorted({self.topology.group(satellite) for satellite in received.satellites})
        share, rest = divmod(BYTES_PER_PARAMETER * received.mean.size, len(orbits))
        for number, orbit in enumerate(orbits):
            ends = (orbit, self.topology.group(server))
            self._ledger.book("to_ground", ends, share + (number < rest), linked=linked)
        if linked:
            for satellite in received.satellites:
                self._ledger.hops.add((at_s, satellite, server))

    def _slots_of(self, at_s: float, seconds: float) -> dict[int, float]:
        """Return the slots of a period, and how many of its seconds are in each."""
        slot_s, end_s = self.topology.slot_s, at_s + seconds
        slots = range(int(at_s // slot_s), int(end_s // slot_s) + 1)
        shares = {t: min(end_s, (t + 1) * slot_s) - max(at_s, t * slot_s) for t in slots}
        return {t: share_s for t, share_s in shares.items() if share_s > 0.0}

    def _has_time(self, satellite: int, server: int, t: int, seconds: float) -> bool:
        """Return whether a contact has so many seconds in slot t that no message takes."""
        free_s = self.topology.contact_s(t, satellite, server)
        free_s -= self._taken.get((satellite, server, t), 0.0)
        return seconds <= free_s + ROUNDING_S

    def _further(self, t: int, server: int) -> tuple[int, ...]:
        """Return what distinguishes a slot's later superpositions at a server from the first."""
        number = self._number(t, AIR, server)
        return (number,) if number else ()

    # --- The way and its time -------------------------------------------------------------------

    def seconds(self, source: int, target: int, size: int) -> float:
        """Seconds that bytes take over a link: none between servers, or where links are assumed."""
        direction = self.topology.direction(source, target)
        if direction is None or source == target:
            return 0.0
        rates = self.rates
        mbps = {
            "to_ground": rates.to_ground_mbps,
            "from_ground": rates.from_ground_mbps,
            "isl": self._isl_mbps,
        }
        return transfer_s(size, mbps[direction])

    def _hops(self, t: int, nodes: Sequence[int], size: int, wait: bool) -> tuple[Hop, ...] | None:
        """Find the first slots in which a message can pass over each of its links."""
        taken, hops, slot, at_s = dict(self._taken), [], t, t * self.topology.slot_s
        for source, target in pairwise(nodes):
            found = self._passes(slot, source, target, size, wait, taken)
            if found is None:
                return None
            slot, linked = found
            at_s = max(at_s, self.topology.link_begin_s(slot, source, target))
            hops.append(Hop(source, target, slot, linked, at_s))
        self._taken = taken  # only now: a message that never arrives takes no time
        return tuple(hops)

    def _passes(
        self, t: int, source: int, target: int, size: int, wait: bool, taken: Taken
    ) -> tuple[int, bool] | None:
        """Pass over a link in slot t or, if the message waits, later; note the seconds taken.

        Returns the slot, and whether there is a link; None if the message never passes.
        """
        need_s = left_s = self.seconds(source, target, size)
        low, high = min(source, target), max(source, target)
        use: Taken = {}
        for slot in self.topology.linked_slots(
            t, self.topology.slots if wait else t + 1, low, high
        ):
            if need_s:
                key = (low, high, slot)
                free_s = self.topology.contact_s(slot, low, high) - taken.get(key, 0.0)
                use[key] = min(max(free_s, 0.0), left_s)
                left_s -= use[key]
            if left_s <= need_s * ROUNDING:
                for key, seconds in use.items():
                    taken[key] = taken.get(key, 0.0) + seconds
                return slot, self.topology.exists(source, target)
        if wait:
            return None
        why, remedy = "they have no link", "look for one with now.satellites_of, or send"
        if use:
            free_s = need_s - left_s
            why = f"the message needs {need_s:.1f} s, and the contact has {free_s:.1f} s left"
            remedy = "send"
        what = f"node {source} cannot send to node {target} in round {t}: {why}"
        self.require(False, what, f"{remedy} with wait=True")
        return t, False

    # --- Moving and receiving -------------------------------------------------------------------

    def begin(self, t: int) -> None:
        """Move the mail that has waited for slot t; nothing happens if it has moved."""
        self._transfers = [self._moved(transfer, t) for transfer in self._transfers]
        self._taken = {key: s for key, s in self._taken.items() if key[2] >= t}

    def _moved(self, transfer: Transfer, t: int) -> Transfer:
        """Book the links that a message has passed over by slot t."""
        passed = [hop for hop in transfer.hops if hop.slot <= t]
        for hop in passed:
            if (direction := self.topology.direction(hop.source, hop.target)) is not None:
                ends = self.topology.group(hop.source), self.topology.group(hop.target)
                passes = (hop.at_s, hop.source, hop.target)
                self._ledger.book(
                    direction, ends, transfer.size_bytes, linked=hop.linked, hop=passes
                )
        return replace(transfer, hops=transfer.hops[len(passed) :]) if passed else transfer

    def receive(self, t: int, node: int) -> list[Mail]:
        """Hand over what has arrived at a node, in the order of arrival; nothing while inactive."""
        self.topology.require_nodes(node)
        if not self.topology.active(t, node):
            return []

        def is_here(mail: Mail) -> bool:
            return mail.target == node and mail.arrival <= t

        arrived = [transfer.mail for transfer in self._transfers if is_here(transfer.mail)]
        self._transfers = [x for x in self._transfers if not is_here(x.mail)]
        return sorted(arrived, key=lambda mail: mail.arrival)  # stable: then as sent

    # --- Checkpoints ----------------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, Any], Arrays]:
        """Return what is under way for a checkpoint: plain values, and arrays by name."""
        shelf = Shelf("mail")
        letters = [
            {
                **vars(transfer.mail),
                "payload": shelf.put(transfer.mail.payload),
                "about": dict(transfer.mail.about),
                "part": _saved_part(transfer.mail.part, shelf),
                "size_bytes": transfer.size_bytes,
                "hops": [hop._asdict() for hop in transfer.hops],
            }
            for transfer in self._transfers
        ]
        names = ("first", "second", "slot", "seconds")
        taken = [dict(zip(names, (*k, s), strict=True)) for k, s in self._taken.items()]
        return {"mail": letters, **({"contact_s": taken} if taken else {})}, shelf.arrays

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Continue with what a checkpoint kept."""
        taken = values.get("contact_s", [])
        self._taken = {(x["first"], x["second"], x["slot"]): x["seconds"] for x in taken}
        self._counted, self._transfers = -1, []
        for letter in values["mail"]:
            payload = self._keeper.keep(arrays[letter["payload"]])
            part = self._restored_part(letter["part"], arrays)
            changes = {"payload": payload, "about": {**letter["about"]}, "part": part}
            fields = {**letter, **changes}
            size, hops = fields.pop("size_bytes"), fields.pop("hops")
            # Checkpoints of earlier versions have no second of a hop, which only records show.
            ways = (Hop(**{"at_s": hop["slot"] * self.topology.slot_s, **hop}) for hop in hops)
            self._transfers.append(Transfer(Mail(**fields), size, tuple(ways)))

    def _restored_part(self, part: str | list[int] | None, arrays: Arrays) -> Part | None:
        if isinstance(part, str):
            return self._kept_part(arrays[part])
        return None if part is None else slice(*part)


def _where(span: Span, size: int) -> Part | None:
    """Return where values of a vector lie; None if that is everywhere."""
    if span.mask is not None:
        return span.mask
    return None if span.count == size else slice(span.begin, span.end)


def _saved_part(part: Part | None, shelf: Shelf) -> str | list[int] | None:
    if isinstance(part, slice):
        return [part.start, part.stop]
    return None if part is None else shelf.put(part)
