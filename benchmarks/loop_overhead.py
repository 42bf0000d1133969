"""What the loop around local training costs: a FedOrbit run against its training alone.

A run on one worker trains, aggregates, evaluates every round, writes records and checkpoints.
After every round the jobs it had are trained once more, bare: one LocalSGD call after the other,
nothing else. So run and bare training alternate every few seconds and share whatever else the
machine is doing. Both are CPU time of the same work, so their ratio is that of samples per second
and core. Usage: python benchmarks/loop_overhead.py [dataset] [rounds] [preset]
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from fedorbit.config import load_config
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.learning.sgd import Trainer
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.simulation.loop import NobodyWatches, run_rounds
from fedorbit.simulation.records import Record
from fedorbit.simulation.world import World, build_world


class Recorder:
    """Passes everything on to a trainer, and remembers the work of the round."""

    def __init__(self, trainer: Trainer) -> None:
        self.name, self.evaluate, self.cancel = trainer.name, trainer.evaluate, trainer.cancel
        self.trainer = trainer
        self.work: list[tuple[LocalJob, NDArray[np.int64], Trained]] = []

    def train(self, job: LocalJob, order: NDArray[np.int64]) -> Trained:
        trained = self.trainer.train(job, order)
        self.work.append((job, order, trained))
        return trained


class RecordedWorld(World):
    """A world whose trainer remembers its work."""

    recorder: Recorder

    def trainer(self) -> Trainer:
        object.__setattr__(self, "recorder", Recorder(super().trainer()))
        return self.recorder


class BareAfterEachRound(NobodyWatches):
    """Trains the jobs of every round again and keeps the CPU time of both."""

    def __init__(self, world: RecordedWorld) -> None:
        self.world = world
        self.whole_s: list[float] = []
        self.bare_s: list[float] = []

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        self.since = time.process_time()

    def round_done(self, t: int, record: Record | None) -> None:
        now = time.process_time()
        self.whole_s.append(now - self.since)
        recorder = self.world.recorder
        for job, order, trained in recorder.work:
            again = recorder.trainer.train(job, order)
            assert np.array_equal(again.model, trained.model), "the same work, to the bit"
        recorder.work.clear()
        self.since = time.process_time()
        self.bare_s.append(self.since - now)
        cost = 100.0 * (self.whole_s[-1] / self.bare_s[-1] - 1.0)
        print(f"round {t}: the loop adds {cost:.1f} % to {self.bare_s[-1]:.1f} s", flush=True)


def main(dataset: str, rounds: int, preset: str) -> None:
    changes = [f"data.name={dataset}", f"run.rounds={rounds}", "engine.workers=1"]
    world = RecordedWorld(**vars(build_world(load_config(preset, changes))))
    watch = BareAfterEachRound(world)
    with tempfile.TemporaryDirectory() as folder, world.engine() as engine:
        run_rounds(world, engine, "fedorbit", FedOrbit(), Path(folder), watch)
    ratios = [a / b for a, b in zip(watch.whole_s, watch.bare_s, strict=True)]
    cost = 100.0 * (1.0 - sum(watch.bare_s) / sum(watch.whole_s))
    low, middle, high = (100.0 * (r - 1.0) for r in (min(ratios), median(ratios), max(ratios)))
    print(f"per round: {middle:.1f} % more than bare training ({low:.1f} to {high:.1f})")
    print(f"the loop costs {cost:.1f} % of the run")


if __name__ == "__main__":
    defaults = ["eurosat", "20", "paper"]
    given = sys.argv[1:]
    dataset, rounds, preset = given + defaults[len(given) :]
    main(dataset, int(rounds), preset)
