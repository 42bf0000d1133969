"""Element sets of real satellites: TLE text, and OMM as CSV, XML or JSON.

A file is checked as a whole before anything is used: a set that fails its checksum, or that SGP4
rejects, is an error that names the file, the place in it and the reason. A satellite can have sets
of several epochs, as in a download of its history.
"""

import calendar
import csv
import json
import math
import re
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
from fedorbit.inputs import read_regular
from fedorbit.orbits.earth import as_utc

MOST_BYTES = 1 << 26
"""Size of the largest file that is read: 64 MiB hold the sets of 60,000 satellites as XML, the
longest format, which is twice as many as there are in orbit."""
MOST_NAME_CHARACTERS = 100  # names are printed; those of catalogues have up to 24
MOST_TURN_DEG = 2.0
"""Largest difference of the inclinations of one satellite's sets: a turn of 2 degrees takes 260 m/s
in a low orbit, and drift is far slower."""
TLE_LINE_LENGTH = 69
_DECIMAL = r" *[+-]? *[0-9]*\.[0-9]+ *"
_POWER = r"[ +-][0-9 ]{5}[ +-][0-9]"  # " 18200-3" is 0.182e-3
TLE_NUMBERS = {
    "1": (
        (19, 20, "the epoch year", r"[ 0-9][0-9]"),
        (21, 32, "the epoch day", r" {0,2}[0-9]{1,3}\.[0-9]* *"),
        (34, 43, "the first derivative of the mean motion", _DECIMAL),
        (45, 52, "the second derivative of the mean motion", _POWER),
        (54, 61, "the drag term", _POWER),
        (63, 63, "the ephemeris type", r"[ 0-9]"),
        (65, 68, "the element set number", r"[ 0-9]{4}"),
    ),
    "2": (
        (9, 16, "the inclination", _DECIMAL),
        (18, 25, "the right ascension of the node", _DECIMAL),
        (27, 33, "the eccentricity", r"[0-9 ]{6}[0-9]"),
        (35, 42, "the argument of perigee", _DECIMAL),
        (44, 51, "the mean anomaly", _DECIMAL),
        (53, 63, "the mean motion", _DECIMAL),
        (64, 68, "the revolution number", r"[ 0-9]{5}"),
    ),
}
"""First and last column of each number in the lines of a TLE, and what it looks like: SGP4's reader
takes what it can from anything else."""
TLE_EXAMPLE = {
    "1": "1 25544U 98067A   14020.93268519  .00009878  00000-0  18200-3 0  5082",
    "2": "2 25544  51.6498 109.4756 0003572  55.9686 274.8005 15.49815350868473",
}
"""Lines of a published element set, from which error sentences show what is allowed."""
TLE_BLANKS = {"1": (2, 9, 18, 33, 44, 53, 62, 64), "2": (2, 8, 17, 26, 34, 43, 52)}
"""Columns between the fields: SGP4's reader would take a digit there for part of a number."""
TEXTS = ("CLASSIFICATION_TYPE", "OBJECT_ID", "EPOCH")
INTEGERS = {
    "EPHEMERIS_TYPE": 9,
    "ELEMENT_SET_NO": 2**31 - 1,
    "REV_AT_EPOCH": 2**31 - 1,
    "NORAD_CAT_ID": 339_999,  # the last that SGP4's five characters can hold
}
"""Greatest values; the least is 0."""
RANGES = {
    "MEAN_MOTION": (1e-3, 20.0, "revolutions per day"),  # 17 graze the ground
    "ECCENTRICITY": (0.0, 0.999, ""),
    "INCLINATION": (0.0, 180.0, "degrees"),
    "RA_OF_ASC_NODE": (-360.0, 360.0, "degrees"),
    "ARG_OF_PERICENTER": (-360.0, 360.0, "degrees"),
    "MEAN_ANOMALY": (-360.0, 360.0, "degrees"),
    "BSTAR": (-math.inf, math.inf, ""),
    "MEAN_MOTION_DOT": (-math.inf, math.inf, ""),
    "MEAN_MOTION_DDOT": (-math.inf, math.inf, ""),
}
"""Least and greatest values: SGP4 takes others without a word and returns positions at random."""
YEARS = (1957, 2056)  # an SGP4 record has two digits of the year


@dataclass(frozen=True)
class ElementSet:
    """One satellite at its epoch, ready for SGP4."""

    name: str
    epoch: datetime
    satrec: Satrec


def read_element_sets(path: Path) -> list[ElementSet]:
    """Read every element set of a file; the format is recognised by its content."""
    try:
        text = read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except FileNotFoundError:
        raise ElementSetError(
            f"element set file {path} does not exist; set constellation.file to a TLE or OMM file"
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it is not UTF-8: {error}"
        raise ElementSetError(
            f"cannot read element set file {path}: {reason}; "
            "set constellation.file to a TLE or OMM file"
        ) from None
    records = _omm_records(path, text)
    placed = _from_tle(path, text) if records is None else _from_omm(path, records)
    sets: list[ElementSet] = []
    places: dict[tuple[int, datetime], tuple[str, ElementSet]] = {}
    firsts: dict[int, tuple[str, ElementSet]] = {}
    for where, element_set in placed:
        number = element_set.satrec.satnum
        _require_same_satellite(
            where, element_set, *firsts.setdefault(number, (where, element_set))
        )
        earlier, known = places.setdefault((number, element_set.epoch), (where, element_set))
        if known is element_set:
            sets.append(element_set)
        elif _orbit(known) != _orbit(element_set):
            raise ElementSetError(
                f"{where}: satellite {number} has another orbit at the same epoch in {earlier}; "
                "keep one of the two element sets"
            )
    if not sets:
        raise ElementSetError(f"{path} holds no element set; expected TLE lines or OMM records")
    return sets


def histories(sets: Iterable[ElementSet]) -> list[tuple[ElementSet, ...]]:
    """Return the sets of each satellite, by epoch; satellites in the order of their first sets."""
    of_satellite: dict[int, list[ElementSet]] = {}
    for element_set in sets:
        of_satellite.setdefault(element_set.satrec.satnum, []).append(element_set)
    return [tuple(sorted(found, key=lambda s: s.epoch)) for found in of_satellite.values()]


def _require_same_satellite(
    where: str, element_set: ElementSet, earlier: str, known: ElementSet
) -> None:
    """Refuse sets under one number that cannot be of one satellite."""
    degrees = [math.degrees(s.satrec.inclo) for s in (element_set, known)]
    if abs(degrees[0] - degrees[1]) > MOST_TURN_DEG:
        raise ElementSetError(
            f"{where}: satellite {known.satrec.satnum} has an inclination of {degrees[0]:.2f} "
            f"degrees, and of {degrees[1]:.2f} in {earlier}; give two satellites two numbers"
        )


def _orbit(element_set: ElementSet) -> tuple[float, ...]:
    """Return the elements that decide the motion; the number of revolutions is not among them."""
    s = element_set.satrec
    return (s.inclo, s.nodeo, s.ecco, s.argpo, s.mo, s.no_kozai, s.bstar)


def _omm_records(path: Path, text: str) -> list[Any] | None:
    """Return the records of an OMM file, or None if the text is not one."""
    begin = text.lstrip()[:1]
    try:
        if begin == "<":
            return list(omm.parse_xml(StringIO(text)))
        if begin in ("[", "{"):
            records = json.loads(text)
            return records if isinstance(records, list) else [records]
        if "MEAN_MOTION" in text.split("\n", 1)[0]:
            return list(omm.parse_csv(StringIO(text)))
    except (ElementTree.ParseError, csv.Error, ValueError, RecursionError) as error:
        raise ElementSetError(f"{path} is not a well-formed OMM file: {error}") from None
    except (AttributeError, TypeError):
        # sgp4.omm follows segment/data/meanElements without looking.
        raise ElementSetError(f"{path} has an OMM segment without mean elements") from None
    return None


def _from_tle(path: Path, text: str) -> Iterator[tuple[str, ElementSet]]:
    lines = [(n, line.rstrip()) for n, line in enumerate(text.splitlines(), 1) if line.strip()]
    position, name = 0, None
    while position < len(lines):
        number, line = lines[position]
        if not line.startswith("1 "):
            name = line.removeprefix("0 ").strip()
            position += 1
            if position == len(lines) or not lines[position][1].startswith("1 "):
                raise ElementSetError(
                    f"{path}, line {number}: expected TLE line 1 after the name {name[:40]!r}"
                )
            continue
        if position + 1 == len(lines) or not lines[position + 1][1].startswith("2 "):
            raise ElementSetError(f"{path}, line {number}: TLE line 1 without a line 2 after it")
        next_number, next_line = lines[position + 1]
        _check_tle_line(path, number, line)
        _check_tle_epoch(path, number, line)
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
        where = f"{path}, line {number}"
        for field, value in (
            ("MEAN_MOTION", satrec.no_kozai * 720.0 / math.pi),
            ("ECCENTRICITY", satrec.ecco),
            ("INCLINATION", math.degrees(satrec.inclo)),
            ("RA_OF_ASC_NODE", math.degrees(satrec.nodeo)),
            ("ARG_OF_PERICENTER", math.degrees(satrec.argpo)),
            ("MEAN_ANOMALY", math.degrees(satrec.mo)),
            ("BSTAR", satrec.bstar),
        ):
            _check_range(where, field, value)
        yield where, _checked(where, name or f"satellite {satrec.satnum_str}", satrec)
        position, name = position + 2, None


def _check_tle_line(path: Path, number: int, line: str) -> None:
    if not line.isascii():
        foreign = next(c for c in line if not c.isascii())
        raise ElementSetError(
            f"{path}, line {number}: a TLE line holds ASCII characters only, got {foreign!r}; "
            "the element set is damaged, get it again"
        )
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
    for column in TLE_BLANKS[line[0]]:
        if line[column - 1] != " ":
            raise ElementSetError(
                f"{path}, line {number}: column {column} must be blank, got {line[column - 1]!r}; "
                "the element set is damaged, get it again"
            )
    for first, last, what, pattern in TLE_NUMBERS[line[0]]:
        text = line[first - 1 : last]
        if not re.fullmatch(pattern, text):
            raise ElementSetError(
                f"{path}, line {number}: {what} (columns {first} to {last}) must be a number such "
                f"as {TLE_EXAMPLE[line[0]][first - 1 : last]!r}, got {text!r}; "
                "the element set is damaged, get it again"
            )


def _check_tle_epoch(path: Path, number: int, line: str) -> None:
    """Refuse a day that its year does not have; SGP4 accepts it and cannot convert it to a date."""
    year = int(line[18:20])
    year += YEARS[0] - 57 if year >= 57 else 2000
    days = 366 if calendar.isleap(year) else 365
    if not 1.0 <= float(line[20:32]) < days + 1.0:
        raise ElementSetError(
            f"{path}, line {number}: the epoch day (columns 21 to 32) must be from 1 to {days} in "
            f"the year {year}, plus a fraction, got {line[20:32]!r}; "
            "the element set is damaged, get it again"
        )


def _from_omm(path: Path, records: Iterable[Any]) -> Iterator[tuple[str, ElementSet]]:
    for index, fields in enumerate(records):
        where = f"{path}, record {index + 1}"
        if not isinstance(fields, Mapping):
            raise ElementSetError(f"{where}: expected an object with OMM fields")
        satrec = Satrec()
        try:
            omm.initialize(satrec, _checked_fields(where, fields), WGS72)
        except (TypeError, ValueError, OverflowError) as error:
            raise ElementSetError(f"{where}: {error}") from None
        name = str(fields.get("OBJECT_NAME") or satrec.satnum)
        yield where, _checked(where, name, satrec)


def _checked_fields(where: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that SGP4 needs, each of its type and within its range."""
    checked: dict[str, Any] = {}
    for field in (*TEXTS, *INTEGERS, *RANGES):
        if field not in fields:
            raise ElementSetError(f"{where}: the OMM field {field} is missing")
        value = fields[field]
        if value is None or value == "":
            raise ElementSetError(
                f"{where}: the OMM field {field} is empty; the record may be cut short, "
                "get the file again"
            )
        try:
            if field in INTEGERS:
                checked[field] = _whole(where, field, int(value))
            elif field in RANGES:
                checked[field] = float(value)
            else:
                checked[field] = str(value)
        except (TypeError, ValueError, OverflowError):
            raise ElementSetError(
                f"{where}: the OMM field {field} must be a number, got {str(value)[:40]!r}"
            ) from None
        if field in RANGES:
            _check_range(where, field, checked[field])
    checked["EPOCH"] = _epoch(where, checked["EPOCH"])
    return checked


def _whole(where: str, field: str, value: int) -> int:
    """Return a whole number that an SGP4 record can hold."""
    if not 0 <= value <= INTEGERS[field]:
        raise ElementSetError(
            f"{where}: {field} must be from 0 to {INTEGERS[field]}, got {str(value)[:40]}; "
            "the element set is damaged, get it again"
        )
    return value


def _check_range(where: str, field: str, value: float) -> None:
    low, high, unit = RANGES[field]
    if not (math.isfinite(value) and low <= value <= high):
        allowed = f"from {low:g} to {high:g}" if math.isfinite(high) else "a finite number"
        raise ElementSetError(
            f"{where}: {field} must be {allowed}{unit and ' ' + unit}, got {value:g}; "
            "the element set is damaged, get it again"
        )


def _epoch(where: str, text: str) -> str:
    """Return an epoch as `omm.initialize` reads it: with a fraction, and without a zone."""
    try:
        epoch = as_utc(datetime.fromisoformat(text)) if "T" in text else None
    except (ValueError, OverflowError):
        epoch = None
    if epoch is None or not YEARS[0] <= epoch.year <= YEARS[1]:
        raise ElementSetError(
            f"{where}: EPOCH must be a moment such as 2026-03-01T12:00:00.000000, "
            f"in the years {YEARS[0]} to {YEARS[1]}, got {text[:40]!r}"
        )
    return epoch.strftime("%Y-%m-%dT%H:%M:%S.%f")


def _checked(where: str, name: str, satrec: Satrec) -> ElementSet:
    if len(name) > MOST_NAME_CHARACTERS or not name.isprintable():
        raise ElementSetError(
            f"{where}: the satellite's name must have at most {MOST_NAME_CHARACTERS} characters, "
            f"all of them printable, got {len(name):,}: {name[:40]!r}; shorten or correct it"
        )
    error = satrec.error
    r_km: tuple[float, ...] = ()
    if not error:
        error, r_km, _ = satrec.sgp4(satrec.jdsatepoch, satrec.jdsatepochF)
    if error:
        raise ElementSetError(f"{where}: SGP4 rejects {name}: {SGP4_ERRORS[error]}")
    if not all(map(math.isfinite, r_km)):
        raise ElementSetError(
            f"{where}: SGP4 finds no position for {name} at its epoch; "
            "the element set is damaged, get it again"
        )
    return ElementSet(name, sat_epoch_datetime(satrec).astimezone(UTC), satrec)
