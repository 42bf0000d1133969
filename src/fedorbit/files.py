"""Writing files so that nobody ever sees half of one."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yield a hidden path beside `path`; it takes its place when the block succeeds.

    The hidden file keeps the extension, since writers choose the format by it. A failure names the
    final path: nobody knows the hidden one, and a full disk names none.
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
