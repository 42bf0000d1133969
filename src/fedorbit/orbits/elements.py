"""Element sets of real satellites: TLE text, and OMM as CSV, XML or JSON.

A file is checked as a whole before anything is used: a set that fails its checksum, or that SGP4
rejects, is an error that names the file, the place in it and the reason.
"""

import json
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

from sgp4 import omm
from sgp4.api import SGP4_ERRORS, WGS72, Satrec
from sgp4.conveniences import sat_epoch_datetime

from fedorbit.errors import ElementSetError

TLE_LINE_LENGTH = 69


@dataclass(frozen=True)
class ElementSet:
    """One satellite at its epoch, ready for SGP4."""

    name: str
    epoch: datetime
    satrec: Satrec


def read_element_sets(path: Path) -> list[ElementSet]:
    """Read every element set of a file; the format is recognised by its content."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ElementSetError(
            f"element set file {path} does not exist; set constellation.file to a TLE or OMM file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ElementSetError(f"cannot read element set file {path}: {error}") from None
    begin = text.lstrip()[:1]
    try:
        if begin == "<":
            sets = list(_from_omm(path, omm.parse_xml(StringIO(text))))
        elif begin in ("[", "{"):
            records = json.loads(text)
            sets = list(_from_omm(path, records if isinstance(records, list) else [records]))
        elif "MEAN_MOTION" in text.split("\n", 1)[0]:
            sets = list(_from_omm(path, omm.parse_csv(StringIO(text))))
        else:
            sets = list(_from_tle(path, text))
    except (ElementTree.ParseError, json.JSONDecodeError) as error:
        raise ElementSetError(f"{path} is not a well-formed OMM file: {error}") from None
    except AttributeError:
        # sgp4.omm follows segment/data/meanElements without looking.
        raise ElementSetError(f"{path} has an OMM segment without mean elements") from None
    if not sets:
        raise ElementSetError(f"{path} holds no element set; expected TLE lines or OMM records")
    return sets


def _from_tle(path: Path, text: str) -> Iterator[ElementSet]:
    lines = [(n, line.rstrip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    position, name = 0, None
    while position < len(lines):
        number, line = lines[position]
        if not line.startswith("1 "):
            name = line.removeprefix("0 ").strip()
            position += 1
            if position == len(lines) or not lines[position][1].startswith("1 "):
                raise ElementSetError(
                    f"{path}, line {number}: expected TLE line 1 after the name {name!r}"
                )
            continue
        if position + 1 == len(lines) or not lines[position + 1][1].startswith("2 "):
            raise ElementSetError(f"{path}, line {number}: TLE line 1 without a line 2 after it")
        next_number, next_line = lines[position + 1]
        _check_tle_line(path, number, line)
        _check_tle_line(path, next_number, next_line)
        if line[2:7] != next_line[2:7]:
            raise ElementSetError(
                f"{path}, line {next_number}: line 2 is of satellite {next_line[2:7].strip()}, "
                f"but line 1 of {line[2:7].strip()}"
            )
        try:
            satrec = Satrec.twoline2rv(line, next_line)
        except ValueError as error:
            raise ElementSetError(f"{path}, line {number}: {error}") from None
        yield _checked(f"{path}, line {number}", name or f"satellite {satrec.satnum_str}", satrec)
        position, name = position + 2, None


def _check_tle_line(path: Path, number: int, line: str) -> None:
    if len(line) != TLE_LINE_LENGTH:
        raise ElementSetError(
            f"{path}, line {number}: a TLE line has {TLE_LINE_LENGTH} characters, got {len(line)}"
        )
    checksum = sum(int(c) if c.isdigit() else c == "-" for c in line[:-1]) % 10
    if line[-1] != str(checksum):
        raise ElementSetError(
            f"{path}, line {number}: checksum is {line[-1]}, the line adds up to {checksum}; "
            "the element set is damaged, get it again"
        )


def _from_omm(path: Path, records: Iterable[Any]) -> Iterator[ElementSet]:
    for index, fields in enumerate(records):
        where = f"{path}, record {index + 1}"
        if not isinstance(fields, Mapping):
            raise ElementSetError(f"{where}: expected an object with OMM fields")
        satrec = Satrec()
        try:
            omm.initialize(satrec, fields, WGS72)
        except KeyError as error:
            raise ElementSetError(f"{where}: the OMM field {error.args[0]} is missing") from None
        except (TypeError, ValueError) as error:
            raise ElementSetError(f"{where}: {error}") from None
        name = str(fields.get("OBJECT_NAME") or fields.get("NORAD_CAT_ID"))
        yield _checked(where, name, satrec)


def _checked(where: str, name: str, satrec: Satrec) -> ElementSet:
    error = satrec.error
    if not error:
        error, _, _ = satrec.sgp4(satrec.jdsatepoch, satrec.jdsatepochF)
    if error:
        raise ElementSetError(f"{where}: SGP4 rejects {name}: {SGP4_ERRORS[error]}")
    return ElementSet(name, sat_epoch_datetime(satrec).astimezone(UTC), satrec)
