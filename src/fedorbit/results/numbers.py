"""Formatting of results, in a terminal, on a page and in a table."""

from collections.abc import Sequence

from fedorbit.results.estimates import DECIMALS, Estimate
from fedorbit.simulation.records import LAST_ROUNDS

NOT_KNOWN = "–"


def percent(value: float | None, unknown: str = NOT_KNOWN) -> str:
    """One decimal: more would be noise."""
    return unknown if value is None else f"{value:.{DECIMALS}f}"


def with_deviation(estimate: Estimate) -> str:
    """Mean ± standard deviation over the seeds."""
    if estimate.std is None:
        return percent(estimate.mean)
    return f"{percent(estimate.mean)} ± {percent(estimate.std)}"


def averaged(evaluated: Sequence[int]) -> str:
    """Name the rounds that headline figures are means of, for runs of so many evaluated rounds."""
    fewest, most = min(evaluated), max(evaluated)
    if fewest >= LAST_ROUNDS:
        return f"means of the last {LAST_ROUNDS} evaluated rounds"
    if most == 1:
        return "of the one evaluated round"
    if fewest == most:
        return f"means of all {most} evaluated rounds"
    if most < LAST_ROUNDS:
        return "means of all evaluated rounds"
    return f"means of the last {LAST_ROUNDS} evaluated rounds, or of all where there are fewer"


def amount(value: float | None, unit: str = "") -> str:
    """Three digits and a prefix, such as `143 MB`."""
    if value is None:
        return NOT_KNOWN
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{format(value / size, '#.3g').rstrip('.')} {letter}{unit}"
    return f"{value:.3g} {unit}".strip()


def ratio(value: float | None, sign: str = "×", unknown: str = NOT_KNOWN) -> str:
    """Return a ratio as text, such as `1.25 ×`."""
    return unknown if value is None else f"{value:.2f} {sign}"
