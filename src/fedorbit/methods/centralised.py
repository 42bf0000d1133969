"""Centralised: all data in one place. Not in the paper; what one model for all can reach.

One model is trained on all training samples, in every round, wherever satellites are. It uses no
links: raw data of all satellites that are there are assumed to be at hand.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from fedorbit.learning.engine import Program
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Method, State
from fedorbit.methods.fleet import Fleet


class Centralised(Method):
    """One model on everybody's data."""

    models_trained: ClassVar[int] = 0  # by satellites

    epochs: int = Field(1, ge=1, le=1000, description="epochs per round over all samples")

    def start(self, fleet: Fleet) -> State:
        """One model for all orbits."""
        return {"model": fleet.initial_model(), "orbits": np.array(fleet.orbits)}

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train on everything."""
        trained = fleet.run({0: self._train(state["model"], t, fleet)})
        return {**state, "model": trained[0]}

    def _train(self, start: Vector, t: int, fleet: Fleet) -> Program[Vector]:
        trained = yield fleet.pooled_jobs(t, start, epochs=self.epochs, rate=fleet.plan.rate(t))
        return trained[0].model if trained else start

    def models(self, state: State) -> Vector:
        """Every orbit uses the one model."""
        return np.tile(state["model"], (int(state["orbits"]), 1))
