"""APFL's coupled update of two models.

Per batch, all from the values before it, with vbar = alpha v + (1 - alpha) w:

    (1)  w steps with grad f(w)
    (2)  v steps with alpha grad f(vbar)
    (3)  alpha <- alpha - rate <grad f(vbar), v - w>, kept in [0, 1]

A step is (2) and (3) of `sgd.py`, with a momentum for each of the two models.
"""

import math
from dataclasses import dataclass
from typing import Any, final

from fedorbit.learning.kernel import LenetKernel
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules.base import KernelJob, Rule, TorchJob, Trained


@final
@dataclass(frozen=True, eq=False)
class Coupled(Rule):
    """The job's start is w. `extra` has the trained `personal` (v) and `alpha`."""

    personal: Vector
    alpha: float

    @property
    def passes(self) -> int:
        """Both models need a gradient of every batch."""
        return 2

    def exchanged(self, size: int) -> int:
        """Both models."""
        return 2 * size

    def untouched(self) -> dict[str, Any]:
        """Both as they were."""
        return _extra(self.personal.copy(), self.alpha)

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        w, v, alpha = job.tensor(job.start), job.tensor(self.personal), self.alpha
        step_w, step_v = job.step(), job.step()
        for batch in job.batches():
            gradient_w = job.gradient(w, batch)
            mixed = w.lerp(v, alpha)
            gradient_mixed = job.gradient(mixed, batch)
            v[job.statistics] = mixed[job.statistics]  # those of the model that v is used in
            slope = float(gradient_mixed.dot(v - w))
            step_w(w, gradient_w)
            step_v(v, gradient_mixed.mul_(alpha))
            if math.isfinite(slope):  # a model that has diverged gives no slope
                alpha = min(max(alpha - job.rate * slope, 0.0), 1.0)
        return Trained(job.vector(w), step_w.count, _extra(job.vector(v), alpha))

    def with_kernel(self, job: KernelJob) -> Trained:
        """Train in C."""
        w, v, alpha = job.call(
            LenetKernel.train_apfl, w=job.start, v=self.personal, alpha=self.alpha
        )
        return Trained(w, job.steps, _extra(v, alpha))


def _extra(personal: Vector, alpha: float) -> dict[str, Any]:
    return {"personal": personal, "alpha": alpha}
