"""Per-FedAvg: a global model that is good after one step on one's own data.

Fallah, Mokhtari and Ozdaglar, "Personalized Federated Learning with Theoretical Guarantees: A
Model-Agnostic Meta-Learning Approach", 2020. FedAvg on F_k(w) = f_k(w - alpha grad f_k(w)), whose
gradient is (I - alpha H(w)) grad f_k(w - alpha grad f_k(w)), with H the Hessian of f_k.

    symbol   here
    D', D    a batch, and the next one of the epoch
    C, r     clip norm of the run; 0.01, the reach of a finite difference in `variant = "hf"`

    (1)  x = w - alpha clip(grad f(w; D), C),  v = grad f(x; D')
    (2)  "fo": g = v, without the Hessian
         "hf": g = v - alpha |v| [grad f(w + r e; D) - grad f(w - r e; D)] / (2 r),  e = v / |v|
    (3)  y_k follows g instead of grad f, by steps of LocalSGD;  y_l and w as in FedAvg
    (4)  in orbits that have received another w, `adapt_steps` times from it:
         w_l <- sum_k n_k (w_l - alpha clip(grad f_k(w_l), C)) / n_l, each k with a batch of its own

Inference at w_l, which is adapted to the orbit's own training data.

Departures: an orbit adapts, not a satellite. The three batches of a step are two consecutive ones.
The outer step is the run's, with momentum, decay, clipping and rate(t). alpha does not decay: it is
part of the objective. `adapt_epochs` adapts over whole epochs instead of batches, as some libraries
do. With physical links an orbit that trains on w adapts the mean that it receives in return.
"""

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now, Phase
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Maml, Rule, Sgd
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import Work
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.steps import load_launched, train_orbit

ADAPTING = 1
"""Purpose of the jobs that adapt; those that train have 0."""
ADAPTATION = Sgd(momentum=0.0, weight_decay=0.0)
"""A plain step: what the objective is about."""


class PerFedAvg(FedAvg):
    """FedAvg of a model that orbits adapt to their own data."""

    label: ClassVar[str] = "Per-FedAvg"
    family: ClassVar[Family] = "personalised"

    alpha: float = Field(0.1, ge=0, le=100, description="rate of the adaptation")
    variant: Literal["fo", "hf"] = Field(
        "fo", description="first order, or Hessian-free by finite differences"
    )
    adapt_steps: int = Field(1, ge=1, le=1000, description="batches that an orbit adapts on")
    adapt_epochs: int = Field(
        0, ge=0, le=1000, description="epochs that it adapts for, instead of batches; 0: batches"
    )

    @property
    def needs(self) -> Needs:
        """Two or four gradients of every sample, and those of the adaptation."""
        passes = self.rule.passes
        if not self.alpha:
            return Needs(passes)
        if self.adapt_epochs:
            return Needs(passes + 1, exchanged=2)
        return Needs(passes, exchanged=1 + self.adapt_steps, batches=self.adapt_steps)

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0), adapted to nothing."""
        fleet.plan.require_sgd("Per-FedAvg")
        state = super().start(fleet)
        return {**state, "adapted": state["received"].copy()}

    def round(self, state: State, now: Now) -> State:
        """Do a round of FedAvg, and adapt what orbits have received."""
        before = load_launched(state, now, "received", "adapted")
        after = super().round({name: before[name] for name in ("global", "received")}, now)
        received, adapted = after["received"], before["adapted"].copy()
        news = [
            orbit
            for orbit in now.orbits.active
            if not np.array_equal(received[orbit], state["received"][orbit])
        ]
        if not self.alpha:
            adapted[news] = received[news]
        else:
            programs = {
                orbit: train_orbit(
                    now,
                    orbit,
                    received[orbit],
                    self._adaptation,
                    rate=self.alpha,
                    rule=ADAPTATION,
                    purpose=ADAPTING,
                    samples=self._adaptation_samples(now),
                    has_momentum=False,
                )
                for orbit in news
            }
            for orbit, model in now.orbits.run(programs, purpose=ADAPTING).items():
                adapted[orbit] = model
        return {**after, "adapted": adapted}

    @property
    def _adaptation(self) -> Work:
        """Epochs, or intra-orbit rounds of one batch."""
        return Work(self.adapt_epochs, 1) if self.adapt_epochs else Work(1, self.adapt_steps)

    def _adaptation_samples(self, now: Now) -> int | None:
        return None if self.adapt_epochs else now.fleet.plan.batch

    def to_come(self, now: Now) -> Sequence[Phase]:
        """Keep time and power for the adaptation."""
        epochs, intra_rounds = self._adaptation
        phase = Phase(epochs, ADAPTATION, self._adaptation_samples(now))
        return [phase] * intra_rounds if self.alpha else []

    @property
    def rule(self) -> Rule:
        """The rule that trains a model to be good after its adaptation."""
        return Maml(self.alpha, hessian=self.variant == "hf")

    def local(self, w: Vector) -> Rule:
        """Train for what the model is after its adaptation."""
        return self.rule

    def models(self, state: State) -> Vector:
        """Every orbit uses the model that it has adapted."""
        return state["adapted"]
