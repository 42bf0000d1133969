"""A job is data: which satellite trains from which model, how long, how fast, by which rule.

Methods make jobs, rules define what is done with each batch (`rules/`), trainers run jobs, and
engines choose the thread or machine. Each can be replaced without a change to the others.
"""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.stream import Images
from fedorbit.learning.augmentation import AS_THEY_ARE, Augmentation, Views
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules.base import Rule
from fedorbit.learning.rules.base import Trained as Trained
from fedorbit.learning.rules.sgd import PLAIN
from fedorbit.learning.rules.step import SgdSettings as SgdSettings
from fedorbit.randomness import generator

Floats = NDArray[np.float64]

EVERYBODY = -1
"""Satellite number that stands for one holder of all training samples: centralised training."""


class Ahead(NamedTuple):
    """Work that a satellite has yet to do in the same round, in images as in `LocalJob.work`."""

    wanted: float = 0
    least: float = 0
    """Part of `wanted` that belongs to the first epoch of each training."""


NOTHING_AHEAD = Ahead()


@dataclass(frozen=True, eq=False)
class LocalJob:
    """Local training of one satellite: from where, how long, how fast, and by which rule.

    `key` seeds this job's random batches and is unique to it: round, intra-orbit round, purpose.
    """

    satellite: int
    start: Vector
    epochs: int
    rate: float
    key: tuple[int, ...]
    rule: Rule = PLAIN
    to_come: Ahead = NOTHING_AHEAD
    """Later work of the same satellite in the round, for rationing of time and power on board."""
    samples: int | None = None
    """Samples per epoch, the first of its random order; None: all samples of the satellite."""

    def images(self, samples: int) -> int:
        """Return the number of images trained on, times passes, if the satellite has `samples`."""
        return self.rule.passes * self.epochs * self.samples_of_epoch(samples)

    def work(self, samples: int) -> float:
        """Return the images times the rule's share of computing: a measure of time on board."""
        return self.rule.work * self.images(samples)

    def whole_epochs(self, samples: int) -> int:
        """Return the number of whole epochs trained, times passes, if the satellite has `samples`.

        An epoch of fewer samples is a part of one; parts add up, and the sum is rounded down.
        """
        if self.samples is None:
            return self.rule.passes * self.epochs
        return self.images(samples) // samples if samples else 0

    def samples_of_epoch(self, samples: int) -> int:
        """Return the number of samples in an epoch if the satellite has `samples`."""
        return samples if self.samples is None else min(self.samples, samples)

    def first_epoch(self) -> "LocalJob":
        """Return the job without its later epochs."""
        return replace(self, epochs=min(self.epochs, 1))


@dataclass(frozen=True, eq=False)
class TrainingData:
    """Images as they lie in memory, and how to standardise them: x * scale + shift.

    `parts` are the training samples of each satellite, `everything` all of them.
    """

    images: Images
    labels: NDArray[np.int64]
    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    parts: tuple[NDArray[np.int64], ...]
    everything: NDArray[np.int64]
    augmentation: Augmentation = AS_THEY_ARE
    log_priors: NDArray[np.float32] | None = None
    """Log-priors of the parts and, last, of everything, where training is calibrated."""

    def samples_of(self, satellite: int) -> NDArray[np.int64]:
        """Return the indices of a satellite's training samples."""
        return self.everything if satellite == EVERYBODY else self.parts[satellite]


def batch_order(data: TrainingData, job: LocalJob, seed: int) -> NDArray[np.int64]:
    """Shuffle a satellite's samples anew for every epoch: `[epochs, n]`, from the job's key."""
    samples = data.samples_of(job.satellite)
    rng = generator(seed, "batches", job.satellite, *job.key)
    order = np.tile(samples, (job.epochs, 1))
    rng.permuted(order, axis=1, out=order)
    return order if job.samples is None else np.ascontiguousarray(order[:, : job.samples])


class Seen(NamedTuple):
    """Changes to a job's samples and logits: views and log-prior; None for no change."""

    views: Views | None = None
    """View of each sample of the batch order, `[epochs, n, VIEW]`."""
    offset: Vector | None = None
    """Log-prior that is added to the logits, `[classes]`."""


PLAINLY = Seen()


def seen_by(data: TrainingData, job: LocalJob, order: NDArray[np.int64], seed: int) -> Seen:
    """Return a job's views of the samples of its batch order, from its key, and its log-prior."""
    rng = generator(seed, "views", job.satellite, *job.key)
    epochs, samples = order.shape
    views = data.augmentation.views(rng, (epochs, samples), data.images.shape[1:])
    return Seen(views, None if data.log_priors is None else data.log_priors[job.satellite])


def standardisation(
    images: Images, samples: NDArray[np.int64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return scale and shift that give the samples mean 0 and deviation 1 per channel."""
    channels = images.shape[3]
    if len(samples) == 0:
        return np.ones(channels, dtype=np.float32), np.zeros(channels, dtype=np.float32)
    moments = _moments_of_integers if images.dtype.kind == "u" else _moments
    mean, variance = moments(images, samples)
    # A constant channel carries nothing; it becomes 0 instead of a division by zero.
    deviation = np.where(variance > 1e-12, np.sqrt(variance), 1.0)
    return (1.0 / deviation).astype(np.float32), (-mean / deviation).astype(np.float32)


def _moments_of_integers(images: NDArray[Any], samples: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean and variance per channel, exact until the last division: all sums are of integers."""
    # Types that just hold a square, and the sum of 64 of them.
    squared, summed = (np.uint16, np.uint32) if images.dtype == np.uint8 else (np.uint32, np.uint64)
    total, squares = np.zeros((2, *images.shape[1:]), dtype=np.uint64)
    for begin in range(0, len(samples), 64):
        values = images[samples[begin : begin + 64]]
        total += values.sum(axis=0, dtype=np.uint32)
        words: NDArray[Any] = values.astype(squared)
        words *= words
        squares += words.sum(axis=0, dtype=summed)
    count = len(samples) * images.shape[1] * images.shape[2]
    sums = [int(n) for n in total.sum(axis=(0, 1))]
    variance = [
        (count * int(square) - n * n) / count**2
        for n, square in zip(sums, squares.sum(axis=(0, 1)), strict=True)
    ]
    return np.array(sums) / count, np.array(variance)


def _moments(images: NDArray[Any], samples: NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Mean and variance per channel of floats, from sums about a first estimate of the mean.

    Runs over the samples in pieces, so that neither memory nor cancellation is a concern.
    """
    channels = images.shape[3]
    centre = images[samples[: min(len(samples), 64)]].mean(axis=(0, 1, 2), dtype=np.float64)
    total, squares = np.zeros(channels), np.zeros(channels)
    for begin in range(0, len(samples), 256):
        values = images[samples[begin : begin + 256]].reshape(-1, channels) - centre
        total += values.sum(axis=0)
        squares += np.einsum("nc,nc->c", values, values)
    count = len(samples) * images.shape[1] * images.shape[2]
    return centre + total / count, np.maximum(squares / count - (total / count) ** 2, 0.0)
