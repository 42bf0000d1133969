"""LocalSGD in PyTorch: the only training loop in Python, for any model and device.

Per step, with g the gradient of the mean loss of the batch:
g <- g + pull (w - anchor) + correction; clipped to a global norm; weight decay added;
m <- momentum m + g; w <- w - rate m. The momentum m starts at zero in every call.

Parameters and gradients are views into two flat vectors, so that a step after the backward pass
is a handful of vector operations, and starting from a model is one copy.
"""

import math
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, SgdSettings, Trained, TrainingData
from fedorbit.learning.models import ModelSpec
from fedorbit.learning.parameters import ParameterLayout, Vector
from fedorbit.randomness import generator

CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_
EVALUATION_BATCH = 256


class TrainingCancelledError(Exception):
    """Training was stopped from outside before it was done."""


class Trainer(Protocol):
    """Does jobs, one at a time per thread."""

    name: str

    def train(self, job: LocalJob, order: NDArray[np.int64]) -> Trained:
        """Run a job over the given batch order `[epochs, n]`."""

    def evaluate(self, model: Vector, samples: NDArray[np.int64]) -> tuple[int, float]:
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
        self._settings = settings
        self._device = torch.device(device)
        self._scale = torch.from_numpy(data.scale.copy()).to(self._device)
        self._shift = torch.from_numpy(data.shift.copy()).to(self._device)
        self._local = threading.local()
        self._cancelled = threading.Event()
        self._try_out()

    def train(self, job: LocalJob, order: NDArray[np.int64]) -> Trained:
        """Run a job over the given batch order `[epochs, n]`."""
        if order.size == 0:
            return Trained(job.start.copy(), _copy(job.personal), job.alpha)
        if job.personal is not None:
            return self._train_coupled(job, order)
        step = _Step(self._settings, job.rate, self._device, len(job.start))
        workspace = self._workspace()
        weights, gradient = workspace.weights, workspace.gradient
        weights.copy_(_tensor(job.start))
        anchor = self._tensor(job.anchor) if job.pull else None
        correction = self._tensor(job.correction)
        for images, labels in self._batches(order):
            self._backward(workspace, images, labels)
            if anchor is not None:
                gradient.add_(weights, alpha=job.pull).sub_(anchor, alpha=job.pull)
            if correction is not None:
                gradient.add_(correction)
            step(weights, gradient)
        return Trained(_vector(weights))

    def _train_coupled(self, job: LocalJob, order: NDArray[np.int64]) -> Trained:
        """APFL: w follows its own gradient, v and alpha the gradient at alpha v + (1 - alpha) w."""
        size = len(job.start)
        step_w, step_v = (_Step(self._settings, job.rate, self._device, size) for _ in range(2))
        workspace = self._workspace()
        w, v = self._tensor(job.start), self._tensor(job.personal)
        assert w is not None and v is not None
        alpha = job.alpha
        for images, labels in self._batches(order):
            workspace.weights.copy_(w)
            self._backward(workspace, images, labels)
            gradient_w = workspace.gradient.clone()
            torch.lerp(w, v, alpha, out=workspace.weights)
            self._backward(workspace, images, labels)
            gradient_mixed = workspace.gradient
            slope = float(torch.dot(gradient_mixed, v - w))
            step_w(w, gradient_w)
            step_v(v, gradient_mixed.mul_(alpha))
            if math.isfinite(slope):  # a model that has diverged says nothing about alpha
                alpha = min(max(alpha - job.rate * slope, 0.0), 1.0)
        return Trained(_vector(w), _vector(v), alpha)

    def evaluate(self, model: Vector, samples: NDArray[np.int64]) -> tuple[int, float]:
        """Return how many samples are classified right, and the sum of their losses."""
        workspace = self._workspace()
        workspace.module.eval()
        workspace.weights.copy_(_tensor(model))
        correct, loss = 0, 0.0
        with torch.no_grad():
            for begin in range(0, len(samples), EVALUATION_BATCH):
                images, labels = self._gather(samples[begin : begin + EVALUATION_BATCH])
                logits = workspace.module(images)
                correct += int((logits.argmax(dim=1) == labels).sum())
                loss += float(functional.cross_entropy(logits, labels, reduction="sum"))
        return correct, loss

    def cancel(self) -> None:
        """Make running and later jobs raise `TrainingCancelledError` soon."""
        self._cancelled.set()

    def _batches(self, order: NDArray[np.int64]) -> Iterator[tuple[Tensor, Tensor]]:
        for epoch in order:
            for begin in range(0, len(epoch), self._settings.batch):
                if self._cancelled.is_set():
                    raise TrainingCancelledError
                yield self._gather(epoch[begin : begin + self._settings.batch])

    def _gather(self, indices: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        images = torch.from_numpy(self._data.images[indices]).to(self._device, torch.float32)
        images.mul_(self._scale).add_(self._shift)
        labels = torch.from_numpy(self._data.labels[indices]).to(self._device)
        # Channels last in memory, channels first by name: what convolutions like best.
        return images.permute(0, 3, 1, 2), labels

    def _backward(self, workspace: _Workspace, images: Tensor, labels: Tensor) -> None:
        workspace.module.train()
        workspace.gradient.zero_()
        functional.cross_entropy(workspace.module(images), labels).backward()  # type: ignore[no-untyped-call]

    def _try_out(self) -> None:
        """Refuse a model now that would fail in the middle of a run, or could not be repeated."""
        name, shape = self._spec.name, self._spec.image_shape
        numbers = generator(0, "trial").standard_normal((8, *shape), dtype=np.float32)
        images = torch.from_numpy(numbers).to(self._device).permute(0, 3, 1, 2)
        labels = torch.zeros(len(images), dtype=torch.int64, device=self._device)
        try:
            workspace = self._workspace()
            workspace.weights.copy_(torch.from_numpy(self._spec.initial_vector(0)))
            self._backward(workspace, images, labels)
            with torch.no_grad():
                first, second = workspace.module(images), workspace.module(images)
        except Exception as error:  # whatever a user's model may raise
            raise ModelError(
                f"model {name} cannot be trained on images {shape} with engine.device "
                f"{str(self._device)!r}: {error}"
            ) from error
        if not torch.equal(first, second):
            raise ModelError(
                f"model {name} gives different outputs for the same images while it trains "
                "(dropout?); a run could not be repeated or resumed; use weight decay instead"
            )

    def _workspace(self) -> _Workspace:
        if not hasattr(self._local, "workspace"):
            self._local.workspace = _Workspace(self._spec, self._device)
        workspace: _Workspace = self._local.workspace
        return workspace

    def _tensor(self, vector: Vector | None) -> Tensor | None:
        return None if vector is None else _tensor(vector).to(self._device)


class _Step:
    """Clip, decay, momentum, update: everything of a step that follows the gradient."""

    def __init__(self, settings: SgdSettings, rate: float, device: torch.device, size: int) -> None:
        self._settings = settings
        self._rate = rate
        self._momentum = torch.zeros(size, device=device)

    def __call__(self, weights: Tensor, gradient: Tensor) -> None:
        if self._settings.clip_norm > 0:
            norm = torch.linalg.vector_norm(gradient)
            gradient.mul_((self._settings.clip_norm / (norm + CLIP_EPSILON)).clamp_(max=1.0))
        gradient.add_(weights, alpha=self._settings.weight_decay)
        self._momentum.mul_(self._settings.momentum).add_(gradient)
        weights.add_(self._momentum, alpha=-self._rate)


def _tensor(vector: Vector) -> Tensor:
    """A copy: PyTorch has no tensors that may only be read, such as those of an object store."""
    return torch.from_numpy(vector.copy())


def _vector(tensor: Tensor) -> Vector:
    return tensor.detach().cpu().numpy().copy()


def _copy(vector: Vector | None) -> Vector | None:
    return None if vector is None else vector.copy()


TrainerFactory = Callable[[ModelSpec, TrainingData, SgdSettings], Trainer]
