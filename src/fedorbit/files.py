"""Writing files so that half of one is never seen."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PARTIAL = ".*.partial*"
"""Names of files that are being written, or that a killed process has left."""
LONG_WRITTEN_S = 3600.0
"""No file takes that long to write."""


def remove_leftovers(*folders: Path, older_than_s: float = 0.0) -> None:
    """Remove what killed processes have left half-written.

    Where another process may be writing, an age distinguishes its files from leftovers.
    """
    latest = time.time() - older_than_s
    for folder in folders:
        for path in folder.glob(PARTIAL):
            with suppress(FileNotFoundError):
                if path.stat().st_mtime <= latest:
                    path.unlink()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a hidden path beside `path`; it takes its place when the block succeeds.

    The hidden file keeps the extension, since writers choose the format by it. A failure names the
    final path: the hidden one means nothing to a user, and a full disk names none.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.partial{path.suffix}")
    try:
        yield partial
        with partial.open("rb") as written:
            os.fsync(written.fileno())
        partial.replace(path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, partial, str(partial)):
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        partial.unlink(missing_ok=True)
