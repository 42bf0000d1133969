"""A local rule with a loss of its own: MOON, in one file and without touching fedorbit.

Li, He and Song, "Model-Contrastive Federated Learning", 2021. A satellite minimises

    cross-entropy + mu l,   l = -log [a / (a + b)],
    a = e^(s(z, z_glob) / tau),   b = e^(s(z, z_prev) / tau)

with s the cosine of features: those of the model it trains (z), of the global model it received
(z_glob), and of the model it trained last (z_prev). Features are what the classifier sees; the
paper puts a projection head between them. Run it from the folder of this file, beside FedAvg:

    fedorbit run -o 'run.method=["fedavg", "moon:Moon"]' -o model.name=resnet
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cosine_similarity, cross_entropy

from fedorbit.learning.rules import Batch, Outputs, Rule, TorchJob, Trained
from fedorbit.methods import Fleet, Now, State
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.steps import (
    average_at_ground,
    hand_out,
    load_launched,
    mean_by_samples,
    train_orbit,
)


def contrast(z: Tensor, near: Tensor, far: Tensor, tau: float) -> Tensor:
    """Return l: small where z is like `near` and unlike `far`."""
    similarity = torch.stack([cosine_similarity(z, near), cosine_similarity(z, far)], dim=1)
    return cross_entropy(similarity / tau, torch.zeros(len(z), dtype=torch.int64, device=z.device))


@dataclass(frozen=True, eq=False)
class Contrastive(Rule):
    """SGD with the model-contrastive loss."""

    received: np.ndarray
    previous: np.ndarray
    mu: float
    tau: float
    passes = 2  # two more forward passes count as one gradient

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        w, step = job.tensor(job.start), job.step()
        received, previous = job.tensor(self.received), job.tensor(self.previous)
        for batch in job.batches():
            near, far = (job.outputs(model, batch).features for model in (received, previous))
            step(w, job.gradient(w, batch, partial(self.loss, batch, near, far)))
        return Trained(job.vector(w), step.count)

    def loss(self, batch: Batch, near: Tensor, far: Tensor, made: Outputs) -> Tensor:
        """Return the loss of what the model makes of a batch."""
        contrastive = contrast(made.features, near, far, self.tau)
        return cross_entropy(made.logits, batch.labels) + self.mu * contrastive


class Moon(FedAvg):
    """FedAvg whose satellites stay near the global features and leave those of their last model."""

    mu: float = Field(1.0, ge=0, description="strength of the contrastive loss")
    tau: float = Field(0.5, gt=0, description="temperature")

    def start(self, fleet: Fleet) -> State:
        """All have the first model; every satellite keeps the one that it trained last."""
        state = super().start(fleet)
        return {**state, "previous": np.tile(state["global"], (fleet.satellites, 1))}

    def round(self, state: State, now: Now) -> State:
        """Train what is in view, remember what each satellite trained, and average."""
        state = load_launched(state, now, "received")
        w, received, previous = state["global"], state["received"].copy(), state["previous"].copy()
        hand_out(w, received, now, now.orbits.visible)

        def remember(now: Now, orbit: int, start: np.ndarray, trained: list[Trained]) -> np.ndarray:
            for satellite, result in zip(now.orbits.trainers(orbit), trained, strict=True):
                previous[satellite] = result.model
            return mean_by_samples(now, orbit, start, trained)

        programs = {}
        for orbit in now.orbits.visible:
            start = received[orbit].copy()
            rule = partial(self.rule, start, state["previous"])
            programs[orbit] = train_orbit(now, orbit, start, rule=rule, combine=remember)
        trained = now.orbits.run(programs, upload=True)  # perhaps begun in an earlier round
        if trained:
            w = average_at_ground(now, trained, w)
            hand_out(w, received, now, now.orbits.reachable)
        return {"global": w, "received": received, "previous": previous}

    def rule(self, received: np.ndarray, previous: np.ndarray, satellite: int) -> Contrastive:
        """Return the rule of a satellite."""
        return Contrastive(received, previous[satellite], self.mu, self.tau)
