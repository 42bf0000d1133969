"""Images in class folders, wherever they lie: in a folder, or in an archive.

`open_tree` finds the level of the class folders itself, so `EuroSAT_RGB/Forest/x.jpg`,
`2750/Forest/x.jpg` and `Forest/x.jpg` give the same tree: classes sorted by name, images of a
class (also those in folders inside it) in natural order, `x_2` before `x_10`. Members of archives
that try to point elsewhere are refused, and so are FIFOs and devices. Names come from
`data/containers.py`; what the bytes mean is the business of `data/folder.py`.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from fedorbit.data.containers import Container, blame_file, open_container
from fedorbit.data.limits import Limits
from fedorbit.errors import DataError

IMAGE_SUFFIXES = {
    ".jpg", ".jpeg", ".png", ".tif", ".tiff", ".bmp", ".gif", ".webp", ".ppm", ".pgm", ".npy",
}  # fmt: skip
_DOCUMENTS = {"", ".txt", ".csv", ".tsv", ".md", ".json", ".xml", ".html", ".pdf", ".db", ".ini"}
_SPLITS = {"train", "training", "test", "testing", "val", "valid", "validation"}


@dataclass(frozen=True)
class TreeFile:
    """One image: its path inside the tree, and the class that its folder stands for."""

    member: str
    name: str
    label: int


@dataclass(frozen=True)
class ImageTree:
    """Images by class. `notes` names what was left out."""

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


def _some(names: list[str]) -> str:
    """List a few names for a message."""
    shown = ", ".join(names[:5]) or "none"
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def natural_order(name: str) -> tuple[list[str], str]:
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


def is_hidden(parts: tuple[str, ...]) -> bool:
    """Return whether a file manager left it behind: `.DS_Store`, `._x.jpg`, `__MACOSX`."""
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _refuse_odd(container: Container) -> None:
    """Refuse what is no file: it could hang, have no end, or lead elsewhere."""
    for name, kind in container.odd.items():
        if is_hidden(PurePosixPath(name).parts):
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
    parts_of = {name: parts for name, parts in parts_of.items() if not is_hidden(parts)}
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
        if len(parts) == depth + 1 and parts[:depth] == root and not is_hidden(parts)
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
            f"give one of these folders, such as {path / '/'.join((*root, classes[0]))}, or keep "
            "the split by fedorbit.prepare(NAME, train, test=test) in Python"
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
        for member in sorted(by_class[class_name], key=natural_order)
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
