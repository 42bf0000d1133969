"""CIFAR-10: 60,000 colour images of 32x32 pixels in ten classes, with an official split.

The binary edition, `cifar-10-binary.tar.gz`, or its folder: five training files and one test file,
each a sequence of records: one byte for the label, then 1,024 bytes each of red, green and blue.
(The Python edition is pickled, which is never read.)

Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fedorbit.data.containers import blame_file, open_container, origin
from fedorbit.data.limits import Limits
from fedorbit.data.stream import TEST, TRAIN, Chunk, ImageStream
from fedorbit.errors import DataError

CLASS_NAMES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
SAMPLES = 60_000
SHAPE = (32, 32, 3)
FILES = {**{f"data_batch_{number}.bin": TRAIN for number in range(1, 6)}, "test_batch.bin": TEST}

_RECORD_BYTES = 1 + 3 * 32 * 32


@contextmanager
def open_stream(path: Path, *, limits: Limits | None = None) -> Iterator[ImageStream]:
    """Read CIFAR-10 with its split, pixels exactly as published."""
    limits = limits or Limits()
    with open_container(path, limits) as container:
        members = {name.rpartition("/")[2]: name for name in container.files}
        if absent := [name for name in FILES if name not in members]:
            raise DataError(
                f"{path} is not the binary CIFAR-10 ({', '.join(absent)} missing); give "
                "cifar-10-binary.tar.gz or the folder of its files"
            )
        sizes = {name: container.files[members[name]] for name in FILES}
        for name, size_bytes in sizes.items():
            limits.require_image(container.where + members[name], "has", size_bytes)
            if size_bytes % _RECORD_BYTES:
                raise DataError(
                    f"{container.where}{members[name]} has {size_bytes:,} bytes, which are not "
                    f"records of {_RECORD_BYTES:,}; get the archive again"
                )

        def chunks() -> Iterator[Chunk]:
            for name, split in FILES.items():
                with blame_file(container.where + members[name]):
                    content = container.read(members[name])
                records = np.frombuffer(content, np.uint8).reshape(-1, _RECORD_BYTES)
                images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
                labels = records[:, 0].astype(np.int64)
                yield Chunk(images, labels, split=np.full(len(labels), split, np.uint8))

        samples = sum(sizes.values()) // _RECORD_BYTES
        yield ImageStream(
            samples=samples,
            image_shape=SHAPE,
            dtype=np.dtype(np.uint8),
            class_names=CLASS_NAMES,
            chunks=chunks(),
            origin=origin(path),
            notes=()
            if samples == SAMPLES
            else (f"{path.name} holds {samples:,} images; published are {SAMPLES:,}",),
        )
