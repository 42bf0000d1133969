"""Images that lie in arrays: an `.npz` or HDF5 file, or a folder of `.npy` files.

The names of the arrays distinguish three forms:

    images, labels                                          all together
    train_images, train_labels, test_images, …, val_…       an official split (MedMNIST's names;
                                                            x_train, y_train … as Keras has them)
    anything else                                           one array for each class

Images are `[n, height, width]`, `[n, height, width, channels]` or `[n, channels, height, width]`.
Beside `images` may stand `latitude_deg`, `longitude_deg` and `class_names`. Arrays pass through in
slabs, so that they may be larger than memory; Python objects in them are never read.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from fedorbit.data import bands as band_choice
from fedorbit.data.array_files import StoredArray, open_arrays
from fedorbit.data.containers import origin
from fedorbit.data.limits import Limits
from fedorbit.data.pixels import channel_axis, resized, stored, stored_type
from fedorbit.data.stream import TEST, TRAIN, VALIDATION, Chunk, ImageStream
from fedorbit.errors import DataError

_SLAB_BYTES = 1 << 24
_PARTS = (
    (TRAIN, ("train_images", "train_labels"), ("x_train", "y_train")),
    (VALIDATION, ("val_images", "val_labels"), ("x_val", "y_val")),
    (TEST, ("test_images", "test_labels"), ("x_test", "y_test")),
)


@dataclass(frozen=True)
class _Part:
    """Images with their labels, and the code of an official split or None."""

    images: StoredArray
    labels: NDArray[np.int64]
    split: int | None = None
    places: NDArray[np.float64] | None = None


@contextmanager
def open_stream(
    path: Path,
    *,
    limits: Limits | None = None,
    size: int | None = None,
    bands: str | None = None,
    sensor: str | None = None,
    layout: str | None = None,
) -> Iterator[ImageStream]:
    """Read images from arrays, all of one shape and type; the options are those of a folder."""
    limits = limits or Limits()
    with ExitStack() as stack:
        arrays = open_arrays(path, limits, stack)
        parts, class_names = _parts(path, arrays)
        first = parts[0].images
        shape, axis = _image_shape(first, layout)
        for part in parts:
            if (part.images.shape[1:], part.images.dtype) != (first.shape[1:], first.dtype):
                raise DataError(
                    f"{part.images.where} holds {part.images.shape[1:]} {part.images.dtype}, but "
                    f"{first.where} {first.shape[1:]} {first.dtype}; make them alike"
                )
        names = band_choice.named(sensor, (), shape[2], first.where)
        keep, names = band_choice.chosen(bands, names, shape[2], first.where)
        height, width = (size, size) if size else shape[:2]
        rows = max(1, _SLAB_BYTES // (math.prod(shape) * first.dtype.itemsize))

        def chunks() -> Iterator[Chunk]:
            for part in parts:
                begin = 0
                for slab in part.images.slabs(rows):
                    images = slab[..., None] if slab.ndim == 3 else np.moveaxis(slab, axis + 1, 3)
                    if keep:
                        images = images[..., keep]
                    images = stored(images, part.images.where)
                    if size:
                        images = np.stack([resized(image, size) for image in images])
                    rows_here = slice(begin, begin + len(images))
                    begin += len(images)
                    labels, places = part.labels[rows_here], part.places
                    yield Chunk(
                        images,
                        labels,
                        None if places is None else places[rows_here, 0],
                        None if places is None else places[rows_here, 1],
                        None if part.split is None else np.full(len(labels), part.split, np.uint8),
                    )

        yield ImageStream(
            samples=sum(len(part.labels) for part in parts),
            image_shape=(height, width, len(keep) or shape[2]),
            dtype=stored_type(first.dtype, first.where),
            class_names=class_names,
            chunks=chunks(),
            origin=origin(path),
            bands=names,
            file_bands=shape[2] if keep else 0,
            kept_bands=tuple(place + 1 for place in keep),
        )


# --- What the arrays mean -----------------------------------------------------------------------


def _parts(path: Path, arrays: dict[str, StoredArray]) -> tuple[list[_Part], tuple[str, ...]]:
    """Recognise which of three forms it is; return images with their labels, and class names."""
    if "images" in arrays:
        labels = [_labels(path, arrays, "labels", "images")]
        places = None
        if "latitude_deg" in arrays or "longitude_deg" in arrays:
            angles = [_angles(path, arrays, f"{each}_deg") for each in ("latitude", "longitude")]
            places = np.stack(angles, axis=1)
        codes, names = _class_names(arrays, labels)
        return [_Part(arrays["images"], codes[0], None, places)], names
    found = [
        (split, images, labels)
        for split, *choices in _PARTS
        for images, labels in choices
        if images in arrays
    ]
    if {TRAIN, TEST} <= {split for split, *_ in found}:
        labels = [_labels(path, arrays, name, images) for _, images, name in found]
        codes, names = _class_names(arrays, labels)
        return [
            _Part(arrays[images], code, split)
            for (split, images, _), code in zip(found, codes, strict=True)
        ], names
    if len(arrays) < 2 or "labels" in arrays or found:
        raise DataError(
            f"{path} holds {', '.join(arrays) or 'no arrays'}; needed are `images` and `labels`, "
            "or `train_images`, `train_labels`, `test_images` and `test_labels`, or one array of "
            "images for each of at least 2 classes"
        )
    classes = sorted(arrays)
    return [
        _Part(arrays[name], np.full(arrays[name].shape[0], label, np.int64))
        for label, name in enumerate(classes)
    ], tuple(classes)


def _labels(
    path: Path, arrays: dict[str, StoredArray], name: str, images: str
) -> NDArray[np.int64]:
    array = _require(path, arrays, name)
    wanted = (arrays[images].shape[:1], (*arrays[images].shape[:1], 1))
    if array.shape not in wanted or array.dtype.kind not in "iu":
        raise DataError(
            f"{array.where} is {array.shape} {array.dtype}; one integer for each of the "
            f"{arrays[images].shape[0]:,} images is needed"
        )
    return array.whole().reshape(-1).astype(np.int64)


def _angles(path: Path, arrays: dict[str, StoredArray], name: str) -> NDArray[np.float64]:
    array, limit = _require(path, arrays, name), 90 if name.startswith("lat") else 180
    if array.shape != arrays["images"].shape[:1] or array.dtype.kind not in "fiu":
        raise DataError(
            f"{array.where} is {array.shape} {array.dtype}; one angle per image is needed"
        )
    angles = array.whole().astype(np.float64)
    if (np.abs(angles) > limit).any():  # NaN, where unknown, is not
        raise DataError(
            f"{array.where} holds angles beyond {limit}; allowed are -{limit} to {limit}"
        )
    return angles


def _require(path: Path, arrays: dict[str, StoredArray], name: str) -> StoredArray:
    if name not in arrays:
        raise DataError(f"{path} has no array {name!r} (it has {', '.join(arrays)}); add it")
    return arrays[name]


def _class_names(
    arrays: dict[str, StoredArray], labels: list[NDArray[np.int64]]
) -> tuple[list[NDArray[np.int64]], tuple[str, ...]]:
    """Return labels from 0 and the names of their classes: those given, else the label values."""
    values = np.unique(np.concatenate(labels))
    if (given := arrays.get("class_names")) is None:
        codes = [np.searchsorted(values, each) for each in labels]
        return codes, tuple(str(value) for value in values)
    names = tuple(
        each.decode() if isinstance(each, bytes) else str(each) for each in given.whole().tolist()
    )
    if len(values) and not 0 <= values[0] <= values[-1] < len(names):
        raise DataError(
            f"{given.where} names {len(names)} classes, but labels are {values[0]} to {values[-1]};"
            f" allowed are 0 to {len(names) - 1}"
        )
    return labels, names


def _image_shape(array: StoredArray, layout: str | None) -> tuple[tuple[int, int, int], int]:
    """Return height, width and channels, and the axis of an image that holds its channels."""
    shape = array.shape[1:]
    if len(shape) == 2 and 0 not in shape:
        return (*shape, 1), 2
    if len(shape) != 3 or 0 in shape:
        raise DataError(
            f"{array.where} has shape {array.shape}; images are [n, height, width], "
            "[n, height, width, channels] or [n, channels, height, width]"
        )
    axis = channel_axis(shape, layout)
    height, width = (side for place, side in enumerate(shape) if place != axis)
    return (height, width, shape[axis]), axis
