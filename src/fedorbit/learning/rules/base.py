"""Interface of local rules: the rule itself, the job it works on, and the result it returns.

A rule is a small frozen dataclass: its fields are all that it needs beside the job's start and
rate. Fields that hold arrays are its vectors. Engines find them (`Rule.vectors`) and send each one
once for all jobs that share it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part
from fedorbit.learning.rules.step import SgdSettings, Step

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from fedorbit.learning.jobs import LocalJob

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Trained:
    """Result of a job: the model, the number of optimiser steps, and extras of the rule."""

    model: Vector
    steps: int
    """Optimiser steps that were done; 0 if the model is the start."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Arrays and numbers by name, as the rule's file documents them."""

    @classmethod
    def untouched(cls, job: LocalJob) -> Trained:
        """Return the result of a job without epochs or samples: a copy of its start."""
        return cls(job.start.copy(), 0, job.rule.untouched())


class Batch(NamedTuple):
    """Standardised images `[n, channels, height, width]` and their labels, on the device."""

    images: Tensor
    labels: Tensor
    offset: Tensor | None = None
    """Log-prior that is added to the logits, `[classes]`; None where training is not calibrated."""


class Outputs(NamedTuple):
    """Outputs of a model for a batch."""

    features: Tensor
    """Input of the first classifier layer, `[n, width]`."""
    logits: Tensor
    """Output of the last layer, `[n, classes]`."""


OwnLoss = Callable[["Outputs"], "Tensor"]
"""A loss of the rule's own: a scalar from the outputs of a model for a batch."""


class TorchJob(Protocol):
    """One job as a rule sees it in PyTorch. All models are flat tensors `[P]`.

    Models with statistics, such as those of BatchNorm, have them in the first values of the vector:
    `gradient` updates them in the point that it is given, and a step moves all other values.
    """

    start: Vector
    rate: float
    order: NDArray[np.int64]
    """Samples of each epoch in their order, `[epochs, n]`, for rules that pair batches."""
    settings: SgdSettings
    least_batch: int
    """Images that a batch must have: 2 where the model cannot train on a single one."""
    statistics: slice
    """Slice of a model's statistics in its vector; empty if it has none."""

    @property
    def generator(self) -> torch.Generator:
        """Random numbers of this job, from its key."""

    def batches(self) -> Iterator[Batch]:
        """Yield all batches of all epochs, in their order.

        A last batch of a single image is left out if the model cannot train on one image.
        """

    def batch(self, epoch: int, begin: int, *, plainly: bool = False) -> Batch:
        """Gather the batch of an epoch that begins with its sample `begin`.

        `plainly`: images as they are, whatever views training has.
        """

    def gradient(self, point: Tensor, batch: Batch, loss: OwnLoss | None = None) -> Tensor:
        """Return the gradient of the batch's loss at a point, as a new tensor. Can be cancelled.

        The loss is the mean cross-entropy, or the rule's own. The model trains: layers such as
        dropout are active, and statistics in `point` move.
        """

    def outputs(self, point: Tensor, batch: Batch) -> Outputs:
        """Return the outputs of the model at a point, in evaluation mode and without gradients."""

    def loss(self, point: Tensor, batch: Batch) -> float:
        """Return the mean loss of a batch at a point. Can be cancelled."""

    def step(
        self,
        part: Part | None = None,
        *,
        rate: float | None = None,
        settings: SgdSettings | None = None,
    ) -> Step:
        """Return a new step with zero momentum; rate and settings are the job's unless given."""

    def tensor(self, vector: Vector) -> Tensor:
        """Copy a vector to the device."""

    def vector(self, tensor: Tensor) -> Vector:
        """Copy a tensor back."""


class KernelJob(Protocol):
    """One job as a rule sees it in the C kernel."""

    start: Vector
    steps: int
    """Number of batches in all epochs."""

    def call(self, function: Callable[..., Result], **arguments: Any) -> Result:
        """Call a function of `LenetKernel`: data, order, rate and settings are added.

        Settings among the arguments replace those of the run.
        """


class Rule(ABC):
    """A local update. Derive a frozen dataclass (`eq=False`, since arrays do not compare)."""

    @property
    def passes(self) -> int:
        """Gradient evaluations per sample and epoch: a measure of computing."""
        return 1

    @property
    def work(self) -> float:
        """Share of the whole model's computing that a gradient takes: time and energy on board."""
        return 1.0

    def exchanged(self, size: int) -> int:
        """Return the number of values of a result that a satellite sends in an exchange.

        `size` is the number of the model's parameters.
        """
        return size

    @property
    def vectors(self) -> dict[str, NDArray[Any]]:
        """Its fields that hold arrays."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}

    def untouched(self) -> dict[str, Any]:
        """Return `Trained.extra` as it is before the first step; its arrays are copies."""
        return {}

    @abstractmethod
    def with_torch(self, job: TorchJob) -> Trained:
        """Train over the job's batches. The job's vectors and the rule's must not change."""

    def with_kernel(self, job: KernelJob) -> Trained | None:
        """Train in the C kernel; return None if it cannot, and PyTorch does the job."""
        return None
