"""Contact plans as files: CSV and JSON of our own, and the plans that ION and HDTN read.

A file's format is recognised by its content, and chosen by the extension when one is written. All
times are seconds since t = 0 of the schedule. Each format has a module: `csv_file`, `json_file`,
`ion_file` and `hdtn_file`; `rows` has what all of them share, `dtn` what ION and HDTN share.

CSV and JSON are read back to the same bits. ION and HDTN know whole seconds, see `dtn`.
"""

from collections.abc import Iterable
from pathlib import Path

from fedorbit.errors import PlanError
from fedorbit.files import replacing
from fedorbit.inputs import read_regular
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.plan_files import csv_file, hdtn_file, ion_file, json_file
from fedorbit.orbits.plan_files.json_file import (
    PlanShape,
    as_document,
    from_document,
    from_table,
    table,
)
from fedorbit.orbits.plan_files.rows import Nodes, Row, plan_of_rows
from fedorbit.orbits.service import LinkRates

__all__ = [
    "Nodes",
    "PlanShape",
    "as_document",
    "from_document",
    "from_table",
    "read_plan",
    "table",
    "write_plan",
]

MOST_BYTES = 1 << 28
"""Size of the largest file that is read: 256 MiB hold 3 million contacts as CSV."""
SUFFIXES = ".csv, .json, .hdtn.json for HDTN, or .ion, .rc or .txt for ION"


def read_plan(path: Path, nodes: Nodes) -> ContactPlan:
    """Read a contact plan; contacts are cut at the horizon, and those that overlap are joined."""
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise PlanError(
            f"contact plan {path} does not exist; set schedule.plan to a file, or leave it out for "
            "the contacts that geometry gives"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not UTF-8: {error}"
        raise PlanError(f"cannot read contact plan {path}: {reason}") from None
    return plan_of_rows(path, list(_rows(path, text, nodes)), nodes)


def _rows(path: Path, text: str, nodes: Nodes) -> Iterable[Row]:
    if text.lstrip().startswith("{"):
        document = json_file.parsed(path, text)
        if hdtn_file.is_one(document):
            return hdtn_file.rows(path, document, nodes)
        return json_file.rows(path, document, nodes)
    if ion_file.is_one(text):
        return ion_file.rows(path, text, nodes)
    return csv_file.rows(path, text, nodes)


def write_plan(path: Path, plan: ContactPlan, nodes: Nodes, rates: LinkRates) -> Path:
    """Write a plan in the format that the file's extension stands for."""
    name = path.name.lower()
    if name.endswith(".hdtn.json"):
        text = hdtn_file.text(plan, rates)
    elif name.endswith(".json"):
        text = json_file.text(plan, nodes)
    elif name.endswith(".csv"):
        text = csv_file.text(plan, nodes)
    elif name.endswith((".ion", ".rc", ".txt")):
        text = ion_file.text(plan, nodes, rates)
    else:
        raise PlanError(f"a contact plan is written as {SUFFIXES}, got {str(path)!r}")
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path
