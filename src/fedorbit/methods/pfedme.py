"""pFedMe: personal models as proximal points of a global one.

Dinh, Tran and Nguyen, "Personalized Federated Learning with Moreau Envelopes", 2020. The global
model minimises the mean of the envelopes F_k(w) = min over theta of f_k(theta) + lambda/2
|theta - w|^2, whose gradient is lambda (w - theta).

    symbol            here
    theta_l           personal model of an orbit
    w_k               a satellite's copy of the global model, w received at first, as is theta_k
    K                 inner steps per batch
    eta_i, eta_w      `inner_rate` and `outer_rate`;  kappa = min(1, eta_w lambda)

    (1)  per batch, K times:  g = clip(grad f(theta_k) + lambda (theta_k - w_k), C) + decay theta_k,
                              theta_k <- theta_k - eta_i g
    (2)  then:                w_k <- w_k + kappa (theta_k - w_k)
    (3)  theta_l, w_l: means of the satellites' theta_k and w_k by samples
    (4)  w <- (1 - beta) w + beta sum_l n_l w_l / sum_l n_l

Inference at theta_l, which stays in the orbit; w_l is uploaded.

Departures: the personal model belongs to an orbit. Only orbits that take part train, and they alone
receive w. theta starts at w in every round, and continues from batch to batch. Both rates default
to FedAvg's effective one, rate / (1 - momentum): the published ones, without momentum, would move w
at least nine times less per round. Inner steps have no momentum, but the clip norm C and weight
decay of the run. Every batch costs K gradients: `training.epochs` is not divided by K.
"""

from typing import ClassVar

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Moreau, Rule
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.steps import (
    average_at_ground,
    blend,
    hand_out,
    load_launched,
    mean_by_samples,
    mean_of_extra,
    train_orbit,
    with_statistics,
)


class PFedMe(MatchedEffort):
    """Personal orbit models on Moreau envelopes of a global one."""

    label: ClassVar[str] = "pFedMe"
    family: ClassVar[Family] = "personalised"

    lambda_: float = Field(5.0, ge=0, alias="lambda", description="strength of the proximal term")
    inner_steps: int = Field(5, ge=1, le=1000, description="K, gradient steps per batch")
    beta: float = Field(1.0, ge=0, le=10, description="step of the ground's model toward the mean")
    inner_rate: float | None = Field(
        None, gt=0, le=100, description="rate of theta; unset: rate / (1 - momentum)"
    )
    outer_rate: float | None = Field(
        None, ge=0, le=100, description="eta_w, rate of w; unset: rate / (1 - momentum)"
    )

    @property
    def needs(self) -> Needs:
        """K gradients of every sample; theta and w are exchanged."""
        return Needs(passes=self.inner_steps, exchanged=2)

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0), as global and as personal model."""
        fleet.plan.require_sgd("pFedMe")
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        return {"global": w, "received": everywhere, "personal": everywhere.copy()}

    def round(self, state: State, now: Now) -> State:
        """Train theta and w in every orbit that takes part, and average w."""
        state = load_launched(state, now, "received", "personal")
        w, received, orbits = state["global"], state["received"].copy(), self.participants(now)
        hand_out(w, received, now, orbits)
        personal, moved = state["personal"].copy(), {}
        programs = {
            orbit: self._train(now, orbit, received[orbit], personal[orbit]) for orbit in orbits
        }
        for orbit, trained in now.orbits.run(programs, upload=True).items():
            personal[orbit], moved[orbit] = trained
        mean = average_at_ground(now, moved, w)
        w = with_statistics(now, blend(w, mean, self.beta), mean)
        hand_out(w, received, now, sorted(moved))
        return {"global": w, "received": received, "personal": personal}

    def _train(
        self, now: Now, orbit: int, w: Vector, personal: Vector
    ) -> Program[tuple[Vector, Vector]]:
        """Return theta_l and w_l of an orbit; theta_l stays if no satellite does a step."""
        effective = now.rate / (1.0 - now.fleet.plan.momentum)
        inner = effective if self.inner_rate is None else self.inner_rate
        outer = effective if self.outer_rate is None else self.outer_rate
        follow = min(1.0, outer * self.lambda_)  # kappa of (2)

        def rule(satellite: int) -> Rule:
            return Moreau(anchor=w, pull=self.lambda_, repeats=self.inner_steps, follow=follow)

        def combine(now: Now, orbit: int, theta: Vector, trained: list[Trained]) -> Vector:
            nonlocal w, personal
            w = mean_of_extra(now, orbit, "anchor", trained, otherwise=w)
            theta = mean_by_samples(now, orbit, theta, trained)
            personal = theta if any(result.steps for result in trained) else personal
            return theta

        work = self.work(orbit, now)
        yield from train_orbit(now, orbit, w, work, rate=inner, rule=rule, combine=combine)
        return personal, w

    def models(self, state: State) -> Vector:
        """Every orbit uses its personal model."""
        return state["personal"]
