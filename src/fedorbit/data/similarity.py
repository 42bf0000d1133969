"""Similarity of the orbits' classes: Jensen-Shannon distances and the coefficient beta.

Departure from the paper: before comparing, every class histogram is mixed with the uniform one,
p <- (1 - eps) p + eps / C, at eps = 0.1. Without it the distance gives beta = 0 for disjoint class
sets, and personal extractors would never learn from each other, while the paper reports 0.11.
With eps = 0.1 disjoint sets of two among ten classes give 0.105, and Dirichlet(0.5) partitions
0.445 on average (published: 0.44). `smoothing=0` is the literal equation.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

SIMILARITY_SMOOTHING = 0.1

Floats = NDArray[np.float64]


def class_histograms(counts: ArrayLike, smoothing: float = SIMILARITY_SMOOTHING) -> Floats:
    """Normalise class counts `[orbit, class]` to smoothed histograms that sum to 1.

    An orbit without any sample has no preference: its histogram is uniform.
    """
    counts = np.asarray(counts, dtype=np.float64)
    totals = counts.sum(axis=1, keepdims=True)
    uniform = 1.0 / counts.shape[1]
    shares = np.divide(counts, totals, out=np.full_like(counts, uniform), where=totals > 0)
    return (1.0 - smoothing) * shares + smoothing * uniform


def jensen_shannon_distances(histograms: Floats) -> Floats:
    """Pairwise distances `[orbit, orbit]` of Jensen and Shannon, in [0, 1] through log2."""
    return np.array([_distances_from(p, histograms) for p in histograms])


def similarity_coefficient(counts: ArrayLike, smoothing: float = SIMILARITY_SMOOTHING) -> float:
    """Beta: one minus the mean distance over all pairs of orbits, (7) of FedOrbit.

    A single orbit has no pair and is like itself: beta is 1.
    """
    histograms = class_histograms(counts, smoothing)
    if len(histograms) < 2:
        return 1.0
    # Row by row: all pairs of a few thousand orbits and their classes would fill the memory.
    pairs = [_distances_from(p, histograms[i + 1 :]) for i, p in enumerate(histograms[:-1])]
    return float(1.0 - np.concatenate(pairs).mean())


def _distances_from(p: Floats, others: Floats) -> Floats:
    m = (p + others) / 2.0
    divergence = (_relative_entropy(p, m) + _relative_entropy(others, m)) / 2.0
    # Rounding can leave -1e-17 for equal histograms.
    return np.asarray(np.sqrt(np.clip(divergence, 0.0, 1.0)))


def _relative_entropy(p: Floats, m: Floats) -> Floats:
    """Kullback-Leibler divergence in bits over the last axis, with 0 log 0 = 0."""
    ratio = np.divide(p, m, out=np.ones(np.broadcast_shapes(p.shape, m.shape)), where=p > 0)
    return np.asarray((p * np.log2(ratio)).sum(axis=-1))
