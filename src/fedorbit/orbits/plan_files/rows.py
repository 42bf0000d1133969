"""Common parts of the formats: nodes that a file may name, a contact as a row, and checks.

Every format yields rows; `plan_of_rows` checks them and makes the plan, so that a contact is judged
alike wherever it comes from. A sentence about a row begins with its place in the file.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import PlanError
from fedorbit.orbits.earth import as_utc
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import KINDS, ContactPlan, kinds_of_servers, merged


@dataclass(frozen=True)
class Nodes:
    """Context of a file: the nodes, the horizon, and the moment of t = 0."""

    satellite_names: tuple[str, ...]
    places: tuple[Place, ...]
    horizon_s: float
    start: datetime | None = None

    @property
    def satellites(self) -> int:
        """Number of satellites."""
        return len(self.satellite_names)

    @property
    def servers(self) -> int:
        """Number of servers."""
        return len(self.places)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of all nodes, by number."""
        return (*self.satellite_names, *(place.name for place in self.places))

    @cached_property
    def kinds(self) -> NDArray[np.uint8]:
        """Kinds of the servers' contacts."""
        return kinds_of_servers(self.places)

    @cached_property
    def numbers(self) -> dict[str, list[int]]:
        """Numbers of the nodes that have a name."""
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, name in enumerate(self.names):
            numbers[name].append(number)
        return numbers


class Row(NamedTuple):
    """A contact as a file has it, and where."""

    where: str
    first: int
    second: int
    begin_s: float
    end_s: float
    range_km: float = math.nan
    """NaN where it is not known."""


def plan_of_rows(path: Path, rows: Sequence[Row], nodes: Nodes) -> ContactPlan:
    """Check rows, and make a plan of them."""
    for row in rows:
        _require_contact(row, nodes)
    kept = [row for row in rows if row.begin_s < nodes.horizon_s and row.end_s > 0.0]
    if rows and not kept:
        raise PlanError(
            f"{path}: no contact lies between 0 and {nodes.horizon_s:g} s, the schedule's horizon; "
            "times are seconds since its start"
        )
    pairs = np.array([(r.first, r.second) for r in kept], dtype=np.int32).reshape(-1, 2)
    second = pairs.max(axis=1, initial=0)
    is_server = second >= nodes.satellites
    kinds = nodes.kinds[np.where(is_server, second - nodes.satellites, 0)]
    plan = ContactPlan(
        satellites=nodes.satellites,
        servers=nodes.servers,
        horizon_s=nodes.horizon_s,
        first=pairs.min(axis=1, initial=2**31 - 1),
        second=second,
        begin_s=np.maximum([r.begin_s for r in kept], 0.0),
        end_s=np.minimum([r.end_s for r in kept], nodes.horizon_s),
        kind=np.where(is_server, kinds, KINDS.index("isl")).astype(np.uint8),
        range_km=np.array([r.range_km for r in kept], dtype=np.float64),
    )
    return merged(plan)


def _require_contact(row: Row, nodes: Nodes) -> None:
    if row.first == row.second:
        raise PlanError(f"{row.where}: node {row.first} cannot have a contact with itself")
    if min(row.first, row.second) >= nodes.satellites:
        raise PlanError(
            f"{row.where}: {nodes.names[row.first]} and {nodes.names[row.second]} are both "
            "servers, and a contact needs a satellite; remove it"
        )
    if not row.begin_s < row.end_s:
        raise PlanError(
            f"{row.where}: a contact must end after it begins, got {row.begin_s:g} s to "
            f"{row.end_s:g} s"
        )


def finite_number(where: str, key: str, text: str) -> float:
    """Return the number in a text."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise PlanError(f"{where}: {key} must be a finite number, got {text.strip()[:80]!r}")
    return number


def since_start(where: str, key: str, moment: datetime, nodes: Nodes) -> float:
    """Return seconds from t = 0 to a moment."""
    if nodes.start is None:
        raise PlanError(
            f"{where}: {key} is a moment, {moment:%Y-%m-%d %H:%M:%S} UTC, and the schedule has no "
            "start; set schedule.start, or give seconds"
        )
    return (moment - as_utc(nodes.start)).total_seconds()
