"""Jobs by the C kernel: LeNet only, several times faster, the same results up to rounding."""

import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.jobs import PLAINLY, LocalJob, Seen, SgdSettings, Trained, TrainingData
from fedorbit.learning.kernel import KernelCancelled, LenetKernel
from fedorbit.learning.models import ModelSpec
from fedorbit.learning.parameters import Vector
from fedorbit.learning.torch_trainer import TorchTrainer, TrainingCancelledError

Result = TypeVar("Result")


class KernelTrainer:
    """Trains LeNet; many threads may share one. PyTorch does jobs whose rule the kernel lacks."""

    name = "kernel"

    def __init__(self, spec: ModelSpec, data: TrainingData, settings: SgdSettings) -> None:
        self._kernel = LenetKernel(*spec.image_shape, spec.classes)
        self._images: Any = np.ascontiguousarray(data.images)
        self._labels = np.ascontiguousarray(data.labels)
        self._standard: dict[str, Any] = {"scale": data.scale, "shift": data.shift}
        self._settings: dict[str, Any] = {
            "batch": settings.batch,
            "momentum": settings.momentum,
            "weight_decay": settings.weight_decay,
            "clip_norm": settings.clip_norm,
        }
        self._cancelled = np.zeros(1, dtype=np.int32)
        self._make_torch = partial(TorchTrainer, spec, data, settings)
        self._torch: TorchTrainer | None = None
        self._warned_of: set[type] = set()
        self._lock = threading.Lock()

    def train(self, job: LocalJob, order: NDArray[np.int64], seen: Seen = PLAINLY) -> Trained:
        """Run a job over the given batch order `[epochs, n]`."""
        if order.size == 0:
            return Trained.untouched(job)
        try:
            trained = job.rule.with_kernel(_Job(self, job, order, seen))
        except KernelCancelled:
            raise TrainingCancelledError from None
        if trained is None:
            return self._torch_for(type(job.rule)).train(job, order, seen)
        return trained

    def call(
        self,
        function: Callable[..., Result],
        order: NDArray[np.int64],
        rate: float,
        arguments: dict[str, Any],
    ) -> Result:
        """Call a function of the kernel over a batch order; arguments override settings."""
        return function(
            self._kernel,
            self._images,
            self._labels,
            order,
            rate=rate,
            cancel=self._cancelled,
            **self._standard,
            **self._settings | arguments,
        )

    def batches(self, order: NDArray[np.int64]) -> int:
        """Return the number of batches in all epochs."""
        epochs, samples = order.shape
        return epochs * -(-samples // int(self._settings["batch"]))

    def evaluate(
        self, model: Vector, samples: NDArray[np.int64], offset: Vector | None = None
    ) -> tuple[int, float]:
        """Return how many samples are classified right, and the sum of their losses."""
        return self._kernel.evaluate(
            self._images,
            self._labels,
            samples,
            parameters=np.ascontiguousarray(model),
            offset=offset,
            **self._standard,
        )

    def cancel(self) -> None:
        """Make running and later jobs raise `TrainingCancelledError` soon."""
        with self._lock:
            self._cancelled[0] = 1
            if self._torch is not None:
                self._torch.cancel()

    def _torch_for(self, rule: type) -> TorchTrainer:
        """Return the trainer of jobs that the kernel cannot do; warn once of each rule."""
        with self._lock:
            if self._torch is None:
                self._torch = self._make_torch()
                if self._cancelled[0]:
                    self._torch.cancel()
            if rule not in self._warned_of:
                self._warned_of.add(rule)
                warnings.warn(
                    f"the kernel has no {rule.__name__}: PyTorch trains its jobs, several times "
                    "more slowly",
                    stacklevel=2,
                )
            return self._torch


class _Job:
    """A job as its rule sees it: `rules.KernelJob`."""

    def __init__(
        self, trainer: KernelTrainer, job: LocalJob, order: NDArray[np.int64], seen: Seen
    ) -> None:
        self.start, self.steps = job.start, trainer.batches(order)
        self._trainer, self._rate, self._order = trainer, job.rate, order
        self._seen = seen._asdict()

    def call(self, function: Callable[..., Result], **arguments: Any) -> Result:
        return self._trainer.call(function, self._order, self._rate, self._seen | arguments)
