"""Local: every orbit for itself. Not in the paper; the baseline that federation has to beat.

    (1)  y_k = LocalSGD of F_k from v_l, E_base epochs, in orbits that are in view
    (2)  v_l <- sum_k n_k y_k / n_l, the orbit's own model, in each intra-orbit round

Nothing leaves the orbit. It trains in visible rounds only, so that it spends what FedAvg spends;
`effort` makes it spend what FedOrbit does.
"""

from typing import ClassVar

import numpy as np

from fedorbit.fleet import Fleet, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.steps import train_orbit


class Local(MatchedEffort):
    """No federation: every orbit trains a model of its own."""

    family: ClassVar[Family] = "reference"

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0)."""
        return {"own": np.tile(fleet.initial_model(), (fleet.orbits, 1))}

    def participants(self, now: Now) -> list[int]:
        """Orbits that train in this round; they need no link for it."""
        return now.orbits.active if self.effort == "always" else now.orbits.visible

    def round(self, state: State, now: Now) -> State:
        """Train orbits on their own data."""
        own = state["own"].copy()
        programs = {
            orbit: train_orbit(now, orbit, state["own"][orbit], self.work(orbit, now))
            for orbit in self.participants(now)
        }
        for orbit, model in now.orbits.run(programs).items():
            own[orbit] = model
        return {"own": own}

    def models(self, state: State) -> Vector:
        """Every orbit uses its own model."""
        return state["own"]
