"""Who may write into a run's folder: one process at a time, and nobody into somebody else's."""

import fcntl
import filecmp
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import TextIO

from fedorbit.errors import RunError
from fedorbit.files import remove_leftovers
from fedorbit.simulation.manifest import CONFIG

LOCK = ".lock"
PATIENCE_S = 2.0
"""How long a lock is waited for."""
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
    with _locked(folder / LOCK):
        remove_leftovers(folder, *(path for path in folder.iterdir() if path.is_dir()))
        yield


def refuse_used(folder: Path, copies: Mapping[str, Path]) -> None:
    """Refuse a folder that holds a run or anybody's work.

    What a killed start leaves behind is nobody's: hidden files, and copies of the files that the
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


def _locked(path: Path) -> TextIO:
    """Open and lock a file; it is locked until it is closed, or its process dies.

    A process that was killed may have been starting another one, which holds its lock for a
    moment: so a lock is waited for, a little.
    """
    until_s = time.monotonic() + PATIENCE_S
    while (lock := _try_lock(path)) is None:
        if time.monotonic() > until_s:
            raise RunError(f"another process runs in {path.parent}; wait for it or stop it")
        time.sleep(PATIENCE_S / 40)
    return lock


def _try_lock(path: Path) -> TextIO | None:
    lock = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A start that failed may have removed the file after we opened it.
        if os.path.samestat(os.fstat(lock.fileno()), path.stat()):
            return lock
    except (BlockingIOError, FileNotFoundError):
        pass
    lock.close()
    return None
