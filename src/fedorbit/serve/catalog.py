"""Catalog of a server: the runs below one folder, and the progress of each.

A request names a run as the list does; what is not in the list does not exist, so that no path is
ever made from a request. Links are not followed, neither to folders nor to files.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from fedorbit.documents import DocumentError, parse_toml, read_text
from fedorbit.errors import FedOrbitError, RunError, os_sentence
from fedorbit.locks import is_locked
from fedorbit.simulation.manifest import CONFIG, MANIFEST, WORLD, read_stored, refuse_links
from fedorbit.simulation.records import (
    RECORDS,
    STUDY,
    SUMMARY,
    last_record,
    method_folder,
    read_summary,
)
from fedorbit.simulation.run_folder import LOCK

MOST_RUNS = 5000
"""Most runs in a list; a page with more would be of no use."""

Phase = Literal["done", "running", "interrupted", "waiting"]


@dataclass(frozen=True)
class MethodState:
    """Progress of a method of a run."""

    method: str
    phase: Phase
    rounds_done: int
    accuracy: float | None
    """Accuracy in percent: from the summary, or from the last record."""


@dataclass(frozen=True)
class RunState:
    """A run in the list; `error` is the sentence why it cannot be read."""

    name: str
    rounds: int = 0
    seed: int = 0
    methods: tuple[MethodState, ...] = ()
    error: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return it for a JSON document."""
        return asdict(self)


@dataclass(frozen=True)
class Group:
    """A folder with runs in it: a study, if it has a study's file."""

    name: str
    title: str | None
    runs: tuple[str, ...]


@dataclass(frozen=True)
class Listing:
    """Folders of runs by name, at one moment."""

    runs: Mapping[str, Path]
    studies: frozenset[Path]
    """Folders with a study's file."""
    left_out: int
    """Folders of runs that are not shown: too many, or not within the rules."""

    @cached_property
    def groups(self) -> list[Group]:
        """The folders that runs are in."""
        members: dict[Path, list[str]] = {}
        for name, path in self.runs.items():
            members.setdefault(path.parent, []).append(name)
        return [
            Group(
                runs[0].rpartition("/")[0] or ".",
                _title(folder) if folder in self.studies else None,
                tuple(runs),
            )
            for folder, runs in members.items()
        ]

    def chosen(self, names: Iterable[str]) -> dict[str, Path]:
        """Return the runs of some names; the name of a group stands for all runs in it."""
        found: dict[str, Path] = {}
        for name in names:
            members = [name] if name in self.runs else self._members(name)
            if not members:
                raise RunError(f"no run or study here is called {name!r}; see the list of runs")
            found |= {member: self.runs[member] for member in members}
        return found

    def _members(self, name: str) -> Sequence[str]:
        return next((group.runs for group in self.groups if group.name == name), ())


class Catalog:
    """The runs at and below a folder."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise RunError(f"{root} is no folder; give a folder with runs or studies in it")
        self.root = root.resolve()
        self._states: dict[str, tuple[str, RunState]] = {}

    def listing(self) -> Listing:
        """Look for runs, now."""
        runs: dict[str, Path] = {}
        studies: set[Path] = set()
        linked_studies: set[Path] = set()
        left_out = 0
        for folder, files in _folders(self.root):
            if STUDY in files:
                (studies if _is_regular(folder / STUDY) else linked_studies).add(folder)
            if CONFIG not in files:
                continue
            name = folder.relative_to(self.root).as_posix()
            allowed = _is_regular(folder / CONFIG) and _is_text(name)
            if not allowed or folder.parent in linked_studies or len(runs) >= MOST_RUNS:
                left_out += 1
            else:
                runs[name] = folder
        return Listing(runs, frozenset(studies), left_out)

    def states(self, runs: Mapping[str, Path]) -> list[RunState]:
        """Return how far runs have come; what has not changed is not read again."""
        for name, path in runs.items():
            token = state_token([path])
            if self._states.get(name, ("",))[0] != token:
                self._states[name] = token, _read_state(name, path)
        return [self._states[name][1] for name in runs]


def state_token(paths: Iterable[Path]) -> str:
    """Return a name for what runs have written so far: another one once something is added."""
    seen = hashlib.sha256()
    for path in paths:
        folders = sorted((p for p in _children(path) if p.is_dir(follow_symlinks=False)), key=_name)
        files = [path / CONFIG, path / MANIFEST, path / WORLD, path.parent / STUDY]
        files += [Path(folder, file) for folder in folders for file in (RECORDS, SUMMARY)]
        seen.update(f"{path}{_is_running(path)}".encode(errors="surrogateescape"))
        for file in files:
            try:
                state = file.lstat()
            except OSError:
                continue
            seen.update(f"{file.name}{state.st_size}{state.st_mtime_ns}".encode())
    return seen.hexdigest()


def _children(path: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return list(entries)
    except OSError:
        return []  # just removed


def _name(entry: os.DirEntry[str]) -> str:
    return entry.name


def _folders(root: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yield folders and the names of their files; nothing below a run, nothing hidden."""
    for parent, folders, files in os.walk(root):  # follows no links
        shown = [] if CONFIG in files else [name for name in folders if name[0] != "."]
        folders[:] = sorted(shown, key=_natural)
        yield Path(parent), files


def _natural(name: str) -> list[tuple[int, str]]:
    """Order 2 before 10: runs have numbers unless they are named."""
    parts = re.split(r"([0-9]+)", name)  # texts at even places, digits at odd ones
    return [(int(part), "") if n % 2 else (-1, part) for n, part in enumerate(parts)]


def _read_state(name: str, path: Path) -> RunState:
    try:
        refuse_links(path)
        stored = read_stored(path)
        run, is_running = stored.values["run"], _is_running(path)
        return RunState(
            name,
            int(run["rounds"]),
            int(stored.values.get("seed", 0)),
            tuple(_method_state(path, str(method), is_running) for method in run["method"]),
        )
    except FedOrbitError as error:
        return RunState(name, error=str(error))
    except OSError as error:
        return RunState(name, error=os_sentence(error))
    except (ValueError, TypeError):
        return RunState(name, error=f"{path / CONFIG} is not the configuration of a run")


def _method_state(run: Path, method: str, is_running: bool) -> MethodState:
    folder = method_folder(run, method)
    summary = read_summary(folder)
    if summary is not None:
        return MethodState(method, "done", summary["rounds"], summary["accuracy"])
    last = last_record(folder)
    begun: Phase = "running" if is_running else "interrupted"
    if last is None:
        return MethodState(method, "waiting" if is_running else "interrupted", 0, None)
    return MethodState(method, begun, last["round"] + 1, last["accuracy"])


def _is_running(path: Path) -> bool:
    try:
        return is_locked(path / LOCK)
    except OSError:  # not ours to look at
        return False


def _title(folder: Path) -> str | None:
    try:
        return str(parse_toml(read_text(folder / STUDY)).get("title") or folder.name)
    except (OSError, DocumentError):
        return folder.name


def _is_regular(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _is_text(name: str) -> bool:
    """Return whether a name is UTF-8: others cannot stand on a page or in an address."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
