"""Jobs in PyTorch, for any model and device.

The rule of a job has the loop; here are the batches, the gradient at a point and the step that it
is made of. Parameters and gradients are views into two flat vectors, so that going to a point is
one copy, and a step after the backward pass is a handful of vector operations.
"""

import threading
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.augmentation import Views, seen_as
from fedorbit.learning.jobs import PLAINLY, LocalJob, Seen, SgdSettings, Trained, TrainingData
from fedorbit.learning.models import ModelSpec
from fedorbit.learning.parameters import ParameterLayout, Vector
from fedorbit.learning.parts import Part
from fedorbit.learning.rules.base import Batch
from fedorbit.learning.rules.step import Step
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


class _Workspace:
    """A model whose parameters and gradients are views into flat vectors; one per thread."""

    def __init__(self, spec: ModelSpec, device: torch.device) -> None:
        self.module: nn.Module = spec.build().to(device)
        self.weights = torch.zeros(spec.layout.size, device=device)
        self.gradient = torch.zeros(spec.layout.size, device=device)
        _bind(self.module, spec.layout, self.weights, self.gradient)


def _bind(module: nn.Module, layout: ParameterLayout, weights: Tensor, gradient: Tensor) -> None:
    tensors = dict(module.named_parameters())
    for parameter in layout.parameters:
        tensor = tensors[parameter.name]
        tensor.data = weights[parameter.place].view(parameter.shape)
        tensor.grad = gradient[parameter.place].view(parameter.shape)


class TorchTrainer:
    """Trains any `torch.nn.Module`."""

    name = "torch"

    def __init__(
        self, spec: ModelSpec, data: TrainingData, settings: SgdSettings, device: str = "cpu"
    ) -> None:
        self._spec = spec
        self._data = data
        self.settings = settings
        self.device = torch.device(device)
        self._scale = torch.from_numpy(data.scale.copy()).to(self.device)
        self._shift = torch.from_numpy(data.shift.copy()).to(self.device)
        self._local = threading.local()
        self._cancelled = threading.Event()
        self._try_out()

    def train(self, job: LocalJob, order: NDArray[np.int64], seen: Seen = PLAINLY) -> Trained:
        """Run a job over the given batch order `[epochs, n]`."""
        if order.size == 0:
            return Trained.untouched(job)
        return job.rule.with_torch(_Job(self, job, order, seen))

    def evaluate(
        self, model: Vector, samples: NDArray[np.int64], offset: Vector | None = None
    ) -> tuple[int, float]:
        """Return how many samples are classified right, and the sum of their losses."""
        workspace = self._workspace()
        workspace.module.eval()
        workspace.weights.copy_(_tensor(model))
        correct, loss = 0, 0.0
        with torch.no_grad():
            for begin in range(0, len(samples), EVALUATION_BATCH):
                batch = self.gather(samples[begin : begin + EVALUATION_BATCH], offset=offset)
                logits = _logits(workspace.module, batch)
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
        images = torch.from_numpy(self._data.images[samples]).to(self.device, torch.float32)
        if views is not None:
            images = seen_as(images, views)
        images.mul_(self._scale).add_(self._shift)
        labels = torch.from_numpy(self._data.labels[samples]).to(self.device)
        # Channels last in memory, channels first by name: what convolutions like best.
        on_device = None if offset is None else _tensor(offset).to(self.device)
        return Batch(images.permute(0, 3, 1, 2), labels, on_device)

    def gradient(self, point: Tensor, batch: Batch) -> Tensor:
        """Return the gradient of a batch's mean loss at a point."""
        if self._cancelled.is_set():
            raise TrainingCancelledError
        workspace = self._workspace()
        workspace.module.train()
        workspace.weights.copy_(point)
        workspace.gradient.zero_()
        loss = functional.cross_entropy(_logits(workspace.module, batch), batch.labels)
        loss.backward()  # type: ignore[no-untyped-call]
        return workspace.gradient.clone()

    def loss(self, point: Tensor, batch: Batch) -> float:
        """Return the mean loss of a batch at a point."""
        if self._cancelled.is_set():
            raise TrainingCancelledError
        workspace = self._workspace()
        workspace.module.train()
        workspace.weights.copy_(point)
        with torch.no_grad():
            return float(functional.cross_entropy(_logits(workspace.module, batch), batch.labels))

    def _try_out(self) -> None:
        """Refuse a model now that would fail in the middle of a run, or could not be repeated."""
        name, shape = self._spec.name, self._spec.image_shape
        numbers = generator(0, "trial").standard_normal((8, *shape), dtype=np.float32)
        images = torch.from_numpy(numbers).to(self.device).permute(0, 3, 1, 2)
        labels = torch.zeros(len(images), dtype=torch.int64, device=self.device)
        try:
            self.gradient(torch.from_numpy(self._spec.initial_vector(0)), Batch(images, labels))
            module = self._workspace().module
            with torch.no_grad():
                first, second = module(images), module(images)
        except Exception as error:  # whatever a user's model may raise
            raise ModelError(
                f"model {name} cannot be trained on images {shape} with engine.device "
                f"{str(self.device)!r}: {error}"
            ) from error
        if not torch.equal(first, second):
            raise ModelError(
                f"model {name} gives different outputs for the same images while it trains "
                "(dropout?); a run could not be repeated or resumed; use weight decay instead"
            )

    def _workspace(self) -> _Workspace:
        if not hasattr(self._local, "workspace"):
            self._local.workspace = _Workspace(self._spec, self.device)
        workspace: _Workspace = self._local.workspace
        return workspace


class _Job:
    """A job as its rule sees it: `rules.TorchJob`."""

    def __init__(
        self, trainer: TorchTrainer, job: LocalJob, order: NDArray[np.int64], seen: Seen
    ) -> None:
        self.start, self.rate, self.order = job.start, job.rate, order
        self.settings, self.device = trainer.settings, trainer.device
        self.gradient = trainer.gradient
        self._trainer, self._seen = trainer, seen

    def batches(self, *, plainly: bool = False) -> Iterator[Batch]:
        epochs, samples = self.order.shape
        for epoch in range(epochs):
            for begin in range(0, samples, self.settings.batch):
                yield self.batch(epoch, begin, plainly=plainly)

    def batch(self, epoch: int, begin: int, *, plainly: bool = False) -> Batch:
        these, (views, offset) = slice(begin, begin + self.settings.batch), self._seen
        shown = None if plainly or views is None else views[epoch, these]
        return self._trainer.gather(self.order[epoch, these], shown, offset)

    def loss(self, point: Tensor, batch: Batch) -> float:
        return self._trainer.loss(point, batch)

    def step(
        self,
        part: Part | None = None,
        *,
        rate: float | None = None,
        settings: SgdSettings | None = None,
    ) -> Step:
        rate = self.rate if rate is None else rate
        return Step(settings or self.settings, rate, len(self.start), self.device, part)

    def tensor(self, vector: Vector) -> Tensor:
        return _tensor(vector).to(self.device)

    def vector(self, tensor: Tensor) -> Vector:
        return tensor.detach().cpu().numpy().copy()


def _logits(module: nn.Module, batch: Batch) -> Tensor:
    logits: Tensor = module(batch.images)
    return logits if batch.offset is None else logits + batch.offset


def _tensor(vector: Vector) -> Tensor:
    """A copy: PyTorch has no tensors that may only be read, such as those of an object store."""
    return torch.from_numpy(vector.copy())
