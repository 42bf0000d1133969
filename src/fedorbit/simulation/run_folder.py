"""Locks of run folders: one process at a time writes into a folder, none into one in use."""

import filecmp
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

from fedorbit.errors import RunError
from fedorbit.files import remove_leftovers
from fedorbit.locks import locked
from fedorbit.simulation.manifest import CONFIG

LOCK = ".lock"
PATIENCE_S = 2.0
"""A killed process may have been starting another one, which holds its lock for a moment."""
ROOT = Path("runs")


@contextmanager
def new_folder(out: Path | None) -> Iterator[Path]:
    """Create a run's folder and hold it; default `runs/1`, `runs/2` …

    A start that fails before there is a configuration leaves nothing behind.
    """
    folder, made = _create(out)
    with only_one(folder):
        try:
            yield folder
        except BaseException:
            if made and {path.name for path in folder.iterdir()} == {LOCK}:
                (folder / LOCK).unlink()
                with suppress(OSError):  # others may use a folder above it by now
                    for path in made:
                        path.rmdir()
            raise


@contextmanager
def only_one(folder: Path) -> Iterator[None]:
    """Hold a run's folder; refuse if another process does.

    What killed processes have left half-written in it is removed.
    """
    with locked(folder / LOCK, PATIENCE_S) as is_ours:
        if not is_ours:
            raise RunError(f"another process runs in {folder}; wait for it or stop it")
        remove_leftovers(folder, *(path for path in folder.iterdir() if path.is_dir()))
        yield


def refuse_used(folder: Path, copies: Mapping[str, Path]) -> None:
    """Refuse a folder that holds a run or other files.

    What a killed start leaves behind does not count: hidden files, and copies of the files that the
    configuration names.
    """
    if (folder / CONFIG).exists():
        raise RunError(
            f"{folder} already holds a run; go on with `fedorbit run --resume {folder}`, "
            "or choose another --out"
        )
    if folder.exists() and (
        not folder.is_dir() or any(not _is_leftover(path, copies) for path in folder.iterdir())
    ):
        raise RunError(f"{folder} is in use and holds no run; choose another --out")


def _is_leftover(path: Path, copies: Mapping[str, Path]) -> bool:
    if path.name.startswith("."):
        return True
    return path.name in copies and filecmp.cmp(path, copies[path.name], shallow=False)


def _create(out: Path | None) -> tuple[Path, list[Path]]:
    """Return the folder, and all that had to be made for it, innermost first."""
    if out is not None:
        missing = _missing(out)
        out.mkdir(parents=True, exist_ok=True)
        return out, missing
    for number in count(1):
        folder = ROOT / str(number)
        missing = _missing(folder)
        with suppress(FileExistsError):  # another process was faster, or it is an old one
            folder.mkdir(parents=True)
            return folder, missing
    raise AssertionError("numbers do not end")


def _missing(folder: Path) -> list[Path]:
    return [path for path in (folder, *folder.parents) if not path.exists()]
