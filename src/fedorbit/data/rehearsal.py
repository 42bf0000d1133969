"""Synthetic images dealt to satellites like those of a run, without a look at the run's own."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.synthetic import SyntheticSpec, generate
from fedorbit.randomness import generator

Ints = NDArray[np.int64]
SATELLITE_SAMPLES = 8
"""Samples of each satellite, at most: enough for an update, few enough to make hundreds."""
HELD_OUT_SAMPLES = 256
SMALLEST_SIDE = 8


class DealtImages(NamedTuple):
    """Images and labels, indices of each satellite's samples, and those that none has."""

    images: NDArray[np.uint8]
    labels: Ints
    train: tuple[Ints, ...]
    held_out: Ints


def deal_like(class_counts: Ints, image_shape: tuple[int, int, int], seed: int) -> DealtImages:
    """Draw images for satellites whose mix of classes is that of `class_counts[satellite, class]`.

    Of a satellite with fewer samples than `SATELLITE_SAMPLES`, as many; of others so many.
    """
    wanted = _thinned(class_counts)
    classes, (height, width, channels) = class_counts.shape[1], image_shape
    held_out = np.bincount(np.arange(HELD_OUT_SAMPLES) % classes, minlength=classes)
    each = wanted.sum(axis=0) + held_out
    spec = SyntheticSpec(
        classes=classes,
        samples=classes * int(each.max()),
        size=max(height, width, SMALLEST_SIDE),
        channels=channels,
        seed=int(generator(seed, "rehearsal images").integers(2**31)),
    )
    images = np.empty((int(each.sum()), height, width, channels), dtype=np.uint8)
    labels = np.repeat(np.arange(classes), each)
    begins = np.cumsum(each) - each
    filled = np.zeros(classes, dtype=np.int64)
    for chunk in generate(spec):
        for c in np.unique(chunk.labels).tolist():
            mine = np.flatnonzero(chunk.labels == c)[: each[c] - filled[c]]
            place = begins[c] + filled[c]
            images[place : place + len(mine)] = chunk.images[mine, :height, :width]
            filled[c] += len(mine)
    # Class by class the held-out samples come first, then those of one satellite after the other.
    ends = begins + held_out + np.cumsum(wanted, axis=0)
    train = tuple(
        np.concatenate([np.arange(e - n, e) for e, n in zip(end, count, strict=True)])
        for end, count in zip(ends, wanted, strict=True)
    )
    return DealtImages(images, labels, train, np.flatnonzero(_is_first(labels, begins + held_out)))


def _thinned(class_counts: Ints) -> Ints:
    """Return whole numbers in the proportion of each row, by largest remainders."""
    total = class_counts.sum(axis=1, keepdims=True)
    target = np.minimum(total, SATELLITE_SAMPLES)
    exact = class_counts * target / np.maximum(total, 1)
    whole = np.floor(exact).astype(np.int64)
    rank = np.argsort(np.argsort(whole - exact, axis=1, kind="stable"), axis=1)
    return np.asarray(whole + (rank < target - whole.sum(axis=1, keepdims=True)))


def _is_first(labels: Ints, ends: Ints) -> NDArray[np.bool_]:
    """Return which samples come before the given place of their class."""
    return np.asarray(np.arange(len(labels)) < ends[labels])
