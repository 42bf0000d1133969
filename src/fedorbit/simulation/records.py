"""Records: one JSON line per evaluated round, and a summary. Reports and tables use nothing else.

The last entry of a line is its `chain`, the SHA-256 of the chain of the line before and of what
stands before it in this line. The first line takes the method's id for that. So a line that was
changed, removed or added is found, and checkpoint and summary bind all records by one value.
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from fedorbit.documents import (
    SEAL,
    DocumentError,
    load_json,
    read_bytes,
    read_json,
    read_lines,
    require,
    require_seal,
    sealed,
)
from fedorbit.errors import ModelError, RunError
from fedorbit.files import replacing
from fedorbit.simulation.manifest import (
    MANIFEST,
    WORLD,
    bound_file,
    changed,
    read_manifest,
    require_files,
)
from fedorbit.simulation.schema import RECORD, SUMMARY_FILE, WORLD_FILE

RECORDS, SUMMARY = "records.jsonl", "summary.json"
STUDY = "study.toml"
"""Beside the runs that belong to a study."""
LAST_ROUNDS = 10
"""The paper's metrics are means over the last ten evaluated rounds."""
INTEGRITY = "integrity"
"""Key of the checksums that bind a summary to its run and records."""
MOST_SUMMARY_BYTES = 16 << 20
TAIL_BYTES = 1_000_000
"""Bytes at the end of a file of records that hold its last line."""
CHAIN = re.compile(rb',"chain":"([0-9a-f]{64})"}')

Record = dict[str, Any]


class RecordFile:
    """Appends records; every line is on disk before the next round begins."""

    def __init__(self, folder: Path, run_id: str, keep_bytes: int, chain: str) -> None:
        """Open the file of a method; what stands behind `keep_bytes` is dropped.

        What is kept must end with `chain`, which is the method's own id where nothing is kept.
        """
        self._path = folder / RECORDS
        length = self._path.stat().st_size if self._path.exists() else 0
        try:
            lines = read_lines(self._path, keep_bytes) if keep_bytes else ()
            _, self.chain = _parse(lines, run_id)
        except DocumentError as error:
            raise changed(self._path, str(error)) from None
        if length < keep_bytes or self.chain != chain:
            raise changed(self._path, "it is not what its checkpoint was written for")
        self._file = self._path.open("ab")
        self._file.truncate(keep_bytes)

    def append(self, record: Record) -> int:
        """Write one record and return the length of the file in bytes."""
        text = json.dumps(record, allow_nan=False, separators=(",", ":")).encode()[:-1]
        self.chain = _link(self.chain, text)
        self._file.write(text + f',"chain":"{self.chain}"}}\n'.encode())
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _link(before: str, text: bytes) -> str:
    return hashlib.sha256(before.encode() + text).hexdigest()


def _parse(lines: Iterable[bytes], run_id: str | None) -> tuple[list[Record], str]:
    """Return records and the last chain; without an id, those of format 1, which has no chain."""
    records: list[Record] = []
    chain = run_id or ""
    for number, line in enumerate(lines, 1):
        try:
            record = _named_anew(load_json(line))  # a chain is one of bytes, so of old names
            require(record, RECORD)
            if run_id is not None:
                chain = _checked_link(chain, line)
                del record["chain"]
            elif "chain" in record:
                raise DocumentError(f"{MANIFEST} is missing")
            if records and record["round"] <= records[-1]["round"]:
                raise DocumentError("its round is not after the one before")
            if records and len(record["orbit_accuracy"]) != len(records[0]["orbit_accuracy"]):
                raise DocumentError("it has other orbits than the first line")
        except DocumentError as error:
            raise DocumentError(f"line {number}: {error}") from None
        records.append(record)
    return records, chain


RENAMED = {
    "gs_uplink_bytes": "to_ground_bytes",
    "gs_downlink_bytes": "from_ground_bytes",
    "uplink_vs_fedavg": "to_ground_vs_fedavg",
}
"""Names in records and summaries of earlier versions: to the ground was called an uplink."""


def _named_anew(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    return {RENAMED.get(key, key): value for key, value in document.items()}


def _checked_link(before: str, line: bytes) -> str:
    text = line[: line.rfind(b',"chain":"')]
    chain = _link(before, text)
    found = CHAIN.fullmatch(line[len(text) :])
    if found is None or found[1].decode() != chain:
        raise DocumentError("it does not follow the line before, or was changed")
    return chain


def method_folder(folder: Path, method: str) -> Path:
    """Return the folder of a method's files; of `my_module:MyMethod` it is `my_module-MyMethod`."""
    return folder / (re.sub(r"[^A-Za-z0-9._-]+", "-", method).lstrip(".") or "-")


def read_records(folder: Path) -> list[Record]:
    """Read the records of a method; a last line that a crash has cut is left out.

    Records that were changed are an error, and so are missing ones of a method that is finished.
    """
    summary, bound = _read_summary(folder)  # written after all records, so read before them
    path = folder / RECORDS
    try:
        records, chain = _parse(read_lines(path), method_id(folder))
        recorded = records[-1]["round"] + 1 if records else 0
        if summary is not None and recorded != summary["rounds"]:
            raise DocumentError(f"it ends after {recorded} of {summary['rounds']} rounds")
        if bound and bound["records"] != chain:
            raise DocumentError(f"it is not what {SUMMARY} was written for")
    except FileNotFoundError:
        if summary is not None:
            raise changed(path, "it is missing") from None
        raise RunError(f"{folder} is not a run folder: it has no {RECORDS}") from None
    except DocumentError as error:
        raise changed(path, str(error)) from None
    return records


def last_record(folder: Path) -> Record | None:
    """Return the last whole record of a method without reading those before it, if there is one."""
    path = folder / RECORDS
    try:
        lines = read_bytes(path, tail_bytes=TAIL_BYTES).split(b"\n")
        if len(lines) < 2:
            return None
        record: Record = _named_anew(load_json(lines[-2]))
        require(record, RECORD)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DocumentError as error:
        raise changed(path, str(error)) from None
    return record


def write_summary(folder: Path, summary: dict[str, Any], run_id: str, chain: str) -> None:
    """Write the summary of a finished method, bound to its run and to its records."""
    bound = {**_finite(summary), INTEGRITY: {"run_id": run_id, "records": chain}}
    # As it will be read: keys of facts may be numbers.
    document = sealed(json.loads(json.dumps(bound, allow_nan=False)))
    try:
        require(document, SUMMARY_FILE)
    except DocumentError as error:
        raise ModelError(
            f"the summary of {folder.name} cannot be written ({error}); the method's `facts` give "
            "something else than a summary has under that name; rename it there"
        ) from None
    with replacing(folder / SUMMARY) as partial:
        partial.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """Put null where a diverged run has no number; JSON has no other value for it."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Read the summary of a method, if it is finished."""
    return _read_summary(folder)[0]


def _read_summary(folder: Path) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """Return a summary, and what binds it; nothing does in format 1."""
    path = folder / SUMMARY
    try:
        written = load_json(read_bytes(path, MOST_SUMMARY_BYTES))
        run_id, document = method_id(folder), _named_anew(written)
        require(document, SUMMARY_FILE)
        bound: dict[str, str] = document.get(INTEGRITY, {})
        if bound:
            require_seal(written)
        if bound.get("run_id") != run_id:
            missing = f"{MANIFEST} is missing" if run_id is None else "it belongs to another run"
            raise DocumentError(missing)
    except (FileNotFoundError, NotADirectoryError):
        return None, {}
    except DocumentError as error:
        raise RunError(
            f"{path} was damaged or changed after the run wrote it ({error}); remove it and "
            f"`fedorbit run --resume {folder.parent}` to write it again"
        ) from None
    return {k: v for k, v in document.items() if k not in (INTEGRITY, SEAL)}, bound


def method_id(folder: Path) -> str | None:
    """Return what the files of a method carry to be known as its own; None in format 1."""
    manifest = read_manifest(folder.parent)
    return None if manifest is None else manifest.method_id(folder.name)


def read_setting(folder: Path) -> dict[str, Any] | None:
    """Read `world.json`; None for a run that was made before there was one."""
    manifest = read_manifest(folder)
    path = bound_file(folder, WORLD, manifest)
    try:
        document: dict[str, Any] = read_json(path, WORLD_FILE)
        if manifest is not None:
            require_files(folder, manifest)
    except FileNotFoundError:
        if manifest is not None:
            raise changed(path, "it is missing") from None
        return None
    except DocumentError as error:
        raise changed(path, str(error)) from None
    return document


def headline(records: Sequence[Record]) -> dict[str, Any]:
    """Return accuracy, spread and accuracy per orbit over the last ten evaluated rounds."""
    last = records[-LAST_ROUNDS:]
    orbits = len(last[0]["orbit_accuracy"]) if last else 0
    return {
        "accuracy": mean([r["accuracy"] for r in last]),
        "spread": mean([r["spread"] for r in last]),
        "per_orbit": [mean([r["orbit_accuracy"][o] for r in last]) for o in range(orbits)],
    }


def noted(records: Sequence[Record]) -> dict[str, Any]:
    """Summarise what a method noted over all records; nothing if it noted nothing."""
    entries: dict[str, list[dict[str, float]]] = {}
    for record in records:
        for name, entry in record.get("noted", {}).items():
            entries.setdefault(name, []).append(entry)
    if not entries:
        return {}
    return {"noted": {name: _noted_overall(parts) for name, parts in sorted(entries.items())}}


def _noted_overall(parts: Sequence[dict[str, float]]) -> dict[str, float]:
    count = sum(part["count"] for part in parts)
    total = math.fsum(part["count"] * part["mean"] for part in parts)
    greatest = max(part["max"] for part in parts)
    return {"count": count, "mean": total / count, "max": greatest, "last": parts[-1]["last"]}


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
