"""Models that go from satellites to satellites, without a server: steps of decentralised methods.

A *unit* is what has a model of its own: an orbit, or a satellite. What a unit sends arrives when
all satellites of the other unit have it; where satellites of an orbit always reach each other, that
is when the first of them has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedorbit.fleet import BYTES_PER_PARAMETER, Channel, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.steps import NEVER

Units = Mapping[int, Sequence[int]]
"""Active satellites of each unit."""


@dataclass(frozen=True)
class Rings(Channel):
    """Carries a vector as part of all-reduces around rings: two pieces of P/members in each."""

    members: int
    rings: int = 1

    def bytes(self, values: int) -> int:
        """Return the number of bytes of a member's values on their way to one other."""
        return BYTES_PER_PARAMETER * 2 * self.rings * -(-values // self.members)


def units_of(now: Now, unit: Literal["orbit", "satellite"]) -> dict[int, list[int]]:
    """Return the active units, each with its active satellites."""
    if unit == "satellite":
        return {k: [k] for k in now.satellites}
    return {orbit: now.orbits.satellites(orbit) for orbit in now.orbits.active}


def rows_of_orbits(orbit_of_unit: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the units of each orbit."""
    return [np.flatnonzero(orbit_of_unit == orbit) for orbit in range(int(orbit_of_unit[-1]) + 1)]


def spread(
    now: Now,
    unit: int,
    units: Units,
    vector: Vector,
    *,
    start_s: float | None = None,
    when: Literal["now", "later"] = "later",
    by_servers: bool = True,
    **message: Any,
) -> dict[int, int]:
    """Send a vector from a unit to others; return the first slots that begin with it there.

    With ideal links it arrives at once; otherwise by the earliest routes from a moment on, the
    slot's begin unless given; `NEVER` if not all satellites of a unit can have it. `when="now"`:
    only to units to which a route leaves in this slot, so that nothing becomes old while it waits
    for a first link; others are missing in what is returned. `message`: as `now.send` takes it.
    """
    others = {other: members for other, members in units.items() if other != unit}
    if now.fleet.links == "ideal":
        for members in others.values():
            now.send(units[unit][0], members[0], vector, unit=unit, last=1, **message)
        return dict.fromkeys(others, now.t)
    if not others:
        return {}
    slot_s = now.fleet.round_s
    ways = now.ways(units[unit], start_s, by_servers=by_servers)
    slots: dict[int, int] = {}
    always_linked = now.fleet.aggregations is None
    for other, members in others.items():
        found = [k for k in members if np.isfinite(ways.arrival_s[k])]
        found.sort(key=lambda k: (float(ways.arrival_s[k]), len(ways.through(k))))
        targets = found[:1] if always_linked else found
        departure_s = min((ways.departure_s(k) for k in targets), default=np.inf)
        if when == "now" and departure_s >= (now.t + 1) * slot_s:
            continue
        slots[other] = NEVER
        for k in targets:
            route, last = ways.through(k), int(k == targets[-1])
            about = {"route": route, "wait": True, "unit": unit, "last": last, **message}
            arrival = now.send(ways.source(k), k, vector, **about)
            is_whole = len(targets) == (1 if always_linked else len(members))
            if last and arrival is not None and is_whole:
                slots[other] = max(arrival, int(np.ceil(ways.arrival_s[k] / slot_s)))
    return slots


def collect(now: Now, members: Sequence[int]) -> dict[int, Mail]:
    """Take what has arrived at the satellites of a unit: the newest message of each other unit."""
    newest: dict[int, Mail] = {}
    for mail in (mail for k in members for mail in now.inbox(k)):
        unit = int(mail.about["unit"])
        if mail.about["last"] and (unit not in newest or newest[unit].sent <= mail.sent):
            newest[unit] = mail
    return dict(sorted(newest.items()))
