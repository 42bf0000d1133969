"""JSON and TOML files of untrusted origin: read within limits, checked by a schema.

A damaged or hostile file can be huge, a FIFO, nested a thousand levels deep, hold NaN, or have the
shape of something else. All of that is one exception here, `DocumentError`, whose text fits into
"FILE is damaged (…)". Callers add the remedy. Nothing read here runs code.
"""

import errno
import hashlib
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from io import BufferedReader
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from fedorbit.inputs import open_regular

MOST_BYTES = 64 << 20
"""Largest JSON document or line of records: ten times the size for 10,000 orbits."""
MOST_TOML_BYTES = 4 << 20
MOST_LEVELS = 40
TOO_DEEP = f"it is nested more than {MOST_LEVELS} levels deep"
# For a key of n parts, the parser takes time and memory that grow with n squared.
_DEEP_KEY = re.compile(
    rf"""(?<![\w-])(?>(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){{{MOST_LEVELS}}}"""
)


class DocumentError(ValueError):
    """A file is not the document that it should be; the text says why."""


def read_bytes(path: Path, most_bytes: int = MOST_BYTES, *, tail_bytes: int | None = None) -> bytes:
    """Return a regular file's content, or its last bytes.

    FIFOs, devices and what is too large are refused unread.
    """
    with _regular(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        if tail_bytes is not None:
            file.seek(max(0, size_bytes - tail_bytes))
            return file.read(tail_bytes)
        if size_bytes > most_bytes:
            raise DocumentError(f"it has {size_bytes:,} bytes, allowed are {most_bytes:,}")
        return file.read(size_bytes)


def _regular(path: Path) -> BufferedReader:
    try:
        return open_regular(path)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ELOOP):
            raise
        raise DocumentError(error.strerror) from None


def parse_json(content: bytes, shape: TypeAdapter[Any]) -> Any:
    """Return the document in some bytes, if it is of a shape.

    The document itself is returned, not what the schema makes of it: keys that the schema does not
    name stay.
    """
    document = load_json(content)
    require(document, shape)
    return document


def load_json(content: bytes) -> Any:
    """Return the document in some bytes, of whatever shape."""
    try:
        return _shallow(json.loads(content.decode("utf-8"), parse_constant=_refuse_constant))
    except RecursionError:
        raise DocumentError(TOO_DEEP) from None
    except ValueError as error:  # no UTF-8, no JSON, or a number of thousands of digits
        raise DocumentError(str(error)) from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def require(document: Any, shape: TypeAdapter[Any]) -> None:
    """Refuse a document of another shape; the key that is wrong is named."""
    try:
        shape.validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        key = ".".join(map(str, first["loc"]))[:80] or "the whole document"
        told = re.sub(r"^Value error, | or instance of \w+$", "", first["msg"])
        raise DocumentError(f"{key}: {told[:1].lower()}{told[1:]}{_got(first)}") from None


def _got(error: ErrorDetails) -> str:
    """Show the value that is wrong; of a document only its kind, which can be large."""
    value = error["input"]
    if error["type"] in ("missing", "value_error"):
        return ""
    return f", got {type(value).__name__ if isinstance(value, list | dict) else repr(value)[:40]}"


def read_json(path: Path, shape: TypeAdapter[Any], most_bytes: int = MOST_BYTES) -> Any:
    """Read a JSON document of a shape."""
    return parse_json(read_bytes(path, most_bytes), shape)


def read_lines(path: Path, until_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a file, or of its beginning; what has no end of line is left out."""
    with _regular(path) as file:
        left = os.fstat(file.fileno()).st_size if until_bytes is None else until_bytes
        while left > 0:
            line = file.readline(min(left, MOST_BYTES + 1))
            if len(line) > MOST_BYTES:
                raise DocumentError(f"a line has more than {MOST_BYTES:,} bytes")
            if not line.endswith(b"\n"):
                return
            left -= len(line)
            yield line[:-1]


def read_text(path: Path) -> str:
    """Read a TOML file's text."""
    try:
        return read_bytes(path, MOST_TOML_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DocumentError(f"it is not UTF-8 text: {error}") from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    if _DEEP_KEY.search(text):
        raise DocumentError(TOO_DEEP)
    try:
        values: dict[str, Any] = _shallow(tomllib.loads(text))
    except RecursionError:
        raise DocumentError(TOO_DEEP) from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    return values


def _shallow(document: Any) -> Any:
    """Refuse a document nested so deeply that code which walks through it might fail."""
    level = [document]
    for _ in range(MOST_LEVELS):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return document
    raise DocumentError(TOO_DEEP)


def file_digest(path: Path) -> str:
    """SHA-256 of a regular file of any size."""
    with _regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(content: bytes) -> str:
    """SHA-256 of a file's content, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def document_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of a document in one canonical spelling."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return digest(text.encode())


SEAL = "sha256"


def sealed(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with a checksum of itself as its last entry."""
    return {**document, SEAL: document_digest(document)}


def require_seal(document: Mapping[str, Any]) -> None:
    """Refuse a document that does not fit the checksum in it."""
    rest = {key: value for key, value in document.items() if key != SEAL}
    if document.get(SEAL) != document_digest(rest):
        raise DocumentError("it does not fit its checksum")
