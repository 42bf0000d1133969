"""Contact plans of HDTN, as its router reads them: JSON with a list of contacts in one direction.

`{"contacts": [{"contact", "source", "dest", "startTime", "endTime", "rateBitsPerSec", "owlt"}]}`,
see https://github.com/nasa/HDTN, module/router. `owlt` is the one-way light time.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from fedorbit.documents import DocumentError, require
from fedorbit.errors import PlanError
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.plan_files.dtn import LIGHT_S, node_from_1, transfers, two_way
from fedorbit.orbits.plan_files.rows import Nodes, Row
from fedorbit.orbits.service import LinkRates

Count = Annotated[int, Ge(0)]


@with_config(ConfigDict(strict=True, allow_inf_nan=False))
class HdtnContact(TypedDict):
    """A contact of an HDTN plan; what is not named here is not read."""

    source: Count
    dest: Count
    startTime: float
    endTime: float


@with_config(ConfigDict(strict=True, allow_inf_nan=False))
class HdtnShape(TypedDict):
    """A contact plan of HDTN."""

    contacts: list[HdtnContact]


HDTN_FILE: TypeAdapter[Any] = TypeAdapter(HdtnShape)


def is_one(document: Mapping[str, Any]) -> bool:
    """Return whether a JSON document is a plan of HDTN, sound or not."""
    return "contacts" in document


def rows(path: Path, document: Mapping[str, Any], nodes: Nodes) -> Iterator[Row]:
    """Yield the contacts in a document, where they go both ways."""
    try:
        require(document, HDTN_FILE)
    except DocumentError as error:
        raise PlanError(f"{path} is not an HDTN contact plan ({error})") from None
    return two_way(_one_way(path, document["contacts"], nodes))


def _one_way(path: Path, contacts: Sequence[Mapping[str, Any]], nodes: Nodes) -> Iterator[Row]:
    for number, contact in enumerate(contacts):
        where = f"{path}, contacts.{number}"
        yield Row(
            where,
            node_from_1(where, str(contact["source"]), nodes),
            node_from_1(where, str(contact["dest"]), nodes),
            float(contact["startTime"]),
            float(contact["endTime"]),
        )


def text(plan: ContactPlan, rates: LinkRates) -> str:
    """Return a plan as HDTN reads it."""
    contacts = [
        {
            "contact": number,
            "source": t.source,
            "dest": t.dest,
            "startTime": t.begin_s,
            "endTime": t.end_s,
            "rateBitsPerSec": max(1, round(t.mbps * 1e6)),
            "owlt": LIGHT_S,
        }
        for number, t in enumerate(t for pair in transfers(plan, rates) for t in pair)
    ]
    return json.dumps({"contacts": contacts}, indent=1) + "\n"
