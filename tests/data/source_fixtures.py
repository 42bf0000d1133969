"""Tiny datasets in the official layouts, as real files."""

import io
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
from PIL import Image

from fedorbit.data.stream import Chunk, ImageStream

Files = dict[str, bytes]


def image_bytes(
    value: int = 0, *, size: tuple[int, int] = (64, 64), mode: str = "RGB", kind: str = "PNG"
) -> bytes:
    """Return an image file with a gradient that starts at `value`."""
    width, height = size
    pixels = (np.arange(width * height).reshape(height, width) + value).astype(np.uint8)
    buffer = io.BytesIO()
    image = Image.fromarray(pixels)
    (image if mode == "L" else image.convert(mode)).save(buffer, kind)
    return buffer.getvalue()


def pixels_of(content: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(content)))


def class_files(classes: tuple[str, ...], per_class: int = 2, **image_options: object) -> Files:
    """Return `Class/Class_1.jpg` … as a dataset publishes them."""
    return {
        f"{name}/{name}_{i + 1}.jpg": image_bytes(10 * label + i, kind="JPEG", **image_options)
        for label, name in enumerate(classes)
        for i in range(per_class)
    }


def under(prefix: str, files: Files) -> Files:
    return {prefix + name: content for name, content in files.items()}


def write_folder(path: Path, files: Files) -> Path:
    for name, content in files.items():
        target = path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    return path


def write_zip(path: Path, files: Files) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def write_tar(path: Path, files: Files) -> Path:
    with tarfile.open(path, "w" if path.suffix == ".tar" else "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def write_rar(path: Path, files: Files, method: int = 0x30) -> Path:
    """Write a RAR 3 archive whose members are stored; another method only claims compression."""

    def block(kind: int, flags: int, body: bytes) -> bytes:
        head = struct.pack("<BHH", kind, flags, 7 + len(body)) + body
        return struct.pack("<H", zlib.crc32(head) & 0xFFFF) + head

    parts = [b"Rar!\x1a\x07\x00", block(0x73, 0, bytes(6))]
    for name, content in files.items():
        encoded = name.encode()
        head = struct.pack(
            "<IIBIIBBHI",
            len(content),
            len(content),
            3,  # written on Unix
            zlib.crc32(content),
            0x50000000,  # a DOS time
            20,
            method,
            len(encoded),
            0o100644,
        )
        parts.append(block(0x74, 0x8000, head + encoded) + content)
    path.write_bytes(b"".join([*parts, block(0x7B, 0x4000, b"")]))
    return path


WRITERS = {
    "folder": write_folder,
    "x.zip": write_zip,
    "x.tar": write_tar,
    "x.tar.gz": write_tar,
    "x.tgz": write_tar,
    "x.rar": write_rar,
}


def write_so2sat(path: Path, zones: list[int], **overrides: np.ndarray | None) -> Path:
    """Write one So2Sat file; patch i is filled with i / 10. None leaves a dataset out."""
    labels = np.eye(17)[zones]
    patches = np.broadcast_to(
        (np.arange(len(zones)) / 10)[:, None, None, None], (len(zones), 32, 32, 10)
    )
    arrays = {"sen1": np.zeros((len(zones), 32, 32, 8)), "sen2": patches, "label": labels}
    path.parent.mkdir(parents=True, exist_ok=True)
    with h5py.File(path, "w") as file:
        for name, array in {**arrays, **overrides}.items():
            if array is not None:
                # Official files are chunked too; 3 does not divide the number of samples.
                chunks = (min(3, len(array)), *array.shape[1:]) if array.ndim > 1 else None
                file.create_dataset(name, data=array, chunks=chunks)
    return path


class Recorder:
    """Notes what progress is reported."""

    def __init__(self) -> None:
        self.events: list[object] = []

    def start(self, label: str, total: int, unit: str) -> None:
        """Note a beginning."""
        self.events.append((label, total, unit))

    def advance(self, n: int) -> None:
        """Note work done."""
        self.events.append(n)

    def finish(self) -> None:
        """Note an end."""
        self.events.append("finish")


def small_stream(samples: int = 10, **changes: object) -> ImageStream:
    """Return a stream of `samples` grey 4x4 images in chunks of 4, with coordinates and split."""

    def chunks() -> Iterator[Chunk]:
        for start in range(0, samples, 4):
            i = np.arange(start, min(start + 4, samples))
            images = np.broadcast_to(i[:, None, None, None], (len(i), 4, 4, 1)).astype(np.uint8)
            yield Chunk(images, i % 2, i / 2.0, -i / 2.0, (i % 3).astype(np.uint8))

    fields = {
        "samples": samples,
        "image_shape": (4, 4, 1),
        "dtype": np.dtype(np.uint8),
        "class_names": ("even", "odd"),
        "chunks": chunks(),
        "origin": {"made": "by hand"},
        "notes": ("a note",),
    }
    return ImageStream(**{**fields, **changes})
