"""LocalSGD: mini-batch SGD with momentum, with an anchor, a correction and a part.

Each epoch shuffles the samples. Per batch D, with f the mean loss over it, and C the clip norm:

    (1)  g = grad f(w; D) + pull (w - anchor) + correction
    (2)  g <- clip(g, C) + decay w,  clip(g, C) = g min(1, C / |g|)
    (3)  m <- momentum m + g,  w <- w - rate m

The momentum m starts at zero in every job. The pull is the gradient of pull/2 |w - anchor|^2.
Values outside the part keep their bits: no gradient, momentum or decay reaches them, and the norm
is that of the part (`step.py`, which has Adam and AdamW instead of (3), too).
"""

from dataclasses import dataclass, replace
from typing import Any, final

from fedorbit.errors import ModelError
from fedorbit.learning.kernel import LenetKernel
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part, check_part, span_of
from fedorbit.learning.rules.base import KernelJob, Rule, TorchJob, Trained
from fedorbit.learning.rules.checks import check_at_least, check_momentum, check_share


@final
@dataclass(frozen=True, eq=False)
class Sgd(Rule):
    """SGD with momentum. `extra` is empty."""

    anchor: Vector | None = None
    """Model that the weights are pulled toward: FedProx, Ditto."""
    pull: float = 0.0
    """Strength of the pull toward the anchor."""
    correction: Vector | None = None
    """A constant added to the gradient: SCAFFOLD."""
    part: Part | None = None
    """Part of the model that moves, a slice or a mask; None: the whole model."""
    momentum: float | None = None
    """Momentum instead of the run's; None: the run's."""
    weight_decay: float | None = None
    """Weight decay instead of the run's; None: the run's."""
    work: float = 1.0
    """Share of the whole model's computing that a gradient takes. Below 1 for a part that is a
    network of its own; a part above frozen layers still needs their forward pass."""

    def __post_init__(self) -> None:
        if self.pull and self.anchor is None:
            raise ModelError(f"a pull of {self.pull} needs an anchor to pull toward, got None")
        if self.part is not None:
            check_part(self.part)
        if self.momentum is not None:
            check_momentum("Sgd", self.momentum)
        if self.weight_decay is not None:
            check_at_least("Sgd", 0, weight_decay=self.weight_decay)
        check_share("Sgd", work=self.work)

    def exchanged(self, size: int) -> int:
        """Return the number of values in the part that moves; the rest equals the start."""
        return span_of(self.part, size).count

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        w = job.tensor(job.start)
        step = job.step(self.part, settings=replace(job.settings, **self._own_settings()))
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
            **self._own_settings(),
        )
        return Trained(model, job.steps)

    def _own_settings(self) -> dict[str, Any]:
        """Return the settings that replace those of the run."""
        own = {"momentum": self.momentum, "weight_decay": self.weight_decay}
        return {name: value for name, value in own.items() if value is not None}


PLAIN = Sgd()
"""LocalSGD and nothing else."""
