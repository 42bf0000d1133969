"""A folder or an archive as names and bytes: .zip, .tar, .tar.gz, .tgz or .rar.

Archive members are read in place, and no path from an archive is ever used to write a file.
Nothing is read that is larger than it announces, or than `data/limits.py` allows.
`data/imagetree.py` interprets the names.
"""

import gzip
import hashlib
import os
import re
import shutil
import stat
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from fedorbit.data.limits import Limits, read_exactly
from fedorbit.errors import DataError
from fedorbit.extras import install_extra
from fedorbit.inputs import kind_of, open_regular

ARCHIVES = ".zip, .tar, .tar.gz, .tgz or .rar"

_PIECE_BYTES = 1 << 20
_SPOOLED_BYTES = 1 << 26  # of a decompressed tar that are kept in memory
_KEPT_FREE_BYTES = 1 << 30  # on the disk that holds the rest: a full disk harms other programs
_DIRECTORY_BYTES = 1 << 28  # of a zip: 2 million members with names of 80 characters
_HEADER_BYTES = 1 << 20  # of a tar: long names and the like


@dataclass(frozen=True)
class Container:
    """Contents of a folder or archive by path: files with their announced sizes, and folders.

    `odd` are entries that are neither, with a description of each. `where` precedes the name of a
    file in messages: the folder and `/`, or the archive and `!`. `read` returns the bytes of a
    file.
    """

    where: str
    files: dict[str, int]
    folders: list[str]
    odd: dict[str, str]
    read: Callable[[str], bytes]


@contextmanager
def _open_folder(path: Path, limits: Limits) -> Iterator[Container]:
    files: dict[str, int] = {}
    odd: dict[str, str] = {}
    folders: list[str] = []
    seen = set()

    def fail(error: OSError) -> None:
        raise error

    # Links are followed (a user's own folder may use them), but never round in a circle.
    for parent, subfolders, names in os.walk(path, followlinks=True, onerror=fail):
        if (real := os.path.realpath(parent)) in seen:
            subfolders.clear()
            continue
        seen.add(real)
        inside = Path(parent).relative_to(path).as_posix()
        inside = "" if inside == "." else f"{inside}/"
        folders += [f"{inside}{name}" for name in subfolders]
        for name in names:
            try:
                state = Path(parent, name).stat()
            except OSError as error:
                odd[f"{inside}{name}"] = f"a link that leads nowhere ({error.strerror})"
                continue
            if stat.S_ISREG(state.st_mode):
                files[f"{inside}{name}"] = state.st_size
            else:
                odd[f"{inside}{name}"] = kind_of(state.st_mode)
        limits.require_files(str(path), "entries", len(files) + len(folders) + len(odd))

    def read(name: str) -> bytes:
        with open_regular(path / name) as file:
            return read_exactly(file, files[name])

    yield Container(f"{path}/", files, folders, odd, read)


class _SmallReads:
    """A file of which little is read at once, for readers that trust the sizes in headers."""

    def __init__(self, file: Any, most_bytes: int) -> None:
        self._file = file
        self._most_bytes = most_bytes
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> Any:
        """Read as asked, or all with -1, but refuse to read too much."""
        most = self._most_bytes
        content = self._file.read(most + 1 if size == -1 else min(size, most + 1))
        if len(content) > most:
            raise EOFError(f"a header is larger than the {most:,} bytes allowed")
        return content


@contextmanager
def _open_zip(path: Path, limits: Limits) -> Iterator[Container]:
    with (
        open_regular(path) as file,
        # The directory of an archive is read as a whole, and makes ten times as many bytes of
        # objects; members are read in small pieces.
        zipfile.ZipFile(cast(Any, _SmallReads(file, _DIRECTORY_BYTES))) as archive,
    ):
        members = archive.infolist()
        limits.require_files(str(path), "members", len(members))

        def read(name: str) -> bytes:
            member = copy(archive.getinfo(name))
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                # zipfile decompresses the others without a bound.
                raise DataError(
                    f"{path}!{name} is compressed by method {member.compress_type} of zip; allowed "
                    "are 0 (stored) and 8 (deflated); pack the archive again with one of these"
                )
            announced = member.file_size
            member.file_size = sys.maxsize  # zipfile would cut off, and not notice, what is beyond
            with archive.open(member) as content:
                return read_exactly(content, announced)

        yield Container(
            where=f"{path}!",
            files={m.filename: m.file_size for m in members if not m.is_dir()},
            folders=[member.filename for member in members if member.is_dir()],
            odd={m.filename: "a link" for m in members if stat.S_ISLNK(m.external_attr >> 16)},
            read=read,
        )


@contextmanager
def _open_tar(path: Path, limits: Limits) -> Iterator[Container]:
    with ExitStack() as stack:
        file: Any = stack.enter_context(open_regular(path))
        if path.suffix != ".tar":
            # A gzip stream can only be read front to back, while images are wanted in class order:
            # one pass decompresses it (as a nameless file when large), then members are in reach.
            plain = stack.enter_context(tempfile.SpooledTemporaryFile(_SPOOLED_BYTES))
            _decompress(path, file, plain, limits)
            file = plain
        file.seek(0)
        headers = cast(Any, _SmallReads(file, _HEADER_BYTES))
        archive = stack.enter_context(tarfile.open(fileobj=headers, mode="r:"))
        members: dict[str, tarfile.TarInfo] = {}
        for count, member in enumerate(archive, 1):
            limits.require_files(str(path), "members", count)
            if member.size < 0:  # tarfile would go back by it, for ever
                raise EOFError(f"{member.name} announces {member.size} bytes")
            members[member.name] = member
        # tarfile takes a header that is cut for the end; the true end is a block of zeros.
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise EOFError("the end of the archive is missing")

        def read(name: str) -> bytes:
            file.seek(members[name].offset_data)
            content = file.read(members[name].size)
            if len(content) != members[name].size:
                raise EOFError(f"it announces {members[name].size:,} bytes and holds fewer")
            return bytes(content)

        yield Container(
            where=f"{path}!",
            files={name: m.size for name, m in members.items() if m.isfile() and not m.issparse()},
            folders=[name for name, member in members.items() if member.isdir()],
            odd={
                name: "a sparse file" if member.isfile() else "a link or a device"
                for name, member in members.items()
                if not member.isdir() and (member.issparse() or not member.isfile())
            },
            read=read,
        )


def _decompress(path: Path, packed: BinaryIO, plain: Any, limits: Limits) -> None:
    """Decompress a gzip file, but neither beyond the limit nor until the disk is full."""
    folder = tempfile.gettempdir()
    written = 0
    with gzip.open(packed) as content:
        while piece := content.read(_PIECE_BYTES):
            written += len(piece)
            limits.require_total(str(path), "holds, decompressed, at least", written)
            if written > _SPOOLED_BYTES and shutil.disk_usage(folder).free < _KEPT_FREE_BYTES:
                raise DataError(
                    f"{path} holds, decompressed, more than the {written:,} bytes for which there "
                    f"is space in {folder}; unpack it elsewhere and give the folder, or set TMPDIR "
                    "to a folder on a larger disk"
                )
            plain.write(piece)


@contextmanager
def _open_rar(path: Path, limits: Limits) -> Iterator[Container]:
    try:
        import rarfile
    except ImportError as error:
        raise DataError(
            f"{path} is a .rar archive, which needs the package rarfile; "
            f"{install_extra('rar')}, or unpack the archive and give the folder"
        ) from error

    blocks: list[Any] = []

    def count(block: Any) -> None:
        blocks.append(block)
        limits.require_files(str(path), "members", len(blocks))

    with rarfile.RarFile(path, info_callback=count, errors="strict") as archive:
        if all(block.type != rarfile.RAR_BLOCK_ENDARC for block in blocks):
            raise EOFError("the end of the archive is missing")
        members = archive.infolist()
        files = {member.filename: member.file_size for member in members if member.is_file()}

        def read(name: str) -> bytes:
            try:
                # Closing the stream ends the program that unpacks, if there is one.
                with archive.open(name) as content:
                    return read_exactly(content, files[name])
            except rarfile.RarCannotExec as error:
                raise DataError(
                    f"{path}!{name} is compressed, which needs one of the programs unrar, unar, 7z "
                    "or bsdtar; install one, or unpack the archive and give the folder"
                ) from error

        yield Container(
            where=f"{path}!",
            files=files,
            folders=[member.filename for member in members if member.is_dir()],
            odd={member.filename: "a link" for member in members if member.is_symlink()},
            read=read,
        )


def _opener(path: Path) -> Callable[[Path, Limits], AbstractContextManager[Container]]:
    """Return the function that opens what lies at this path."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise DataError(
            f"{path} does not exist; give a folder of class folders or a {ARCHIVES}"
        ) from None
    except OSError as error:
        raise DataError(f"{path} cannot be read ({error.strerror}); check the path") from error
    if stat.S_ISDIR(mode):
        return _open_folder
    if not stat.S_ISREG(mode):
        raise DataError(
            f"{path} is {kind_of(mode)}; give a folder of class folders or a {ARCHIVES}"
        )
    name = path.name.lower()
    for suffix, opener in ((".zip", _open_zip), (".tar", _open_tar), (".rar", _open_rar)):
        if name.endswith(suffix):
            return opener
    if name.endswith((".tar.gz", ".tgz")):
        return _open_tar
    raise DataError(f"{path} is neither a folder nor a {ARCHIVES}; give one of these")


@contextmanager
def blame_file(where: str) -> Iterator[None]:
    """Turn whatever a decoder of foreign bytes raises into one sentence that names the file."""
    try:
        yield
    except (DataError, MemoryError):
        raise
    except Exception as error:  # damaged bytes raise anything: struct.error, zlib.error, EOFError …
        # Pillow names the buffer it was handed, which is of no use to a user.
        what = re.sub(r"\s*<_io\.[^>]*>", "", str(error))
        reason = f"{type(error).__name__}: {what}".rstrip(": ")
        # An errno means that the system failed; decoders raise OSError without one.
        system = isinstance(error, OSError) and error.errno is not None
        remedy = "check the disk and its permissions" if system else "get this file again"
        raise DataError(f"{where} cannot be read ({reason}); {remedy}") from error


@contextmanager
def open_container(path: Path, limits: Limits) -> Iterator[Container]:
    """Open a folder or archive, whatever it holds; it stays open inside the `with` block."""
    with ExitStack() as stack:
        opener = _opener(path)
        with blame_file(str(path)):
            container = stack.enter_context(opener(path, limits))
        yield container


def origin(path: Path) -> dict[str, str]:
    """Describe a path for the records: name and, for a file, size and SHA-256."""
    if path.is_dir():
        return {"folder": path.resolve().name}
    size_bytes = str(path.stat().st_size)
    return {"file": path.name, "size_bytes": size_bytes, "sha256": file_sha256(path)}


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with blame_file(str(path)), open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
