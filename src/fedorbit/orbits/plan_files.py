"""Contact plans as files: CSV and JSON of our own, and the plans that ION and HDTN read.

A file's format is recognised by its content, and chosen by the extension when one is written. All
times are seconds since t = 0 of the schedule.

- CSV: `node_a,node_b,begin_s,end_s` and, if known, `kind` and `range_km`; other columns are
  ignored. A node is a number as in `plan`, or the name of a satellite or station. Instead of
  seconds a time may be a moment such as 2026-03-01T12:00:00Z, if the schedule has a start.
- JSON: the arrays of `ContactPlan`, as in a run's world file.
- ION: the commands `a contact START STOP FROM TO BYTES_PER_S` and `a range START STOP A B
  LIGHT_SECONDS` of ionrc(5), https://github.com/nasa-jpl/ION-DTN, ici/doc/pod5/ionrc.pod. A time
  is `+SECONDS` or `yyyy/mm/dd-hh:mm:ss`.
- HDTN: `{"contacts": [{"contact", "source", "dest", "startTime", "endTime", "rateBitsPerSec",
  "owlt"}]}`, as its router reads it, https://github.com/nasa/HDTN, module/router.

CSV and JSON are read back to the same bits. ION and HDTN know whole seconds: a contact is written
as those that it covers entirely, and one of less than a second is left out. They number nodes from
1, so that node n here is n + 1 there. Their contacts have a direction; links here have none, since
a model goes both ways, so a contact lasts while both directions are listed. Rates are not read:
`link_rates` sets them. A range is the one-way light time (`owlt`) times the speed of light.
"""

import csv
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from io import BytesIO, StringIO
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NotRequired

import numpy as np
from annotated_types import Ge, Gt, Lt
from numpy.typing import NDArray
from pydantic import AfterValidator, ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from fedorbit.documents import DocumentError, parse_json, require
from fedorbit.errors import PlanError, closest
from fedorbit.files import replacing
from fedorbit.inputs import read_regular
from fedorbit.orbits.earth import as_utc
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import KINDS, ContactPlan, kinds_of_servers, merged
from fedorbit.orbits.service import LinkRates

MOST_BYTES = 1 << 28
"""Size of the largest file that is read: 256 MiB hold 3 million contacts as CSV."""
LIGHT_KM_S = 299_792.458
DEFAULT_MBPS = 1.0
"""Rate that is written for links without one: ION and HDTN have no infinitely fast links."""
CSV_COLUMNS = ("node_a", "node_b", "begin_s", "end_s", "kind", "range_km", "name_a", "name_b")
NEEDED = CSV_COLUMNS[:4]
SUFFIXES = ".csv, .json, .hdtn.json for HDTN, or .ion, .rc or .txt for ION"
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
    """None where the arrays are in a file of their own."""
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


@with_config(ConfigDict(strict=True, allow_inf_nan=False))
class HdtnContact(TypedDict):
    """A contact of an HDTN plan; what is not named here is not read."""

    source: Count
    dest: Count
    startTime: float
    endTime: float
    owlt: NotRequired[float]


@with_config(ConfigDict(strict=True, allow_inf_nan=False))
class HdtnShape(TypedDict):
    """A contact plan of HDTN."""

    contacts: list[HdtnContact]


HDTN_FILE: TypeAdapter[Any] = TypeAdapter(HdtnShape)
JSON_FILE: TypeAdapter[Any] = TypeAdapter(dict[str, Any])


@dataclass(frozen=True)
class Nodes:
    """What a file may speak of: the nodes, the horizon, and the moment of t = 0."""

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


class _Row(NamedTuple):
    """A contact as a file has it, and where."""

    where: str
    first: int
    second: int
    begin_s: float
    end_s: float
    range_km: float = math.nan


# Reading


def read_plan(path: Path, nodes: Nodes) -> ContactPlan:
    """Read a contact plan; contacts are cut at the horizon, and those that overlap are joined."""
    try:
        content = read_regular(path, MOST_BYTES)
        text = content.decode("utf-8-sig")
    except FileNotFoundError:
        raise PlanError(
            f"contact plan {path} does not exist; set schedule.plan to a file, or leave it out for "
            "the contacts that geometry gives"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not UTF-8: {error}"
        raise PlanError(f"cannot read contact plan {path}: {reason}") from None
    if text.lstrip().startswith("{"):
        rows = _json_rows(path, text, nodes)
    elif re.search(r"^\s*a\s+contact\s", text, re.MULTILINE):
        rows = _two_way(path, _ion_rows(path, text, nodes), _ion_ranges(path, text, nodes))
    else:
        rows = _csv_rows(path, text, nodes)
    return _plan(path, list(rows), nodes)


def _plan(path: Path, rows: Sequence[_Row], nodes: Nodes) -> ContactPlan:
    """Check rows, and make a plan of them."""
    for row in rows:
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


def _csv_rows(path: Path, text: str, nodes: Nodes) -> Iterator[_Row]:
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
            yield _csv_row(where, line, nodes)
    except csv.Error as error:  # in the line after the last that was read
        raise PlanError(f"{path}, line {lines.line_num + 1}: {error}") from None


def _csv_row(where: str, line: Mapping[str, str], nodes: Nodes) -> _Row:
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
    range_km = _number(where, "range_km", range_text) if range_text else math.nan
    if range_km <= 0.0:
        raise PlanError(f"{where}: range_km must be above 0, got {range_km:g}; leave it out")
    return _Row(where, first, second, begin_s, end_s, range_km)


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


def _number(where: str, key: str, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise PlanError(f"{where}: {key} must be a finite number, got {text.strip()[:80]!r}")
    return number


def _time_s(where: str, key: str, text: str, nodes: Nodes) -> float:
    """Return seconds since t = 0 of a number or of a moment, which needs a start."""
    try:
        float(text)
    except ValueError:
        if re.match("[0-9]{4}-", text.strip()):
            return _since_start(where, key, _moment(where, key, text), nodes)
    return _number(where, key, text)


def _moment(where: str, key: str, text: str) -> datetime:
    try:
        return as_utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        raise PlanError(
            f"{where}: {key} must be seconds, or a moment such as 2026-03-01T12:00:00Z, "
            f"got {text.strip()[:80]!r}"
        ) from None


def _since_start(where: str, key: str, moment: datetime, nodes: Nodes) -> float:
    if nodes.start is None:
        raise PlanError(
            f"{where}: {key} is a moment, {moment:%Y-%m-%d %H:%M:%S} UTC, and the schedule has no "
            "start; set schedule.start, or give seconds"
        )
    return (moment - as_utc(nodes.start)).total_seconds()


def _json_rows(path: Path, text: str, nodes: Nodes) -> Iterable[_Row]:
    kind, is_hdtn = "a contact plan in JSON", False
    try:
        document = parse_json(text.encode(), JSON_FILE)
        if is_hdtn := "contacts" in document:
            kind = "an HDTN contact plan"
        require(document, HDTN_FILE if is_hdtn else PLAN_FILE)
        if not is_hdtn and document["first"] is None:
            raise DocumentError("its arrays are missing")
    except DocumentError as error:
        raise PlanError(f"{path} is not {kind} ({error})") from None
    if is_hdtn:
        return _two_way(path, _hdtn_rows(path, document["contacts"], nodes), {})
    found = document["satellites"], document["servers"]
    if found != (nodes.satellites, nodes.servers):
        raise PlanError(
            f"{path} is a plan of {found[0]} satellites and {found[1]} servers, and the "
            f"configuration has {nodes.satellites} and {nodes.servers}; take the plan of this "
            "constellation"
        )
    return _our_rows(path, from_document(document))


def _our_rows(path: Path, plan: ContactPlan) -> Iterator[_Row]:
    columns = (plan.first, plan.second, plan.begin_s, plan.end_s, plan.range_km)
    for number, row in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        yield _Row(f"{path}, contact {number}", *row)


def _hdtn_rows(path: Path, contacts: Sequence[Mapping[str, Any]], nodes: Nodes) -> Iterator[_Row]:
    for number, contact in enumerate(contacts):
        where = f"{path}, contacts.{number}"
        yield _Row(
            where,
            _numbered_from_1(where, str(contact["source"]), nodes),
            _numbered_from_1(where, str(contact["dest"]), nodes),
            float(contact["startTime"]),
            float(contact["endTime"]),
            _range_km(where, contact["owlt"]) if "owlt" in contact else math.nan,
        )


ION_MOMENT = "%Y/%m/%d-%H:%M:%S"


def _ion_commands(path: Path, text: str, what: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the arguments of `a contact` or `a range`, and where; refuse what would change them."""
    for number, line in enumerate(text.splitlines(), 1):
        tokens, where = line.split(), f"{path}, line {number}"
        if tokens[:1] == ["@"] or (tokens[:1] == ["d"] and tokens[1:2] in (["contact"], ["range"])):
            raise PlanError(
                f"{where}: the command {' '.join(tokens[:2])[:40]!r} is not read; list each "
                "contact by itself, with times since the schedule's start"
            )
        if tokens[:2] != ["a", what]:
            continue
        if len(tokens) < 7:
            raise PlanError(
                f"{where}: `a {what}` needs a start, a stop, two nodes and a "
                f"{'rate' if what == 'contact' else 'distance'}, got {' '.join(tokens)[:80]!r}"
            )
        yield where, tokens[2:]


def _ion_rows(path: Path, text: str, nodes: Nodes) -> Iterator[_Row]:
    for where, (start, stop, source, dest, *_) in _ion_commands(path, text, "contact"):
        if start == "-1" or stop == "0":  # registration of a node; a hypothetical contact
            continue
        yield _Row(
            where,
            _numbered_from_1(where, source, nodes),
            _numbered_from_1(where, dest, nodes),
            _ion_time_s(where, start, nodes),
            _ion_time_s(where, stop, nodes),
        )


def _ion_ranges(path: Path, text: str, nodes: Nodes) -> dict[tuple[int, int], list[_Row]]:
    """Return ranges by pair; that of one direction counts for both."""
    ranges: dict[tuple[int, int], list[_Row]] = defaultdict(list)
    for where, (start, stop, a, b, distance, *_) in _ion_commands(path, text, "range"):
        first, second = sorted(_numbered_from_1(where, node, nodes) for node in (a, b))
        begin_s, end_s = (_ion_time_s(where, time, nodes) for time in (start, stop))
        range_km = _range_km(where, _number(where, "the distance", distance))
        ranges[first, second].append(_Row(where, first, second, begin_s, end_s, range_km))
    return ranges


def _ion_time_s(where: str, text: str, nodes: Nodes) -> float:
    if text.startswith("+"):
        return _number(where, "a time", text)
    try:
        moment = datetime.strptime(text, ION_MOMENT).replace(tzinfo=UTC)
    except ValueError:
        raise PlanError(
            f"{where}: a time must be +SECONDS or yyyy/mm/dd-hh:mm:ss, got {text[:80]!r}"
        ) from None
    return _since_start(where, "a time", moment, nodes)


def _numbered_from_1(where: str, text: str, nodes: Nodes) -> int:
    if re.fullmatch("[0-9]{1,9}", text) and 1 <= int(text) <= len(nodes.names):
        return int(text) - 1
    raise PlanError(
        f"{where}: a node must be from 1 to {len(nodes.names)} ({nodes.satellites} satellites, "
        f"then {nodes.servers} servers), got {text[:80]!r}"
    )


def _range_km(where: str, light_s: float) -> float:
    if light_s < 0.0:
        raise PlanError(f"{where}: a light time must be at least 0 s, got {light_s:g}")
    return light_s * LIGHT_KM_S if light_s > 0.0 else math.nan


def _two_way(
    path: Path, rows: Iterable[_Row], ranges: Mapping[tuple[int, int], Sequence[_Row]]
) -> Iterator[_Row]:
    """Yield the times at which both directions of two nodes are listed."""
    listed: dict[tuple[int, int], list[_Row]] = defaultdict(list)
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
            for row in _common(there, back):
                near = [r for r in ranges.get((source, dest), ()) if _overlap(r, row)]
                km = [row.range_km, *(r.range_km for r in near)]
                yield row._replace(range_km=float(np.fmin.reduce(km)))


def _overlap(a: _Row, b: _Row) -> bool:
    return a.begin_s < b.end_s and b.begin_s < a.end_s


def _common(there: Sequence[_Row], back: Sequence[_Row]) -> Iterator[_Row]:
    """Yield the intersections of the contacts of one direction with those of the other."""
    ahead = sorted(there, key=lambda row: row.begin_s)
    behind = sorted(back, key=lambda row: row.begin_s)
    i = j = 0
    while i < len(ahead) and j < len(behind):
        a, b = ahead[i], behind[j]
        if not (a.begin_s < a.end_s and b.begin_s < b.end_s):
            wrong = b if a.begin_s < a.end_s else a
            yield wrong  # is refused with its place in the file
            return
        if _overlap(a, b):
            yield a._replace(
                begin_s=max(a.begin_s, b.begin_s),
                end_s=min(a.end_s, b.end_s),
                range_km=float(np.fmin(a.range_km, b.range_km)),
            )
        if a.end_s <= b.end_s:
            i += 1
        else:
            j += 1


# Writing


def write_plan(path: Path, plan: ContactPlan, nodes: Nodes, rates: LinkRates) -> Path:
    """Write a plan in the format that the file's extension stands for."""
    name = path.name.lower()
    if name.endswith(".hdtn.json"):
        text = _hdtn_text(plan, rates)
    elif name.endswith(".json"):
        text = json.dumps({**as_document(plan), "nodes": list(nodes.names)}, allow_nan=False) + "\n"
    elif name.endswith(".csv"):
        text = _csv_text(plan, nodes)
    elif name.endswith((".ion", ".rc", ".txt")):
        text = _ion_text(plan, nodes, rates)
    else:
        raise PlanError(f"a contact plan is written as {SUFFIXES}, got {str(path)!r}")
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path


def _csv_text(plan: ContactPlan, nodes: Nodes) -> str:
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(CSV_COLUMNS)
    columns = (plan.first, plan.second, plan.begin_s, plan.end_s, plan.kind, plan.range_km)
    for a, b, begin_s, end_s, kind, range_km in zip(*(c.tolist() for c in columns), strict=True):
        known_km = "" if math.isnan(range_km) else range_km
        names = nodes.names[a], nodes.names[b]
        lines.writerow((a, b, begin_s, end_s, KINDS[kind], known_km, *names))
    return text.getvalue()


class _Transfer(NamedTuple):
    """A contact in one direction, in whole seconds, nodes numbered from 1."""

    source: int
    dest: int
    begin_s: int
    end_s: int
    mbps: float


def _transfers(plan: ContactPlan, rates: LinkRates) -> Iterator[tuple[_Transfer, _Transfer]]:
    """Yield both directions of every contact that covers a whole second."""
    down = rates.gs_uplink_mbps or DEFAULT_MBPS
    up = rates.gs_downlink_mbps or DEFAULT_MBPS
    for i in range(len(plan)):
        begin_s, end_s = math.ceil(plan.begin_s[i]), math.floor(plan.end_s[i])
        if begin_s < end_s:
            a, b = int(plan.first[i]) + 1, int(plan.second[i]) + 1
            is_isl = KINDS[plan.kind[i]] == "isl"
            yield (
                _Transfer(a, b, begin_s, end_s, DEFAULT_MBPS if is_isl else down),
                _Transfer(b, a, begin_s, end_s, DEFAULT_MBPS if is_isl else up),
            )


def _ion_text(plan: ContactPlan, nodes: Nodes, rates: LinkRates) -> str:
    lines = [
        "# Contact plan of fedorbit for ionadmin; times are seconds since the schedule's start.",
        f"# Nodes 1 to {nodes.satellites} are satellites, "
        f"{nodes.satellites + 1} to {len(nodes.names)} servers:",
        *(f"# {number} {name}" for number, name in enumerate(_one_line(nodes.names), 1)),
    ]
    for pair in _transfers(plan, rates):
        for t in pair:
            bytes_s = max(1, round(t.mbps * 1e6 / 8))
            lines.append(f"a contact +{t.begin_s} +{t.end_s} {t.source} {t.dest} {bytes_s}")
        t = pair[0]
        # Whole light seconds: any satellite of the Earth is less than one away.
        lines.append(f"a range +{t.begin_s} +{t.end_s} {t.source} {t.dest} 1")
    return "\n".join(lines) + "\n"


def _one_line(names: Iterable[str]) -> Iterator[str]:
    return (" ".join(name.split()) for name in names)


def _hdtn_text(plan: ContactPlan, rates: LinkRates) -> str:
    transfers = [t for pair in _transfers(plan, rates) for t in pair]
    contacts = [
        {
            "contact": number,
            "source": t.source,
            "dest": t.dest,
            "startTime": t.begin_s,
            "endTime": t.end_s,
            "rateBitsPerSec": max(1, round(t.mbps * 1e6)),
            "owlt": 1,  # whole seconds, as in ION
        }
        for number, t in enumerate(transfers)
    ]
    return json.dumps({"contacts": contacts}, indent=1) + "\n"


# Arrays in documents and in a file of their own


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
    rows = np.empty(len(plan), dtype=ROW)
    for name in ROW.names or ():
        rows[name] = getattr(plan, name)
    return rows


def from_table(document: Mapping[str, Any], content: bytes) -> ContactPlan:
    """Return the plan of a document whose arrays are in an NPY file, given that file's content."""
    file, count = BytesIO(content), document["count"]
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("it is not an array of version 1.0")
    shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    # Compared before anything is reserved for it: a header can announce any size.
    if shape != (count,) or dtype != ROW or len(content) - file.tell() != count * ROW.itemsize:
        raise ValueError(f"it does not hold {count} contacts")
    rows = np.frombuffer(content, dtype=ROW, offset=file.tell())
    _require_sound(rows, document["satellites"] + document["servers"])
    return _of_rows(document, rows)


def _columns(document: Mapping[str, Any]) -> NDArray[Any]:
    rows = np.empty(document["count"], dtype=ROW)
    for name in ROW.names or ():
        column = document[name]
        rows[name] = [math.nan if value is None else value for value in column]
    return rows


def _require_sound(rows: NDArray[Any], nodes: int) -> None:
    """Refuse contacts that no plan can have."""
    if not (rows["first"] < rows["second"]).all() or (rows["first"] < 0).any():
        raise ValueError("first must be below second, and at least 0")
    if (rows["second"] >= nodes).any():
        raise ValueError(f"second must be below {nodes}, the number of nodes")
    times_s = rows["begin_s"], rows["end_s"]
    if not (np.isfinite(times_s).all() and (times_s[0] < times_s[1]).all()):
        raise ValueError("begin_s must be below end_s, and both finite")
    if (rows["kind"] >= len(KINDS)).any():
        raise ValueError(f"kind must be below {len(KINDS)}")


def _of_rows(document: Mapping[str, Any], rows: NDArray[Any]) -> ContactPlan:
    columns = {name: np.ascontiguousarray(rows[name]) for name in ROW.names or ()}
    return ContactPlan(
        document["satellites"], document["servers"], float(document["horizon_s"]), **columns
    )
