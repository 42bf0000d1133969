"""Contact plans as JSON: the arrays of `ContactPlan`, as in a run's world file, exact to the bit.

In a world file the arrays can be in an NPY file of their own instead (`table`, `from_table`).
"""

import json
import math
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, NotRequired

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from fedorbit.documents import DocumentError, parse_json, require
from fedorbit.errors import PlanError
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.orbits.plan_files.rows import Nodes, Row

ROW = np.dtype(
    [("first", "<i4"), ("second", "<i4"), ("begin_s", "<f8"), ("end_s", "<f8"), ("kind", "u1"),
     ("range_km", "<f8")]
)  # fmt: skip

Count = Annotated[int, Ge(0)]
Node = Annotated[int, Ge(0), Lt(2**31)]


@with_config(ConfigDict(strict=True, allow_inf_nan=False))
class PlanColumns(TypedDict):
    """A contact plan as plain values; the arrays have one entry per contact."""

    format: Count
    satellites: Annotated[int, Gt(0)]
    servers: Annotated[int, Gt(0)]
    horizon_s: Annotated[float, Gt(0)]
    kinds: list[str]
    nodes: NotRequired[list[str]]
    """Names, for the reader's convenience."""
    count: Count
    first: list[Node] | None
    """First node of each contact; None, as the arrays below, if they are in another file."""
    second: list[Node] | None
    begin_s: list[float] | None
    end_s: list[float] | None
    kind: list[Annotated[int, Ge(0), Lt(len(KINDS))]] | None
    range_km: list[float | None] | None


def _sound(document: PlanColumns) -> PlanColumns:
    if document["format"] != 1:
        raise ValueError(f"format is {document['format']}, this version reads 1")
    if document["kinds"] != list(KINDS):
        raise ValueError(f"kinds must be {', '.join(KINDS)}, got {', '.join(document['kinds'])}")
    arrays = [document[name] for name in ROW.names or ()]  # type: ignore[literal-required]
    if document["first"] is None and not any(arrays):
        return document
    if any(array is None or len(array) != document["count"] for array in arrays):
        raise ValueError(f"an array does not have {document['count']} entries, the count")
    _require_sound(_columns(document), document["satellites"] + document["servers"])
    return document


PlanShape = Annotated[PlanColumns, AfterValidator(_sound)]
PLAN_FILE: TypeAdapter[Any] = TypeAdapter(PlanShape)
JSON_FILE: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


def parsed(path: Path, text: str) -> dict[str, Any]:
    """Return the document in a text; the format that it is of is not known yet."""
    try:
        document: dict[str, Any] = parse_json(text.encode(), JSON_FILE)
    except DocumentError as error:
        raise PlanError(f"{path} is not a contact plan in JSON ({error})") from None
    return document


def rows(path: Path, document: Mapping[str, Any], nodes: Nodes) -> Iterator[Row]:
    """Yield the contacts in a document."""
    try:
        require(document, PLAN_FILE)
        if document["first"] is None:
            raise DocumentError("its arrays are missing")
    except DocumentError as error:
        raise PlanError(f"{path} is not a contact plan in JSON ({error})") from None
    found = document["satellites"], document["servers"]
    if found != (nodes.satellites, nodes.servers):
        raise PlanError(
            f"{path} is a plan of {found[0]} satellites and {found[1]} servers, and the "
            f"configuration has {nodes.satellites} and {nodes.servers}; take the plan of this "
            "constellation"
        )
    plan = from_document(document)
    columns = (plan.first, plan.second, plan.begin_s, plan.end_s, plan.range_km)
    for number, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        yield Row(f"{path}, contact {number}", *row)


def text(plan: ContactPlan, nodes: Nodes) -> str:
    """Return a plan as JSON, with the names of the nodes."""
    return json.dumps({**as_document(plan), "nodes": list(nodes.names)}, allow_nan=False) + "\n"


def as_document(plan: ContactPlan, *, with_arrays: bool = True) -> dict[str, Any]:
    """Return a plan as plain values, exact to the bit; without arrays only what it is of."""
    columns: dict[str, Any] = dict.fromkeys(ROW.names or ())
    if with_arrays:
        columns = {name: getattr(plan, name).tolist() for name in columns}
        columns["range_km"] = [None if math.isnan(km) else km for km in columns["range_km"]]
    return {
        "format": 1,
        "satellites": plan.satellites,
        "servers": plan.servers,
        "horizon_s": plan.horizon_s,
        "kinds": list(KINDS),
        "count": len(plan),
        **columns,
    }


def from_document(document: Mapping[str, Any]) -> ContactPlan:
    """Return the plan in a document of the right shape."""
    return _of_rows(document, _columns(document))


def table(plan: ContactPlan) -> NDArray[Any]:
    """Return the contacts of a plan as rows of one array."""
    contacts = np.empty(len(plan), dtype=ROW)
    for name in ROW.names or ():
        contacts[name] = getattr(plan, name)
    return contacts


def from_table(document: Mapping[str, Any], content: bytes) -> ContactPlan:
    """Return the plan of a document whose arrays are in an NPY file, given that file's content."""
    file, count = BytesIO(content), document["count"]
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it is not an array of version 1.0")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    # Compared before anything is reserved for it: a header can announce any size.
    if shape != (count,) or dtype != ROW or len(content) - file.tell() != count * ROW.itemsize:
        raise ValueError(f"it does not hold {count} contacts")
    contacts = np.frombuffer(content, dtype=ROW, offset=file.tell())
    _require_sound(contacts, document["satellites"] + document["servers"])
    return _of_rows(document, contacts)


def _columns(document: Mapping[str, Any]) -> NDArray[Any]:
    contacts = np.empty(document["count"], dtype=ROW)
    for name in ROW.names or ():
        contacts[name] = [math.nan if value is None else value for value in document[name]]
    return contacts


def _require_sound(contacts: NDArray[Any], nodes: int) -> None:
    """Refuse contacts that no plan can have."""
    if not (contacts["first"] < contacts["second"]).all() or (contacts["first"] < 0).any():
        raise ValueError("first must be below second, and at least 0")
    if (contacts["second"] >= nodes).any():
        raise ValueError(f"second must be below {nodes}, the number of nodes")
    times_s = contacts["begin_s"], contacts["end_s"]
    if not (np.isfinite(times_s).all() and (times_s[0] < times_s[1]).all()):
        raise ValueError("begin_s must be below end_s, and both finite")
    if (contacts["kind"] >= len(KINDS)).any():
        raise ValueError(f"kind must be below {len(KINDS)}")


def _of_rows(document: Mapping[str, Any], contacts: NDArray[Any]) -> ContactPlan:
    columns = {name: np.ascontiguousarray(contacts[name]) for name in ROW.names or ()}
    return ContactPlan(
        document["satellites"], document["servers"], float(document["horizon_s"]), **columns
    )
