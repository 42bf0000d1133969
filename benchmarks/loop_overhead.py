"""Cost of the loop around local training: CPU time of a FedOrbit run by its parts.

A run on one worker trains, aggregates, evaluates every round, writes records and checkpoints. The
CPU time of every LocalSGD call and of every evaluation is taken on its own thread, where the kernel
does all its work; what the process spent besides is the rest of the loop. All of it is of the same
run, so other load on the machine slows all parts alike. The training in a round depends on the
orbits in view: the first rounds of the preset `paper` train less than the average of its 200.
Usage: python benchmarks/loop_overhead.py [dataset] [rounds] [preset]
"""

import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

from fedorbit.config import load_config
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.learning.torch_trainer import Trainer
from fedorbit.simulation.loop import SilentRunProgress
from fedorbit.simulation.records import Record
from fedorbit.simulation.runs import run
from fedorbit.simulation.world import World


class Clock:
    """Passes everything on to a trainer, and adds up the CPU time of its calls."""

    def __init__(self, trainer: Trainer) -> None:
        self.name, self.cancel = trainer.name, trainer.cancel
        self.trainer = trainer
        self.train_s = self.evaluate_s = 0.0
        self.samples = 0

    def train(self, job: LocalJob, order: Any, seen: Any) -> Trained:
        since = time.thread_time()
        trained = self.trainer.train(job, order, seen)
        self.train_s += time.thread_time() - since
        self.samples += order.size
        return trained

    def evaluate(self, model: Any, samples: Any, offset: Any) -> tuple[int, float]:
        since = time.thread_time()
        result = self.trainer.evaluate(model, samples, offset)
        self.evaluate_s += time.thread_time() - since
        return result


class Balance(SilentRunProgress):
    """Tells after every round where the time of all rounds so far went."""

    clock: Clock

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        self.since = time.process_time()

    def round_done(self, t: int, record: Record | None) -> None:
        clock, whole_s = self.clock, time.process_time() - self.since
        training, evaluation = 100 * clock.train_s / whole_s, 100 * clock.evaluate_s / whole_s
        print(
            f"{t + 1} rounds, {clock.samples / (t + 1):,.0f} samples each: the loop costs "
            f"{100 - training:.2f} % of the CPU time ({evaluation:.2f} evaluation, "
            f"{100 - training - evaluation:.2f} aggregation, records, checkpoints)",
            flush=True,
        )


def main(dataset: str, rounds: int, preset: str) -> None:
    changes = ["run.method=fedorbit", f"data.name={dataset}", f"run.rounds={rounds}"]
    balance, make_trainer = Balance(), World.trainer

    def timed(world: World) -> Clock:
        balance.clock = Clock(make_trainer(world))
        return balance.clock

    with tempfile.TemporaryDirectory() as folder, mock.patch.object(World, "trainer", timed):
        config = load_config(preset, [*changes, "engine.workers=1"])
        run(config, Path(folder) / "run", progress=balance)


if __name__ == "__main__":
    defaults = ["eurosat", "12", "paper"]
    given = sys.argv[1:]
    dataset, rounds, preset = given + defaults[len(given) :]
    main(dataset, int(rounds), preset)
