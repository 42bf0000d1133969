"""pFedMe's local update (Dinh et al. 2020): gradient steps on a Moreau envelope.

A client i has a personal model theta and a local model w_i of its own, the anchor here. The
envelope of its loss is F_i(w) = min over theta of f_i(theta) + lambda/2 |theta - w|^2, and
grad F_i(w) = lambda (w - theta(w)). Per batch D:

    (1)  K times:  g = clip(grad f(theta; D) + lambda (theta - w_i), C) + decay theta,
                   m <- momentum m + g,  theta <- theta - rate m
    (2)  then:     w_i <- w_i - eta_w lambda (w_i - theta) = w_i + kappa (theta - w_i)

with K = `repeats`, lambda = `pull` and kappa = eta_w lambda = `follow`. theta begins at the job's
start and is kept from batch to batch, as in the authors' code.

The whole sum is clipped. At a minimum it is zero, so that clipping leaves minima where they are;
clipping grad f alone would bound |theta - w_i| by C / lambda. The weight decay is that of the run,
and acts on theta only. The momentum m starts at zero in every job; the paper has none.
"""

from dataclasses import dataclass, replace
from typing import Any, final

from fedorbit.learning.kernel import LenetKernel
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules.base import KernelJob, Rule, TorchJob, Trained
from fedorbit.learning.rules.checks import check_at_least, check_momentum, check_share


@final
@dataclass(frozen=True, eq=False)
class Moreau(Rule):
    """The model is theta, from the job's start. `extra` has the `anchor` at the end (w_i)."""

    anchor: Vector
    """First value of w_i; the rule moves a copy of it."""
    pull: float
    """lambda: strength of the pull of theta toward the anchor."""
    repeats: int
    """K: steps with each batch."""
    follow: float
    """kappa: share of the way to theta that the anchor moves after each batch."""
    momentum: float = 0.0
    """Momentum of theta's steps, instead of the run's."""

    def __post_init__(self) -> None:
        check_at_least("Moreau", 0, pull=self.pull)
        check_at_least("Moreau", 1, repeats=self.repeats)
        check_share("Moreau", follow=self.follow)
        check_momentum("Moreau", self.momentum)

    @property
    def passes(self) -> int:
        """One gradient per step, with `repeats` steps per batch."""
        return self.repeats

    def exchanged(self, size: int) -> int:
        """Return the number of values of theta and the anchor together."""
        return 2 * size

    def untouched(self) -> dict[str, Any]:
        """Return a copy of the anchor as it was."""
        return {"anchor": self.anchor.copy()}

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        theta, anchor = job.tensor(job.start), job.tensor(self.anchor)
        step = job.step(settings=replace(job.settings, momentum=self.momentum))
        for batch in job.batches():
            for _ in range(self.repeats):
                gradient = job.gradient(theta, batch)
                step(theta, gradient.add_(theta - anchor, alpha=self.pull))
            anchor = anchor.lerp(theta, self.follow)
        return Trained(job.vector(theta), step.count, {"anchor": job.vector(anchor)})

    def with_kernel(self, job: KernelJob) -> Trained:
        """Train in C."""
        anchor = self.anchor.copy()
        theta = job.call(
            LenetKernel.train,
            start=job.start,
            anchor=self.anchor,
            pull=self.pull,
            repeats=self.repeats,
            follow=self.follow,
            anchor_out=anchor,
            momentum=self.momentum,
        )
        return Trained(theta, job.steps * self.repeats, {"anchor": anchor})
