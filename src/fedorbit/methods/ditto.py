"""Ditto: a personal model per orbit beside FedAvg.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", 2021.

    (1)  y_k = LocalSGD of F_k from w;  y_l and w as in FedAvg, (2) and (3)
    (2)  v_k = LocalSGD of F_k(v) + lambda/2 |v - w|^2 from v_l, w as the round begins
    (3)  v_l <- sum_k n_k v_k / n_l, the orbit's personal model

Inference at v_l.

Departures: the personal model belongs to an orbit, not to a client; satellites train it from v_l
for E_base epochs in visible rounds and the orbit averages by samples, as it does the global one.
Another `effort` is spent on each of the two models.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Sgd
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.steps import average_at_ground, hand_out, load_launched, train_orbit


class Ditto(MatchedEffort):
    """Personal orbit models pulled toward a FedAvg model trained in parallel."""

    family: ClassVar[Family] = "personalised"

    lambda_: float = Field(
        0.1, ge=0, alias="lambda", description="strength of the pull toward the global model"
    )

    @property
    def needs(self) -> Needs:
        """Two models, one after the other."""
        return Needs(passes=2, exchanged=2)

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0), as global and as personal model."""
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        return {"global": w, "received": everywhere, "personal": everywhere.copy()}

    def round(self, state: State, now: Now) -> State:
        """Train the global and the personal model of every orbit that takes part."""
        state = load_launched(state, now, "received", "personal")
        w, received, orbits = state["global"], state["received"].copy(), self.participants(now)
        hand_out(w, received, now, orbits)
        programs, pulled = {}, Sgd(anchor=w, pull=self.lambda_)
        for orbit in orbits:
            v, work = state["personal"][orbit], self.work(orbit, now)
            programs[orbit] = train_orbit(now, orbit, received[orbit], work)
            programs[~orbit] = train_orbit(now, orbit, v, work, rule=pulled, purpose=1)
        trained = now.orbits.run(programs, upload=True)
        personal = state["personal"].copy()
        for orbit in [key for key in trained if key >= 0]:
            personal[orbit] = trained.pop(~orbit)
        w = average_at_ground(now, trained, w)
        # Only those that train use the mean: an orbit out of view needs no copy of it.
        hand_out(w, received, now, sorted(trained))
        return {"global": w, "received": received, "personal": personal}

    def models(self, state: State) -> Vector:
        """Every orbit uses its personal model."""
        return state["personal"]
