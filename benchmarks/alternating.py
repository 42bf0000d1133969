"""Compare work on a machine that others use too: in turn, as ratios, with their spread."""

import time
from collections.abc import Callable, Mapping
from statistics import median

Clock = Callable[[], float]


def alternate(
    contestants: Mapping[str, Callable[[], object]], repeats: int, clock: Clock = time.process_time
) -> dict[str, list[float]]:
    """Time everybody once per repeat, in turn; one repeat before that warms up and is dropped."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for repeat in range(repeats + 1):
        for name, work in contestants.items():
            begin = clock()
            work()
            if repeat:
                seconds[name].append(clock() - begin)
    return seconds


def spread(values: list[float]) -> str:
    """Median and range."""
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def ratios(above: list[float], below: list[float]) -> list[float]:
    """Ratio of what was measured side by side, repeat by repeat."""
    return [a / b for a, b in zip(above, below, strict=True)]
