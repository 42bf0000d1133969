"""Datasets of Python: any with a length and samples of an image and its label, by index.

    import fedorbit as fo
    fo.prepare("mine", torchvision.datasets.SVHN("data", download=True))

Such are `torch.utils.data.Dataset` and those of torchvision and torchgeo. A sample is a pair
(image, label) or a mapping with the keys `image` and `label`. An image is a PIL image, a tensor
with the channels first, or an array with the channels last.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from fedorbit.data import cache
from fedorbit.data.cache import Dataset
from fedorbit.data.catalog import refuse_reserved, warn_of_size
from fedorbit.data.pixels import Pixels, resized, stored
from fedorbit.data.stream import TEST, TRAIN, Chunk, ImageStream
from fedorbit.errors import DataError
from fedorbit.progress import Progress

SOURCE = "python"

_CHUNK_BYTES = 1 << 24
_COMPARED = 16  # samples that are compared with those of the prepared dataset
_MODES = ("L", "RGB", "P", "I;16", "F")


class Samples(Protocol):
    """Interface that a dataset must have: a length, and samples by index."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> Any: ...


def prepare(
    name: str,
    dataset: Samples,
    *,
    test: Samples | None = None,
    class_names: Sequence[str] | None = None,
    size: int | None = None,
    layout: Literal["hwc", "chw"] | None = None,
    latitude_deg: ArrayLike | None = None,
    longitude_deg: ArrayLike | None = None,
    force: bool = False,
    progress: Progress | None = None,
) -> Dataset:
    """Write a dataset into the cache under `name`, for `data.name` of runs; return it.

    A sample is a pair (image, label) or a mapping with these keys; an image is a PIL image, a
    tensor or an array. `test` is the official test split, if there is one. Class names are those of
    `dataset.classes` unless given. `size` resizes images to a square. `layout` is the order of
    axes; by default tensors have their channels first, arrays last. Coordinates are one angle per
    sample, those of `test` last.
    A dataset already prepared from the same samples is only opened; `force` replaces it.
    """
    refuse_reserved(name, SOURCE)
    parts = [(dataset, TRAIN)] if test is None else [(dataset, TRAIN), (test, TEST)]
    options = {"size": size, "layout": layout}
    places = _places(latitude_deg, longitude_deg, sum(len(samples) for samples, _ in parts))
    fingerprint = _fingerprint(name, [samples for samples, _ in parts], layout, places)
    with cache.dataset_lock(name, progress=progress):
        if not force and cache.is_prepared(name):
            return _same(cache.open_dataset(name), fingerprint, options)
        names = _class_names(name, dataset, class_names)
        first = _image(_sample(dataset, 0, name)[0], f"sample 0 of {name}", layout)
        if size:
            first = resized(first, size)

        def chunks() -> Iterator[Chunk]:
            rows, done = max(1, _CHUNK_BYTES // first.nbytes), 0
            for samples, split in parts:
                for begin in range(0, len(samples), rows):
                    chosen = range(begin, min(begin + rows, len(samples)))
                    images, labels = _read(samples, chosen, name, layout, size, first)
                    part = slice(done, done + len(labels))
                    done += len(labels)
                    yield Chunk(
                        images,
                        labels,
                        None if places is None else places[part, 0],
                        None if places is None else places[part, 1],
                        None if test is None else np.full(len(labels), split, np.uint8),
                    )

        height, width, channels = first.shape
        stream = ImageStream(
            samples=sum(len(samples) for samples, _ in parts),
            image_shape=(height, width, channels),
            dtype=first.dtype,
            class_names=names,
            chunks=chunks(),
            origin={"dataset": _type_name(dataset), "fingerprint": fingerprint},
            title=type(dataset).__name__,
        )
        if size is None:
            warn_of_size(name, stream, "size=")
        return cache.write_dataset(name, stream, source=SOURCE, options=options, progress=progress)


def _same(found: Dataset, fingerprint: str, options: dict[str, Any]) -> Dataset:
    """Refuse to pass off a dataset that was prepared from something else for what is asked."""
    description = found.description
    asked = (SOURCE, fingerprint, options)
    if asked != (
        description["source"],
        description["origin"].get("fingerprint"),
        description["options"],
    ):
        raise DataError(
            f"dataset {found.name!r} is already prepared from something else (other samples, "
            "options or coordinates; random transforms differ each time); pass force=True to "
            "replace it, or choose another name"
        )
    return found


def _fingerprint(
    name: str, parts: list[Samples], layout: str | None, places: NDArray[np.float64] | None
) -> str:
    """Describe datasets by type, length, places and some of their samples."""
    digest = hashlib.sha256()
    for samples in parts:
        if len(samples) == 0:
            raise DataError(f"dataset {name!r} has no samples; give it some")
        digest.update(f"{_type_name(samples)} {len(samples)}".encode())
        for index in np.unique(np.linspace(0, len(samples) - 1, _COMPARED).astype(int)).tolist():
            image, label = _sample(samples, index, name)
            pixels = _image(image, f"sample {index} of {name}", layout)
            digest.update(f"{pixels.shape} {pixels.dtype} {label}".encode())
            digest.update(pixels.tobytes())
    digest.update(b"" if places is None else places.tobytes())
    return digest.hexdigest()


def _type_name(dataset: object) -> str:
    return f"{type(dataset).__module__}.{type(dataset).__qualname__}"


def _class_names(name: str, dataset: Any, given: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of the classes: those given, else those of the dataset or what it wraps."""
    while given is None and dataset is not None:
        given = getattr(dataset, "classes", None)
        dataset = getattr(dataset, "dataset", None)  # of a torch.utils.data.Subset
    if given is None or isinstance(given, str) or len(given) < 1:
        raise DataError(
            f"dataset {name!r} has no attribute `classes`; give class_names=[...], in the order of "
            "the labels"
        )
    return tuple(str(each) for each in given)


def _places(latitude: Any, longitude: Any, samples: int) -> NDArray[np.float64] | None:
    """Return coordinates `[n, 2]`; NaN stands for unknown ones."""
    if latitude is None and longitude is None:
        return None
    angles = [np.asarray(each, np.float64) for each in (latitude, longitude)]
    if any(each.shape != (samples,) for each in angles):
        raise DataError(
            f"latitude_deg and longitude_deg must be {samples:,} angles each, one per sample; got "
            f"shapes {angles[0].shape} and {angles[1].shape}"
        )
    if (np.abs(angles[0]) > 90).any() or (np.abs(angles[1]) > 180).any():
        raise DataError("latitude_deg must be from -90 to 90 and longitude_deg from -180 to 180")
    return np.stack(angles, axis=1)


# --- Samples ------------------------------------------------------------------------------------


def _read(
    samples: Samples,
    chosen: range,
    name: str,
    layout: str | None,
    size: int | None,
    first: Pixels,
) -> tuple[Pixels, NDArray[np.int64]]:
    images = np.empty((len(chosen), *first.shape), first.dtype)
    labels = np.empty(len(chosen), np.int64)
    for row, index in enumerate(chosen):
        image, labels[row] = _sample(samples, index, name)
        where = f"sample {index} of {name}"
        pixels = _image(image, where, layout)
        pixels = resized(pixels, size) if size else pixels
        if pixels.shape != first.shape or pixels.dtype != first.dtype:
            raise DataError(
                f"{where} is {pixels.shape} {pixels.dtype}, but the first one is {first.shape} "
                f"{first.dtype}; make them alike, or give size= if only sizes differ"
            )
        images[row] = pixels
    return images, labels


def _sample(samples: Samples, index: int, name: str) -> tuple[Any, int]:
    """Return image and label of a sample."""
    sample = samples[index]
    try:
        if isinstance(sample, Mapping):
            image, label = sample["image"], sample["label"]
        else:
            image, label = sample
        return image, _integer(label)
    except (KeyError, TypeError, ValueError) as error:
        shown = (
            ", ".join(map(str, sample)) if isinstance(sample, Mapping) else type(sample).__name__
        )
        raise DataError(
            f"sample {index} of {name} is {shown[:80]}; a pair (image, label) or a mapping with "
            "`image` and `label`, an integer, is needed"
        ) from error


def _integer(label: Any) -> int:
    """Return a label that is an integer, or an array or tensor of one."""
    values = np.asarray(label.detach().cpu() if hasattr(label, "detach") else label)
    if values.size != 1 or values.dtype.kind not in "iu":
        raise ValueError
    return int(values.reshape(()))


def _image(image: Any, where: str, layout: str | None) -> Pixels:
    """Return the pixels of an image, channels last."""
    if isinstance(image, Image.Image):
        if image.mode not in _MODES:
            raise DataError(
                f"{where} is a PIL image of mode {image.mode}; allowed are {', '.join(_MODES)}; "
                "convert it"
            )
        values = np.asarray(image.convert("RGB") if image.mode == "P" else image)
        axis = 2
    else:
        is_tensor = hasattr(image, "detach")
        values = np.asarray(image.detach().cpu() if is_tensor else image)
        axis = 0 if (layout or ("chw" if is_tensor else "hwc")) == "chw" else 2
    if values.ndim not in (2, 3) or 0 in values.shape:
        raise DataError(
            f"{where} has an image of shape {values.shape}; rows, columns and channels are needed"
        )
    values = values[:, :, None] if values.ndim == 2 else np.moveaxis(values, axis, 2)
    return stored(values, where)
