"""Limits of what is read: an archive of a few megabytes can announce, or hold, terabytes.

Announced sizes are compared with a limit before anything is read, and no more is read than was
announced. The defaults admit every dataset of the catalogue; the command line can raise the limits
that depend on the images.
"""

from dataclasses import dataclass
from io import BytesIO
from typing import Any, BinaryIO

from fedorbit.errors import DataError

MB = 1_000_000
GB = 1_000_000_000

_PIECE_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """The most that is read of one source.

    `image_bytes` bounds an image as a file and as pixels, and a chunk of an HDF5 file.
    `total_bytes` bounds all images together, and everything that a compressed archive holds.
    `files` bounds how many there are: a name takes up to a kilobyte of memory.
    """

    image_bytes: int = 256 * MB
    total_bytes: int = 200 * GB  # So2Sat LCZ42, the largest known, has 59
    files: int = 2_000_000  # ImageNet has 1.4 million

    def require_image(self, where: str, what: str, size_bytes: int) -> None:
        """Refuse an image, or a part of a file that is read whole, that is too large."""
        if size_bytes > self.image_bytes:
            raise DataError(
                f"{where} {what} {size_bytes:,} bytes; allowed are {self.image_bytes:,}; "
                f"leave it out, or raise --max-image-mb to {-(-size_bytes // MB)} if it is genuine"
            )

    def require_total(self, where: str, what: str, size_bytes: int) -> None:
        """Refuse a source that is too large."""
        if size_bytes > self.total_bytes:
            raise DataError(
                f"{where} {what} {size_bytes:,} bytes; allowed are {self.total_bytes:,}; "
                f"use a part of it, or raise --max-total-gb to {-(-size_bytes // GB)} if it is "
                "genuine"
            )

    def require_files(self, where: str, what: str, count: int) -> None:
        """Refuse a source of too many parts."""
        if count > self.files:
            raise DataError(
                f"{where} holds more than {self.files:,} {what}, the most that are read; divide it"
            )


def read_exactly(stream: BinaryIO | Any, announced_bytes: int) -> bytes:
    """Return what a stream holds if it is as long as announced; read one byte more at most."""
    content = BytesIO()
    wanted = announced_bytes + 1
    while wanted and (piece := stream.read(min(wanted, _PIECE_BYTES))):
        wanted -= content.write(piece)
    if wanted != 1:
        held = f"{content.tell():,}" if wanted else "more"
        raise EOFError(f"it announces {announced_bytes:,} bytes and holds {held}")
    return content.getvalue()
