"""FedNova: FedAvg that counts every satellite by its samples, however many steps it does.

Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
2020.

    symbol     here
    p_k, q_l   shares of the samples: n_k / n_l within the orbit, n_l / n at the ground
    a_k        sum of the weights that momentum rho gives to the gradients of the tau_k steps of k
    A_l        mean of a_k in the orbit

    (1)  y_k = LocalSGD of F_k(y) + mu/2 |y - w|^2 from w
    (2)  a_k: tau_k times  b <- rho b + 1 - eta mu a_k,  a_k <- a_k + b;  both begin at 0
    (3)  A_l = sum_k p_k a_k,  y_l = w - A_l sum_k p_k (w - y_k) / a_k
    (4)  w <- w - (sum_l q_l A_l) sum_l q_l (w - y_l) / A_l

In FedAvg satellites with more steps pull harder, toward the optimum of another objective. Here each
counts with its mean gradient, (w - y_k) / (eta a_k). Steps differ even at equal epochs, since
samples do. For one intra-orbit round (3) and (4) are the flat sum over satellites. With several,
y_l continues from the last one and A_l adds up. eta A_l is sent, as one value more than the model:
eta is common to a round and cancels, but not where results come late.

Departures: `mu` adds FedProx's pull, here toward the start of each intra-orbit round and before the
momentum; (2) accounts for it. tau_eff is sum p_k a_k also then. Weight decay counts as gradient.
Statistics such as BatchNorm's are averaged by samples.
With `training.orbit_momentum` A_l has the same momentum, as the length of what the orbit moves by.
Satellites without steps, for want of time or power, have no share. Where aggregations take several
rounds (physical links), orbits whose result is under way count with w, and with the eta A_l that
they sent last.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field

from fedorbit.errors import ModelError
from fedorbit.fleet import Fleet, Now
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule, Sgd
from fedorbit.methods.base import State
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.steps import (
    effective_steps,
    hand_out,
    load_launched,
    mean_by_samples,
    mean_with_awaited,
    train_orbit,
    with_statistics,
)

LENGTH = 1
"""Purpose under which an orbit's momentum has that of A_l; models have 0."""


class FedNova(FedAvg):
    """FedAvg of normalised updates."""

    mu: float = Field(0.0, ge=0, description="strength of FedProx's proximal term; 0: none")

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0), and none has sent an A_l."""
        fleet.plan.require_sgd("FedNova")
        return {**super().start(fleet), "length": np.zeros(fleet.orbits)}

    def round(self, state: State, now: Now) -> State:
        """Train orbits from the global model and take the normalised mean."""
        state = load_launched(state, now, "received")
        w, received, orbits = state["global"], state["received"].copy(), self.participants(now)
        hand_out(w, received, now, orbits)
        programs = {orbit: self._train(now, orbit, received[orbit]) for orbit in orbits}
        trained = now.orbits.run(programs, upload=True)
        models, samples, length = {}, {}, state["length"].copy()
        for orbit in sorted(trained):
            y, a, n = trained[orbit]
            sent = now.orbits.upload(orbit, np.append(y, np.float32(a)))
            length[orbit] = sent[-1]
            if n:
                models[orbit], samples[orbit] = sent[:-1], n
        known = {o: int(now.orbits.samples[o]) for o in now.orbits.under_way if length[o]} | samples
        effective = sum(n * length[o] for o, n in known.items()) / max(sum(known.values()), 1)
        # y_l as after tau_eff steps; summed, this is (4) where all started from w.
        scaled = [
            with_statistics(
                now, received[o] + (effective / length[o]) * (y.astype(np.float64) - received[o]), y
            )
            for o, y in models.items()
        ]
        w = mean_with_awaited(now, scaled, np.array(list(samples.values())), w)
        if trained:
            hand_out(w, received, now, now.orbits.reachable)
        return {"global": w, "received": received, "length": length}

    def _train(self, now: Now, orbit: int, w: Vector) -> Program[tuple[Vector, float, int]]:
        """Return y_l and eta A_l of an orbit, and the samples behind them."""
        anchor, total, trained_samples = w, 0.0, 0

        def rule(satellite: int) -> Rule:
            return Sgd(anchor=anchor, pull=self.mu) if self.mu else PLAIN

        def combine(now: Now, orbit: int, start: Vector, trained: list[Trained]) -> Vector:
            nonlocal anchor, total, trained_samples
            steps = np.array([self._effective_steps(result.steps, now) for result in trained])
            samples = now.samples[now.orbits.trainers(orbit)]
            models = [result.model for result in trained]
            anchor, a = normalised_mean(start, models, steps, samples)
            if now.fleet.layout.buffers:
                anchor = with_statistics(now, anchor, mean_by_samples(now, orbit, start, trained))
            if a:
                length = np.array([now.rate * a])
                moved = now.fleet.momentum.moved(orbit, LENGTH, np.zeros_like(length), length)
                total += float(moved[0])
            trained_samples = max(trained_samples, int(samples[steps > 0].sum()))
            return anchor

        work = self.work(orbit, now)
        y = yield from train_orbit(now, orbit, w, work, rule=rule, combine=combine)
        return y, total, trained_samples

    def _effective_steps(self, steps: int, now: Now) -> float:
        """Return a(tau); refuse a pull so strong that the model swings beyond its start."""
        a = effective_steps(steps, now.fleet.plan.momentum, now.rate * self.mu)
        if steps and a <= 0:
            raise ModelError(
                f"methods.fednova.mu = {self.mu:g} is too strong for {steps} steps at a rate of "
                f"{now.rate:g}: the pull overshoots; choose a smaller mu"
            )
        return a


def normalised_mean(
    start: Vector, models: list[Vector], steps: ArrayLike, samples: NDArray[Any]
) -> tuple[Vector, float]:
    """Return start - A sum p (start - model) / a, A = sum p a (3), and A; p: of those with steps.

    Summed in double precision and in the given order, as `weighted_mean` is.
    """
    steps = np.asarray(steps, dtype=np.float64)
    shares = np.where(steps > 0, samples, 0).astype(np.float64)
    if not shares.any():
        return start, 0.0
    shares /= shares.sum()
    total = float(np.sum(shares * steps))
    moved = np.zeros(start.shape)
    for model, a, p in zip(models, steps.tolist(), shares.tolist(), strict=True):
        if p:
            moved += (p / a) * (start.astype(np.float64) - model)
    return (start - total * moved).astype(np.float32), total
