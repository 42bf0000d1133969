"""Statistics of images, band by band."""

from typing import NamedTuple

import numpy as np

from fedorbit.data.stream import Images
from fedorbit.progress import Progress, SilentProgress

_SLAB_BYTES = 1 << 25


class BandStatistics(NamedTuple):
    """Range, mean and standard deviation of all pixels of a band."""

    lowest: float
    highest: float
    mean: float
    deviation: float


def band_statistics(images: Images, progress: Progress | None = None) -> list[BandStatistics]:
    """Return the statistics of every band; images are read in pieces."""
    progress = progress or SilentProgress()
    channels = images.shape[3]
    rows = max(1, _SLAB_BYTES // max(1, images[:1].nbytes))
    # Sums about a first estimate of the mean, so that no digits cancel.
    centre = images[:1].mean(axis=(0, 1, 2), dtype=np.float64)
    lowest, highest = np.full(channels, np.inf), np.full(channels, -np.inf)
    total, squares = np.zeros(channels), np.zeros(channels)
    progress.start("statistics of bands", len(images), "images")
    try:
        for begin in range(0, len(images), rows):
            values = images[begin : begin + rows].reshape(-1, channels)
            lowest = np.minimum(lowest, values.min(axis=0))
            highest = np.maximum(highest, values.max(axis=0))
            apart = values - centre
            total += apart.sum(axis=0)
            squares += np.einsum("nc,nc->c", apart, apart)
            progress.advance(min(rows, len(images) - begin))
    finally:
        progress.finish()
    count = len(images) * images.shape[1] * images.shape[2]
    deviation = np.sqrt(np.maximum(squares / count - (total / count) ** 2, 0.0))
    columns = (lowest, highest, centre + total / count, deviation)
    return [BandStatistics(*map(float, row)) for row in zip(*columns, strict=True)]
