"""Records: one JSON line per evaluated round, and a summary. All that is shown comes from these."""

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedorbit.errors import RunError
from fedorbit.files import replacing

CONFIG, WORLD, RECORDS, SUMMARY = "config.toml", "world.json", "records.jsonl", "summary.json"
STUDY = "study.toml"
"""Beside the runs that belong to a study."""
LAST_ROUNDS = 10
"""The paper's metrics are means over the last ten evaluated rounds."""

Record = dict[str, Any]


class RecordFile:
    """Appends records; every line is on disk before the next round begins."""

    def __init__(self, folder: Path, keep_bytes: int = 0) -> None:
        """Open the file of a run; what stands behind `keep_bytes` is dropped."""
        self._path = folder / RECORDS
        length = self._path.stat().st_size if self._path.exists() else 0
        if keep_bytes > length:
            raise RunError(
                f"{self._path} is shorter than its checkpoint says; it was changed by hand, and "
                "the run cannot resume; start it again in another folder"
            )
        self._file = self._path.open("ab")
        self._file.truncate(keep_bytes)

    def append(self, record: Record) -> int:
        """Write one record and return the length of the file in bytes."""
        line = json.dumps(record, allow_nan=False, separators=(",", ":"))
        self._file.write(line.encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def method_folder(folder: Path, method: str) -> Path:
    """Where a method's files are; `my_module:MyMethod` lies in `my_module-MyMethod`."""
    return folder / re.sub(r"[^A-Za-z0-9._-]+", "-", method)


def read_records(folder: Path) -> list[Record]:
    """Read the records of a run; a last line that a crash has cut is left out.

    In a run that was finished, missing rounds are an error.
    """
    summary = read_summary(folder)  # written after all records, so read before them
    try:
        lines = (folder / RECORDS).read_bytes().split(b"\n")
    except FileNotFoundError:
        raise RunError(f"{folder} is not a run folder: it has no {RECORDS}") from None
    try:
        records = [json.loads(line) for line in lines[:-1]]
        recorded = records[-1]["round"] + 1 if records else 0
        if summary is not None and recorded != summary["rounds"]:
            raise ValueError(f"it ends after {recorded} of {summary['rounds']} rounds")
    except (ValueError, KeyError, TypeError) as error:
        raise RunError(
            f"{folder / RECORDS} is damaged ({error}); run this configuration again elsewhere"
        ) from None
    return records


def write_summary(folder: Path, summary: dict[str, Any]) -> None:
    """Write the summary of a finished run."""
    with replacing(folder / SUMMARY) as partial:
        partial.write_text(json.dumps(_finite(summary), indent=2, allow_nan=False) + "\n")


def _finite(value: Any) -> Any:
    """Put null where a diverged run has no number; JSON knows no other word for it."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def read_summary(folder: Path) -> dict[str, Any] | None:
    """Read the summary of a run, if it is finished."""
    return _read_again(folder / SUMMARY, folder.parent)


def read_setting(folder: Path) -> dict[str, Any] | None:
    """Read `world.json`; None for a run that was made before there was one."""
    return _read_again(folder / WORLD, folder)


def _read_again(path: Path, run: Path) -> dict[str, Any] | None:
    """Read a JSON file that resuming the run would write anew; None where there is none."""
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise RunError(
            f"{path} is damaged ({error}); remove it and `fedorbit run --resume {run}`"
        ) from None
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


def mean(values: Sequence[float | None]) -> float | None:
    """Mean of what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
