"""Order in which the jobs of a round are trained, by any engine.

An orbit's training is a *program*: a generator that yields jobs for its satellites, gets them back
trained, aggregates, and yields the next, until it returns its result. Programs advance
independently, so a core that would idle while one orbit aggregates works for another. No job
depends on another: order and machine do not change a bit of the result.

A batch of jobs that has been begun is finished before the next begins: at any time, only the
satellites' models of a few orbits are in memory, however many orbits there are.
"""

import heapq
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from fedorbit.learning.jobs import LocalJob, Trained, TrainingData

Result = TypeVar("Result")
Program = Generator[list[LocalJob], list[Trained], Result]

LOOK_AROUND_S = 1.0
"""Interval in seconds at which an engine checks that its workers are still reachable."""


@dataclass(frozen=True, eq=False)
class Task:
    """Jobs of one program that one worker does one after the other."""

    program: int
    numbers: list[int]
    """Positions of the jobs in the list that the program yielded."""
    jobs: list[LocalJob]


def run_programs(
    programs: Mapping[int, Program[Result]],
    data: TrainingData,
    submit: Callable[[Task], "Future[list[Trained]]"],
    tasks_at_once: int,
    *,
    task_images: int = 0,
    least_tasks: int = 1,
    batch_done: Callable[[int], object] = lambda program: None,
    look_around: Callable[[], object] = lambda: None,
) -> dict[int, Result]:
    """Run programs to their end, the largest batches first, and return their results by key.

    A task is one job. Where a task is costly, it has several jobs with up to `task_images` images
    in all, but fewer if the round would otherwise begin with less than `least_tasks` tasks.
    """
    queue = ProgramQueue(programs, data)
    task_images = min(task_images, queue.waiting_images // least_tasks)
    running: dict[Future[list[Trained]], Task] = {}
    finished: SimpleQueue[Future[list[Trained]]] = SimpleQueue()
    next_look_s = 0.0
    try:
        while queue.waiting or running:
            if time.monotonic() >= next_look_s:
                look_around()
                next_look_s = time.monotonic() + LOOK_AROUND_S
            while queue.waiting and len(running) < tasks_at_once:
                task = queue.next_task(task_images)
                future = submit(task)
                running[future] = task
                future.add_done_callback(finished.put)
            try:
                future = finished.get(timeout=LOOK_AROUND_S)
            except Empty:
                continue
            task = running.pop(future)
            if queue.deliver(task, future.result()):
                batch_done(task.program)
    except BaseException:
        for future in running:
            future.cancel()
        raise
    return queue.results


def job_images(job: LocalJob, data: TrainingData) -> int:
    """Return the duration of a job as the number of images it trains on."""
    return job.images(len(data.samples_of(job.satellite)))


@dataclass(frozen=True)
class _Waiting:
    """A job that could start now."""

    images: int
    number: int
    job: LocalJob


class ProgramQueue(Generic[Result]):
    """Batches of jobs that could start now, and programs that wait for theirs."""

    def __init__(self, programs: Mapping[int, Program[Result]], data: TrainingData) -> None:
        self.results: dict[int, Result] = {}
        self._programs = programs
        self._data = data
        self._batches: list[tuple[int, int, int, list[_Waiting]]] = []
        self._begun: list[_Waiting] = []
        self._begun_program = 0
        self._trained: dict[int, list[Trained | None]] = {}
        self._missing: dict[int, int] = {}
        self._count = 0
        for key in programs:
            self._advance(key, None)

    @property
    def waiting(self) -> bool:
        """True if there is a job that could start now."""
        return bool(self._begun or self._batches)

    @property
    def waiting_images(self) -> int:
        """Number of images to train on in all batches that have not been begun."""
        return sum(-images for images, *_ in self._batches)

    def next_task(self, images: int = 0) -> Task:
        """Take the largest job of the batch that was begun, or else of the largest batch.

        The next jobs of that batch are added while the task has at most `images` in all.
        """
        if not self._begun:
            _, _, self._begun_program, self._begun = heapq.heappop(self._batches)
        taken = [self._begun.pop()]
        images -= taken[0].images
        while self._begun and self._begun[-1].images <= images:
            taken.append(self._begun.pop())
            images -= taken[-1].images
        numbers, jobs = [each.number for each in taken], [each.job for each in taken]
        return Task(self._begun_program, numbers, jobs)

    def deliver(self, task: Task, trained: list[Trained]) -> bool:
        """Hand trained models to their program; return True if it had all of them and continued."""
        key = task.program
        for number, result in zip(task.numbers, trained, strict=True):
            self._trained[key][number] = result
        self._missing[key] -= len(trained)
        if self._missing[key]:
            return False
        # No reference to the models is kept here while the program aggregates them and continues.
        trained.clear()
        self._advance(key, [result for result in self._trained.pop(key) if result is not None])
        return True

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
        self._missing[key] = len(jobs)
        batch = [_Waiting(job_images(job, self._data), n, job) for n, job in enumerate(jobs)]
        batch.sort(key=lambda each: each.images)  # taken from the end
        self._count += 1  # among equals the oldest
        images = sum(each.images for each in batch)
        heapq.heappush(self._batches, (-images, self._count, key, batch))
