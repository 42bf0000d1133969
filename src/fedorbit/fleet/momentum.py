"""Momentum of orbits, over their intra-orbit rounds: SlowMo's idea (Wang et al. 2020).

Local training begins each time without momentum. That of an orbit continues from one intra-orbit
round to the next, also from one round to the next: with x the model that its satellites started
from and y their combined result,

model = y + momentum u,   u <- model - x

which is u <- momentum u + (y - x) and model = x + u.

Each satellite has x and y, so that nothing has to be sent for it.
"""

import numpy as np

from fedorbit.fleet.keeping import Arrays
from fedorbit.learning.parameters import Vector

VELOCITY = "velocity:"
"""Begin of the names of its arrays in a checkpoint."""


class OrbitMomentum:
    """The velocity u of each orbit, and of each purpose that it trains for."""

    def __init__(self, momentum: float) -> None:
        self._momentum = momentum
        self._velocities: Arrays = {}

    def moved(self, orbit: int, purpose: int, start: Vector, combined: Vector) -> Vector:
        """Return the model after an intra-orbit round; without momentum the combined one."""
        if not self._momentum:
            return combined
        name = f"{VELOCITY}{orbit}:{purpose}"
        if name in self._velocities:
            moved = combined + self._momentum * self._velocities[name]
            combined = np.asarray(moved, dtype=np.float32)
        self._velocities[name] = combined - start
        return combined

    def saved(self) -> Arrays:
        """Return its part of a checkpoint."""
        return dict(self._velocities)

    def restore(self, arrays: Arrays) -> None:
        """Continue from what a checkpoint kept."""
        names = [name for name in arrays if name.startswith(VELOCITY)]
        self._velocities = {name: arrays[name] for name in names}
