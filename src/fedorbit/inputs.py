"""Opening files of unknown origin: only regular ones, and never more than a limit.

A FIFO blocks whatever opens it, a device such as /dev/zero has no end, and a file can be larger
than memory. All three are refused here, before anything is read, as an `OSError` whose `strerror`
completes a sentence: "x.csv cannot be read (it is a FIFO, not a regular file)".
"""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path

_KINDS = (
    (stat.S_ISREG, "a regular file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISLNK, "a link"),
)


def kind_of(mode: int) -> str:
    """Name what a `st_mode` stands for, such as "a FIFO"."""
    return next((name for is_kind, name in _KINDS if is_kind(mode)), "a device")


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading if it is a regular one, or a link to one; never wait for a writer."""
    require_regular(path.stat(), path)  # before opening it: that can already act on a device
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        require_regular(os.fstat(descriptor), path)  # it can have been replaced since
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, most_bytes: int) -> bytes:
    """Return the contents of a regular file that has at most so many bytes."""
    with open_regular(path) as file:
        size_bytes = os.fstat(file.fileno()).st_size
        # One byte more is asked for: a file can grow, and those of /proc announce no size.
        content = file.read(most_bytes + 1) if size_bytes <= most_bytes else b""
    if max(size_bytes, len(content)) > most_bytes:
        raise OSError(
            errno.EFBIG,
            f"it has {max(size_bytes, len(content)):,} bytes, allowed are {most_bytes:,}",
            str(path),
        )
    return content


def require_regular(state: os.stat_result, path: Path) -> None:
    """Refuse what is no regular file, by the state that an open file or a path has."""
    if not stat.S_ISREG(state.st_mode):
        kind = kind_of(state.st_mode)
        raise OSError(errno.EINVAL, f"it is {kind}, not a regular file", str(path))
