"""Hardware of satellites: training speed, rate of inter-satellite links, battery and power."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

JOULES_PER_WH = 3600.0
BITS_PER_BYTE = 8

Floats = NDArray[np.float64]


def transfer_s(size_bytes: float, rate_mbps: float | None) -> float:
    """Return the seconds to send some bytes; 0 without a rate."""
    return 0.0 if rate_mbps is None else BITS_PER_BYTE * size_bytes / (1e6 * rate_mbps)


@dataclass(frozen=True, eq=False)
class Power:
    """A battery per satellite, which the Sun charges and training drains."""

    battery_j: float
    initial_j: float
    solar_w: float
    training_w: float
    sunlit_s: NDArray[np.float32]
    """Seconds in sunlight, `[round, satellite]`."""


@dataclass(frozen=True, eq=False)
class Hardware:
    """Hardware on board of all satellites."""

    samples_per_s: Floats
    """Training speed of each satellite, in samples of one model per second."""
    round_s: float
    """Length of a round in seconds."""
    deadline: bool = False
    """True if training must end with its round."""
    isl_mbps: float | None = None
    """Rate of inter-satellite links in Mbit/s; None: transfers take no time."""
    power: Power | None = None
    """Battery and solar power; None where power is no limit."""

    @property
    def limits(self) -> bool:
        """Return whether training can be cut short."""
        return self.deadline or self.power is not None
