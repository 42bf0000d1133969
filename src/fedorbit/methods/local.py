"""Local: every orbit for itself. Not in the paper; the floor that federation has to beat.

Satellites train and the orbit averages by samples, but nothing leaves the orbit. By default in
visible rounds only, so that it spends what FedAvg spends.
"""

from typing import Literal

import numpy as np
from pydantic import Field

from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Method, State
from fedorbit.methods.fedavg import train_orbit
from fedorbit.methods.fleet import Fleet


class Local(Method):
    """No federation: every orbit trains a model of its own."""

    when: Literal["visible", "always"] = Field(
        "visible", description="in which rounds an orbit trains"
    )

    def start(self, fleet: Fleet) -> State:
        """Everybody has w(0)."""
        return {"own": np.tile(fleet.initial_model(), (fleet.orbits, 1))}

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train orbits on their own data."""
        orbits = fleet.present(t) if self.when == "always" else fleet.visible(t)
        own = state["own"].copy()
        trained = fleet.run({orbit: train_orbit(fleet, orbit, t, own[orbit]) for orbit in orbits})
        for orbit, model in trained.items():
            own[orbit] = model
        return {"own": own}

    def models(self, state: State) -> Vector:
        """Every orbit uses its own model."""
        return state["own"]
