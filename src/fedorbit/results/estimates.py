"""Means over seeds with their deviation, and which of several is best."""

import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fedorbit.simulation.records import mean

BEST = {"accuracy": max, "spread": min}
"""The figures in which methods compete, and the function that chooses the best."""
COMPETING = tuple(BEST)
DECIMALS = 1
"""Decimals of a percentage, as printed."""

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True)
class Estimate:
    """Mean over seeds and the sample standard deviation between them; one seed has none."""

    mean: float | None
    std: float | None
    n: int


def estimate(values: Sequence[float | None]) -> Estimate:
    """Estimate from what is known."""
    known = [value for value in values if value is not None]
    std = statistics.stdev(known) if len(known) > 1 else None
    return Estimate(mean(known), std, len(known))


def best(means: Mapping[Key, float | None], metric: str) -> set[Key]:
    """Return which of the competitors are best; one alone is not.

    Compared as printed, so that equal numbers never differ.
    """
    printed = {key: round(mean, DECIMALS) for key, mean in means.items() if mean is not None}
    if len(means) < 2 or not printed:
        return set()
    chosen = BEST[metric](printed.values())
    return {key for key, mean in printed.items() if mean == chosen}
