import threading
import time

import numpy as np
import pytest
import torch

from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.jobs import LocalJob, Seen, Trained, TrainingData


class Recorder:
    """A trainer that notes what it is given; the real ones are tested elsewhere."""

    name = "recorder"

    def __init__(self) -> None:
        self.started: list[int] = []
        self.threads: set[int] = set()
        self.lock = threading.Lock()
        self.fail_on: int | None = None

    def train(self, job: LocalJob, order: np.ndarray, seen: Seen) -> Trained:
        with self.lock:
            self.started.append(job.satellite)
            self.threads.add(threading.get_ident())
        if job.satellite == self.fail_on:
            raise RuntimeError("broken satellite")
        time.sleep(0.002)
        return Trained(job.start + order.size, len(order))

    def evaluate(self, model: np.ndarray, samples: np.ndarray, _: None) -> tuple[int, float]:
        return len(samples), float(model.sum())

    def cancel(self) -> None:
        pass


@pytest.fixture
def data() -> TrainingData:
    parts = tuple(np.arange(n) for n in (5, 50, 10, 0, 40, 1))
    nothing = np.zeros(1, dtype=np.float32)
    return TrainingData(np.zeros((50, 1, 1, 1), np.uint8), np.zeros(50, int), nothing, nothing,
                        parts, np.arange(50))  # fmt: skip


def job(satellite: int, start: float, epochs: int = 1) -> LocalJob:
    return LocalJob(satellite, np.array([start], dtype=np.float32), epochs, 0.1, key=(0,))


def relay(satellites: list[int], rounds: int):
    """Train all from the mean of the round before; the result tells all that happened."""
    value = 0.0
    for _ in range(rounds):
        trained = yield [job(s, value) for s in satellites]
        value = float(np.mean([t.model[0] for t in trained]))
    return value


def test_programs_get_their_own_results_in_order(data) -> None:
    engine = LocalEngine(Recorder(), data, seed=0, workers=3)
    results = engine.run({7: relay([0, 1], 2), 9: relay([4], 3)})
    engine.close()
    assert results == {7: 2 * (5 + 50) / 2, 9: 3 * 40.0}


def test_the_largest_job_starts_first(data) -> None:
    recorder = Recorder()
    engine = LocalEngine(recorder, data, seed=0, workers=1)
    engine.run({o: relay([o], 1) for o in (0, 1, 2, 4)})
    engine.close()
    assert recorder.started == [1, 4, 2, 0]


def test_all_workers_work(data) -> None:
    recorder = Recorder()
    engine = LocalEngine(recorder, data, seed=0, workers=3)
    engine.run({o: relay([0, 1, 2], 5) for o in range(6)})
    engine.close()
    assert len(recorder.threads) == 3


def test_a_program_without_jobs_and_no_program_at_all(data) -> None:
    def nothing_to_do():
        assert (yield []) == []
        return "done"

    engine = LocalEngine(Recorder(), data, seed=0, workers=2)
    assert engine.run({0: nothing_to_do(), 1: relay([0], 1)}) == {0: "done", 1: 5.0}
    assert engine.run({}) == {}
    engine.close()


def test_a_failing_job_fails_the_run(data) -> None:
    recorder = Recorder()
    recorder.fail_on = 2
    engine = LocalEngine(recorder, data, seed=0, workers=2)
    with pytest.raises(RuntimeError, match="broken satellite"):
        engine.run({0: relay([0, 1, 2], 1)})
    engine.close()


def test_evaluation_keeps_the_order(data) -> None:
    engine = LocalEngine(Recorder(), data, seed=0, workers=3)
    models = [np.full(2, i, dtype=np.float32) for i in range(5)]
    results = engine.evaluate(models, [np.arange(i) for i in range(5)])
    engine.close()
    assert results == [(i, 2.0 * i) for i in range(5)]


def test_pytorch_gets_its_threads_back(data) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        engine = LocalEngine(Recorder(), data, seed=0, workers=1)
        assert torch.get_num_threads() == 1
        engine.close()
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)
