"""The order of a round's jobs: large first, and what was begun is finished."""

import weakref
from concurrent.futures import Future

import numpy as np
import pytest

from fedorbit.learning.jobs import LocalJob, Trained, TrainingData
from fedorbit.learning.programs import ProgramQueue, Task, run_programs

ORBITS, SATELLITES = 12, 5


def data_of(*sizes: int) -> TrainingData:
    parts = tuple(np.arange(n) for n in sizes)
    nothing = np.zeros(1, dtype=np.float32)
    return TrainingData(np.zeros((50, 1, 1, 1), np.uint8), np.zeros(50, int), nothing, nothing,
                        parts, np.arange(50))  # fmt: skip


def batch(*satellites: int, epochs: int = 1) -> list[LocalJob]:
    return [LocalJob(s, np.zeros(1, np.float32), epochs, 0.1, key=(0,)) for s in satellites]


def once(*satellites: int, epochs: int = 1):
    return [result.model for result in (yield batch(*satellites, epochs=epochs))]


def drain(queue: ProgramQueue) -> list[int]:
    order = []
    while queue.waiting:
        order += [job.satellite for job in queue.next_task().jobs]
    return order


def test_the_largest_batch_goes_first_and_its_largest_job() -> None:
    # Orbit 7 has 4 + 30 images, orbit 8 has 20 + 19, orbit 9 has 5 in three epochs.
    programs = {7: once(0, 1), 8: once(2, 3), 9: once(4, epochs=3)}
    assert drain(ProgramQueue(programs, data_of(4, 30, 19, 20, 5))) == [3, 2, 1, 0, 4]


def test_among_equals_the_oldest_goes_first() -> None:
    assert drain(ProgramQueue({o: once(o) for o in (2, 0, 1)}, data_of(9, 9, 9))) == [2, 0, 1]


def test_what_was_begun_is_finished_before_something_larger() -> None:
    def two_rounds():
        yield batch(0)
        yield batch(1, epochs=9)  # more than everything else

    queue = ProgramQueue({0: two_rounds(), 1: once(2, 3, 4)}, data_of(50, 50, 2, 3, 4))
    first, second = queue.next_task(), queue.next_task()
    assert second.jobs[0].satellite == 4  # the second orbit is begun
    queue.deliver(first, [Trained(np.zeros(1), 1)])
    assert drain(queue) == [3, 2, 1]


def test_delivery_tells_when_a_program_goes_on() -> None:
    queue = ProgramQueue({0: once(0, 1)}, data_of(1, 1))
    first, second = queue.next_task(), queue.next_task()
    assert (first.numbers, second.numbers) == ([1], [0])
    assert not queue.deliver(first, [Trained(np.ones(1), 1)])
    assert queue.results == {}
    assert queue.deliver(second, [Trained(np.zeros(1), 1)])
    assert queue.results == {0: [0.0, 1.0]}  # in the order of the jobs, not of arrival


def test_small_jobs_share_a_task_but_not_with_another_orbits() -> None:
    queue = ProgramQueue({0: once(0, 1, 2, 3, 4), 1: once(5, 6)}, data_of(8, 5, 4, 3, 2, 2, 1))
    tasks = []
    while queue.waiting:
        tasks.append([job.satellite for job in queue.next_task(images=9).jobs])
    assert tasks == [[0], [1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize(("least_tasks", "expected"), [(1, 1), (2, 2), (8, 8), (99, 8)])
def test_a_round_has_enough_tasks_for_everybody(least_tasks: int, expected: int) -> None:
    tasks = []

    def submit(task: Task) -> Future:
        tasks.append(task)
        future: Future = Future()
        future.set_result([Trained(np.zeros(1), 1) for _ in task.jobs])
        return future

    data, programs = data_of(*[10] * 8), {0: once(*range(8))}
    run_programs(programs, data, submit, 3, task_images=1000, least_tasks=least_tasks)
    assert len(tasks) == expected


class Model:
    """Stands for a model; unlike an array it can be watched."""


@pytest.mark.parametrize("at_once", [1, 3])
def test_models_of_few_orbits_are_held_at_a_time(at_once: int) -> None:
    alive: weakref.WeakSet[Model] = weakref.WeakSet()
    most = 0

    def orbit(number: int):
        for _ in range(2):
            trained = yield batch(*range(number * SATELLITES, (number + 1) * SATELLITES))
            assert len(trained) == SATELLITES
            del trained
        return number

    def submit(task: Task) -> Future:
        nonlocal most
        most = max(most, len(alive))
        models = [Model() for _ in task.jobs]
        alive.update(models)
        future: Future = Future()
        future.set_result([Trained(model, 1) for model in models])
        return future

    programs = {number: orbit(number) for number in range(ORBITS)}
    results = run_programs(programs, data_of(*[3] * ORBITS * SATELLITES), submit, at_once)
    assert results == {number: number for number in range(ORBITS)}
    # The orbit that is trained, those in flight, and the one just aggregated; of 60 satellites.
    assert most <= 2 * SATELLITES + at_once
