"""No training: the mean loss of a model on samples of a satellite, which it may report.

A job of its own, with the samples that its `samples` allows. Booked like training: as one pass,
although no gradient is taken.
"""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.kernel import CancelFlag, Images, LenetKernel
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules.base import KernelJob, Rule, TorchJob, Trained


@final
@dataclass(frozen=True, eq=False)
class Loss(Rule):
    """The model stays as it is. `extra` has the mean `loss`; NaN without a sample."""

    def exchanged(self, size: int) -> int:
        """Return 1: the loss alone."""
        return 1

    def untouched(self) -> dict[str, Any]:
        """Return a loss of NaN: it is not known."""
        return {"loss": math.nan}

    def with_torch(self, job: TorchJob) -> Trained:
        """Evaluate in PyTorch."""
        point, total, (epochs, samples) = job.tensor(job.start), 0.0, job.order.shape
        for epoch in range(epochs):  # not job.batches(), which may leave out a last single image
            for begin in range(0, samples, job.settings.batch):
                batch = job.batch(epoch, begin, plainly=True)
                total += job.loss(point, batch) * len(batch.labels)
        return Trained(job.start.copy(), 0, {"loss": total / job.order.size})

    def with_kernel(self, job: KernelJob) -> Trained:
        """Evaluate in C."""
        return Trained(job.start.copy(), 0, {"loss": job.call(_mean_loss, start=job.start)})


def _mean_loss(
    kernel: LenetKernel,
    images: Images,
    labels: NDArray[np.int64],
    order: NDArray[np.int64],
    *,
    start: Vector,
    scale: Vector,
    shift: Vector,
    offset: Vector | None,
    cancel: CancelFlag,
    **settings: Any,
) -> float:
    """Return the mean loss of samples as they are; `settings` of training are not used."""
    _, total = kernel.evaluate(
        images,
        labels,
        order.ravel(),
        parameters=start,
        scale=scale,
        shift=shift,
        offset=offset,
        cancel=cancel,
    )
    return total / order.size
