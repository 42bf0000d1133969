"""FedAvg in three tiers: satellites, orbits, ground station.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017.

    symbol     here
    w          the ground's model; an orbit uses the one that it has received last
    y_k, y_l   models of satellite k, and of orbit l, after their training
    n_k, n_l   samples of satellite k, and of those of orbit l that have trained

    (1)  y_k = LocalSGD of F_k from w, E_base epochs, in orbits that are in view
    (2)  y_l = sum_k n_k y_k / n_l; with several intra-orbit rounds, (1) again from y_l
    (3)  w <- sum_l n_l y_l / sum_l n_l, over the orbits that have trained

Nothing changes in a round without a visible orbit, except by `effort`.

Departures: none. Where aggregations take several rounds (physical links), orbits whose result is
under way count in (3), too, with w in the place of y_l.
"""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from fedorbit.fleet import Fleet, Now, Phase
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.steps import average_at_ground, hand_out, load_launched, train_orbit


class FedAvg(MatchedEffort):
    """Average the visible orbits' models by samples."""

    family: ClassVar[Family] = "global"

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0)."""
        w = fleet.initial_model()
        return {"global": w, "received": np.tile(w, (fleet.orbits, 1))}

    def round(self, state: State, now: Now) -> State:
        """Train orbits from the global model and average them."""
        state = load_launched(state, now, "received")
        w, received, orbits = state["global"], state["received"].copy(), self.participants(now)
        hand_out(w, received, now, orbits)
        trained = now.orbits.run(
            {
                orbit: train_orbit(
                    now,
                    orbit,
                    received[orbit],
                    self.work(orbit, now),
                    rule=self.local(w),
                    to_come=self.to_come(now),
                )
                for orbit in orbits
            },
            upload=True,
        )
        if not trained:
            return {**state, "received": received}
        after = self.at_ground(state, average_at_ground(now, trained, w), now)
        hand_out(after["global"], received, now, now.orbits.reachable)
        return {**state, **after, "received": received}

    def local(self, w: Vector) -> Rule:
        """Return the local rule of satellites, given the global model: here LocalSGD alone."""
        return PLAIN

    def at_ground(self, state: State, mean: Vector, now: Now) -> State:
        """Return what changes at the ground, given the mean of the orbits: here it is the model."""
        return {"global": mean}

    def to_come(self, now: Now) -> Sequence[Phase]:
        """Return the phases of orbits in a round after that: here none."""
        return ()

    def models(self, state: State) -> Vector:
        """Every orbit uses the global model it received last."""
        return state["received"]
