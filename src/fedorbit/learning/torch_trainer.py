"""Jobs in PyTorch, for any model and device.

The rule of a job has the loop; here are the batches, the gradient at a point and the step that it
is made of. A step after the backward pass is a handful of operations on flat vectors.

On another device than the CPU all images are copied to it once, and batches are gathered there.
"""

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.augmentation import Views, seen_as
from fedorbit.learning.jobs import PLAINLY, LocalJob, Seen, SgdSettings, Trained, TrainingData
from fedorbit.learning.models import ModelSpec
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part, beyond
from fedorbit.learning.rules.base import Batch, Outputs, OwnLoss
from fedorbit.learning.rules.step import Step
from fedorbit.learning.workspace import Workspace
from fedorbit.randomness import generator

EVALUATION_BATCH = 256


class TrainingCancelledError(Exception):
    """Training was stopped from outside before it was done."""


class Trainer(Protocol):
    """Does jobs, one at a time per thread."""

    name: str

    def train(self, job: LocalJob, order: NDArray[np.int64], seen: Seen = PLAINLY) -> Trained:
        """Run a job over the given batch order `[epochs, n]`."""

    def evaluate(
        self, model: Vector, samples: NDArray[np.int64], offset: Vector | None = None
    ) -> tuple[int, float]:
        """Return how many samples are classified right, and the sum of their losses."""

    def cancel(self) -> None:
        """Make running and later jobs raise `TrainingCancelledError` soon."""


class TorchTrainer:
    """Trains any `torch.nn.Module`."""

    name = "torch"

    def __init__(
        self,
        spec: ModelSpec,
        data: TrainingData,
        settings: SgdSettings,
        device: str = "cpu",
        resident: bool | None = None,
    ) -> None:
        """`resident`: whether the images are held on the device; None: unless that is the CPU."""
        self._spec = spec
        self._data = data
        self.settings = settings
        self.device = torch.device(device)
        self.statistics = spec.layout.statistics
        self._scale = torch.from_numpy(data.scale.copy()).to(self.device)
        self._shift = torch.from_numpy(data.shift.copy()).to(self.device)
        self._resident: Batch | None = None
        if self.device.type != "cpu" if resident is None else resident:
            self._resident = Batch(
                _copied(data.images, self.device), _copied(data.labels, self.device)
            )
        self.least_batch = 1
        """Images that a batch must have: two where BatchNorm would have one value per channel."""
        self._draws = True
        self._local = threading.local()
        self._cancelled = threading.Event()
        self._try_out()

    def train(self, job: LocalJob, order: NDArray[np.int64], seen: Seen = PLAINLY) -> Trained:
        """Run a job over the given batch order `[epochs, n]`."""
        if order.size == 0:
            return Trained.untouched(job)
        self._workspace().begin(job.satellite, *job.key)
        return job.rule.with_torch(_Job(self, job, order, seen))

    def evaluate(
        self, model: Vector, samples: NDArray[np.int64], offset: Vector | None = None
    ) -> tuple[int, float]:
        """Return how many samples are classified right, and the sum of their losses."""
        workspace = self._workspace()
        workspace.begin()
        workspace.go_to(_tensor(model), training=False)
        correct, loss = 0, 0.0
        with torch.no_grad():
            for begin in range(0, len(samples), EVALUATION_BATCH):
                batch = self.gather(samples[begin : begin + EVALUATION_BATCH], offset=offset)
                logits = _offset(workspace.logits(batch.images), batch)
                correct += int((logits.argmax(dim=1) == batch.labels).sum())
                loss += float(functional.cross_entropy(logits, batch.labels, reduction="sum"))
        return correct, loss

    def cancel(self) -> None:
        """Make running and later jobs raise `TrainingCancelledError` soon."""
        self._cancelled.set()

    def gather(
        self,
        samples: NDArray[np.int64],
        views: Views | None = None,
        offset: Vector | None = None,
    ) -> Batch:
        """Gather and standardise a batch on the device."""
        if self._resident is None:
            images = torch.from_numpy(self._data.images[samples]).to(self.device, torch.float32)
            labels = torch.from_numpy(self._data.labels[samples]).to(self.device)
        else:
            places = torch.from_numpy(samples).to(self.device)
            images = self._resident.images[places].to(torch.float32)
            labels = self._resident.labels[places]
        if views is not None:
            images = seen_as(images, views)
        images.mul_(self._scale).add_(self._shift)
        # Channels last in memory, channels first by name: what convolutions like best.
        on_device = None if offset is None else _tensor(offset).to(self.device)
        return Batch(images.permute(0, 3, 1, 2), labels, on_device)

    @property
    def generator(self) -> torch.Generator:
        """Random numbers of the job that this thread does."""
        return self._workspace().randomness.generator

    def gradient(
        self,
        point: Tensor,
        batch: Batch,
        own_loss: OwnLoss | None = None,
        moves_statistics: bool = True,
    ) -> Tensor:
        """Return the gradient of a batch's mean loss at a point, whose statistics move."""
        if len(batch.labels) < self.least_batch:
            raise ModelError(
                f"model {self._spec.name} cannot train on a batch of one image, whose statistics "
                "are not defined; choose another training.batch, or GroupNorm"
            )
        workspace = self._at(point, training=True)
        with workspace.differentiating():
            if own_loss is not None:
                made = workspace.outputs(batch.images)
                loss = own_loss(made._replace(logits=_offset(made.logits, batch)))
            else:
                logits = _offset(workspace.logits(batch.images), batch)
                loss = functional.cross_entropy(logits, batch.labels)
            loss.backward()  # type: ignore[no-untyped-call]
        if moves_statistics:
            point[self.statistics] = workspace.statistics
        return workspace.gradient.clone()

    def loss(self, point: Tensor, batch: Batch) -> float:
        """Return the mean loss of a batch at a point; the model is evaluated."""
        with torch.no_grad():
            logits = _offset(self._at(point, training=False).logits(batch.images), batch)
            return float(functional.cross_entropy(logits, batch.labels))

    @torch.no_grad()
    def outputs(self, point: Tensor, batch: Batch) -> Outputs:
        """Return what a model makes of a batch; it is evaluated."""
        made = self._at(point, training=False).outputs(batch.images)
        return made._replace(logits=_offset(made.logits, batch))

    def _at(self, point: Tensor, training: bool) -> Workspace:
        """Return this thread's workspace with the values of a point."""
        if self._cancelled.is_set():
            raise TrainingCancelledError
        workspace = self._workspace()
        workspace.go_to(point, training=training)
        return workspace

    def _try_out(self) -> None:
        """Refuse a model now that would fail in the middle of a run, or could not be repeated."""
        name, shape = self._spec.name, self._spec.image_shape
        numbers = generator(0, "trial").standard_normal((8, *shape), dtype=np.float32)
        images = torch.from_numpy(numbers).to(self.device).permute(0, 3, 1, 2)
        labels = torch.zeros(len(images), dtype=torch.int64, device=self.device)
        try:
            point = torch.from_numpy(self._spec.initial_vector(0)).to(self.device)
            self.gradient(point, Batch(images, labels))
            workspace = self._workspace()
            with torch.no_grad():
                first, second = (self._trial(point, images) for _ in range(2))
                self.least_batch = 1 if self._takes_one(workspace, images[:1]) else 2
        except Exception as error:  # whatever a user's model may raise
            raise ModelError(
                f"model {name} cannot be trained on images {shape} with engine.device "
                f"{str(self.device)!r}: {error}"
            ) from error
        if not torch.equal(first, second):
            raise ModelError(
                f"model {name} gives different outputs for the same images and key while it "
                "trains, so that a run could not be repeated or resumed; draw random numbers with "
                "PyTorch alone"
            )
        self._draws = workspace.randomness.draws > 0
        self._local = threading.local()

    def _trial(self, point: Tensor, images: Tensor) -> Tensor:
        """Return the logits of a model that trains, with the random numbers of one key."""
        self._workspace().begin()
        return self._at(point, training=True).logits(images)

    def _takes_one(self, workspace: Workspace, image: Tensor) -> bool:
        try:
            workspace.logits(image)
        except ValueError:
            return False
        return True

    def _workspace(self) -> Workspace:
        if not hasattr(self._local, "workspace"):
            self._local.workspace = Workspace(self._spec, self.device, self._draws)
        workspace: Workspace = self._local.workspace
        return workspace


class _Job:
    """A job as its rule sees it: `rules.TorchJob`."""

    def __init__(
        self, trainer: TorchTrainer, job: LocalJob, order: NDArray[np.int64], seen: Seen
    ) -> None:
        self.start, self.rate, self.order = job.start, job.rate, order
        self.settings, self.device = trainer.settings, trainer.device
        self.statistics, self.least_batch = trainer.statistics, trainer.least_batch
        self._trainer, self._seen, self._moves_statistics = trainer, seen, True

    @property
    def generator(self) -> torch.Generator:
        return self._trainer.generator

    def batches(self) -> Iterator[Batch]:
        epochs, samples = self.order.shape
        for epoch in range(epochs):
            for begin in range(0, samples - self.least_batch + 1, self.settings.batch):
                yield self.batch(epoch, begin)

    def batch(self, epoch: int, begin: int, *, plainly: bool = False) -> Batch:
        these, (views, offset) = slice(begin, begin + self.settings.batch), self._seen
        shown = None if plainly or views is None else views[epoch, these]
        return self._trainer.gather(self.order[epoch, these], shown, offset)

    def gradient(self, point: Tensor, batch: Batch, loss: OwnLoss | None = None) -> Tensor:
        return self._trainer.gradient(point, batch, loss, self._moves_statistics)

    def loss(self, point: Tensor, batch: Batch) -> float:
        return self._trainer.loss(point, batch)

    def outputs(self, point: Tensor, batch: Batch) -> Outputs:
        return self._trainer.outputs(point, batch)

    def step(
        self,
        part: Part | None = None,
        *,
        rate: float | None = None,
        settings: SgdSettings | None = None,
    ) -> Step:
        rate = self.rate if rate is None else rate
        first = self.statistics.stop
        if part is not None and first:  # statistics outside the part keep their bits
            mask = np.zeros(len(self.start), dtype=np.bool_)
            mask[part] = True
            self._moves_statistics = bool(mask[:first].all())
        part = beyond(part, first)
        return Step(settings or self.settings, rate, len(self.start), self.device, part)

    def tensor(self, vector: Vector) -> Tensor:
        return _tensor(vector).to(self.device)

    def vector(self, tensor: Tensor) -> Vector:
        return tensor.detach().cpu().numpy().copy()


def _offset(logits: Tensor, batch: Batch) -> Tensor:
    return logits if batch.offset is None else logits + batch.offset


def _copied(array: NDArray[Any], device: torch.device, rows: int = 1024) -> Tensor:
    """Copy an array to a device, a few rows at a time: it may be larger than memory is free."""
    first = torch.from_numpy(array[:1].copy())
    copy = torch.empty(array.shape, dtype=first.dtype, device=device)
    for begin in range(0, len(array), rows):
        copy[begin : begin + rows] = torch.from_numpy(array[begin : begin + rows].copy())
    return copy


def _tensor(vector: Vector) -> Tensor:
    """A copy: PyTorch has no tensors that may only be read, such as those of an object store."""
    return torch.from_numpy(vector.copy())
