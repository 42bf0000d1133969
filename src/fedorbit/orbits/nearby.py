"""Pairs of points within a distance: work grows with such pairs, not with all pairs.

Space is cut into cubes whose edge is the distance, so that partners of a point are in its own cube
and the 26 around it. Cubes are numbered along z, y and x; three in a row along z have numbers that
follow each other, so five ranges of sorted numbers hold every partner once.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats

Ints = NDArray[np.int64]

BLOCK_PAIRS = 1_000_000
"""Pairs compared at a time, which bounds memory: some arrays of 8 MB."""

# Steps in x and y to rows of three cubes; the other half of the rows would give each pair twice.
ROWS = ((0, 1), (1, -1), (1, 0), (1, 1))


def nearby_pairs(points_km: Floats, distance_km: float) -> Iterator[tuple[Ints, Ints]]:
    """Yield the pairs of points `[n, 3]` at most a distance apart, in blocks, smaller index first.

    The order of pairs is that of the cubes.
    """
    if len(points_km) < 2 or not distance_km > 0.0:
        return
    cube = np.floor((points_km - points_km.min(axis=0)) / distance_km).astype(np.int64) + 1
    size_y, size_z = cube[:, 1].max() + 2, cube[:, 2].max() + 2
    number = (cube[:, 0] * size_y + cube[:, 1]) * size_z + cube[:, 2]
    order = np.argsort(number, kind="stable")
    number, points_km = number[order], points_km[order]
    # In the own row: points after this one in its cube, and those in the next cube.
    low = [np.arange(1, len(number) + 1)]
    high = [np.searchsorted(number, number + 1, side="right")]
    for step_x, step_y in ROWS:
        middle = number + (step_x * size_y + step_y) * size_z
        low.append(np.searchsorted(number, middle - 1))
        high.append(np.searchsorted(number, middle + 1, side="right"))
    for a, b in _expanded(np.stack(low, axis=1), np.stack(high, axis=1)):
        apart_km = points_km[a] - points_km[b]
        near = np.einsum("ni,ni->n", apart_km, apart_km) <= distance_km**2
        first, second = order[a[near]], order[b[near]]
        yield np.minimum(first, second), np.maximum(first, second)


def _expanded(low: Ints, high: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield every point with every index in its ranges `[point, range]`, some points at a time."""
    counts = high - low
    ends = np.cumsum(counts.sum(axis=1))
    begin = 0
    while begin < len(low):
        done = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, done + BLOCK_PAIRS, side="right")))
        count, start = counts[begin:end].ravel(), low[begin:end].ravel()
        before = np.cumsum(count) - count
        partner = np.arange(int(count.sum())) + np.repeat(start - before, count)
        yield np.repeat(np.repeat(np.arange(begin, end), low.shape[1]), count), partner
        begin = end
