"""APFL: each orbit mixes a model of its own with the global one.

Deng, Kamani and Mahdavi, "Adaptive Personalized Federated Learning", 2020.

    symbol   here
    w        local copy of the global model, FedAvg's
    v_l      the orbit's own model
    alpha_l  its share in the mixture vbar = alpha v + (1 - alpha) w

Per batch, w follows grad f(w), v follows alpha grad f(vbar), which is the gradient of f(vbar) in
v, and alpha follows <grad f(vbar), v - w> and stays in [0, 1]. Inference at the mixture of v_l and
the current global model.

Departures: v and alpha belong to an orbit; satellites train them and the orbit averages both by
samples. alpha moves at the learning rate of the round, without momentum, decay or clipping.
"""

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fedorbit.learning.engine import Program
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Coupled
from fedorbit.methods.base import Method, State, weighted_mean, with_launched
from fedorbit.methods.fedavg import average_at_ground, receive_global
from fedorbit.methods.fleet import Fleet


class APFL(Method):
    """Mix a model of the orbit's own with the global one, in a share that is learned."""

    models_trained: ClassVar[int] = 2

    initial_alpha: float = Field(0.5, ge=0, le=1, description="first share of the own model")

    def start(self, fleet: Fleet) -> State:
        """Everybody has w(0) twice, mixed in equal parts."""
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        return {
            "global": w,
            "received": everywhere,
            "own": everywhere.copy(),
            "alpha": np.full(fleet.orbits, self.initial_alpha),
        }

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train w, v and alpha of every visible orbit; average w at the ground."""
        state = with_launched(state, t, fleet, "received", "own")
        visible = fleet.visible(t)
        received = receive_global(state, t, fleet, visible)
        trained = fleet.run(
            {
                orbit: _train_orbit(
                    fleet, orbit, t, received[orbit], state["own"][orbit], state["alpha"][orbit]
                )
                for orbit in visible
            }
        )
        own, alpha = state["own"].copy(), state["alpha"].copy()
        for orbit, (_, v, a) in trained.items():
            own[orbit], alpha[orbit] = v, a
        models = {orbit: w for orbit, (w, _, _) in trained.items()}
        after = average_at_ground(state, t, fleet, received, models)
        return {**after, "own": own, "alpha": alpha}

    def models(self, state: State) -> Vector:
        """Every orbit uses its mixture."""
        alpha = state["alpha"].astype(np.float32)[:, None]
        return alpha * state["own"] + (1 - alpha) * state["received"]

    def facts(self, state: State, t: int, fleet: Fleet) -> dict[str, Any]:
        """Tell the learned shares."""
        return {"alpha": state["alpha"].tolist()}


def _train_orbit(
    fleet: Fleet, orbit: int, t: int, w: Vector, v: Vector, alpha: float
) -> Program[tuple[Vector, Vector, float]]:
    for intra_round in range(fleet.plan.intra_rounds):
        trained = yield fleet.jobs(
            orbit,
            t,
            w,
            epochs=fleet.plan.epochs,
            rate=fleet.plan.rate(t),
            intra_round=intra_round,
            intra_rounds=fleet.plan.intra_rounds,
            rule=Coupled(v, float(alpha)),
        )
        weights = fleet.samples(t)[fleet.trainers(orbit, t)]
        w = weighted_mean([result.model for result in trained], weights, otherwise=w)
        owns = [result.extra["personal"] for result in trained]
        v = weighted_mean(owns, weights, otherwise=v)
        if trained:
            shares = [result.extra["alpha"] for result in trained]
            alpha = float(np.average(shares, weights=weights))
        del trained, owns  # before the next ones arrive
    return w, v, alpha
