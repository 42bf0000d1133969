"""Archives whose members are hostile: names that leave the folder, links, huge images, none."""

import io
import random
import struct
import tarfile
import zipfile
import zlib
from pathlib import Path

from material import class_files, write_archive


def mutate_archive(rng: random.Random, path: Path) -> str:
    """Write an archive anew with one odd thing in it; return a description."""
    files = class_files()
    names = list(files)
    name = names[int(rng.random() * len(names))]
    odd_names = (
        "../outside/canary", "./../../outside/canary", "Forest/../../outside/made.png",
        "Forest/\x00.png", "Forest/\udcff.png", "Forest/" + "x" * 5000 + ".png", "Forest", "", ".",
        "Forest/a\\b.png", "C:/x.png", "__MACOSX/Forest/x.png", "Forest/.hidden.png",
        "Fo\x1b[2Jrest/x.png", "Forest//x.png", "a/" * 400 + "x.png",
    )  # fmt: skip
    kind = rng.choice(("name", "content", "huge image", "no file", "one class", "link", "twice"))
    if kind == "name":
        new = rng.choice(odd_names)
        files[new] = files.pop(name)
        kind = f"a member is called {new[:40]!r}"
    elif kind == "content":
        files[name] = rng.choice((b"", b"GIF89a", files[name][:40], bytes(1000), b"\xff" * 100))
    elif kind == "huge image":
        files[name] = _huge_png(rng.choice((50_000, 2**31 - 1)))
    elif kind == "no file":
        files.clear()
    elif kind == "one class":
        files = {n: content for n, content in files.items() if n.startswith("Forest")}
    if kind == "link" and path.suffix != ".zip":
        _with_link(rng, path, files)
    elif kind == "twice" and path.suffix == ".zip":
        write_archive(path, files)
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(zipfile.ZipInfo(name.upper()), files[name])
    else:
        _write(path, files)
    return f"{path.name}: {kind}"


def _write(path: Path, files: dict[str, bytes]) -> None:
    try:
        write_archive(path, files)
    except (UnicodeEncodeError, ValueError):  # the format has no such names
        write_archive(path, {"Forest/x.png": b""})


def _with_link(rng: random.Random, path: Path, files: dict[str, bytes]) -> None:
    write_archive(path, files)
    with tarfile.open(path, "w:gz" if path.suffix == ".tgz" else "w") as tar:
        member = tarfile.TarInfo("Forest/link.png")
        member.type = rng.choice((tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE))
        member.linkname = rng.choice(("../../outside/canary", "/dev/zero", "Forest/link.png"))
        tar.addfile(member)
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))


def _huge_png(side: int) -> bytes:
    """Return the head of an image that is far larger than its file."""
    head = b"IHDR" + struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    crc = struct.pack(">I", zlib.crc32(head))
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I", 13) + head + crc
