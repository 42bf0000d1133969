"""How wide a sub-network satellites can train: by memory, by time between contacts, by link.

The largest of `WIDTHS` that fits into all of these, where they are limited:

    memory   4 bytes x (3 P(r) + activations(r) x batch): weights, gradient and momentum
    time     E epochs of the P(r) / P part of the computing, within the median gap between contacts
    link     one message up and one down, within the median contact

The smallest if none fits. Without a second contact there is no gap, and time is no limit.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedorbit.fleet import BYTES_PER_PARAMETER, Fleet
from fedorbit.learning.subnetworks import activations, subnetwork_size

WIDTHS = (1.0, 0.75, 0.5, 0.25)
COPIES = 3
"""Weights, gradient and momentum."""
BYTES_PER_MB = 1e6


def size_of(fleet: Fleet, width: float) -> int:
    """Return P(r); the whole of a model that may be any."""
    return fleet.layout.size if width == 1.0 else subnetwork_size(fleet.layout, width)


def fitting_widths(
    fleet: Fleet, memory_mb: Sequence[float], whole_down: bool
) -> NDArray[np.float64]:
    """Return the width of each satellite; `memory_mb` is repeated in order, none is no limit.

    `whole_down`: what a satellite receives is not cut to its width.
    """

    def fits(k: int, width: float) -> bool:
        size, begin_s, end_s = size_of(fleet, width), *fleet.topology.contacts_of(k)
        if memory_mb:
            values = COPIES * size + activations(fleet.layout, width) * fleet.plan.batch
            if BYTES_PER_PARAMETER * values > BYTES_PER_MB * memory_mb[k % len(memory_mb)]:
                return False
        gaps_s = begin_s[1:] - np.maximum.accumulate(end_s)[:-1]
        gaps_s = gaps_s[gaps_s > 0.0]  # contacts with several servers overlap
        if fleet.onboard is not None and len(gaps_s):
            work = size / fleet.layout.size
            if work * fleet.onboard.epochs_s(k, fleet.plan.epochs) > np.median(gaps_s):
                return False
        ground, down = fleet.servers[0], fleet.layout.size if whole_down else size
        link_s = fleet.network.seconds(k, ground, BYTES_PER_PARAMETER * size)
        link_s += fleet.network.seconds(ground, k, BYTES_PER_PARAMETER * down)
        return not len(begin_s) or bool(link_s <= np.median(end_s - begin_s))

    return np.array(
        [next((r for r in WIDTHS if fits(k, r)), WIDTHS[-1]) for k in range(fleet.satellites)]
    )
