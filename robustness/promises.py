"""Promises of the command line for every call, with any input; a broken one is a failure.

The exit code is 0 or 2, and there is no traceback. With 2 there are messages on standard error,
and nothing is half-written. With `--json`, standard output is one document of strict JSON. Nothing
outside of the given folders is changed, no code in them is imported, no address in them is called.
Memory is bounded, and the call ends. A run is shown as it was recorded, or refused.
"""

import hashlib
import json
import math
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkserver import MEMORY_BYTES, Outcome

COMPLAINT = "fedorbit:"
ALLOWED_CODES = (0, 2)
HASHED_BYTES = 2**26

Tree = dict[str, str]


@dataclass(frozen=True)
class Failure:
    """A broken promise."""

    kind: str
    detail: str
    place: str = ""
    """The line of the package in which it arose, if known."""

    @property
    def signature(self) -> str:
        """The same for failures that have the same cause, most likely."""
        text = re.sub(r"'[^']*'|\"[^\"]*\"|[-\w.]*/[-\w./]*", "…", self.detail.split("\n")[0])
        return f"{self.kind}: {re.sub(r'[0-9]+', 'N', text)[:120]} {self.place}".rstrip()


def check_call(outcome: Outcome, as_json: bool) -> list[Failure]:
    """Check what a call returned and printed."""
    failures = [*_ending(outcome), *_limits(outcome)]
    if outcome.code >= 0 and not outcome.hung:
        failures += _messages(outcome)
        if as_json:
            failures += _document(outcome)
    return failures


def _ending(outcome: Outcome) -> list[Failure]:
    errors = outcome.stderr.strip()
    if outcome.connections:
        return [Failure("connection", "it connected to an address in a given file")]
    if outcome.hung:
        return [Failure("hang", "it waited for nothing, or took minutes")]
    if outcome.code < 0:
        return [Failure("signal", f"ended by signal {-outcome.code}")]
    if "internal error" in errors:
        line = next(line for line in errors.splitlines() if "internal error" in line)
        return [Failure("internal error", line.partition("internal error, ")[2].partition(";")[0])]
    if "Traceback (most recent call last)" in errors:
        return [Failure("traceback", errors.splitlines()[-1])]
    if outcome.code not in ALLOWED_CODES:
        return [Failure("exit code", f"{outcome.code}; {errors[-200:]}")]
    return []


def _limits(outcome: Outcome) -> list[Failure]:
    if outcome.memory_bytes <= MEMORY_BYTES:
        return []
    return [Failure("memory", f"{outcome.memory_bytes / 2**20:.0f} MiB above the imports")]


def _messages(outcome: Outcome) -> list[Failure]:
    lines = [line for line in outcome.stderr.splitlines() if line.strip()]
    failures = [
        Failure("Python warning", line)
        for line in lines
        if re.match(r"\S+\.py:\d+: \w*Warning", line)
    ]
    if outcome.code == 2:
        if not lines:
            failures.append(Failure("no complaint", "exit code 2 without a sentence"))
        elif not lines[0].startswith(COMPLAINT):
            failures.append(Failure("stray text", lines[0]))
    return failures[:1]


def _document(outcome: Outcome) -> list[Failure]:
    if not outcome.stdout.strip():
        return [] if outcome.code else [Failure("no JSON", "nothing on standard output")]
    try:
        strict_json(outcome.stdout)
    except (ValueError, RecursionError) as error:
        return [Failure("not JSON", str(error))]
    return []


def strict_json(data: bytes) -> Any:
    """Read one JSON document; refuse NaN and infinities, which JSON does not have."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    return json.loads(data.decode("utf-8"), parse_constant=refuse)


# --- Files --------------------------------------------------------------------------------------


def snapshot(folder: Path) -> Tree:
    """Return kind and content of all that is in a folder; links are not followed."""
    found: Tree = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        if stat.S_ISLNK(mode):
            content = f"link to {path.readlink()}"
        elif stat.S_ISREG(mode):
            content = _digest(path)
        else:
            content = f"mode {stat.S_IFMT(mode):o}"
        found[str(path.relative_to(folder))] = content
    return found


def _digest(path: Path) -> str:
    if path.stat().st_size > HASHED_BYTES:
        return f"{path.stat().st_size} bytes"
    return hashlib.sha256(path.read_bytes()).hexdigest()


def check_files(outcome: Outcome, before: Tree, after: Tree, keeps: bool) -> list[Failure]:
    """Check the folders of a call; `keeps`: whether a refusal leaves them as they were."""
    if outcome.code < 0:
        return []  # a process that was killed cannot tidy up
    litter = [path for path in after if path not in before and ".partial" in path]
    if litter:
        return [Failure("litter", _names(litter))]
    changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
    changed = [path for path in changed if not path.endswith(".lock") and not _is_cached(path)]
    if outcome.code == 2 and keeps and changed:
        return [Failure("half-written", f"refused, but changed {_names(changed)}")]
    return []


def _is_cached(path: str) -> bool:
    """Return whether a path is of generated images, kept for the next call, or of a library."""
    return path.startswith(("cache/synthetic-", "home/", "tmp/"))


def _names(paths: list[str]) -> str:
    return ", ".join(re.sub(r"[0-9a-f]{8}", "…", path) for path in sorted(paths)[:3])


# --- Results ------------------------------------------------------------------------------------

REPORTED = ("accuracy", "spread", "samples_trained", "to_ground_bytes", "to_ground_vs_fedavg")
TIMES = ("seconds", "folder")


def headline(command: str, document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the results that a command prints with `--json`, by method."""
    if command == "report":
        return {
            f"{setting['setting']} {row['series']}": {key: row[key] for key in REPORTED}
            for setting in document["settings"]
            for row in setting["methods"]
        }
    if command == "resume":
        rows = document["runs"]
        return {row["method"]: {k: v for k, v in row.items() if k not in TIMES} for row in rows}
    return {f"{n['row']} {n['column']} {n['metric']}": n["mean"] for n in document["numbers"]}


def check_results(
    command: str, outcome: Outcome, baseline: Mapping[str, Any], *, may_miss: bool = False
) -> list[Failure]:
    """Check that damaged files do not pass for other results without a word.

    `may_miss`: an unfinished run may be left out of a table.
    """
    warned = any(line.startswith(COMPLAINT) for line in outcome.stderr.splitlines())
    if outcome.code != 0 or warned:
        return []
    try:
        document = strict_json(outcome.stdout)
        if document.get("notes"):
            return []
        found = headline(command, document)
    except (ValueError, RecursionError, AttributeError):
        return []  # its form is checked elsewhere
    for name, expected in baseline.items():
        if name not in found and not may_miss:
            return [Failure("silent mixture", f"{command}: {name} is missing")]
        got = found.get(name)
        if not _same(expected, got) and not (may_miss and got is None):
            keys = _differing(expected, got)
            return [Failure("silent mixture", f"{command}: other {keys}")]
    return []


def _differing(expected: Any, got: Any) -> str:
    if not isinstance(expected, dict) or not isinstance(got, dict):
        return "value"
    return ", ".join(key for key in expected if not _same(expected[key], got.get(key)))


def _same(first: Any, second: Any) -> bool:
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)
