"""Work of one process of a Ray cluster: one job at a time, on one thread.

A process opens the setup of a run once and keeps it. The images lie in the node's object store,
shared by all processes of the node and never copied; or in a folder of the node, memory-mapped.
"""

import hashlib
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedorbit import __version__
from fedorbit.data.cache import Dataset, dataset_folder, open_dataset
from fedorbit.errors import ClusterError, DataError
from fedorbit.learning.backends import Backend, make_trainer
from fedorbit.learning.engine import do_job
from fedorbit.learning.jobs import (
    EVERYBODY,
    LocalJob,
    SgdSettings,
    Trained,
    TrainingData,
)
from fedorbit.learning.models import model_spec
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules.base import Rule
from fedorbit.learning.torch_trainer import Trainer
from fedorbit.randomness import generator
from fedorbit.user_code import allow_code

PROBE_SAMPLES, PROBE_EPOCHS = 64, 2


@dataclass(frozen=True)
class ImagesOnNodes:
    """A prepared dataset that every node has in a folder of its own."""

    name: str
    folder: Path
    """Folder on the machine that runs the rounds; on a shared file system also that of nodes."""
    files: dict[str, dict[str, Any]]
    """Size and SHA-256 of each file, as `dataset.json` records them."""

    @classmethod
    def of(cls, dataset: Dataset) -> "ImagesOnNodes":
        """Describe a dataset, so that a node can check that its copy is the same."""
        return cls(dataset.name, dataset.folder.absolute(), dataset.description["files"])

    def open(self) -> NDArray[Any]:
        """Open this node's copy; refuse one with other contents."""
        places = dict.fromkeys((dataset_folder(self.name).parent, self.folder.parent))
        problems = []
        for root in places:
            try:
                found = open_dataset(self.name, root)
            except DataError as error:
                problems.append(str(error).partition(";")[0])
                continue
            if found.description["files"] == self.files:
                return np.asarray(found.images)
            problems.append(f"{found.folder} has other contents")
        raise ClusterError(
            f"node {platform.node()} cannot open the images ({', and '.join(problems)}); prepare "
            f'{self.name} there too, or set engine.ray_data = "object-store"'
        )


@dataclass(frozen=True, eq=False)
class TrainingSetup:
    """All that a process needs to do any job of a run."""

    data: TrainingData
    """Training data, without the images if they are on the nodes."""
    images_on_nodes: ImagesOnNodes | None
    seed: int
    model: dict[str, Any]
    """The settings of the model, but for its weights."""
    constants: Mapping[str, torch.Tensor]
    """Tensors that training does not change, as in `ModelSpec.constants`."""
    image_shape: tuple[int, int, int]
    classes: int
    backend: Backend
    settings: SgdSettings
    probe: str
    """SHA-256 that `probe` must return on every node."""
    allowed_code: tuple[str, ...] = ()
    """Modules of the user's own that the driver may import."""
    version: str = __version__

    def open(self) -> tuple[Trainer, TrainingData]:
        """Make the trainer; refuse a node on which results would differ."""
        allow_code(*self.allowed_code)
        node = platform.node()
        if self.version != __version__:
            raise ClusterError(
                f"node {node} has fedorbit {__version__}, and the run was started with "
                f"{self.version}; install the same on all nodes"
            )
        data = self.data
        if self.images_on_nodes is not None:
            data = replace(data, images=self.images_on_nodes.open())
        spec = model_spec(
            image_shape=self.image_shape, classes=self.classes, seed=self.seed, **self.model
        )
        spec = replace(spec, constants=self.constants)
        trainer = make_trainer(self.backend, spec, data, self.settings, "cpu")
        if probe(trainer, data, spec.layout.size) != self.probe:
            raise ClusterError(
                f"node {node} does not train to the same bits as the machine that runs the rounds, "
                "so results would depend on who trains what; give all nodes the same kind of "
                "processor and the same NumPy and PyTorch"
            )
        return trainer, data


def probe(trainer: Trainer, data: TrainingData, parameters: int) -> str:
    """Train a little from a fixed start; return the model's SHA-256.

    Equal values on two machines mean equal rounding and equal images.
    """
    start = generator(0, "probe").standard_normal(parameters, dtype=np.float32) * np.float32(0.05)
    order = np.tile(data.everything[:PROBE_SAMPLES], (PROBE_EPOCHS, 1))
    job = LocalJob(EVERYBODY, start, PROBE_EPOCHS, 0.01, key=())
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as every job is trained; PyTorch on two rounds differently
    try:
        trained = trainer.train(job, order)
    finally:
        torch.set_num_threads(threads)
    return hashlib.sha256(trained.model.tobytes()).hexdigest()


@dataclass(frozen=True, eq=False)
class SentJob:
    """A job as it is sent: its vectors and its rule's are replaced by positions in a list.

    All satellites of an orbit share vectors, so the list is sent beside the jobs, each vector once.
    """

    job: dict[str, Any]
    rule: type[Rule]
    arguments: dict[str, Any]
    start: int
    vectors: dict[str, int]

    @classmethod
    def of(cls, job: LocalJob, place: Callable[[NDArray[Any]], int]) -> "SentJob":
        """Take the vectors out of a job; `place` puts one into the list and returns where."""
        vectors = job.rule.vectors
        return cls(
            {name: value for name, value in _fields(job).items() if name not in ("start", "rule")},
            type(job.rule),
            {name: value for name, value in _fields(job.rule).items() if name not in vectors},
            place(job.start),
            {name: place(vector) for name, vector in vectors.items()},
        )

    def opened(self, vectors: Sequence[NDArray[Any]]) -> LocalJob:
        """Put the vectors back."""
        own = {name: vectors[number] for name, number in self.vectors.items()}
        rule = self.rule(**self.arguments, **own)
        return LocalJob(start=vectors[self.start], rule=rule, **self.job)


def _fields(each: Any) -> dict[str, Any]:
    """Return the arguments that a dataclass was made from, by name."""
    return {field.name: getattr(each, field.name) for field in fields(each) if field.init}


def train(setup: list[Any], jobs: list[SentJob], *vectors: NDArray[Any]) -> list[Trained]:
    """Do jobs one after the other, with the vectors that came beside them.

    The reference to the setup comes in a list, which keeps Ray from loading it for every task.
    """
    trainer, data, seed = _opened(setup[0])
    trained = []
    for sent in jobs:
        job = sent.opened(vectors)
        trained.append(do_job(trainer, data, job, seed))
    return trained


def evaluate(
    setup: list[Any], model: Vector, samples: NDArray[np.int64], offset: Vector | None
) -> tuple[int, float]:
    """Return the number of correctly classified samples, and the sum of the samples' losses."""
    return _opened(setup[0])[0].evaluate(model, samples, offset)


@lru_cache(maxsize=1)  # a process works for one run at a time
def _opened(reference: Any) -> tuple[Trainer, TrainingData, int]:
    import ray

    torch.set_num_threads(1)
    setup: TrainingSetup = ray.get(reference)
    trainer, data = setup.open()
    return trainer, data, setup.seed
