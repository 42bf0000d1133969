"""Steps that several methods share."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.fleet import Now, Phase, Rules
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN
from fedorbit.methods.base import State
from fedorbit.methods.effort import Work

NEVER = int(np.iinfo(np.int32).max)
"""Stands for a slot that does not come."""
Combine = Callable[[Now, int, Vector, list[Trained]], Vector]
"""Makes an orbit's model of what its satellites trained, and of the model they started from."""


def load_launched(state: State, now: Now, *models: str) -> State:
    """Load the ground's model into orbits that are launched in this round.

    That happens before the launch and needs no link. `models` name the arrays `[orbit, P]`.
    """
    launched = now.orbits.launched
    if not launched:
        return state
    loaded = {name: state[name].copy() for name in models}
    for array in loaded.values():
        array[launched] = state["global"]
    return {**state, **loaded}


def mean_by_samples(now: Now, orbit: int, start: Vector, trained: list[Trained]) -> Vector:
    """Average an orbit's satellites by samples, FedAvg's (2)."""
    weights = now.samples[now.orbits.trainers(orbit)]
    return weighted_mean([result.model for result in trained], weights, otherwise=start)


def mean_of_extra(
    now: Now, orbit: int, name: str, trained: list[Trained], otherwise: Vector
) -> Vector:
    """Average by samples what a rule returns beside the model."""
    weights = now.samples[now.orbits.trainers(orbit)]
    return weighted_mean([result.extra[name] for result in trained], weights, otherwise)


def train_orbit(
    now: Now,
    orbit: int,
    start: Vector,
    work: Work | None = None,
    *,
    rate: float | None = None,
    rule: Rules = PLAIN,
    purpose: int = 0,
    samples: int | None = None,
    combine: Combine = mean_by_samples,
    to_come: Sequence[Phase] = (),
    has_momentum: bool = True,
) -> Program[Vector]:
    """Train an orbit's satellites from one model and combine them, once per intra-orbit round.

    `to_come`: what the method has them do after that in the same round. `has_momentum`: False for
    training that begins anew each time, to which `training.orbit_momentum` does not apply.
    """
    model, (epochs, intra_rounds) = start, work or Work.base(now)
    phases = [Phase(epochs, rule, samples)] * (intra_rounds if epochs else 0)
    for intra_round in range(len(phases)):
        trained = yield from now.orbits.train(
            orbit,
            model,
            epochs=epochs,
            rate=now.rate if rate is None else rate,
            intra_round=intra_round,
            purpose=purpose,
            rule=rule,
            samples=samples,
            to_come=[*phases[intra_round + 1 :], *to_come],
        )
        combined = combine(now, orbit, model, trained)
        if has_momentum and any(result.steps for result in trained):
            moved = now.fleet.momentum.moved(orbit, purpose, model, combined)
            combined = with_statistics(now, moved, combined)
        model = combined
        del trained  # before the next ones arrive
    return model


def hand_out(w: Vector, received: Vector, now: Now, orbits: Sequence[int]) -> None:
    """Send the global model to those of the orbits that do not hold it yet, into `received`."""
    for orbit in orbits:
        if not np.array_equal(received[orbit], w):
            received[orbit] = now.orbits.download(orbit, w)


def average_at_ground(now: Now, trained: dict[int, Vector], w: Vector) -> Vector:
    """Upload orbit models and average them by samples, FedAvg's (3); w where there is none.

    Where aggregations take several rounds, orbits whose result is still under way count with w, so
    that one that arrives alone does not replace what others have contributed. Samples of satellites
    that could not train, for want of time or power, have no weight.
    """
    orbits = sorted(trained)
    uploads = [now.orbits.upload(orbit, trained[orbit]) for orbit in orbits]
    return mean_with_awaited(now, uploads, now.orbits.trained_samples[orbits], w)


def mean_with_awaited(now: Now, models: list[Vector], samples: NDArray[Any], w: Vector) -> Vector:
    """Average models by samples, with w for orbits whose result is still under way."""
    awaited = int(now.orbits.samples[now.orbits.under_way].sum())
    if not models or not awaited:
        return weighted_mean(models, samples, otherwise=w)
    return weighted_mean([*models, w], np.append(samples, awaited), otherwise=w)


def effective_steps(steps: int, momentum: float, shrink: float = 0.0) -> float:
    """Return a(tau): the weights that momentum gives to the gradients of a job, summed.

    A job of tau steps moves a model by eta a(tau) times a weighted mean of its gradients, so that
    displacement / (eta a(tau)) is that mean. A pull toward the start of strength mu makes gradients
    fade: `shrink` is eta mu. Without it a(tau) = [tau - rho (1 - rho^tau) / (1 - rho)] / (1 - rho).
    """
    velocity = total = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1.0 - shrink * total
        total += velocity
    return total


def norm(vector: NDArray[Any]) -> float:
    """Return the Euclidean norm, in double precision.

    Not by BLAS, whose sums depend on the number of threads: a run must give the same bits in any
    process.
    """
    return float(np.sqrt(np.square(vector, dtype=np.float64).sum()))


def distance(one: Vector, other: Vector) -> float:
    """Return |one - other|, in double precision."""
    return norm(np.subtract(one, other, dtype=np.float64))


def blend(old: Vector, new: Vector, share: float) -> Vector:
    """Return (1 - share) old + share new; with a share of 1, `new` to the last bit.

    Where both are the same the result is, too.
    """
    if share == 1.0:
        return new
    return np.asarray(old + share * (new - old), dtype=np.float32)


def with_statistics(now: Now, model: Vector, mean: Vector) -> Vector:
    """Return a model with the statistics of a mean, which a step beyond it would make senseless.

    A variance could become negative. The model itself where its layers have no statistics.
    """
    if not now.fleet.layout.buffers:
        return model
    model, where = model.copy(), now.fleet.layout.statistics
    model[where] = mean[where]
    return model


def weighted_mean(
    models: Sequence[Vector] | Vector, weights: NDArray[Any], otherwise: Vector
) -> Vector:
    """Average models by weights; `otherwise` where all weights are zero.

    Summed in double precision and in the given order, so that the result is the same everywhere.
    """
    total = float(np.sum(weights))
    if not len(models) or total <= 0.0:
        return otherwise
    mean = np.zeros(models[0].shape)
    for model, weight in zip(models, weights, strict=True):
        mean += (float(weight) / total) * model
    return mean.astype(np.float32)
