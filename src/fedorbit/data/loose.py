"""Single images, to be classified: files and folders of any depth, as a dataset would hold them.

Pictures are decoded, their bands chosen, and resized as `fedorbit data prepare` does. Arrays come
as `.npy` files in the form in which a dataset stores images, their bands already chosen: one image
`[height, width, channels]` or many `[n, height, width, channels]`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.containers import blame_file
from fedorbit.data.folder import ImageRule
from fedorbit.data.imagetree import IMAGE_SUFFIXES, is_hidden, natural_order
from fedorbit.data.limits import Limits
from fedorbit.data.pixels import open_picture, pillow_limits
from fedorbit.errors import DataError
from fedorbit.inputs import open_regular, read_regular

ARRAY = ".npy"


@dataclass(frozen=True)
class StoredAs:
    """Shape and type of a dataset's images, and the bands that they hold (see `ImageStream`)."""

    shape: tuple[int, int, int]
    """Height, width and channels."""
    dtype: str
    file_bands: int = 0
    kept_bands: tuple[int, ...] = ()

    def __str__(self) -> str:
        height, width, channels = self.shape
        return f"{height} x {width} pixels with {channels} channel(s) of {self.dtype}"


def image_files(paths: Sequence[Path]) -> list[Path]:
    """Return the files among some paths, and those in the folders among them, in natural order."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = (
            each
            for each in path.rglob("*")
            if each.suffix.lower() in IMAGE_SUFFIXES
            and not is_hidden(each.relative_to(path).parts)
            and each.is_file()
        )
        images = sorted(inside, key=lambda each: natural_order(str(each)))
        if not images:
            raise DataError(f"{path} holds no image; known are {' '.join(sorted(IMAGE_SUFFIXES))}")
        found += images
    return found


def count_images(files: Sequence[Path], stored: StoredAs) -> int:
    """Return the number of images in some files; only headers of arrays are read."""
    return sum(len(_array(file, stored)) if _is_array(file) else 1 for file in files)


def read_images(file: Path, stored: StoredAs, limits: Limits | None = None) -> NDArray[Any]:
    """Return the images of a file, `[n, height, width, channels]`: one of a picture."""
    limits = limits or Limits()
    if _is_array(file):
        return _array(file, stored)
    height, width, channels = stored.shape
    square = height == width
    chosen = ""
    if stored.kept_bands:
        numbers = ",".join(map(str, stored.kept_bands))
        chosen = f": bands {numbers} of a file with {stored.file_bands}"
    rule = ImageRule(
        channels=stored.file_bands or channels,
        width=None if square else width,
        height=None if square else height,
        resize_to=height if square else None,
        expected=f"the model takes {stored}{chosen}",
        remedy=f"convert it, or give such an array as {ARRAY}",
        dtype=np.dtype(stored.dtype),
        keep=tuple(number - 1 for number in stored.kept_bands),
    )
    with blame_file(str(file)):
        content = read_regular(file, limits.image_bytes)
    with pillow_limits(limits):
        picture = open_picture(content, str(file), limits)
        return rule.apply(picture, str(file)).reshape(1, *stored.shape)


def _is_array(file: Path) -> bool:
    return file.suffix.lower() == ARRAY


def _array(file: Path, stored: StoredAs) -> NDArray[Any]:
    with blame_file(str(file)):
        open_regular(file).close()
        images: NDArray[Any] = np.load(file, mmap_mode="r", allow_pickle=False)
    if images.ndim == 3:
        images = images[None]
    if images.shape[1:] != stored.shape or images.dtype != stored.dtype:
        raise DataError(
            f"{file} holds {images.dtype} of shape {images.shape}; the model takes {stored}, "
            f"one image or many; convert it"
        )
    return images


def batches(
    files: Sequence[Path], stored: StoredAs, most: int
) -> Iterator[tuple[list[str], NDArray[Any]]]:
    """Yield names and images of some files, at most so many at a time."""
    names: list[str] = []
    parts: list[NDArray[Any]] = []
    for file in files:
        images = read_images(file, stored)
        for begin in range(0, len(images), most):
            if len(names) >= most:
                yield names, np.concatenate(parts)
                names, parts = [], []
            part = images[begin : begin + most]
            if part.dtype.kind == "f" and not np.isfinite(part).all():
                raise DataError(f"{file} holds values that are not finite; replace them first")
            several = len(images) > 1
            names += [f"{file}[{begin + i}]" if several else str(file) for i in range(len(part))]
            parts.append(part)
    if names:
        yield names, np.concatenate(parts)
