"""How good each orbit's model is on that orbit's own test samples."""

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.engine import Engine
from fedorbit.learning.parameters import Vector
from fedorbit.simulation.records import Record, mean


class Evaluator:
    """Evaluates orbit models; a model that did not change is not evaluated again."""

    def __init__(self, engine: Engine, test: tuple[NDArray[np.int64], ...]) -> None:
        self._engine = engine
        self._test = test
        self._models: dict[int, Vector] = {}
        self._results: dict[int, tuple[int, float]] = {}

    def __call__(self, models: Vector, present: list[int]) -> Record:
        """Return accuracies in percent and mean losses of the orbits that are present.

        None for one that is away or has no test samples.
        """
        tested = [orbit for orbit in present if len(self._test[orbit])]
        changed = [
            orbit
            for orbit in tested
            if not (orbit in self._models and np.array_equal(self._models[orbit], models[orbit]))
        ]
        results = self._engine.evaluate(
            [models[orbit] for orbit in changed], [self._test[orbit] for orbit in changed]
        )
        for orbit, result in zip(changed, results, strict=True):
            self._models[orbit], self._results[orbit] = models[orbit].copy(), result
        accuracy: list[float | None] = [None] * len(models)
        loss: list[float | None] = [None] * len(models)
        for orbit in tested:
            correct, loss_sum = self._results[orbit]
            accuracy[orbit] = 100.0 * correct / len(self._test[orbit])
            # A model that has diverged has no loss worth the name, and JSON no word for it.
            value = loss_sum / len(self._test[orbit])
            loss[orbit] = value if np.isfinite(value) else None
        known = [value for value in accuracy if value is not None]
        return {
            "accuracy": mean(accuracy),
            "spread": max(known) - min(known) if known else None,
            "orbit_accuracy": accuracy,
            "orbit_loss": loss,
        }
