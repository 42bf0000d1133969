"""Ditto: a personal model per orbit beside FedAvg.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", 2021. A FedAvg
global model is trained in parallel; the personal model v_l minimises F_l(v) + lambda/2
|v - w_global|^2. Inference at v_l.

Departures: the personal model belongs to an orbit, not to a client; satellites train it from v_l
for E_base epochs in visible rounds and the orbit averages by samples, as it does the global one.
Another `effort` is spent on each of the two models.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Sgd
from fedorbit.methods.base import State, with_launched
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.fedavg import average_at_ground, receive_global, train_orbit
from fedorbit.methods.fleet import Fleet


class Ditto(MatchedEffort):
    """Personal orbit models pulled toward a FedAvg model trained in parallel."""

    models_trained: ClassVar[int] = 2

    lambda_: float = Field(
        0.1, ge=0, alias="lambda", description="strength of the pull toward the global model"
    )

    def start(self, fleet: Fleet) -> State:
        """Everybody has w(0), as global and as personal model."""
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        return {"global": w, "received": everywhere, "personal": everywhere.copy()}

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train the global and the personal model of every orbit that takes part."""
        state = with_launched(state, t, fleet, "received", "personal")
        orbits = self.participants(t, fleet)
        received = receive_global(state, t, fleet, orbits)
        programs = {}
        for orbit in orbits:
            work = self.work(orbit, t, fleet)
            programs[orbit] = train_orbit(fleet, orbit, t, received[orbit], work)
            programs[fleet.orbits + orbit] = train_orbit(
                fleet,
                orbit,
                t,
                state["personal"][orbit],
                work,
                purpose=1,
                rule=Sgd(anchor=received[orbit], pull=self.lambda_),
            )
        trained = fleet.run(programs)
        personal = state["personal"].copy()
        for orbit in orbits:
            personal[orbit] = trained.pop(fleet.orbits + orbit)
        # Nobody uses the mean but those who train: an orbit out of view needs no copy of it.
        after = average_at_ground(state, t, fleet, received, trained, recipients=orbits)
        return {**after, "personal": personal}

    def models(self, state: State) -> Vector:
        """Every orbit uses its personal model."""
        return state["personal"]
