"""Running means of models, for inference: m(t) = d m(t-1) + (1 - d) w(t), row by row.

The first rounds are averaged plainly, with d = t / (t + 1) until that reaches the decay, so that
the initial model has no weight of its own.
"""

import numpy as np

from fedorbit.fleet.keeping import Arrays
from fedorbit.learning.parameters import Vector

RUNNING_MEAN = "running mean"
"""Name of its array in a checkpoint."""


def in_use(arrays: Arrays, models: Vector) -> Vector:
    """Return the models in use at a checkpoint with such arrays: running means if it has them."""
    return arrays.get(RUNNING_MEAN, models)


class RunningMean:
    """Averages what a method serves over rounds; with a decay of 0 it is what it was."""

    def __init__(self, decay: float, arrays: Arrays) -> None:
        """`arrays`: of a checkpoint."""
        self.decay = decay
        self._mean: Vector | None = arrays.get(RUNNING_MEAN)

    def after(self, t: int, models: Vector) -> Vector:
        """Return the means after round t."""
        if not self.decay:
            return models
        share = np.float32(max(1.0 - self.decay, 1.0 / (t + 1)))
        mean = models if self._mean is None else self._mean + share * (models - self._mean)
        self._mean = mean.copy()
        return mean

    def saved(self) -> Arrays:
        """Return its part of a checkpoint."""
        return {} if self._mean is None else {RUNNING_MEAN: self._mean}
