"""A run as libraries for personalised federated learning write it: one client after the other.

Each satellite has a dataset of tensors and a DataLoader; the model is trained where it is. Run by
`against_flower.py`, which writes the workload.
Usage: python benchmarks/dataloader_loop.py WORKLOAD METHOD [--threads N]
       python benchmarks/dataloader_loop.py WORKLOAD --probe   which number of threads is fastest
"""

import argparse
import json
import time
from pathlib import Path

import torch
from plain_pytorch import evaluate, make_datasets, make_model, train
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from workload import WaveEngine, Workload, load, run_method

from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector

PROBES = 3


class Sequential(WaveEngine):
    """Does one job after the other with one model."""

    def __init__(self, workload: Workload) -> None:
        super().__init__(workload)
        self.model = make_model(workload)
        self.train_sets = make_datasets(workload, workload.train)
        self.test_sets = make_datasets(workload, workload.test)
        self.sgd = workload.settings["sgd"]

    def train_all(self, jobs: list[LocalJob]) -> list[Vector]:
        return [self._train(job) for job in jobs]

    def _train(self, job: LocalJob) -> Vector:
        self._load(job.start)
        train(self.model, self.train_sets[job.satellite], job.epochs, job.rate, self.sgd)
        return parameters_to_vector(self.model.parameters()).detach().numpy().copy()

    def evaluate_orbits(self, models: dict[int, Vector]) -> list[tuple[int, float]]:
        results = []
        for orbit, vector in models.items():
            self._load(vector)
            results.append(evaluate(self.model, self.test_sets[orbit]))
        return results

    def _load(self, vector: Vector) -> None:
        with torch.no_grad():
            vector_to_parameters(torch.from_numpy(vector.copy()), self.model.parameters())


def fastest_threads(engine: Sequential, start: Vector) -> int:
    """Time an epoch of the largest satellite with PyTorch's default, one and two threads."""
    largest = max(range(len(engine.train_sets)), key=lambda k: len(engine.train_sets[k]))
    job = LocalJob(largest, start, 1, 0.01, ())
    seconds: dict[int, float] = {}
    for _ in range(PROBES + 1):  # the first round warms up, and the smallest time counts
        for threads in {torch.get_num_threads(), 1, 2} | seconds.keys():
            torch.set_num_threads(threads)
            begin = time.perf_counter()
            engine.train_all([job])
            spent = time.perf_counter() - begin
            seconds[threads] = min(seconds.get(threads, spent), spent)
    return min(seconds, key=seconds.__getitem__)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("workload", type=Path)
    parser.add_argument("method", nargs="?")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--probe", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    workload = load(options.workload)
    engine = Sequential(workload)
    if options.probe:
        print(json.dumps({"threads": fastest_threads(engine, workload.initial_model)}))
        return
    if options.threads:
        torch.set_num_threads(options.threads)
    print(json.dumps(run_method(workload, options.method, engine, engine.model)))


if __name__ == "__main__":
    main()
