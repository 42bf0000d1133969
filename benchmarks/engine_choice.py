"""Threads, forked or spawned processes for local training? Ratios, measured alternately.

Trains the satellites of one round of the paper's constellation on synthetic 64x64 images with one
thread and then with two workers of each kind, several times in turn, and prints the medians of the
speed-ups over one thread. Usage: python benchmarks/engine_choice.py [kernel|torch] [repeats]
"""

import multiprocessing
import sys
import time
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from statistics import median

import numpy as np
import torch

from fedorbit.config import Config
from fedorbit.learning.jobs import LocalJob, Trained, batch_order
from fedorbit.simulation.world import World, build_world

WORKERS = 2
SETTINGS = {"data": {"synthetic": {"size": 64, "samples": 3000}}}

world: World
trainer = None


def prepare(backend: str) -> None:
    """Build the data and a trainer in this process; what a spawned worker has to do anew."""
    global world, trainer
    torch.set_num_threads(1)
    world = build_world(Config.model_validate({**SETTINGS, "engine": {"backend": backend}}))
    trainer = world.trainer()


def train(job: LocalJob) -> Trained:
    """Do one job; arguments and result travel by pickle where processes are used."""
    assert trainer is not None
    return trainer.train(job, batch_order(world.data, job, 0))


def main(backend: str, repeats: int) -> None:
    prepare(backend)
    jobs = [LocalJob(k, world.initial_model, 5, 0.01, (0,)) for k in range(20)]
    jobs.sort(key=lambda job: -len(world.data.parts[job.satellite]))
    spawn, fork = (multiprocessing.get_context(kind) for kind in ("spawn", "fork"))
    pools: dict[str, Executor] = {
        "1 thread": ThreadPoolExecutor(1),
        "2 threads": ThreadPoolExecutor(WORKERS),
        "2 forked": ProcessPoolExecutor(WORKERS, mp_context=fork),
        "2 spawned": ProcessPoolExecutor(
            WORKERS, mp_context=spawn, initializer=prepare, initargs=(backend,)
        ),
    }
    reference = None
    seconds: dict[str, list[float]] = {name: [] for name in pools}
    for repeat in range(repeats + 1):
        for name, pool in pools.items():
            begin = time.perf_counter()
            models = np.stack([result.model for result in pool.map(train, jobs)])
            if repeat:  # the first time starts the workers
                seconds[name].append(time.perf_counter() - begin)
            reference = models if reference is None else reference
            assert np.array_equal(models, reference), name
    for name, pool in pools.items():
        ratios = [a / b for a, b in zip(seconds["1 thread"], seconds[name], strict=True)]
        low, high = min(ratios), max(ratios)
        print(f"{backend:6} {name:10} {median(ratios):.2f} x  ({low:.2f} to {high:.2f})")
        pool.shutdown()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "auto", int(sys.argv[2]) if len(sys.argv) > 2 else 7)
