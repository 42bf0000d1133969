"""A run's files on their way between two machines that share no folder.

A file never arrives before those that it counts on: a checkpoint counts on its arrays and on
records up to its round, a summary on all records, records on the manifest, and that on the world
file. So a file is read before those that it counts on, and written after them, and a run can
continue from whatever has arrived when a machine is lost.
"""

from dataclasses import dataclass
from pathlib import Path

from fedorbit.files import replacing
from fedorbit.simulation.manifest import CONFIG, CONTACTS, MANIFEST, WORLD
from fedorbit.simulation.records import RECORDS
from fedorbit.studies import folders

CHECKPOINTS = "checkpoint-*"


@dataclass(frozen=True)
class RunFiles:
    """Files that are new or have changed, by their paths in the study's folder."""

    contents: dict[str, bytes]
    """Contents of files in the order in which they are to be written."""
    checkpoints: frozenset[str]
    """All checkpoint files there are; those that are not here are outdated."""


class Mirror:
    """Finds what has changed in a run's files since the last call."""

    def __init__(self, out: Path, slug: str) -> None:
        self._out, self._slug = out, slug
        self._known: dict[str, tuple[int, int]] = {}

    def changes(self) -> RunFiles | None:
        """Read what has changed; None if nothing has."""
        paths = sorted(self._paths(), key=_reading_order)
        read: dict[str, bytes] = {}
        for path in paths:
            name = str(path.relative_to(self._out))
            try:
                stat = path.stat()
                version = (stat.st_mtime_ns, stat.st_size)
                if self._known.get(name) == version:
                    continue
                read[name] = path.read_bytes()
            except FileNotFoundError:  # an old checkpoint, dropped just now
                continue
            self._known[name] = version
        if not read:
            return None
        checkpoints = {p.relative_to(self._out) for p in paths if p.match(CHECKPOINTS)}
        return RunFiles(dict(reversed(read.items())), frozenset(map(str, checkpoints)))

    def _paths(self) -> list[Path]:
        inside = [path for path in (self._out / self._slug).rglob("*") if path.is_file()]
        beside = [
            folders.failure_file(self._out, self._slug),
            folders.run_log(self._out, self._slug),
        ]
        return [p for p in inside if not p.name.startswith(".")] + [p for p in beside if p.exists()]


FOUNDATIONS = (RECORDS, MANIFEST, WORLD, CONTACTS, CONFIG, "elements.*", "plan.*")
"""Files that others count on, the last one most."""


def _reading_order(path: Path) -> tuple[int, str]:
    for place, pattern in enumerate(FOUNDATIONS):
        if path.match(pattern):
            return 2 + place, path.name
    return (0 if path.suffix == ".json" else 1), path.name


def write_files(files: RunFiles, out: Path, slug: str) -> None:
    """Write what has arrived, and drop the checkpoints that are outdated."""
    for name, content in files.contents.items():
        with replacing(out / name) as partial:
            partial.write_bytes(content)
    for path in sorted((out / slug).rglob(CHECKPOINTS)):  # .json before its .safetensors
        if str(path.relative_to(out)) not in files.checkpoints:
            path.unlink()
