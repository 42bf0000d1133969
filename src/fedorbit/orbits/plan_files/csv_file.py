"""Contact plans as CSV: `node_a,node_b,begin_s,end_s` and, if known, `kind` and `range_km`.

Other columns are ignored. A node is a number as in `plan`, or the name of a satellite or station.
Instead of seconds a time may be a moment such as 2026-03-01T12:00:00Z, if the schedule has a start.
"""

import csv
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from io import StringIO
from pathlib import Path

from fedorbit.errors import PlanError, closest
from fedorbit.orbits.earth import as_utc
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.orbits.plan_files.rows import Nodes, Row, finite_number, since_start

COLUMNS = ("node_a", "node_b", "begin_s", "end_s", "kind", "range_km", "name_a", "name_b")
NEEDED = COLUMNS[:4]


def rows(path: Path, text: str, nodes: Nodes) -> Iterator[Row]:
    """Yield the contacts in a CSV text."""
    lines = csv.DictReader(StringIO(text), skipinitialspace=True)
    try:
        columns = [name.strip() for name in lines.fieldnames or ()]
        lines.fieldnames = columns
        if missing := [name for name in NEEDED if name not in columns]:
            raise PlanError(
                f"{path}: this is no contact plan: a CSV needs the columns {', '.join(NEEDED)}, "
                f"and {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
            )
        for line in lines:
            where = f"{path}, line {lines.line_num}"
            if None in line or None in line.values():
                raise PlanError(f"{where}: must have {len(columns)} values, as many as the header")
            yield _row(where, line, nodes)
    except csv.Error as error:  # in the line after the last that was read
        raise PlanError(f"{path}, line {lines.line_num + 1}: {error}") from None


def _row(where: str, line: Mapping[str, str], nodes: Nodes) -> Row:
    first, second = (_node(where, key, line[key], nodes) for key in ("node_a", "node_b"))
    begin_s, end_s = (_time_s(where, key, line[key], nodes) for key in ("begin_s", "end_s"))
    server = max(first, second) - nodes.satellites
    kind = KINDS[nodes.kinds[server]] if server >= 0 else "isl"
    given = line.get("kind", "").strip() or kind
    if given != kind:
        raise PlanError(
            f"{where}: kind must be {kind} between {nodes.names[first]} and {nodes.names[second]}, "
            f"got {given!r}; leave it out"
        )
    range_text = line.get("range_km", "").strip()
    range_km = finite_number(where, "range_km", range_text) if range_text else math.nan
    if range_km <= 0.0:
        raise PlanError(f"{where}: range_km must be above 0, got {range_km:g}; leave it out")
    return Row(where, first, second, begin_s, end_s, range_km)


def _node(where: str, key: str, text: str, nodes: Nodes) -> int:
    name = text.strip()
    if re.fullmatch("[0-9]{1,9}", name):
        if int(name) < len(nodes.names):
            return int(name)
        raise PlanError(
            f"{where}: {key} must be from 0 to {len(nodes.names) - 1} ({nodes.satellites} "
            f"satellites, then {nodes.servers} servers), or a name, got {name}"
        )
    numbers = nodes.numbers.get(name, [])
    if len(numbers) == 1:
        return numbers[0]
    if numbers:
        raise PlanError(
            f"{where}: {key} {name!r} is the name of {len(numbers)} nodes; give the number instead"
        )
    near = closest(name, nodes.numbers)
    hint = f" (did you mean {near!r}?)" if near else ""
    raise PlanError(f"{where}: {key} names no satellite or station, got {name[:80]!r}{hint}")


def _time_s(where: str, key: str, text: str, nodes: Nodes) -> float:
    """Return seconds since t = 0 of a number or of a moment, which needs a start."""
    try:
        float(text)
    except ValueError:
        if re.match("[0-9]{4}-", text.strip()):
            return since_start(where, key, _moment(where, key, text), nodes)
    return finite_number(where, key, text)


def _moment(where: str, key: str, text: str) -> datetime:
    try:
        return as_utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise PlanError(
            f"{where}: {key} must be seconds, or a moment such as 2026-03-01T12:00:00Z, "
            f"got {text.strip()[:80]!r}"
        ) from None


def text(plan: ContactPlan, nodes: Nodes) -> str:
    """Return a plan as CSV, exact to the bit."""
    written = StringIO()
    lines = csv.writer(written, lineterminator="\n")
    lines.writerow(COLUMNS)
    columns = (plan.first, plan.second, plan.begin_s, plan.end_s, plan.kind, plan.range_km)
    for a, b, begin_s, end_s, kind, range_km in zip(*(c.tolist() for c in columns), strict=True):
        known_km = "" if math.isnan(range_km) else range_km
        names = nodes.names[a], nodes.names[b]
        lines.writerow((a, b, begin_s, end_s, KINDS[kind], known_km, *names))
    return written.getvalue()
