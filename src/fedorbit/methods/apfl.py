"""APFL: each orbit mixes a model of its own with the global one.

Deng, Kamani and Mahdavi, "Adaptive Personalized Federated Learning", 2020.

    symbol   here
    w        global model, FedAvg's; a satellite trains a copy
    v_l      the orbit's own model
    alpha_l  its share in the mixture vbar = alpha v + (1 - alpha) w

Per batch, all from the values before it (1 to 3), and then as FedAvg (4):

    (1)  w follows grad f(w), by steps of LocalSGD
    (2)  v follows alpha grad f(vbar), the gradient of f(vbar) in v, by steps of LocalSGD
    (3)  alpha <- alpha - eta <grad f(vbar), v - w>, kept in [0, 1]
    (4)  w_l, v_l, alpha_l: means of the satellites' by samples;  w <- sum_l n_l w_l / sum_l n_l

Inference at the mixture of v_l and the global model received last.

Departures: v and alpha belong to an orbit; satellites train them and the orbit averages both by
samples. alpha moves at the learning rate of the round, without momentum, decay or clipping.
"""

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Coupled, Rule
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort, Work
from fedorbit.methods.steps import (
    average_at_ground,
    hand_out,
    load_launched,
    mean_by_samples,
    mean_of_extra,
    train_orbit,
)


class APFL(MatchedEffort):
    """Mix a model of the orbit's own with the global one, in a share that is learned."""

    family: ClassVar[Family] = "personalised"

    initial_alpha: float = Field(0.5, ge=0, le=1, description="first share of the own model")

    @property
    def needs(self) -> Needs:
        """Two models, coupled."""
        return Needs(passes=2, exchanged=2)

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0) twice, mixed in equal parts."""
        fleet.plan.require_sgd("APFL")
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        alpha = np.full(fleet.orbits, self.initial_alpha)
        return {"global": w, "received": everywhere, "own": everywhere.copy(), "alpha": alpha}

    def round(self, state: State, now: Now) -> State:
        """Train w, v and alpha of every orbit that takes part; average w at the ground."""
        state = load_launched(state, now, "received", "own")
        w, received, orbits = state["global"], state["received"].copy(), self.participants(now)
        hand_out(w, received, now, orbits)
        own, alpha = state["own"].copy(), state["alpha"].copy()
        programs = {
            orbit: _train_orbit(
                now,
                orbit,
                self.work(orbit, now),
                received[orbit],
                own[orbit],
                float(alpha[orbit]),
            )
            for orbit in orbits
        }
        models = {}
        for orbit, trained in now.orbits.run(programs, upload=True).items():
            models[orbit], own[orbit], alpha[orbit] = trained
        w = average_at_ground(now, models, w)
        if models:
            hand_out(w, received, now, now.orbits.reachable)
        return {"global": w, "received": received, "own": own, "alpha": alpha}

    def models(self, state: State) -> Vector:
        """Every orbit uses its mixture."""
        alpha = state["alpha"].astype(np.float32)[:, None]
        return alpha * state["own"] + (1 - alpha) * state["received"]

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report the learned shares."""
        return {"alpha": state["alpha"].tolist()}


def _train_orbit(
    now: Now, orbit: int, work: Work, w: Vector, v: Vector, alpha: float
) -> Program[tuple[Vector, Vector, float]]:
    """Return w, v and alpha of an orbit."""

    def rule(satellite: int) -> Rule:
        return Coupled(v, alpha)

    def combine(now: Now, orbit: int, start: Vector, trained: list[Trained]) -> Vector:
        nonlocal v, alpha
        v = mean_of_extra(now, orbit, "personal", trained, otherwise=v)
        if trained:
            samples = now.samples[now.orbits.trainers(orbit)]
            alpha = float(np.average([r.extra["alpha"] for r in trained], weights=samples))
        return mean_by_samples(now, orbit, start, trained)

    w = yield from train_orbit(now, orbit, w, work, rule=rule, combine=combine)
    return w, v, alpha
