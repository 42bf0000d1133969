"""Engines run the training of a round: threads of this process, or a cluster (`ray/engine.py`).

Each job runs on one thread and depends on no other, so all engines give the same bits.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from copy import copy
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.jobs import LocalJob, Trained, TrainingData, batch_order, seen_by
from fedorbit.learning.parameters import Vector
from fedorbit.learning.programs import Program as Program
from fedorbit.learning.programs import Task, run_programs

if TYPE_CHECKING:
    from fedorbit.learning.torch_trainer import Trainer

Result = TypeVar("Result")


def default_workers() -> int:
    """One worker per core that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Engine(Protocol):
    """Interface of all engines: train and evaluate models."""

    backend: str
    """Code that trains: kernel or torch."""

    @property
    def workers(self) -> int:
        """Number of jobs that run at a time."""

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run programs to their end and return their results by key."""

    def evaluate(
        self,
        models: list[Vector],
        samples: list[NDArray[np.int64]],
        offsets: Sequence[Vector | None] = (),
    ) -> list[tuple[int, float]]:
        """Evaluate each model on its samples: number of correct predictions, and sum of losses.

        `offsets` are added to the logits, one vector `[classes]` or None per model; empty: none.
        """

    def with_parts(self, data: TrainingData) -> Engine:
        """Return an engine whose satellites have other parts of the same images.

        It shares all else with this engine, and ends with it.
        """

    def close(self, cancel: bool = False) -> None:
        """End the engine; with `cancel`, without waiting for running jobs."""


class LocalEngine:
    """Threads that share the data and a trainer; training releases Python's global lock."""

    def __init__(self, trainer: Trainer, data: TrainingData, seed: int, workers: int = 0) -> None:
        self.workers = workers or default_workers()
        self.backend = trainer.name
        self._trainer = trainer
        self._data = data
        self._seed = seed
        import torch  # takes a second

        # One core per job: two threads inside one small convolution gain nothing.
        self._threads_before = torch.get_num_threads()
        torch.set_num_threads(1)
        self._pool = ThreadPoolExecutor(self.workers, thread_name_prefix="fedorbit-trainer")

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run programs to their end, the largest first, and return their results by key."""
        # One more than there are workers, so that none waits for this thread.
        return run_programs(programs, self._data, self._submit, self.workers + 1)

    def evaluate(
        self,
        models: list[Vector],
        samples: list[NDArray[np.int64]],
        offsets: Sequence[Vector | None] = (),
    ) -> list[tuple[int, float]]:
        """Evaluate each model on its samples: number of correct predictions, and sum of losses."""
        every_offset = offsets or [None] * len(models)
        return list(self._pool.map(self._trainer.evaluate, models, samples, every_offset))

    def with_parts(self, data: TrainingData) -> LocalEngine:
        """Return an engine whose satellites have other parts of the same images."""
        other = copy(self)
        other._data = data
        return other

    def close(self, cancel: bool = False) -> None:
        """End the threads; with `cancel`, without waiting for running jobs."""
        if cancel:
            self._trainer.cancel()
        self._pool.shutdown(wait=True, cancel_futures=True)
        import torch

        torch.set_num_threads(self._threads_before)

    def _submit(self, task: Task) -> Future[list[Trained]]:
        return self._pool.submit(self._train, task.jobs)

    def _train(self, jobs: list[LocalJob]) -> list[Trained]:
        return [do_job(self._trainer, self._data, job, self._seed) for job in jobs]


def do_job(trainer: Trainer, data: TrainingData, job: LocalJob, seed: int) -> Trained:
    """Train over the batches and views that follow from the job's key."""
    order = batch_order(data, job, seed)
    return trainer.train(job, order, seen_by(data, job, order, seed))
