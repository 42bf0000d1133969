"""LocalSGD (`eq:local_sgd`), with an anchor, a correction and a part.

Per step, with g the gradient of the mean loss of the batch:
g <- g + pull (w - anchor) + correction; clipped to a global norm; weight decay added;
m <- momentum m + g; w <- w - rate m. The momentum m starts at zero in every job.

The pull is the gradient of pull/2 |w - anchor|^2. Values outside the part keep their bits: no
gradient, momentum or decay reaches them, and the norm is that of the part (`step.py`).
"""

from dataclasses import dataclass
from typing import final

from fedorbit.errors import ModelError
from fedorbit.learning.kernel import LenetKernel
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part, check_part, span_of
from fedorbit.learning.rules.base import KernelJob, Rule, TorchJob, Trained


@final
@dataclass(frozen=True, eq=False)
class Sgd(Rule):
    """SGD with momentum. `extra` is empty."""

    anchor: Vector | None = None
    """What the model is pulled toward: FedProx, Ditto."""
    pull: float = 0.0
    correction: Vector | None = None
    """A constant added to the gradient: SCAFFOLD."""
    part: Part | None = None
    """What moves, a slice or a mask; None: everything."""

    def __post_init__(self) -> None:
        if self.pull and self.anchor is None:
            raise ModelError(f"a pull of {self.pull} needs an anchor to pull toward, got None")
        if self.part is not None:
            check_part(self.part)

    def exchanged(self, size: int) -> int:
        """What moved: the rest is as it was at the start."""
        return span_of(self.part, size).count

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        w, step = job.tensor(job.start), job.step(self.part)
        anchor = job.tensor(self.anchor) if self.anchor is not None and self.pull else None
        correction = None if self.correction is None else job.tensor(self.correction)
        for batch in job.batches():
            gradient = job.gradient(w, batch)
            if anchor is not None:
                gradient.add_(w, alpha=self.pull).sub_(anchor, alpha=self.pull)
            if correction is not None:
                gradient.add_(correction)
            step(w, gradient)
        return Trained(job.vector(w), step.count)

    def with_kernel(self, job: KernelJob) -> Trained:
        """Train in C."""
        span = span_of(self.part, len(job.start))
        model = job.call(
            LenetKernel.train,
            start=job.start,
            anchor=self.anchor,
            pull=self.pull,
            correction=self.correction,
            begin=span.begin,
            end=span.end,
            mask=span.mask,
        )
        return Trained(model, job.steps)


PLAIN = Sgd()
"""LocalSGD and nothing else."""
