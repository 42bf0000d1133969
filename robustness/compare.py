"""Comparison of the results in two folders of runs, bit by bit, but for the time that it took."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy

TIMES = ("seconds",)
CHECKSUMS = ("chain", "records", "records_bytes", "integrity", "sha256")
"""Of records, checkpoints and summaries: they follow from the seconds in them."""


def differences(undisturbed: Path, disturbed: Path) -> list[str]:
    """Return one sentence per difference, and one per file that a killed process left behind."""
    found = [f"{path} is left behind" for path in leftovers(disturbed)]
    for folder in sorted(path.parent for path in undisturbed.rglob("config.toml")):
        found += _of_run(folder, disturbed / folder.relative_to(undisturbed))
    return found


def leftovers(folder: Path) -> list[str]:
    """Return files that were not finished, or set aside as damaged."""
    return [
        str(path.relative_to(folder))
        for path in sorted(folder.rglob("*"))
        if ".partial" in path.name or path.name.endswith(".damaged")
    ]


def _of_run(first: Path, second: Path) -> Iterator[str]:
    for name in ("config.toml", "world.json", "run.json"):
        if not _same_bytes(first / name, second / name):
            yield f"{second.name}: other {name}"
    for summary in sorted(first.glob("*/summary.json")):
        method = summary.parent.name
        for what, same in (
            ("records", _same_records(summary.parent, second / method)),
            ("summary", _same_summary(summary.parent, second / method)),
        ):
            if not same:
                yield f"{second.name}/{method}: other {what}"
        yield from _of_checkpoints(summary.parent, second / method)
    expected, got = ({p.name for p in folder.glob("*.*")} for folder in (first, second))
    if missing := sorted(expected - got):
        yield f"{second.name}: no {', '.join(missing)}"


def _same_bytes(first: Path, second: Path) -> bool:
    return first.read_bytes() == (second.read_bytes() if second.exists() else None)


def _same_records(first: Path, second: Path) -> bool:
    return _records(first) == _records(second)


def _records(folder: Path) -> list[Any] | None:
    path = folder / "records.jsonl"
    if not path.exists():
        return None
    return [_timeless(json.loads(line)) for line in path.read_text().splitlines()]


def _same_summary(first: Path, second: Path) -> bool:
    return _json(first / "summary.json") == _json(second / "summary.json")


def _json(path: Path) -> Any:
    return _timeless(json.loads(path.read_text())) if path.exists() else None


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items() if k not in (*TIMES, *CHECKSUMS)}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    return value


def _of_checkpoints(first: Path, second: Path) -> Iterator[str]:
    """Compare the last checkpoint, and those before that both have: a stop makes one of its own."""
    names = sorted(path.stem for path in first.glob("checkpoint-*.json"))
    for name in names:
        if not (second / f"{name}.json").exists():
            if name == names[-1]:
                yield f"{second.parent.name}/{second.name}: no {name}"
            continue
        if not same_tensors(first / f"{name}.safetensors", second / f"{name}.safetensors"):
            yield f"{second.parent.name}/{second.name}: other tensors in {name}"
        if _json(first / f"{name}.json") != _json(second / f"{name}.json"):
            yield f"{second.parent.name}/{second.name}: other numbers in {name}"


def same_tensors(first: Path, second: Path) -> bool:
    """Return whether two files hold the same tensors, bit by bit."""
    a, b = (safetensors.numpy.load_file(path) for path in (first, second))
    return a.keys() == b.keys() and all(_same_bits(a[key], b[key]) for key in a)


def _same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
