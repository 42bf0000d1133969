"""Locks between processes: a file that one process at a time holds, by POSIX `flock`.

A lock ends with its process, so a killed process leaves a file behind but no lock. The file lies
where others may write: a link or a FIFO in its place is refused, and never followed.
"""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from fedorbit.inputs import require_regular

LOOK_EVERY_S = 0.05


@contextmanager
def locked(path: Path, patience_s: float = 0.0) -> Iterator[bool]:
    """Yield whether this process holds the lock; another process's is waited for so long.

    The folder of the file must exist.
    """
    until_s = time.monotonic() + patience_s
    with ExitStack() as held:
        while not (is_ours := _take(path, held)) and time.monotonic() < until_s:
            time.sleep(LOOK_EVERY_S)
        yield is_ours


def is_locked(path: Path) -> bool:
    """Return whether some process holds the lock; nothing is written."""
    try:
        with _opened(path, os.O_RDONLY) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _take(path: Path, held: ExitStack) -> bool:
    """Lock the file until `held` is closed; False if another process has locked or removed it."""
    with ExitStack() as attempt:
        file = attempt.enter_context(_opened(path, os.O_RDWR | os.O_CREAT))
        with suppress(BlockingIOError, FileNotFoundError):
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The process that held the lock may have removed the file after it was opened here.
            if os.path.samestat(os.fstat(file), path.lstat()):
                held.push(attempt.pop_all())
                return True
    return False


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    file = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        require_regular(os.fstat(file), path)
        yield file
    finally:
        os.close(file)
