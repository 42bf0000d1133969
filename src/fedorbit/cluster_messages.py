"""Keeps Ray's reports of lost workers and nodes off standard output, which belongs to results.

Ray prints them there from a thread of its own, whatever one asks of it: amid a progress display,
or a JSON document. What was lost is told by whoever lost it; the reports go into a log.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any, TextIO

RAY_THREADS = "ray_"


class _Sorted:
    """Standard output, but for what Ray's threads write."""

    def __init__(self, stdout: TextIO, log: TextIO) -> None:
        self._stdout, self._log = stdout, log

    def __getattr__(self, name: str) -> Any:
        rays = threading.current_thread().name.startswith(RAY_THREADS)
        return getattr(self._log if rays else self._stdout, name)


@contextmanager
def ray_messages_to(path: Path) -> Iterator[None]:
    """Append what Ray has to say to a file."""
    with path.open("a") as log, redirect_stdout(_Sorted(sys.stdout, log)):
        yield
