"""A rule that is not part of fedorbit: all that one has to write."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from fedorbit.learning.rules import Rule, TorchJob, Trained


@dataclass(frozen=True, eq=False)
class SignSgd(Rule):
    """Steps by the sign of the gradient, each value at a scale of its own.

    `extra` has `mean`, the mean of the gradients.
    """

    scales: NDArray[np.float32]

    def untouched(self) -> dict[str, object]:
        return {"mean": np.zeros_like(self.scales)}

    def with_torch(self, job: TorchJob) -> Trained:
        w, scales, steps = job.tensor(job.start), job.tensor(self.scales), 0
        total = torch.zeros_like(w)
        for batch in job.batches():
            gradient = job.gradient(w, batch)
            total += gradient
            w -= job.rate * scales * gradient.sign()
            steps += 1
        return Trained(job.vector(w), steps, {"mean": job.vector(total / steps)})
