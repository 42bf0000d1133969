"""A study's folder: which run is done, running, interrupted, failed or missing.

All of it is read from files, so that any process sees the same. A run is running while a process
holds its lock, and a lock ends with its process: a killed one leaves no false state behind.
"""

import json
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter
from typing_extensions import TypedDict

from fedorbit import locks
from fedorbit.config import Config
from fedorbit.documents import DocumentError, read_json
from fedorbit.errors import RunError
from fedorbit.files import replacing
from fedorbit.simulation.manifest import CONFIG, stored_config
from fedorbit.simulation.records import last_record, method_folder, read_summary
from fedorbit.simulation.runs import differing_keys, with_backend_of
from fedorbit.studies.grid import Cell

HIDDEN = ".study"


class Failure(TypedDict):
    """Content of the file with the error of a failed run."""

    error: str
    traceback: str


FAILURE: TypeAdapter[Any] = TypeAdapter(Failure)

RunPhase = Literal["done", "running", "interrupted", "failed", "missing"]


@dataclass(frozen=True)
class RunState:
    """Progress of a run."""

    folder: str
    method: str
    state: RunPhase
    rounds_done: int
    rounds: int
    seconds: float
    """Computing time so far."""
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        return asdict(self)


def state_of(out: Path, cell: Cell) -> RunState:
    """Look at a run's files."""
    rounds, target = cell.config.run.rounds, method_folder(out / cell.slug, cell.method)
    summary = read_summary(target)
    if summary is not None:
        done = summary["rounds"]
        return RunState(cell.slug, cell.method, "done", done, rounds, summary["seconds"])
    last = last_record(target)
    rounds_done, seconds = (last["round"] + 1, last["seconds"]) if last else (0, 0.0)
    error = read_failure(out, cell.slug)
    state: RunPhase = "missing"
    if is_locked(out, cell.slug):
        state, error = "running", None
    elif error is not None:
        state = "failed"
    elif (out / cell.slug / CONFIG).exists():
        state = "interrupted"
    return RunState(cell.slug, cell.method, state, rounds_done, rounds, seconds, error)


def run_lock(out: Path, slug: str) -> AbstractContextManager[bool]:
    """Hold a run's lock; yields whether this process alone may do the run now, and never waits."""
    path = _lock_file(out, slug)
    path.parent.mkdir(parents=True, exist_ok=True)
    return locks.locked(path)


def is_locked(out: Path, slug: str) -> bool:
    """Return whether some process does a run now."""
    return locks.is_locked(_lock_file(out, slug))


def remove_lock(out: Path, slug: str) -> None:
    """Remove the lock of a run that does not exist."""
    _lock_file(out, slug).unlink(missing_ok=True)


def failure_file(out: Path, slug: str) -> Path:
    """Return the file with the error of a failed run."""
    return _hidden(out, slug, "failure.json")


def write_failure(out: Path, slug: str, sentence: str, traceback: str = "") -> None:
    """Remember why a run failed."""
    with replacing(failure_file(out, slug)) as partial:
        partial.write_text(json.dumps({"error": sentence, "traceback": traceback}, indent=2) + "\n")


def read_failure(out: Path, slug: str) -> str | None:
    """Return why a run failed the last time, if it did."""
    path = failure_file(out, slug)
    try:
        sentence: str = read_json(path, FAILURE)["error"]
    except (FileNotFoundError, NotADirectoryError):
        return None
    except DocumentError as error:
        return f"{path} is damaged ({error})"
    return sentence


def forget_failure(out: Path, slug: str) -> None:
    """Begin anew."""
    failure_file(out, slug).unlink(missing_ok=True)


def planned_config(out: Path, slug: str) -> Path:
    """Return the file of a run's configuration before the run begins."""
    return _hidden(out, slug, "toml")


def log_file(out: Path) -> Path:
    """Return the log of warnings and of what methods print, for all runs on this machine."""
    path = out / HIDDEN / "log.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def run_log(out: Path, slug: str) -> Path:
    """Return the log of one run on a cluster, whose nodes cannot all append to one file."""
    return _hidden(out, slug, "log.txt")


def as_started(config: Config, folder: Path) -> Config:
    """Return the configuration with the backend that a begun run has settled on."""
    if not (folder / CONFIG).exists():
        return config
    return with_backend_of(stored_config(folder), config)


def refuse_other_configurations(out: Path, cells: list[Cell]) -> None:
    """Refuse folders whose run was begun with other settings."""
    for cell in cells:
        folder = out / cell.slug
        if not (folder / CONFIG).exists():
            continue
        keys = differing_keys(stored_config(folder), as_started(cell.config, folder))
        if keys:
            raise RunError(
                f"{folder} was run with another configuration; it differs in {', '.join(keys)}; "
                "choose another --out, or move that folder away"
            )


def _lock_file(out: Path, slug: str) -> Path:
    return _hidden(out, slug, "lock")


def _hidden(out: Path, slug: str, suffix: str) -> Path:
    return out / HIDDEN / f"{slug}.{suffix}"
