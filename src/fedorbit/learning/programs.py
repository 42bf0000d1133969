"""In which order the training of a round is done, wherever that is.

An orbit's training is a *program*: a generator that yields jobs for its satellites, gets them back
trained, aggregates, and yields the next, until it returns its result. Programs advance
independently, so a core that would idle while one orbit aggregates works for another. Each job
depends on nothing but itself: neither order nor place can change a bit.

A batch of jobs that has been begun is finished before another is: so the satellites' models that
are held at a time are those of a few orbits, however many there are.
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
"""How often to see whether those who train are still there."""


@dataclass(frozen=True)
class Place:
    """Where a job comes from: its program, and its number among those that were yielded."""

    program: int
    index: int


def run_programs(
    programs: Mapping[int, Program[Result]],
    data: TrainingData,
    submit: Callable[[Place, LocalJob], "Future[Trained]"],
    jobs_at_once: int,
    *,
    batch_done: Callable[[int], object] = lambda program: None,
    look_around: Callable[[], object] = lambda: None,
) -> dict[int, Result]:
    """Run programs to their end, the largest batches first, and return their results by key."""
    schedule = Schedule(programs, data)
    running: dict[Future[Trained], Place] = {}
    finished: SimpleQueue[Future[Trained]] = SimpleQueue()
    next_look_s = 0.0
    try:
        while schedule.waiting or running:
            if time.monotonic() >= next_look_s:
                look_around()
                next_look_s = time.monotonic() + LOOK_AROUND_S
            while schedule.waiting and len(running) < jobs_at_once:
                place, job = schedule.next_job()
                future = submit(place, job)
                running[future] = place
                future.add_done_callback(finished.put)
            try:
                future = finished.get(timeout=LOOK_AROUND_S)
            except Empty:
                continue
            place = running.pop(future)
            if schedule.deliver(place, future.result()):
                batch_done(place.program)
    except BaseException:
        for future in running:
            future.cancel()
        raise
    return schedule.results


def job_cost(job: LocalJob, data: TrainingData) -> int:
    """How long a job takes, in images."""
    models = 1 if job.personal is None else 2
    return models * job.epochs * len(data.samples_of(job.satellite))


class Schedule(Generic[Result]):
    """Batches of jobs that could start now, and programs that wait for theirs."""

    def __init__(self, programs: Mapping[int, Program[Result]], data: TrainingData) -> None:
        self.results: dict[int, Result] = {}
        self._programs = programs
        self._data = data
        self._batches: list[tuple[int, int, list[tuple[Place, LocalJob]]]] = []
        self._begun: list[tuple[Place, LocalJob]] = []
        self._trained: dict[int, list[Trained | None]] = {}
        self._missing: dict[int, int] = {}
        self._count = 0
        for key in programs:
            self._advance(key, None)

    @property
    def waiting(self) -> bool:
        """Whether there is a job that could start now."""
        return bool(self._begun or self._batches)

    def next_job(self) -> tuple[Place, LocalJob]:
        """Take the largest job of the batch that was begun, or else of the largest batch."""
        if not self._begun:
            _, _, self._begun = heapq.heappop(self._batches)
        return self._begun.pop()

    def deliver(self, place: Place, trained: Trained) -> bool:
        """Hand a trained model to its program; return whether it had all and went on."""
        key = place.program
        self._trained[key][place.index] = trained
        self._missing[key] -= 1
        if self._missing[key]:
            return False
        # Nothing here holds the models while the program aggregates them and goes on.
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
        batch = [(Place(key, index), job) for index, job in enumerate(jobs)]
        batch.sort(key=lambda entry: job_cost(entry[1], self._data))  # taken from the end
        cost = sum(job_cost(job, self._data) for job in jobs)
        self._count += 1  # among equals the oldest
        heapq.heappush(self._batches, (-cost, self._count, batch))
