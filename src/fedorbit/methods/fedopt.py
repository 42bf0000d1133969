"""FedAvgM, FedAdam, FedYogi: FedAvg whose ground takes the mean for a gradient.

Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019 (FedAvgM). Reddi et al., "Adaptive Federated Optimization", 2021, algorithm 2
(FedAdam, FedYogi).

    symbol   here
    y_l      model of orbit l, as in FedAvg
    m, v     first and second moment of d, zero and tau^2 at first
    eta      server_rate

    (1)  d = sum_l n_l y_l / sum_l n_l - w
    (2)  FedAvgM:  m <- beta m + d,  w <- w + eta m
    (3)  FedAdam:  m <- beta1 m + (1 - beta1) d,  v <- beta2 v + (1 - beta2) d^2,
                   w <- w + eta m / (sqrt(v) + tau)
    (4)  FedYogi:  v <- v - (1 - beta2) d^2 sign(v - d^2), and all else as FedAdam

FedAvgM with beta = 0 and eta = 1 is FedAvg. A round without uploads is no step. No bias correction,
as in the paper.

Departures: statistics such as BatchNorm's are those of the mean. Orbits are the clients.
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.fleet import Fleet, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.steps import with_statistics

Doubles = NDArray[np.float64]


class FedAvgM(FedAvg):
    """FedAvg with momentum at the ground."""

    label: ClassVar[str] = "FedAvgM"

    server_rate: float = Field(1.0, gt=0, le=10, description="eta, step of the ground's model")
    beta: float = Field(0.9, ge=0, lt=1, description="momentum of the ground")

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0); no moment yet."""
        state = super().start(fleet)
        return {**state, "m": np.zeros_like(state["global"])}

    def at_ground(self, state: State, mean: Vector, now: Now) -> State:
        """Step along the momentum, (2)."""
        m = self.beta * state["m"].astype(np.float64) + _moved(state, mean)
        return _stepped(state, mean, self.server_rate * m, now) | {"m": m.astype(np.float32)}


class FedAdam(FedAvg):
    """FedAvg with Adam at the ground."""

    label: ClassVar[str] = "FedAdam"

    server_rate: float = Field(0.01, gt=0, le=10, description="eta, step of the ground's model")
    beta1: float = Field(0.9, ge=0, lt=1, description="memory of the first moment")
    beta2: float = Field(0.99, ge=0, lt=1, description="memory of the second moment")
    tau: float = Field(1e-3, gt=0, le=1, description="degree of adaptivity")

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0); the second moment is tau^2."""
        state = super().start(fleet)
        w = state["global"]
        return {**state, "m": np.zeros_like(w), "v": np.full_like(w, self.tau**2)}

    def at_ground(self, state: State, mean: Vector, now: Now) -> State:
        """Step along the first moment, shorter where the second is large, (3)."""
        d = _moved(state, mean)
        m = self.beta1 * state["m"].astype(np.float64) + (1.0 - self.beta1) * d
        v = self.second_moment(state["v"].astype(np.float64), np.square(d))
        step = self.server_rate * m / (np.sqrt(v) + self.tau)
        moments = {"m": m.astype(np.float32), "v": v.astype(np.float32)}
        return _stepped(state, mean, step, now) | moments

    def second_moment(self, v: Doubles, squares: Doubles) -> Doubles:
        """Return the next v, given d^2."""
        return self.beta2 * v + (1.0 - self.beta2) * squares


class FedYogi(FedAdam):
    """FedAdam whose second moment changes by no more than the newest squares."""

    label: ClassVar[str] = "FedYogi"

    def second_moment(self, v: Doubles, squares: Doubles) -> Doubles:
        """Return the next v, given d^2, (4)."""
        return v - (1.0 - self.beta2) * squares * np.sign(v - squares)


def _moved(state: State, mean: Vector) -> Doubles:
    """Return d, (1)."""
    return np.subtract(mean, state["global"], dtype=np.float64)


def _stepped(state: State, mean: Vector, step: Doubles, now: Now) -> State:
    """Return the global model after a step, with the statistics of the mean."""
    w = (state["global"] + step).astype(np.float32)
    return {"global": with_statistics(now, w, mean)}
