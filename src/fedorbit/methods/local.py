"""Local: every orbit for itself. Not in the paper; what federation has to beat.

Satellites train and the orbit averages by samples, but nothing leaves the orbit. By default in
visible rounds only, so that it spends what FedAvg spends; `effort` makes it spend what FedOrbit
does.
"""

import numpy as np

from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.fedavg import train_orbit
from fedorbit.methods.fleet import Fleet


class Local(MatchedEffort):
    """No federation: every orbit trains a model of its own."""

    def start(self, fleet: Fleet) -> State:
        """Everybody has w(0)."""
        return {"own": np.tile(fleet.initial_model(), (fleet.orbits, 1))}

    def participants(self, t: int, fleet: Fleet) -> list[int]:
        """Orbits that train in round t; they need no link for it."""
        return fleet.present(t) if self.effort == "always" else fleet.visible(t)

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train orbits on their own data."""
        own = state["own"].copy()
        programs = {
            orbit: train_orbit(fleet, orbit, t, own[orbit], self.work(orbit, t, fleet))
            for orbit in self.participants(t, fleet)
        }
        for orbit, model in fleet.run(programs).items():
            own[orbit] = model
        return {"own": own}

    def models(self, state: State) -> Vector:
        """Every orbit uses its own model."""
        return state["own"]
