"""Runs the training of a round on all cores.

An orbit's training is a *program*: a generator that yields jobs for its satellites, gets them back
trained, aggregates, and yields the next, until it returns its result. Programs advance
independently, so a core that would idle while one orbit aggregates works for another. Each job
runs on one thread and depends on nothing but itself: the number of workers cannot change a bit.
"""

import heapq
import os
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from fedorbit.learning.jobs import LocalJob, Trained, TrainingData, batch_order
from fedorbit.learning.parameters import Vector
from fedorbit.learning.sgd import Trainer

Result = TypeVar("Result")
Program = Generator[list[LocalJob], list[Trained], Result]


def default_workers() -> int:
    """One worker per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Engine:
    """Threads that share the data and a trainer; local training holds no lock worth speaking of."""

    def __init__(self, trainer: Trainer, data: TrainingData, seed: int, workers: int = 0) -> None:
        self.workers = workers or default_workers()
        self._trainer = trainer
        self._data = data
        self._seed = seed
        # One core per job: two threads inside one small convolution gain nothing.
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="fedorbit-trainer")

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run programs to their end, largest job first, and return their results by key."""
        schedule = _Schedule(programs, self._cost)
        running: dict[Future[Trained], tuple[int, int]] = {}
        try:
            while schedule.waiting or running:
                # One more than there are workers, so that none waits for this thread.
                while schedule.waiting and len(running) <= self.workers:
                    place, job = schedule.next_job()
                    running[self._pool.submit(self._train, job)] = place
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    schedule.deliver(running.pop(future), future.result())
        except BaseException:
            for future in running:
                future.cancel()
            raise
        return schedule.results

    def evaluate(
        self, models: list[Vector], samples: list[NDArray[np.int64]]
    ) -> list[tuple[int, float]]:
        """Evaluate each model on its samples: number right, and sum of losses."""
        return list(self._pool.map(self._trainer.evaluate, models, samples))

    def close(self, cancel: bool = False) -> None:
        """End the threads; with `cancel`, without waiting for what they do."""
        if cancel:
            self._trainer.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(self._threads_before)

    def _train(self, job: LocalJob) -> Trained:
        return self._trainer.train(job, batch_order(self._data, job, self._seed))

    def _cost(self, job: LocalJob) -> int:
        models = 1 if job.personal is None else 2
        return models * job.epochs * len(self._data.samples_of(job.satellite))


class _Schedule(Generic[Result]):
    """Jobs that could start now, and programs that wait for theirs."""

    def __init__(
        self, programs: Mapping[int, Program[Result]], cost: Callable[[LocalJob], int]
    ) -> None:
        self.results: dict[int, Result] = {}
        self.waiting: list[tuple[int, int, tuple[int, int], LocalJob]] = []
        self._programs = programs
        self._cost = cost
        self._trained: dict[int, list[Trained | None]] = {}
        self._count = 0
        for key in programs:
            self._advance(key, None)

    def next_job(self) -> tuple[tuple[int, int], LocalJob]:
        """Take the largest job; among equals the oldest."""
        _, _, place, job = heapq.heappop(self.waiting)
        return place, job

    def deliver(self, place: tuple[int, int], trained: Trained) -> None:
        """Hand a trained model to its program, which goes on when it has all."""
        key, index = place
        self._trained[key][index] = trained
        results = [result for result in self._trained[key] if result is not None]
        if len(results) == len(self._trained[key]):
            self._advance(key, results)

    def _advance(self, key: int, results: list[Trained] | None) -> None:
        program = self._programs[key]
        try:
            jobs = next(program) if results is None else program.send(results)
            while not jobs:  # an orbit without samples has nothing to wait for
                jobs = program.send([])
        except StopIteration as stop:
            self.results[key] = stop.value
            return
        self._trained[key] = [None] * len(jobs)
        for index, job in enumerate(jobs):
            self._count += 1
            heapq.heappush(self.waiting, (-self._cost(job), self._count, (key, index), job))
