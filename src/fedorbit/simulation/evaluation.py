"""Evaluation of the models in use on the test samples of their orbits or satellites.

A method serves everyone with one model, or each orbit or satellite with one of its own. In each
case the accuracy of an orbit is the share of its test samples that are recognised: over satellites,
that is the mean weighted by their test samples.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ModelError
from fedorbit.fleet import Now
from fedorbit.learning.calibration import log_prior
from fedorbit.learning.engine import Engine
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Serves
from fedorbit.simulation.confusion import ConfusionCounter
from fedorbit.simulation.records import Record, mean
from fedorbit.simulation.world import World

Samples = NDArray[np.int64]


class Evaluator:
    """Evaluates models; one that did not change is not evaluated again."""

    def __init__(
        self,
        engine: Engine,
        test: Sequence[Samples],
        orbits: Sequence[int] | None = None,
        offsets: Sequence[Vector] = (),
        confusion: ConfusionCounter | None = None,
    ) -> None:
        """`test[i]` are the test samples of client i, `orbits[i]` its orbit: i itself by default.

        Clients are orbits, or satellites. `offsets[i]` is added to the logits of client i.
        `confusion` counts confusion matrices, if asked for.
        """
        self._engine, self._confusion, self._offsets = engine, confusion, offsets
        self._test = test
        self._orbit_of = range(len(test)) if orbits is None else [int(orbit) for orbit in orbits]
        self._orbits = max(self._orbit_of) + 1
        self._digests: dict[int, bytes] = {}
        self._results: dict[int, tuple[int, float]] = {}

    def __call__(
        self, models: Vector, active: Sequence[int], with_confusion: bool = False
    ) -> Record:
        """Return accuracies in percent and mean losses of the orbits of active clients.

        `models` has one row per client, or one for all. None for an orbit without an active client
        that has test samples. Confusion matrices are counted by PyTorch, which may break a tie of
        two classes by rounding other than the kernel.
        """
        if len(models) not in (1, len(self._test)):
            raise ModelError(
                f"models() has returned {len(models)} rows; it must return 1, or one for each of "
                f"the {len(self._test)} orbits or satellites that `serves` names"
            )
        tested = [client for client in active if len(self._test[client])]
        self._evaluate(models, tested)
        correct, samples = [0] * self._orbits, [0] * self._orbits
        losses = [0.0] * self._orbits
        for client in tested:
            orbit, (right, loss_sum) = self._orbit_of[client], self._results[client]
            correct[orbit] += right
            losses[orbit] += loss_sum
            samples[orbit] += len(self._test[client])
        accuracy = [100.0 * c / n if n else None for c, n in zip(correct, samples, strict=True)]
        known = [value for value in accuracy if value is not None]
        counted = self._confusion if with_confusion else None
        return {
            "accuracy": mean(accuracy),
            "spread": max(known) - min(known) if known else None,
            "orbit_accuracy": accuracy,
            # A model that has diverged has no loss worth the name, and JSON no word for it.
            "orbit_loss": [
                loss / n if n and np.isfinite(loss) else None
                for loss, n in zip(losses, samples, strict=True)
            ],
            **({"confusion": counted(models, active)} if counted is not None else {}),
        }

    def _evaluate(self, models: Vector, clients: Sequence[int]) -> None:
        """Evaluate what has changed, by its digest: copies of all models would take much memory."""
        row = {client: 0 if len(models) == 1 else client for client in clients}
        digests = {
            n: hashlib.sha256(np.ascontiguousarray(models[n]).data) for n in set(row.values())
        }
        found = {client: digests[row[client]].digest() for client in clients}
        changed = [client for client in clients if self._digests.get(client) != found[client]]
        results = self._engine.evaluate(
            [models[row[client]] for client in changed],
            [self._test[client] for client in changed],
            [self._offsets[client] for client in changed] if self._offsets else (),
        )
        self._results |= zip(changed, results, strict=True)
        self._digests |= found


def evaluator_of(world: World, engine: Engine, serves: Serves) -> Evaluator:
    """Return an evaluator of what a method serves."""
    from fedorbit.simulation.classifier import WorldPredictor  # with PyTorch

    test, orbits = held_out(world, serves)
    labels, classes, offsets = world.data.labels, world.spec.classes, log_priors_of(world, serves)
    counter = ConfusionCounter(WorldPredictor(world), labels, classes, test, orbits, offsets)
    return Evaluator(engine, test, orbits, offsets, counter)


def held_out(world: World, serves: Serves) -> tuple[Sequence[Samples], Sequence[int]]:
    """Return the test samples of each orbit or satellite that a method serves, and their orbits."""
    partition = world.partition
    if serves != "satellite":
        return partition.test, range(len(partition.test))
    test = partition.satellite_test(world.data.labels, world.spec.classes, world.config.seed)
    return test, partition.orbit_of_satellite.tolist()


def log_priors_of(world: World, serves: Serves) -> Sequence[Vector]:
    """Return what each orbit or satellite adds to logits; nothing unless training is calibrated."""
    if not world.config.training.calibrate:
        return ()
    counts = world.partition.train_counts(world.data.labels, world.spec.classes)
    if serves == "satellite":
        return list(log_prior(counts))
    of_orbits = np.zeros((len(world.partition.test), counts.shape[1]), dtype=np.int64)
    np.add.at(of_orbits, world.partition.orbit_of_satellite, counts)
    return list(log_prior(of_orbits))


def clients(now: Now, serves: Serves) -> list[int]:
    """Active satellites, where a method serves satellites; or else orbits."""
    return now.satellites if serves == "satellite" else now.orbits.active
