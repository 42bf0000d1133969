"""Common parts of the plans of ION and HDTN: whole seconds, directions, nodes from 1.

A contact is written as the whole seconds that it covers entirely, and one of less than a second is
left out. Nodes are numbered from 1, so that node n here is n + 1 there. Contacts have a direction;
links here have none, since a model goes both ways, so a contact lasts while both directions are
listed.

Rates are not read: `link_rates` sets them. Ranges are not read either: both formats give a range as
the one-way light time in whole seconds, which is 0 or 1 for any satellite near the Earth and says
nothing about kilometres. So the ranges of such a plan are not known.
"""

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from fedorbit.errors import PlanError
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.orbits.plan_files.rows import Nodes, Row
from fedorbit.orbits.service import LinkRates

DEFAULT_MBPS = 1.0
"""Rate that is written for links without one: ION and HDTN have no infinitely fast links."""
LIGHT_S = 1
"""One-way light time that is written: any satellite near the Earth is less than a second away."""


def node_from_1(where: str, text: str, nodes: Nodes) -> int:
    """Return the number here of a node that is numbered from 1."""
    if re.fullmatch("[0-9]{1,9}", text) and 1 <= int(text) <= len(nodes.names):
        return int(text) - 1
    raise PlanError(
        f"{where}: a node must be from 1 to {len(nodes.names)} ({nodes.satellites} satellites, "
        f"then {nodes.servers} servers), got {text[:80]!r}"
    )


def two_way(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the times at which both directions of two nodes are listed."""
    listed: dict[tuple[int, int], list[Row]] = defaultdict(list)
    for row in rows:
        listed[row.first, row.second].append(row)
    for (source, dest), there in listed.items():
        back = listed.get((dest, source), [])
        if not back:
            raise PlanError(
                f"{there[0].where}: contacts from node {source + 1} to node {dest + 1} are listed, "
                "and none back; models go both ways, so list both directions"
            )
        if source < dest:
            yield from _common(there, back)


def _common(there: Sequence[Row], back: Sequence[Row]) -> Iterator[Row]:
    """Yield the intersections of the contacts of one direction with those of the other."""
    ahead = sorted(there, key=lambda row: row.begin_s)
    behind = sorted(back, key=lambda row: row.begin_s)
    i = j = 0
    while i < len(ahead) and j < len(behind):
        a, b = ahead[i], behind[j]
        if not (a.begin_s < a.end_s and b.begin_s < b.end_s):
            yield b if a.begin_s < a.end_s else a  # is refused with its place in the file
            return
        begin_s, end_s = max(a.begin_s, b.begin_s), min(a.end_s, b.end_s)
        if begin_s < end_s:
            yield a._replace(begin_s=begin_s, end_s=end_s)
        if a.end_s <= b.end_s:
            i += 1
        else:
            j += 1


class Transfer(NamedTuple):
    """A contact in one direction, in whole seconds, nodes numbered from 1."""

    source: int
    dest: int
    begin_s: int
    end_s: int
    mbps: float


def transfers(plan: ContactPlan, rates: LinkRates) -> Iterator[tuple[Transfer, Transfer]]:
    """Yield both directions of every contact that covers a whole second."""
    to_ground = rates.to_ground_mbps or DEFAULT_MBPS
    from_ground = rates.from_ground_mbps or DEFAULT_MBPS
    for i in range(len(plan)):
        begin_s, end_s = math.ceil(plan.begin_s[i]), math.floor(plan.end_s[i])
        if begin_s < end_s:
            a, b = int(plan.first[i]) + 1, int(plan.second[i]) + 1
            is_isl = KINDS[plan.kind[i]] == "isl"
            yield (
                Transfer(a, b, begin_s, end_s, DEFAULT_MBPS if is_isl else to_ground),
                Transfer(b, a, begin_s, end_s, DEFAULT_MBPS if is_isl else from_ground),
            )
