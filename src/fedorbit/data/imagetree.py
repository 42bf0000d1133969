"""Images in class folders, wherever they lie: a folder, or a .zip, .tar, .tar.gz, .tgz or .rar.

`open_tree` finds the level of the class folders itself, so `EuroSAT_RGB/Forest/x.jpg`,
`2750/Forest/x.jpg` and `Forest/x.jpg` give the same tree: classes sorted by name, images of a
class (also those in folders inside it) in natural order, `x_2` before `x_10`. Archive members are
read in place, and no path from an archive is ever used to write a file; members that try to point
elsewhere are refused all the same, and so are FIFOs, devices and whatever is larger than
`data/limits.py` allows. What the bytes mean is the business of `data/folder.py`.
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
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, cast

from fedorbit.data.limits import Limits, read_exactly
from fedorbit.errors import DataError
from fedorbit.inputs import kind_of, open_regular

ARCHIVES = ".zip, .tar, .tar.gz, .tgz or .rar"

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".npy",
}  # fmt: skip
_DOCUMENTS = {"", ".txt", ".csv", ".tsv", ".md", ".json", ".xml", ".html", ".pdf", ".db", ".ini"}
_PIECE_BYTES = 1 << 20
_SPOOLED_BYTES = 1 << 26  # of a decompressed tar that are kept in memory
_KEPT_FREE_BYTES = 1 << 30  # on the disk that holds the rest: a full disk harms other programs
_DIRECTORY_BYTES = 1 << 28  # of a zip: 2 million members with names of 80 characters
_HEADER_BYTES = 1 << 20  # of a tar: long names and the like
_SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation"}


# --- Containers: a folder or an archive as names and bytes --------------------------------------


@dataclass(frozen=True)
class Container:
    """What is inside, by path: files with the size they announce, folders, and how to read a file.

    `odd` are entries that are no files, with what they are. `where` is what precedes the name of a
    file in messages: the folder and `/`, or the archive and `!`.
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
            f"{path} is a .rar archive, which needs the package rarfile; install fedorbit[rar] "
            "or unpack the archive and give the folder"
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
        # Pillow names the buffer it was handed, which tells a user nothing.
        what = re.sub(r"\s*<_io\.[^>]*>", "", str(error))
        reason = f"{type(error).__name__}: {what}".rstrip(": ")
        # An errno means that the system failed; decoders raise OSError without one.
        system = isinstance(error, OSError) and error.errno is not None
        remedy = "check the disk and its permissions" if system else "get this file again"
        raise DataError(f"{where} cannot be read ({reason}); {remedy}") from error


# --- The tree: which images, of which class, in which order -------------------------------------


@dataclass(frozen=True)
class TreeFile:
    """One image: its path inside the tree, and the class that its folder stands for."""

    member: str
    name: str
    label: int


@dataclass(frozen=True)
class ImageTree:
    """Images by class. `notes` says what was left out."""

    path: Path
    prefix: str
    class_names: tuple[str, ...]
    files: tuple[TreeFile, ...]
    notes: tuple[str, ...]
    limits: Limits
    read_member: Callable[[str], bytes]

    def where(self, file: TreeFile) -> str:
        """Name a file for a message: its path, or `archive!member`."""
        return self.prefix + file.member

    def read(self, file: TreeFile) -> bytes:
        """Return the bytes of an image file. Not to be called from two threads at once."""
        with blame_file(self.where(file)):
            return self.read_member(file.member)

    def require_classes(self, names: tuple[str, ...], title: str, hint: str = "") -> None:
        """Refuse a tree whose class folders are not those of a known dataset."""
        absent = sorted(set(names) - set(self.class_names))
        unknown = sorted(set(self.class_names) - set(names))
        if absent or unknown:
            raise DataError(
                f"{self.path} is not {title} (class folders missing: {_some(absent)}; "
                f"unknown: {_some(unknown)}); give the original archive or folder{hint}"
            )

    def only_classes(self, names: tuple[str, ...]) -> "ImageTree":
        """Return the tree without the class folders that are not named, and a note of them."""
        kept = tuple(name for name in self.class_names if name in names)
        left_out = sorted(set(self.class_names) - set(kept))
        notes = (f"class folders left out: {_some(left_out)}",) if left_out else ()
        label_of = {self.class_names.index(name): label for label, name in enumerate(kept)}
        files = (
            replace(file, label=label_of[file.label])
            for file in self.files
            if file.label in label_of
        )
        return replace(self, class_names=kept, files=tuple(files), notes=(*self.notes, *notes))

    def count_note(self, samples: int) -> tuple[str, ...]:
        """Return a note if the number of images is not the published one."""
        if len(self.files) == samples:
            return ()
        return (f"{self.path.name} holds {len(self.files):,} images; published are {samples:,}",)


@contextmanager
def open_tree(path: Path, limits: Limits | None = None) -> Iterator[ImageTree]:
    """Open a folder or archive of class folders; it stays open inside the `with` block."""
    limits = limits or Limits()
    with open_container(path, limits) as container:
        yield _arrange(path, container, limits)


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


def _some(names: list[str]) -> str:
    """List a few names for a message."""
    shown = ", ".join(names[:5]) or "none"
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _natural(name: str) -> tuple[list[str], str]:
    """Return a sort key under which numbers in a name count as numbers."""
    words = re.split(r"([0-9]+)", name.rpartition(".")[0])  # without suffix: `x` before `x1`
    # Of two numbers the one with more digits is the larger; Python refuses to read very long ones.
    numbers = [word.lstrip("0") for word in words[1::2]]
    words[1::2] = [f"{len(number):08d}{number}" for number in numbers]
    return words, name


def _inner_parts(container: Container, member: str) -> tuple[str, ...]:
    """Return the parts of a path inside the container; refuse one that leads out of an archive."""
    if container.where.endswith("/"):
        return PurePosixPath(member).parts
    inner = PurePosixPath(member.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or re.match(r"[A-Za-z]:", member):
        raise DataError(
            f"{container.where}{member} points outside its archive; "
            "do not use this archive, get it again from its publisher"
        )
    return inner.parts


def _refuse_undecodable(where: str, member: str) -> None:
    """Refuse a name that is not UTF-8: records and figures could not hold it."""
    try:
        member.encode()
    except UnicodeEncodeError:
        shown = member.encode(errors="backslashreplace").decode()
        raise DataError(f"{where}{shown} has a name that is not UTF-8; rename it") from None


def _is_hidden(parts: tuple[str, ...]) -> bool:
    """Return whether a file manager left it behind: `.DS_Store`, `._x.jpg`, `__MACOSX`."""
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _refuse_odd(container: Container) -> None:
    """Refuse what is no file: it could hang, have no end, or lead elsewhere."""
    for name, kind in container.odd.items():
        if _is_hidden(PurePosixPath(name).parts):
            continue
        remedy = "pack the archive again with the files themselves"
        if container.where.endswith("/"):
            remedy = "remove it"
        raise DataError(f"{container.where}{name} is {kind}, which is not read; {remedy}")


def _refuse_large(path: Path, where: str, sizes: dict[str, int], limits: Limits) -> None:
    """Refuse images that are too large, each or together, by the sizes they announce."""
    for name, size_bytes in sizes.items():
        limits.require_image(where + name, "has", size_bytes)
    limits.require_total(str(path), "holds images of", sum(sizes.values()))


def _arrange(path: Path, container: Container, limits: Limits) -> ImageTree:
    """Find the class folders and put their images in order."""
    _refuse_odd(container)
    parts_of = {name: _inner_parts(container, name) for name in container.files}
    folders = {_inner_parts(container, name) for name in container.folders}
    folders |= {parts[:depth] for parts in parts_of.values() for depth in range(1, len(parts))}
    parts_of = {name: parts for name, parts in parts_of.items() if not _is_hidden(parts)}
    for parts in (*parts_of.values(), *folders):
        _refuse_undecodable(container.where, "/".join(parts))

    suffix_of = {name: PurePosixPath(name).suffix.lower() for name in parts_of}
    images = {name: parts for name, parts in parts_of.items() if suffix_of[name] in IMAGE_SUFFIXES}
    others = [name for name in parts_of if suffix_of[name] not in IMAGE_SUFFIXES | _DOCUMENTS]
    if not images:
        raise DataError(
            f"{path} holds no image in class folders; known images are "
            f"{' '.join(sorted(IMAGE_SUFFIXES))}"
        )
    _refuse_large(path, container.where, {name: container.files[name] for name in images}, limits)
    root = _class_level([parts[:-1] for parts in images.values()])
    depth = len(root)
    beside = [name for name, parts in images.items() if len(parts) == depth + 1]
    classes = sorted(
        parts[depth]
        for parts in folders
        if len(parts) == depth + 1 and parts[:depth] == root and not _is_hidden(parts)
    )
    by_class: dict[str, list[str]] = {name: [] for name in classes}
    for name, parts in images.items():
        if len(parts) > depth + 1:
            by_class[parts[depth]].append(name)
    for class_name, members in by_class.items():
        if not members:
            raise DataError(
                f"class folder {container.where}{'/'.join((*root, class_name))} holds no image; "
                "remove the folder or put its images there"
            )
    if len(classes) < 2:
        raise DataError(
            f"{path} has {len(classes)} class folder(s) with images, at least 2 are needed; "
            "put the images of each class in a folder of its own"
        )
    if {name.lower() for name in classes} <= _SPLITS:
        raise DataError(
            f"{path} is divided into {', '.join(classes)}, which are no classes; "
            f"give one of these folders, such as {path / '/'.join((*root, classes[0]))}"
        )
    notes = [
        f"{len(left_out)} file(s) {reason} were left out, such as {min(left_out)}"
        for left_out, reason in (
            (beside, "beside the class folders"),
            (others, "that are not known as images"),
        )
        if left_out
    ]
    files = (
        TreeFile(member, parts_of[member][-1], label)
        for label, class_name in enumerate(classes)
        for member in sorted(by_class[class_name], key=_natural)
    )
    return ImageTree(
        path, container.where, tuple(classes), tuple(files), tuple(notes), limits, container.read
    )


def _class_level(homes: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the deepest folder above the folders of all images: its folders are the classes."""
    first, last = min(homes), max(homes)
    depth = 0
    while depth < len(first) and depth < len(last) and first[depth] == last[depth]:
        depth += 1
    # All images in one folder: that folder is the only class.
    return first[: depth - 1] if first == last and first else first[:depth]
