"""Curves of means over seeds, with the confidence that so few numbers allow."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Student's t at 97.5 % for 1, 2 … 30 degrees of freedom: with three seeds the normal's 1.96
# would make a band less than half as wide as it must be.
T_975 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
Z_975 = 1.95996


@dataclass(frozen=True, eq=False)
class Curve:
    """Means over seeds along `x`, and the half width of their bands.

    A band is a 95 % confidence interval of the mean, and of two seeds what lies between them. NaN
    stands where nothing is known; of fewer than two seeds there are no bands and no deviations.
    """

    x: Floats
    mean: Floats
    half: Floats
    deviation: Floats
    """Standard deviation over seeds."""


def curve(x: Floats, values: Floats) -> Curve:
    """Summarise `values[seed, x]`, in which NaN means not known."""
    known = np.isfinite(values)
    n = known.sum(axis=0)
    total = np.where(known, values, 0.0).sum(axis=0)
    mean = np.divide(total, n, out=np.full(len(x), np.nan), where=n > 0)
    squares = np.where(known, (values - mean) ** 2, 0.0).sum(axis=0)
    std = np.sqrt(np.divide(squares, n - 1, out=np.full(len(x), np.nan), where=n > 1))
    errors = np.array([_errors(int(seeds)) for seeds in n])
    return Curve(x, mean, errors * std / np.sqrt(np.maximum(n, 1)), std)


def _errors(seeds: int) -> float:
    """Half width of a band in standard errors of the mean.

    Student's t for two seeds is 12.7, and the band would hide the curves. One standard error of
    two values is half the distance between them.
    """
    if seeds == 2:
        return 1.0
    return t_975(seeds - 1) if seeds > 2 else np.nan


def t_975(degrees: int) -> float:
    """Quantile of Student's t distribution for a two-sided 95 % interval."""
    if degrees <= len(T_975):
        return T_975[degrees - 1]
    return Z_975 + (Z_975**3 + Z_975) / (4.0 * degrees)  # the first term of its expansion


def evenly(length: int, at_most: int) -> NDArray[np.int64]:
    """Indices of at most so many values, evenly spread, with the first and the last."""
    if length <= at_most:
        return np.arange(length)
    return np.unique(np.linspace(0, length - 1, at_most).round().astype(np.int64))
