"""Models that take the earliest route: from servers into orbits, along them, and back.

A satellite exchanges messages with a server in a contact of its own. Between satellites of an orbit
messages go over assumed links, or over contacts where none are assumed.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from fedorbit.fleet import Mail, Now
from fedorbit.learning.parameters import Vector


def in_view(now: Now) -> dict[int, int]:
    """Return satellites that a server can send a model to from this slot on, with that server.

    By the begin of their contacts. A contact without the time for a whole model does not count.
    """
    end_s, found = (now.t + 1) * now.fleet.round_s, dict[int, int]()
    for satellite, server, *_ in now.contacts():
        if satellite not in found:
            window = now.window(satellite, server, now.transfer_s(server, satellite))
            if window is not None and window.begin_s < end_s:
                found[satellite] = server
    return found


def forward(
    now: Now,
    source: int,
    target: int,
    vector: Vector,
    *,
    through_servers: bool = True,
    **about: Any,
) -> bool:
    """Send by the earliest route; return whether there is one.

    `through_servers`: false for what a server would not relay, because it can send it itself.
    """
    ways = now.ways(source)
    relays = ways.through(target)
    if not np.isfinite(ways.arrival_s[target]):
        return False
    if not through_servers and set(relays) & set(now.servers):
        return False
    return now.send(source, target, vector, route=relays, wait=True, **about) is not None


def to_servers(now: Now, satellite: int, vector: Vector, **about: Any) -> bool:
    """Send to the servers by the earliest route: in view, or by a satellite that will be."""
    return forward(now, satellite, now.servers[0], vector, **about)


def deliveries(now: Now) -> Iterator[Mail]:
    """Yield what arrives at satellites in this slot, with what is sent in answer to it."""
    while mails := [mail for satellite in now.satellites for mail in now.inbox(satellite)]:
        yield from mails


def arrivals(now: Now) -> Iterator[Mail]:
    """Yield what has arrived at servers."""
    for server in now.servers:
        yield from now.inbox(server)


def train_from(now: Now, mails: Sequence[Mail]) -> None:
    """Begin to train models where they have arrived, with what is noted on them."""
    now.begin(
        [now.job(mail.target, mail.payload) for mail in mails],
        about=[mail.about for mail in mails],
        after_s=[mail.arrival_s for mail in mails],
    )
