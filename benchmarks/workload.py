"""The work of a run, handed to others: who holds which images, who is in view, from which model.

Fedorbit exports it, and those it is compared with load it. They use fedorbit's own methods, fleet
and evaluation records through an engine of theirs: schedule, epochs, rates and aggregation are the
same code for everybody, and what differs is who trains and evaluates, and how jobs get there.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from fedorbit.activity import Activity
from fedorbit.fleet import Fleet, TrainingPlan
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.learning.parameters import Vector, layout_of
from fedorbit.methods import make_method
from fedorbit.orbits.plan import plan_of_slots
from fedorbit.simulation.evaluation import Evaluator


@dataclass(frozen=True)
class Workload:
    """Data, schedule and settings of a run, independent of the code that runs it."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    train: list[NDArray[np.int64]]
    """Samples of each satellite."""
    test: list[NDArray[np.int64]]
    """Samples of each orbit."""
    orbit_of_satellite: NDArray[np.int64]
    class_counts: NDArray[np.int64]
    visible: NDArray[np.bool_]
    initial_model: Vector
    settings: dict[str, Any]

    @property
    def image_shape(self) -> tuple[int, int, int]:
        height, width, channels = self.images.shape[1:]
        return height, width, channels

    @property
    def classes(self) -> int:
        return self.class_counts.shape[1]


def export(file: Path, config: Any, idiomatic: bool) -> None:
    """Write the work that a configuration describes."""
    from fedorbit.simulation.world import build_world  # those who load need less

    world = build_world(config)
    training = config.training
    settings = {
        "folder": str(world.dataset.folder.absolute()),
        "idiomatic": idiomatic,
        "rounds": config.run.rounds,
        "links": config.run.links,
        "tau_max": world.schedule.tau_max,
        "round_s": config.schedule.round_s,
        "plan": [training.epochs, training.intra_rounds, training.rate, training.rate_decay],
        "sgd": {
            key: getattr(training, key)
            for key in ("batch", "momentum", "weight_decay", "clip_norm")
        },
    }
    np.savez(
        file,
        scale=world.data.scale,
        shift=world.data.shift,
        train=np.concatenate(world.partition.train),
        train_lengths=[len(part) for part in world.partition.train],
        test=np.concatenate(world.partition.test),
        test_lengths=[len(part) for part in world.partition.test],
        orbit_of_satellite=world.partition.orbit_of_satellite,
        class_counts=world.partition.train_counts(world.data.labels, world.spec.classes),
        visible=world.schedule.visible,
        initial_model=world.initial_model,
        settings=json.dumps(settings),
    )


def load(file: Path) -> Workload:
    with np.load(file, allow_pickle=False) as archive:
        stored = dict(archive)
    settings = json.loads(str(stored.pop("settings")))
    for key in ("train", "test"):
        ends = np.cumsum(stored.pop(f"{key}_lengths"))
        stored[key] = np.split(stored[key], ends[:-1])
    folder = Path(settings["folder"])
    return Workload(
        images=np.load(folder / "images.npy", mmap_mode="r", allow_pickle=False),
        labels=np.load(folder / "labels.npy", allow_pickle=False),
        settings=settings,
        **stored,
    )


class WaveEngine:
    """Advances all orbits' programs in step: all jobs that can start go out, all come back."""

    def train_all(self, jobs: list[LocalJob]) -> list[Vector]:
        raise NotImplementedError

    def evaluate_orbits(self, models: dict[int, Vector]) -> list[tuple[int, float]]:
        raise NotImplementedError

    def __init__(self, workload: Workload) -> None:
        self._orbit = {id(samples): orbit for orbit, samples in enumerate(workload.test)}
        self._samples = [len(part) for part in workload.train]
        self._batch: int = workload.settings["sgd"]["batch"]

    def _steps(self, job: LocalJob) -> int:
        return job.epochs * -(-self._samples[job.satellite] // self._batch)

    def run(self, programs: Mapping[int, Program[Any]]) -> dict[int, Any]:
        results: dict[int, Any] = {}
        answers: dict[int, list[Trained] | None] = dict.fromkeys(programs)
        while answers:
            wanted: dict[int, list[LocalJob]] = {}
            for key, answer in answers.items():
                try:
                    wanted[key] = programs[key].send(answer)  # type: ignore[arg-type]
                except StopIteration as stop:
                    results[key] = stop.value
            models = iter(self.train_all([job for jobs in wanted.values() for job in jobs]))
            answers = {
                key: [Trained(next(models), self._steps(job)) for job in jobs]
                for key, jobs in wanted.items()
            }
        return results

    def evaluate(
        self, models: list[Vector], samples: list[NDArray[np.int64]], offsets: Sequence[Any] = ()
    ) -> list[tuple[int, float]]:
        orbits = [self._orbit[id(part)] for part in samples]
        return self.evaluate_orbits(dict(zip(orbits, models, strict=True)))


def run_method(
    workload: Workload, name: str, engine: WaveEngine, model: nn.Module
) -> dict[str, Any]:
    """Run all rounds, evaluating after each; return seconds and accuracies."""
    settings = workload.settings
    fleet = Fleet(
        engine=engine,  # type: ignore[arg-type]
        layout=layout_of(model, "fc2", workload.classes),
        initial_model=workload.initial_model,
        orbit_of_satellite=workload.orbit_of_satellite,
        class_counts=workload.class_counts,
        visible=workload.visible,
        contacts=plan_of_slots(
            workload.visible[:, workload.orbit_of_satellite, None], settings["round_s"]
        ),
        activity=Activity.always(len(workload.orbit_of_satellite)),
        tau_max=settings["tau_max"],
        plan=TrainingPlan(*settings["plan"]),
        links=settings["links"],
        round_s=settings["round_s"],
    )

    def new_evaluator() -> Evaluator:
        return Evaluator(engine, tuple(workload.test))  # type: ignore[arg-type]

    evaluator = new_evaluator()
    method = make_method(name, {})
    begin = time.perf_counter()
    state, accuracy = method.start(fleet), []
    for t in range(settings["rounds"]):
        now = fleet.at(t)
        state = method.round(state, now)
        if settings["idiomatic"]:
            evaluator = new_evaluator()  # which does not know that a model has not changed
        accuracy.append(evaluator(method.models(state), now.orbits.active)["accuracy"])
    return {
        "seconds": time.perf_counter() - begin,
        "accuracy": accuracy,
        "samples_trained": fleet.ledger.samples_trained,
    }
