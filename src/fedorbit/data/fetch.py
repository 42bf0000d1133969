"""Download the original files of a source, pinned by checksum (see `data/sources.py`).

A file is written under a temporary name and moved when its checksum is right, so a file under its
final name is always whole, and an interrupted download simply starts again.
"""

import logging
import shutil
from pathlib import Path

import pooch
import requests

from fedorbit.data.cache import downloads_root
from fedorbit.data.sources import RemoteFile, find_source
from fedorbit.errors import FetchError
from fedorbit.progress import Progress, SilentProgress

_TIMEOUT_S = (10, 60)  # to connect; between two pieces of data
_PIECE_BYTES = 1 << 20


def fetch(source_name: str, progress: Progress | None = None) -> list[Path]:
    """Download what is missing of a source's files and return where they are."""
    info = find_source(source_name).info
    if not info.files:
        own_files = "" if find_source(source_name).generated else " --source PATH"
        raise FetchError(
            f"source {source_name} has no files to download; "
            f"run `fedorbit data prepare {source_name}{own_files}`"
        )
    return [_fetch_file(file, source_name, progress or SilentProgress()) for file in info.files]


def _fetch_file(file: RemoteFile, source_name: str, progress: Progress) -> Path:
    """Return the path of one file, downloaded unless it is there with the right checksum."""
    target = downloads_root() / file.name
    by_hand = (
        f"Download it by hand, check that its checksum is {file.checksum}, put it at {target} and "
        f"run `fedorbit data prepare {source_name}`."
    )
    pooch.get_logger().setLevel(logging.WARNING)  # `progress` reports the download
    bar = _Bar(progress, file)
    try:
        _check_free_space(file, target)
        pooch.retrieve(
            file.url,
            known_hash=file.checksum,
            fname=file.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(
                progressbar=bar, chunk_size=_PIECE_BYTES, timeout=_TIMEOUT_S
            ),
        )
    except requests.RequestException as error:
        raise FetchError(
            f"{file.name} could not be downloaded from {file.url} ({_reason(error)}). {by_hand}"
        ) from error
    except ValueError as error:  # pooch's word for a wrong checksum
        raise FetchError(
            f"{file.name} from {file.url} does not have the checksum {file.checksum}, so it was "
            f"not kept. Try again, the transfer may have been damaged. {by_hand}"
        ) from error
    except OSError as error:
        raise FetchError(
            f"{target} cannot be written ({error.strerror or error}). "
            "Free some space or set FEDORBIT_CACHE to another folder."
        ) from error
    finally:
        bar.close()
    return target


def _check_free_space(file: RemoteFile, target: Path) -> None:
    """Refuse to begin a download that cannot fit."""
    target.parent.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(target.parent).free
    if file.size_bytes and not target.exists() and free_bytes < file.size_bytes:
        raise FetchError(
            f"{target} needs about {file.size_bytes:,} bytes but only {free_bytes:,} are free. "
            "Free some space or set FEDORBIT_CACHE to a folder on a larger disk."
        )


def _reason(error: Exception) -> str:
    """Return the innermost cause in a few words; requests wraps it three times."""
    while (cause := error.__cause__ or error.__context__) and isinstance(cause, Exception):
        error = cause
    return str(error) or type(error).__name__


class _Bar:
    """Progress bar with the interface that pooch expects, passed on to `Progress`.

    Pooch counts whole pieces, then resets and reports the total; `Progress` only moves forward.
    """

    def __init__(self, progress: Progress, file: RemoteFile) -> None:
        self._progress = progress
        self._name = file.name
        self._total = 0
        self._seen = self._reported = 0
        self._open = False

    @property
    def total(self) -> int:
        """Bytes to come, as the server announces them."""
        return self._total

    @total.setter
    def total(self, total: int) -> None:
        self._total = total
        self._open = True
        self._progress.start(f"downloading {self._name}", total, "bytes")

    def update(self, n: int) -> None:
        """Report bytes."""
        self._seen = min(self._seen + n, self._total) if self._total else self._seen + n
        if self._seen > self._reported:
            self._progress.advance(self._seen - self._reported)
            self._reported = self._seen

    def reset(self) -> None:
        """Begin to count again."""
        self._seen = 0

    def close(self) -> None:
        """End, once."""
        if self._open:
            self._open = False
            self._progress.finish()
