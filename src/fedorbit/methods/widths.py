"""Sub-networks of satellites: how wide they can be, by memory, time between contacts and link.

The largest of `WIDTHS` that fits into all of these, where they are limited:

    (1)  memory: 4 (3 P(r) + activations(r) batch) bytes, for weights, gradient and momentum
    (2)  time:   E epochs at P(r) / P of the whole model's seconds, in the median gap of contacts
    (3)  link:   one message up and one down, in the median contact

The smallest if none fits. Without a second contact there is no gap, and time is no limit.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedorbit.fleet import BYTES_PER_PARAMETER, Fleet
from fedorbit.learning.parts import Mask
from fedorbit.learning.subnetworks import HIDDEN, activations, subnetwork_mask, subnetwork_size
from fedorbit.randomness import generator

WIDTHS = (1.0, 0.75, 0.5, 0.25)
COPIES = 3
"""Weights, gradient and momentum."""
BYTES_PER_MB = 1e6


def size_of(fleet: Fleet, width: float) -> int:
    """Return P(r); the whole of a model that may be any."""
    return fleet.layout.size if width == 1.0 else subnetwork_size(fleet.layout, width)


def mask_of(fleet: Fleet, width: float, key: tuple[int, int] | None) -> Mask | None:
    """Return the mask of a sub-network; None if it is the whole model.

    Blocks of channels begin at a random channel drawn from the key, of satellite and download;
    without a key, at the first.
    """
    if width == 1.0:
        return None
    starts = np.zeros(len(HIDDEN), dtype=np.int64)
    if key is not None:
        starts = generator(fleet.seed, "sub-network", *key).integers(0, HIDDEN)
    return subnetwork_mask(fleet.layout, width, starts.tolist())


def fitting_widths(
    fleet: Fleet, memory_mb: Sequence[float], whole_down: bool
) -> NDArray[np.float64]:
    """Return the width of each satellite; `memory_mb` is repeated in order, none is no limit.

    `whole_down`: what a satellite receives is not cut to its width.
    """

    def has_memory(k: int, width: float) -> bool:
        if not memory_mb:
            return True
        return training_bytes(fleet, width) <= BYTES_PER_MB * memory_mb[k % len(memory_mb)]

    def fits(k: int, width: float) -> bool:
        down = 1.0 if whole_down else width
        return (
            has_memory(k, width)
            and training_s(fleet, k, width) <= median_gap_s(fleet, k)
            and link_s(fleet, k, width, down) <= median_contact_s(fleet, k)
        )

    return np.array(
        [next((r for r in WIDTHS if fits(k, r)), WIDTHS[-1]) for k in range(fleet.satellites)]
    )


def training_bytes(fleet: Fleet, width: float) -> int:
    """Return the memory that training takes at a width."""
    values = COPIES * size_of(fleet, width) + activations(fleet.layout, width) * fleet.plan.batch
    return BYTES_PER_PARAMETER * values


def training_s(fleet: Fleet, satellite: int, width: float) -> float:
    """Return the seconds that the run's epochs take at a width; none without a speed on board."""
    if fleet.onboard is None:
        return 0.0
    work = size_of(fleet, width) / fleet.layout.size
    return work * fleet.onboard.epochs_s(satellite, fleet.plan.epochs)


def link_s(fleet: Fleet, satellite: int, up: float, down: float) -> float:
    """Return the seconds of one message each way, of models at these widths."""
    to, ground, each = fleet.network.seconds, fleet.servers[0], BYTES_PER_PARAMETER
    up_s = to(satellite, ground, each * size_of(fleet, up))
    return up_s + to(ground, satellite, each * size_of(fleet, down))


def median_gap_s(fleet: Fleet, satellite: int) -> float:
    """Return the median time without a contact, between two; infinity if there is none."""
    begin_s, end_s = fleet.topology.contacts_of(satellite)
    gaps_s = begin_s[1:] - np.maximum.accumulate(end_s)[:-1]
    gaps_s = gaps_s[gaps_s > 0.0]  # contacts with several servers overlap
    return float(np.median(gaps_s)) if len(gaps_s) else np.inf


def median_contact_s(fleet: Fleet, satellite: int) -> float:
    """Return the median length of a contact; infinity if there is none."""
    begin_s, end_s = fleet.topology.contacts_of(satellite)
    return float(np.median(end_s - begin_s)) if len(begin_s) else np.inf
