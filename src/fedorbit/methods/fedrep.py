"""FedRep: a common representation, and a head of each orbit's own.

Collins et al., "Exploiting Shared Representations for Personalized Federated Learning", 2021.

    symbol   here
    phi      body, the parameters [0, b): averaged over orbits
    h_l      head of orbit l, the parameters [b, P): never leaves the orbit

    (1)  h_k = LocalSGD of F_k(phi, h) from h_l, E_head epochs,  h_l <- sum_k n_k h_k / n_l
    (2)  phi_k = LocalSGD of F_k(phi, h_l) from phi, E_body epochs,  phi_l = sum_k n_k phi_k / n_l
    (3)  phi <- sum_l n_l phi_l / sum_l n_l, over the orbits that have trained

Inference with the pair (phi, h_l). phi alone travels.

Departures: the head belongs to an orbit: its satellites average their heads before the body is
trained, so that a satellite with a single class sees a common head; each half travels once.
E = E_head + E_body is the run's, with E_body = ceil(E / 3), where the authors use 10 + 1 or 10 + 5;
an E of 1 is an epoch of each.
An orbit out of view receives no phi, also with ideal links: a head fits the body that it was
trained on. An orbit that is launched has the ground's phi and the head of w(0).
"""

import math
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now, Phase
from fedorbit.learning.engine import Program
from fedorbit.learning.parameters import ParameterLayout, Vector
from fedorbit.learning.rules import Sgd
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort, Work
from fedorbit.methods.steps import average_at_ground, hand_out, load_launched, mean_by_samples


class FedRep(MatchedEffort):
    """Average the body; keep a head in every orbit."""

    family: ClassVar[Family] = "personalised"

    head: Literal["last", "classifier"] = Field(
        "last", description="last layer, or the whole classifier as FedOrbit splits the model"
    )
    body_epochs: int | None = Field(
        None, ge=0, le=1000, description="E_body, of the epochs; unset: a third, rounded up"
    )

    @property
    def needs(self) -> Needs:
        """An epoch of each half; together they are one model."""
        return Needs(passes=2)

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0). The head of `global` stays that of w(0)."""
        w, b = fleet.initial_model(), self.body_size(fleet.layout)
        model = np.tile(w, (fleet.orbits, 1))
        return {"global": w, "model": model, "received": model[:, :b].copy()}

    def round(self, state: State, now: Now) -> State:
        """Train heads, then bodies, and average the bodies."""
        state = load_launched(state, now, "model")
        w, model, orbits = state["global"].copy(), state["model"].copy(), self.participants(now)
        phi, received = w[: self.body_size(now.fleet.layout)], state["received"].copy()
        b, start = len(phi), model.copy()  # a head is used with the body that it was trained on
        received[now.orbits.launched] = phi
        hand_out(phi, received, now, orbits)
        start[orbits, :b] = received[orbits]
        programs = {
            orbit: self._train(now, orbit, start[orbit], self.work(orbit, now)) for orbit in orbits
        }
        trained = now.orbits.run(programs, upload=True)
        bodies = {orbit: pair[:b] for orbit, pair in trained.items()}
        w[:b] = average_at_ground(now, bodies, phi)
        hand_out(phi, received, now, sorted(trained))
        for orbit, pair in trained.items():
            model[orbit] = np.concatenate((received[orbit], pair[b:]))
        return {"global": w, "model": model, "received": received}

    def body_size(self, layout: ParameterLayout) -> int:
        """Return b, where the head begins."""
        return layout.classifier.start if self.head == "classifier" else layout.class_rows.min()

    def split(self, epochs: int) -> tuple[int, int]:
        """Return E_head and E_body; the head has one epoch at least."""
        body = math.ceil(epochs / 3) if self.body_epochs is None else self.body_epochs
        body = min(body, max(epochs - 1, 1))
        return max(epochs - body, 1), body

    def _train(self, now: Now, orbit: int, pair: Vector, work: Work) -> Program[Vector]:
        """Train head and body of an orbit in turn, once per intra-orbit round."""
        if not work.epochs:
            return pair
        b, (head_epochs, body_epochs) = self.body_size(now.fleet.layout), self.split(work.epochs)
        halves = [(head_epochs, slice(b, None)), (body_epochs, slice(0, b))] * work.intra_rounds
        halves = [(epochs, part) for epochs, part in halves if epochs]
        phases = [Phase(epochs, Sgd(part=part)) for epochs, part in halves]
        for number, (epochs, part) in enumerate(halves):
            trained = yield from now.orbits.train(
                orbit,
                pair,
                epochs=epochs,
                rate=now.rate,
                intra_round=number,
                rule=Sgd(part=part),
                to_come=phases[number + 1 :],
            )
            pair, mean = pair.copy(), mean_by_samples(now, orbit, pair, trained)
            pair[part] = mean[part]  # the other half keeps its bits
        return pair

    def models(self, state: State) -> Vector:
        """Every orbit uses the body that it received last, with its own head."""
        return state["model"]
