"""Contact plans of ION: the commands `a contact` and `a range` of ionrc(5).

`a contact START STOP FROM TO BYTES_PER_S`, `a range START STOP A B LIGHT_SECONDS`, see
https://github.com/nasa-jpl/ION-DTN, ici/doc/pod5/ionrc.pod. A time is `+SECONDS` or
`yyyy/mm/dd-hh:mm:ss`. Ranges are written, since ION uses no contact without one, and not read.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from fedorbit.errors import PlanError
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.plan_files.dtn import LIGHT_S, node_from_1, transfers, two_way
from fedorbit.orbits.plan_files.rows import Nodes, Row, finite_number, since_start
from fedorbit.orbits.service import LinkRates

MOMENT = "%Y/%m/%d-%H:%M:%S"


def is_one(text: str) -> bool:
    """Return whether a text has a command that adds a contact."""
    return re.search(r"^\s*a\s+contact\s", text, re.MULTILINE) is not None


def rows(path: Path, text: str, nodes: Nodes) -> Iterator[Row]:
    """Yield the contacts that ionadmin would make of the commands, where they go both ways."""
    return two_way(_one_way(path, text, nodes))


def _one_way(path: Path, text: str, nodes: Nodes) -> Iterator[Row]:
    for where, (start, stop, source, dest, *_) in _contacts(path, text):
        if start == "-1" or stop == "0":  # registration of a node; a hypothetical contact
            continue
        yield Row(
            where,
            node_from_1(where, source, nodes),
            node_from_1(where, dest, nodes),
            _time_s(where, start, nodes),
            _time_s(where, stop, nodes),
        )


def _contacts(path: Path, text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the arguments of each `a contact`, and where; refuse commands that change them."""
    for number, line in enumerate(text.splitlines(), 1):
        tokens, where = line.split(), f"{path}, line {number}"
        if tokens[:1] == ["@"] or tokens[:2] == ["d", "contact"]:
            raise PlanError(
                f"{where}: the command {' '.join(tokens[:2])[:40]!r} is not read; list each "
                "contact by itself, with times since the schedule's start"
            )
        if tokens[:2] != ["a", "contact"]:
            continue
        if len(tokens) < 7:
            raise PlanError(
                f"{where}: `a contact` needs a start, a stop, two nodes and a rate, "
                f"got {' '.join(tokens)[:80]!r}"
            )
        yield where, tokens[2:]


def _time_s(where: str, text: str, nodes: Nodes) -> float:
    if text.startswith("+"):
        return finite_number(where, "a time", text)
    try:
        moment = datetime.strptime(text, MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise PlanError(
            f"{where}: a time must be +SECONDS or yyyy/mm/dd-hh:mm:ss, got {text[:80]!r}"
        ) from None
    return since_start(where, "a time", moment, nodes)


def text(plan: ContactPlan, nodes: Nodes, rates: LinkRates) -> str:
    """Return a plan as commands of ionadmin, with the names of the nodes as comments."""
    names = (" ".join(name.split()) for name in nodes.names)  # a comment is one line
    lines = [
        "# Contact plan of fedorbit for ionadmin; times are seconds since the schedule's start.",
        f"# Nodes 1 to {nodes.satellites} are satellites, "
        f"{nodes.satellites + 1} to {len(nodes.names)} servers:",
        *(f"# {number} {name}" for number, name in enumerate(names, 1)),
    ]
    for pair in transfers(plan, rates):
        for t in pair:
            bytes_s = max(1, round(t.mbps * 1e6 / 8))
            lines.append(f"a contact +{t.begin_s} +{t.end_s} {t.source} {t.dest} {bytes_s}")
        t = pair[0]
        lines.append(f"a range +{t.begin_s} +{t.end_s} {t.source} {t.dest} {LIGHT_S}")
    return "\n".join(lines) + "\n"
