"""Transmissions that add up in the air: several satellites send at once, a server receives the sum.

Analogue over-the-air computation with phases aligned.

    symbol       here
    S            satellites that transmit
    delta_k      signal of satellite k, P values
    a_k, A       its weight, and the sum of the weights of S
    m, d         mean and deviation of all values of S, which are sent digitally
    h_k, SNR_k   channel of satellite k, and P_max |h_k|^2 / N_0

    (1)  x_k = (delta_k - m) / d, sent at the amplitude c_k = eta a_k / |h_k|
    (2)  eta = sqrt(P_max) min_k |h_k| / a_k: as c_k^2 <= P_max, the weakest link sets it
    (3)  y = eta sum_k a_k x_k + z,  z ~ N(0, N_0 I)
    (4)  g = m + d y / (eta A) = sum_k a_k delta_k / A + noise of the deviation sigma
    (5)  sigma = d sqrt(N_0) / (eta A) = d / (A min_k sqrt(SNR_k) / a_k)
    (6)  S: of all satellites by |h_k| / a_k, the larger first, the prefix of the greatest
         A / total - mu sigma^2 P / |sum_k a_k delta_k / A|^2

More satellites mean more data, and a weaker weakest link: (6) chooses. `total` is the weight of all
satellites, in view or not.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ModelError
from fedorbit.fleet.channel import require_vector
from fedorbit.learning.parameters import Vector


class Signal(NamedTuple):
    """Signal that a satellite transmits."""

    vector: Vector
    weight: float
    """a_k, above 0."""
    snr: float
    """P_max |h_k|^2 / N_0, as a ratio and above 0."""

    @property
    def level(self) -> float:
        """Quality of its reception for its weight: |h_k| / a_k, in units of the noise."""
        return math.sqrt(self.snr) / self.weight


@dataclass(frozen=True, eq=False)
class Superposed:
    """Signal that a server has received."""

    satellites: tuple[int, ...]
    """Satellites that transmitted, S."""
    mean: Vector
    """Weighted mean of their signals, with noise."""
    weight: float
    """A."""
    sigma: float
    """Deviation of the noise of each value."""
    distortion: float
    """sigma^2 P over the squared norm of the mean without noise."""


class _Prefix(NamedTuple):
    """The best received satellites, and what they give without noise."""

    satellites: tuple[int, ...]
    mean: NDArray[np.float64]
    weight: float
    sigma: float
    distortion: float


def superposed(
    signals: Mapping[int, Signal], mu: float, total: float, rng: np.random.Generator
) -> Superposed:
    """Choose the satellites that transmit, and return what is received of them.

    `total`: weight that all satellites have, in view or not.
    """

    def quality(prefix: _Prefix) -> float:
        return prefix.weight / total - (mu * prefix.distortion if mu else 0.0)

    best = max(_prefixes(signals), key=quality)
    noise = best.sigma * rng.standard_normal(best.mean.size)
    return Superposed(**{**best._asdict(), "mean": (best.mean + noise).astype(np.float32)})


def _prefixes(signals: Mapping[int, Signal]) -> Iterator[_Prefix]:
    """Add satellites one by one, those that are received best for their weight first."""
    order = sorted(signals, key=lambda k: (-signals[k].level, k))
    size = len(signals[order[0]].vector)
    sums, weight, first, second = np.zeros(size), 0.0, 0.0, 0.0
    for count, k in enumerate(order, start=1):
        values = signals[k].vector.astype(np.float64)
        sums += signals[k].weight * values
        weight += signals[k].weight
        first += float(values.sum())
        second += float(np.square(values).sum())
        variance = max(second / (count * size) - (first / (count * size)) ** 2, 0.0)  # d^2
        sigma = math.sqrt(variance) / (weight * signals[k].level)  # the last is the weakest
        mean = sums / weight
        power = float(np.square(mean).sum())
        distortion = sigma**2 * size / power if power else math.inf if sigma else 0.0
        yield _Prefix(tuple(order[:count]), mean, weight, sigma, distortion)


def require_signal(satellite: int, signal: Signal, other: Signal) -> None:
    """Refuse what cannot be added up: other lengths, and weights or SNRs that are not above 0."""
    require_vector(signal.vector)
    if signal.vector.size != other.vector.size:
        raise ModelError(
            f"signals that add up must have one length, got {other.vector.size} values and "
            f"{signal.vector.size} of satellite {satellite}"
        )
    for name, number in (("weight", signal.weight), ("snr", signal.snr)):
        if not (math.isfinite(number) and number > 0):
            raise ModelError(
                f"the {name} of satellite {satellite} must be finite and above 0, got {number}"
            )
