"""Damage to files, drawn from a random generator: bytes, lines, values, and the file itself.

Places are drawn as shares of a length, so that a file that is a few bytes longer elsewhere (its
provenance names another commit, say) is damaged in the same place.
"""

import csv
import io
import json
import os
import random
import shutil
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

DEEP = 1500
ODD = (
    "[]", "{}", "null", "true", "false", "-1", "0", "5", "0.5", "1e308", "-1e308", "1e-320", '""',
    '"x"', "NaN", "Infinity", "-Infinity", '"\\u0000"', '"\\u001b[2J"', '"\\ud800"', '"../canary"',
    '"/dev/zero"', '"a\\nb"', "9" * 30, "1" + "0" * 400, "1" + "0" * 5000, "[[1, 2], [3]]",
    "[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, '"' + "x" * 300_000 + '"',
)  # fmt: skip
"""Values in JSON that are seldom expected."""
RAW = "@@raw value@@"


@dataclass(frozen=True)
class Outside:
    """Files outside of the given folders that links may lead to."""

    canary: Path


def mutate(rng: random.Random, path: Path, outside: Outside) -> str:
    """Damage one file in a way that fits it; return a description."""
    ways: list[Callable[[], str]] = [lambda: _mutate_bytes(rng, path)] * 2
    if path.suffix in (".json", ".jsonl", ".toml"):
        ways += [lambda: _mutate_value(rng, path)] * 6
    if path.suffix in (".json", ".jsonl", ".toml", ".tle", ".csv", ".xml", ".txt"):
        ways += [lambda: _mutate_lines(rng, path), lambda: _mutate_digit(rng, path)] * 2
    if path.suffix == ".tle":
        ways += [lambda: _mutate_tle(rng, path)] * 6
    if path.suffix in (".csv", ".xml"):
        ways += [lambda: _mutate_field(rng, path)] * 6
    ways += [lambda: _mutate_place(rng, path, outside)]
    return f"{path.name}: {rng.choice(ways)()}"


def index(rng: random.Random, length: int) -> int:
    """Draw a place in something of this length."""
    return int(rng.random() * length)


def odd_toml(rng: random.Random) -> str:
    """Return a value that TOML can spell, more or less."""
    return _as_toml(rng.choice(ODD))


# --- Bytes and lines ----------------------------------------------------------------------------


def _mutate_bytes(rng: random.Random, path: Path) -> str:
    data = bytearray(path.read_bytes())
    place = index(rng, len(data))
    length = min(len(data), rng.choice((1, 2, 16, 300)))
    kind = rng.choice(("flip", "cut", "nul", "not UTF-8", "noise", "twice", "drop", "empty", "BOM"))
    if kind == "flip" and data:
        data[place] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        del data[place:]
    elif kind == "nul":
        data[place:place] = bytes(length)
    elif kind == "not UTF-8":
        data[place:place] = b"\xff\xfe\x80"
    elif kind == "noise":
        data[place : place + length] = rng.randbytes(len(data[place : place + length]))
    elif kind == "twice":
        data += bytes(data)
    elif kind == "drop":
        del data[place : place + length]
    elif kind == "BOM":
        data[:0] = b"\xef\xbb\xbf"
    else:
        data.clear()
    path.write_bytes(data)
    return f"{kind} at byte {place}"


def _mutate_lines(rng: random.Random, path: Path) -> str:
    lines = path.read_bytes().split(b"\n")
    i, j = index(rng, len(lines)), index(rng, len(lines))
    kind = rng.choice(("duplicate", "delete", "swap", "move", "join"))
    if kind == "duplicate":
        lines.insert(j, lines[i])
    elif kind == "delete":
        del lines[i]
    elif kind == "swap":
        lines[i], lines[j] = lines[j], lines[i]
    elif kind == "move":
        lines.insert(j, lines.pop(i))
    else:
        lines[i : i + 2] = [b"".join(lines[i : i + 2])]
    path.write_bytes(b"\n".join(lines))
    return f"{kind} line {i + 1} ({j + 1})"


def _mutate_digit(rng: random.Random, path: Path) -> str:
    """Change one digit: the file stays well-formed and tells something else."""
    data = bytearray(path.read_bytes())
    digits = [i for i, byte in enumerate(data) if chr(byte).isdigit()]
    if not digits:
        return "no digit to change"
    place = digits[index(rng, len(digits))]
    old, new = chr(data[place]), rng.choice("0123456789")
    data[place] = ord(new)
    path.write_bytes(data)
    return f"digit {old} is {new} at byte {place}"


# --- Values -------------------------------------------------------------------------------------


def _mutate_value(rng: random.Random, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".jsonl":
            lines = text.splitlines()
            i = index(rng, len(lines))
            document = json.loads(lines[i])
        else:
            document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (OSError, ValueError, IndexError, RecursionError):
        document = None
    if not document or not isinstance(document, dict | list):  # by the mutation before this one
        return _mutate_bytes(rng, path)
    described, raw, changed = change_value(rng, document)
    if path.suffix == ".toml":
        text = to_toml(changed).replace(json.dumps(RAW), _as_toml(raw))
    elif path.suffix == ".jsonl":
        lines[i] = json.dumps(changed).replace(json.dumps(RAW), raw)
        text, described = "\n".join(lines) + "\n", f"line {i + 1}, {described}"
    else:
        text = json.dumps(changed, indent=2).replace(json.dumps(RAW), raw) + "\n"
    path.write_text(text, encoding="utf-8")
    return described


def change_value(rng: random.Random, document: Any) -> tuple[str, str, Any]:
    """Change one value or key; return what was done, the text for `RAW`, and the document."""
    paths = _paths(document)
    *above, key = paths[index(rng, len(paths))]
    place = document
    for step in above:
        place = place[step]
    old, where = place[key], ".".join(map(str, (*above, key)))
    kind = rng.choice(("odd", "odd", "odd", "odd", "nudge", "nudge", "remove", "rename"))
    raw = rng.choice(ODD)
    if kind == "nudge" and isinstance(old, int | float) and not isinstance(old, bool):
        place[key] = rng.choice((old + 1, old - 1, old * 2, old / 2, -old, round(old)))
        return f"{where} = {place[key]}, was {old}", raw, document
    if kind == "nudge" and isinstance(old, str) and old:
        place[key] = old[: index(rng, len(old))] + rng.choice("x0/.: é")
        return f"{where} = {place[key]!r}, was {old!r}", raw, document
    if kind == "remove":
        del place[key]
        return f"{where} is removed", raw, document
    if kind == "rename" and isinstance(place, dict):
        place[rng.choice((f"{key}x", "", "x.y", "__proto__", key.upper()))] = place.pop(key)
        return f"{where} is renamed", raw, document
    place[key] = RAW
    return f"{where} = {raw[:20]}", raw, document


def _paths(document: Any, above: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    keys = document if isinstance(document, dict) else range(len(document))
    for key in keys:
        found.append((*above, key))
        if isinstance(document[key], dict | list):
            found += _paths(document[key], (*above, key))
    return found


def _as_toml(raw: str) -> str:
    words = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}
    return words.get(raw, raw.replace('{"a":', "{a="))


def to_toml(document: dict[str, Any]) -> str:
    """Write a document with every table of it on one line."""
    return "".join(f"{json.dumps(key)} = {toml_value(value)}\n" for key, value in document.items())


def toml_value(value: Any) -> str:
    """Write a value as TOML."""
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {toml_value(item)}" for key, item in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float):
        return repr(value)
    return json.dumps(value)


# --- Element sets -------------------------------------------------------------------------------


def _mutate_tle(rng: random.Random, path: Path) -> str:
    """Change some columns of a TLE line and repair its checksum."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except ValueError:
        return _mutate_bytes(rng, path)
    data = [i for i, line in enumerate(lines) if line[:2] in ("1 ", "2 ") and len(line) == 69]
    if not data:
        return _mutate_bytes(rng, path)
    i = data[index(rng, len(data))]
    line = list(lines[i])
    begin = rng.randrange(2, 68)
    width = rng.choice((1, 1, 2, 8))
    for column in range(begin, min(68, begin + width)):
        line[column] = rng.choice("0123456789 .-+AZ9")
    text = "".join(line[:68])
    total = sum(int(c) if c.isdigit() else c == "-" for c in text) % 10
    lines[i] = f"{text}{total}"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"line {i + 1}, columns {begin + 1} to {begin + width}, checksum repaired"


def _mutate_field(rng: random.Random, path: Path) -> str:
    """Change one field of an OMM file as CSV, or one text of it as XML."""
    try:
        text = path.read_text(encoding="utf-8")
    except ValueError:
        return _mutate_bytes(rng, path)
    value = rng.choice(
        ("", "x", "nan", "inf", "-1", "0", "5", "1e308", "9" * 400, "1_0", "٣", " 1 ", "0x1F",
         "9999-12-31T23:59:59.999999", "0001-01-01T00:00:00+14:00", "<a/>", "&amp;", "&x;", ",")
    )  # fmt: skip
    if path.suffix == ".csv":
        rows = list(csv.reader(io.StringIO(text)))
        cells = [(r, c) for r, row in enumerate(rows) for c in range(len(row))]
        if not cells:
            return _mutate_bytes(rng, path)
        r, c = cells[index(rng, len(cells))]
        rows[r][c] = value
        buffer = io.StringIO()
        csv.writer(buffer).writerows(rows)
        path.write_text(buffer.getvalue(), encoding="utf-8")
        return f"row {r + 1}, column {c + 1} is {value[:20]!r}"
    parts = text.split(">")
    i = index(rng, len(parts))
    old, bracket, rest = parts[i].partition("<")
    parts[i] = value + bracket + rest
    path.write_text(">".join(parts), encoding="utf-8")
    return f"text {old!r} is {value[:20]!r}"


# --- The file itself ----------------------------------------------------------------------------


def _mutate_place(rng: random.Random, path: Path, outside: Outside) -> str:
    path.unlink()
    kind = rng.choice(
        (
            "gone",
            "folder",
            "full folder",
            "FIFO",
            "zero",
            "itself",
            "canary",
            "nowhere",
            "unreadable",
        )
    )
    if kind == "folder":
        path.mkdir()
    elif kind == "full folder":
        path.mkdir()
        (path / path.name).write_text("x")
    elif kind == "FIFO":
        os.mkfifo(path)
    elif kind == "zero":
        path.symlink_to("/dev/zero")
    elif kind == "itself":
        path.symlink_to(path.name)
    elif kind == "canary":
        path.symlink_to(outside.canary)
    elif kind == "nowhere":
        path.symlink_to(outside.canary.parent / "made")
    elif kind == "unreadable":
        path.write_bytes(b"")
        path.chmod(0)
    return f"is {kind}"


def copy_tree(source: Path, target: Path) -> Path:
    """Copy a folder as it is, links as links."""
    return Path(shutil.copytree(source, target, symlinks=True))
