"""Per-FedAvg's local update (Fallah et al. 2020): SGD on the loss after one step of adaptation.

A client i minimises F_i(w) = f_i(w - alpha grad f_i(w)), whose gradient is
grad F_i(w) = (I - alpha H_i(w)) grad f_i(w - alpha grad f_i(w)), with H_i the Hessian of f_i. Batch
s of an epoch is D', the next one of the same epoch is D, and after the last comes the first; an
epoch of one batch has it as both. Per step, C being the clip norm of the run:

    (1)  x = w - alpha clip(grad f(w; D), C),  the look-ahead, without momentum or decay
    (2)  v = grad f(x; D')
    (3)  first order (FO):   g = v
         Hessian-free (HF):  g = v - alpha |v| [grad f(w + r e; D) - grad f(w - r e; D)] / (2 r),
                             e = v / |v|
    (4)  the step of `sgd.py` with g, at w

HF's difference of two raw gradients is 2 r H(w; D) e up to O(r^3), and exact where f is quadratic.
Its reach r is a length in the space of models and not a multiple of v: in single precision a
difference over a short v would be rounding and nothing else. A v of zero leaves g = v.

There are as many steps as with SGD, and alpha = 0 is SGD to the last bit. The paper draws a third
batch D'' for the Hessian; here it is D.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

from fedorbit.learning.kernel import LenetKernel
from fedorbit.learning.rules.base import Batch, KernelJob, Rule, TorchJob, Trained
from fedorbit.learning.rules.checks import check_above, check_at_least
from fedorbit.learning.rules.step import clip

if TYPE_CHECKING:  # PyTorch takes a second to import
    from torch import Tensor


@final
@dataclass(frozen=True, eq=False)
class Maml(Rule):
    """SGD that looks ahead. `extra` is empty."""

    alpha: float
    """Rate of the look-ahead."""
    hessian: bool = False
    """True keeps the Hessian's term (HF), False leaves it out (FO)."""
    radius: float = 0.01
    """r: distance from w at which the gradients of the Hessian's term are taken."""

    def __post_init__(self) -> None:
        check_at_least("Maml", 0, alpha=self.alpha)
        check_above("Maml", 0, radius=self.radius)

    @property
    def passes(self) -> int:
        """Gradients at w and ahead of it, and with the Hessian one to either side of w."""
        if self.alpha == 0:
            return 1
        return 4 if self.hessian else 2

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        w, step = job.tensor(job.start), job.step()
        for batch, following in _pairs(job):
            step(w, self._gradient(job, w, batch, following))
        return Trained(job.vector(w), step.count)

    def with_kernel(self, job: KernelJob) -> Trained:
        """Train in C."""
        radius = self.radius if self.hessian else 0.0
        model = job.call(LenetKernel.train, start=job.start, ahead=self.alpha, radius=radius)
        return Trained(model, job.steps)

    def _gradient(self, job: TorchJob, w: Tensor, batch: Batch, following: Batch) -> Tensor:
        if self.alpha == 0:
            return job.gradient(w, batch)
        step = clip(job.gradient(w, following), job.settings.clip_norm)
        v = job.gradient(w.sub(step, alpha=self.alpha), batch)
        return self._less_curvature(job, w, v, following) if self.hessian else v

    def _less_curvature(self, job: TorchJob, w: Tensor, v: Tensor, batch: Batch) -> Tensor:
        """v - alpha H(w; batch) v, in place."""
        import torch

        norm = float(torch.linalg.vector_norm(v))
        if not norm > 0:
            return v
        there = job.gradient(w.add(v, alpha=self.radius / norm), batch)
        back = job.gradient(w.sub(v, alpha=self.radius / norm), batch)
        return v.sub_(there.sub_(back), alpha=self.alpha * norm / (2 * self.radius))


def _pairs(job: TorchJob) -> Iterator[tuple[Batch, Batch]]:
    """Each batch with the next one of its epoch. Each is gathered once."""
    (epochs, samples), size = job.order.shape, job.settings.batch
    for epoch in range(epochs if samples >= job.least_batch else 0):
        first = batch = job.batch(epoch, 0)
        for begin in range(size, samples - job.least_batch + 1, size):
            following = job.batch(epoch, begin)
            yield batch, following
            batch = following
        yield batch, first
