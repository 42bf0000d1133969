"""What the loop around local training costs: the share of a run's CPU time outside LocalSGD.

A FedOrbit run on one worker trains, aggregates, evaluates every round, writes records and a
checkpoint. CPU time inside the trainer is taken per call and set against that of the process, in
the same run: on a shared machine, two runs one after the other differ by more than the loop costs.
Usage: python benchmarks/loop_overhead.py [dataset] [rounds] [repeats]
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import numpy as np
import torch
from numpy.typing import NDArray

from fedorbit.config import load_config
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.learning.sgd import Trainer
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.simulation.loop import NobodyWatches, run_rounds
from fedorbit.simulation.world import World, build_world


class Stopwatch:
    """Passes everything on to a trainer and adds up the CPU time of its training."""

    def __init__(self, trainer: Trainer) -> None:
        self.name, self.evaluate, self.cancel = trainer.name, trainer.evaluate, trainer.cancel
        self.trainer = trainer
        self.seconds = 0.0

    def train(self, job: LocalJob, order: NDArray[np.int64]) -> Trained:
        begin = time.thread_time()
        trained = self.trainer.train(job, order)
        self.seconds += time.thread_time() - begin
        return trained


class TimedWorld(World):
    """A world whose trainer carries a stopwatch."""

    stopwatch: Stopwatch

    def trainer(self) -> Trainer:
        object.__setattr__(self, "stopwatch", Stopwatch(super().trainer()))
        return self.stopwatch


def main(dataset: str, rounds: int, repeats: int) -> None:
    torch.set_num_threads(1)
    changes = [f"data.name={dataset}", f"run.rounds={rounds}", "engine.workers=1"]
    world = TimedWorld(**vars(build_world(load_config("paper", changes))))
    costs = []
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as folder:
            begin = time.process_time()
            run_rounds(world, "fedorbit", FedOrbit(), Path(folder), NobodyWatches())
            whole_s = time.process_time() - begin
        costs.append(100.0 * (1.0 - world.stopwatch.seconds / whole_s))
        print(f"the loop costs {costs[-1]:.1f} % of the run", flush=True)
    print(f"median {median(costs):.1f} %")


if __name__ == "__main__":
    defaults = ["eurosat", "5", "3"]
    given = sys.argv[1:]
    name, rounds, repeats = given + defaults[len(given) :]
    main(name, int(rounds), int(repeats))
