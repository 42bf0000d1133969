"""Images in class folders, wherever they lie: a folder, or a .zip, .tar, .tar.gz, .tgz or .rar.

`open_tree` finds the level of the class folders itself, so `EuroSAT_RGB/Forest/x.jpg`,
`2750/Forest/x.jpg` and `Forest/x.jpg` give the same tree: classes sorted by name, images of a
class (also those in folders inside it) in natural order, `x_2` before `x_10`. Archive members are
read in place, and no path from an archive is ever used to write a file; members that try to point
elsewhere are refused all the same. What the bytes mean is the business of `data/folder.py`.
"""

import gzip
import hashlib
import os
import re
import shutil
import stat
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from fedorbit.errors import DataError

ARCHIVES = ".zip, .tar, .tar.gz, .tgz or .rar"

_IMAGES = {".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm"}
_DOCUMENTS = {"", ".txt", ".csv", ".tsv", ".md", ".json", ".xml", ".html", ".pdf", ".db", ".ini"}
_SPOOLED_BYTES = 1 << 26  # of a decompressed tar that are kept in memory
_SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation"}


# --- Containers: a folder or an archive as names and bytes --------------------------------------


@dataclass(frozen=True)
class _Container:
    """What is inside: files and folders by their path in it, and how to read a file."""

    files: list[str]
    folders: list[str]
    links: list[str]
    read: Callable[[str], bytes]


@contextmanager
def _open_folder(path: Path) -> Iterator[_Container]:
    files, folders, seen = [], [], set()

    def fail(error: OSError) -> None:
        raise error

    # Links are followed (a user's own folder may use them), but never round in a circle.
    for parent, subfolders, names in os.walk(path, followlinks=True, onerror=fail):
        if (real := os.path.realpath(parent)) in seen:
            subfolders.clear()
            continue
        seen.add(real)
        inside = Path(parent).relative_to(path).as_posix()
        folders += [f"{inside}/{name}" for name in subfolders]
        files += [f"{inside}/{name}" for name in names]
    yield _Container(files, folders, [], lambda name: (path / name).read_bytes())


@contextmanager
def _open_zip(path: Path) -> Iterator[_Container]:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        yield _Container(
            files=[member.filename for member in members if not member.is_dir()],
            folders=[member.filename for member in members if member.is_dir()],
            links=[m.filename for m in members if stat.S_ISLNK(m.external_attr >> 16)],
            read=archive.read,
        )


@contextmanager
def _open_tar(path: Path) -> Iterator[_Container]:
    with ExitStack() as stack:
        file: Any = stack.enter_context(path.open("rb"))
        if path.suffix != ".tar":
            # A gzip stream can only be read front to back, while images are wanted in class order:
            # one pass decompresses it (as a nameless file when large), then members are in reach.
            plain = stack.enter_context(tempfile.SpooledTemporaryFile(_SPOOLED_BYTES))
            shutil.copyfileobj(stack.enter_context(gzip.open(file)), plain, 1 << 20)
            plain.seek(0)
            file = plain
        archive = stack.enter_context(tarfile.open(fileobj=file, mode="r:"))
        members = {member.name: member for member in archive.getmembers()}
        # tarfile takes a header that is cut for the end; the true end is a block of zeros.
        file.seek(archive.offset)
        if file.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
            raise EOFError("the end of the archive is missing")

        def read(name: str) -> bytes:
            content = archive.extractfile(members[name])
            assert content is not None, "only regular files are listed as files"
            return content.read()

        yield _Container(
            files=[name for name, member in members.items() if member.isfile()],
            folders=[name for name, member in members.items() if member.isdir()],
            links=[name for name, m in members.items() if not (m.isfile() or m.isdir())],
            read=read,
        )


@contextmanager
def _open_rar(path: Path) -> Iterator[_Container]:
    try:
        import rarfile
    except ImportError as error:
        raise DataError(
            f"{path} is a .rar archive, which needs the package rarfile; install fedorbit[rar] "
            "or unpack the archive and give the folder"
        ) from error

    blocks: list[Any] = []
    with rarfile.RarFile(path, info_callback=blocks.append, errors="strict") as archive:
        if all(block.type != rarfile.RAR_BLOCK_ENDARC for block in blocks):
            raise EOFError("the end of the archive is missing")
        members = archive.infolist()

        def read(name: str) -> bytes:
            try:
                content: bytes = archive.read(name)
            except rarfile.RarCannotExec as error:
                raise DataError(
                    f"{path}!{name} is compressed, which needs one of the programs unrar, unar, 7z "
                    "or bsdtar; install one, or unpack the archive and give the folder"
                ) from error
            return content

        yield _Container(
            files=[member.filename for member in members if member.is_file()],
            folders=[member.filename for member in members if member.is_dir()],
            links=[member.filename for member in members if member.is_symlink()],
            read=read,
        )


def _opener(path: Path) -> Callable[[Path], AbstractContextManager[_Container]]:
    """Return the function that opens what lies at this path."""
    if path.is_dir():
        return _open_folder
    if not path.exists():
        raise DataError(f"{path} does not exist; give a folder of class folders or a {ARCHIVES}")
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
    class_names: tuple[str, ...]
    files: tuple[TreeFile, ...]
    notes: tuple[str, ...]
    read_member: Callable[[str], bytes]

    def where(self, file: TreeFile) -> str:
        """Name a file for a message: its path, or `archive!member`."""
        return _where(self.path, file.member)

    def read(self, file: TreeFile) -> bytes:
        """Return the bytes of an image file. Not to be called from two threads at once."""
        with blame_file(self.where(file)):
            return self.read_member(file.member)

    def origin(self) -> dict[str, str]:
        """Describe the path for the records: name and, for an archive, size and SHA-256."""
        if self.path.is_dir():
            return {"folder": self.path.resolve().name}
        size_bytes = self.path.stat().st_size
        digest = file_sha256(self.path)
        return {"file": self.path.name, "size_bytes": str(size_bytes), "sha256": digest}

    def require_classes(self, names: tuple[str, ...], title: str) -> None:
        """Refuse a tree whose class folders are not those of a known dataset."""
        absent = sorted(set(names) - set(self.class_names))
        unknown = sorted(set(self.class_names) - set(names))
        if absent or unknown:
            raise DataError(
                f"{self.path} is not {title} (class folders missing: {_some(absent)}; "
                f"unknown: {_some(unknown)}); give the original archive or folder"
            )

    def count_note(self, samples: int) -> tuple[str, ...]:
        """Return a note if the number of images is not the published one."""
        if len(self.files) == samples:
            return ()
        return (f"{self.path.name} holds {len(self.files):,} images; published are {samples:,}",)


@contextmanager
def open_tree(path: Path) -> Iterator[ImageTree]:
    """Open a folder or archive of class folders; it stays open inside the `with` block."""
    with ExitStack() as stack:
        opener = _opener(path)
        with blame_file(str(path)):
            container = stack.enter_context(opener(path))
        yield _arrange(path, container)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's contents."""
    with blame_file(str(path)), path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _where(path: Path, member: str) -> str:
    return str(path / member) if path.is_dir() else f"{path}!{member}"


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


def _inner_parts(path: Path, member: str) -> tuple[str, ...]:
    """Return the parts of a path inside the container; refuse one that leads out of an archive."""
    if path.is_dir():
        return PurePosixPath(member).parts
    inner = PurePosixPath(member.replace("\\", "/"))
    if inner.is_absolute() or ".." in inner.parts or re.match(r"[A-Za-z]:", member):
        raise DataError(
            f"{_where(path, member)} points outside its archive; "
            "do not use this archive, get it again from its publisher"
        )
    return inner.parts


def _refuse_undecodable(path: Path, member: str) -> None:
    """Refuse a name that is not UTF-8: records and figures could not hold it."""
    try:
        member.encode()
    except UnicodeEncodeError:
        shown = member.encode(errors="backslashreplace").decode()
        raise DataError(f"{_where(path, shown)} has a name that is not UTF-8; rename it") from None


def _is_hidden(parts: tuple[str, ...]) -> bool:
    """Tell what file managers leave behind: `.DS_Store`, `._x.jpg`, `__MACOSX`."""
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _arrange(path: Path, container: _Container) -> ImageTree:
    """Find the class folders and put their images in order."""
    if container.links:
        raise DataError(
            f"{_where(path, container.links[0])} is a link or a device, which is not followed in "
            "an archive; pack the archive again with the files themselves"
        )
    parts_of = {name: _inner_parts(path, name) for name in container.files}
    folders = {_inner_parts(path, name) for name in container.folders}
    folders |= {parts[:depth] for parts in parts_of.values() for depth in range(1, len(parts))}
    parts_of = {name: parts for name, parts in parts_of.items() if not _is_hidden(parts)}
    for parts in (*parts_of.values(), *folders):
        _refuse_undecodable(path, "/".join(parts))

    suffix_of = {name: PurePosixPath(name).suffix.lower() for name in parts_of}
    images = {name: parts for name, parts in parts_of.items() if suffix_of[name] in _IMAGES}
    others = [name for name in parts_of if suffix_of[name] not in _IMAGES | _DOCUMENTS]
    if not images:
        raise DataError(
            f"{path} holds no image in class folders; known images are {' '.join(sorted(_IMAGES))}"
        )
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
                f"class folder {_where(path, '/'.join((*root, class_name)))} holds no image; "
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
    return ImageTree(path, tuple(classes), tuple(files), tuple(notes), container.read)


def _class_level(homes: list[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the deepest folder above the folders of all images: its folders are the classes."""
    first, last = min(homes), max(homes)
    depth = 0
    while depth < len(first) and depth < len(last) and first[depth] == last[depth]:
        depth += 1
    # All images in one folder: that folder is the only class.
    return first[: depth - 1] if first == last and first else first[:depth]
