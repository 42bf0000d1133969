"""A local rule with a loss of its own: satellites distil the model that they received.

    cross-entropy + weight T^2 KL(p_T(teacher) | p_T(student))

with p_T the softmax at temperature T and the global model as teacher: FedGKD with a memory of one
model (Yao et al., "Local-Global Knowledge Distillation in Heterogeneous Federated Learning", 2021).
Run it from the folder of this file, beside FedAvg:

    fedorbit run -o 'run.method=["fedavg", "distillation:FedDistil"]'
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy, kl_div, log_softmax

from fedorbit.learning.rules import Batch, Outputs, Rule, TorchJob, Trained
from fedorbit.methods.fedavg import FedAvg


@dataclass(frozen=True, eq=False)
class Distil(Rule):
    """SGD toward the labels and toward what a teacher says."""

    teacher: np.ndarray
    weight: float
    temperature: float
    passes = 2  # the teacher's forward pass counts as a gradient

    def with_torch(self, job: TorchJob) -> Trained:
        """Train in PyTorch."""
        w, step, teacher = job.tensor(job.start), job.step(), job.tensor(self.teacher)
        for batch in job.batches():
            said = job.outputs(teacher, batch).logits
            step(w, job.gradient(w, batch, partial(self.loss, batch, said)))
        return Trained(job.vector(w), step.count)

    def loss(self, batch: Batch, said: Tensor, made: Outputs) -> Tensor:
        """Return the loss of what the model makes of a batch."""
        student, teacher = (log_softmax(x / self.temperature, dim=1) for x in (made.logits, said))
        apart = kl_div(student, teacher, reduction="batchmean", log_target=True)
        return cross_entropy(made.logits, batch.labels) + self.weight * self.temperature**2 * apart


class FedDistil(FedAvg):
    """FedAvg whose satellites do not forget what the global model knows."""

    weight: float = Field(0.5, ge=0, description="of the distillation")
    temperature: float = Field(2.0, gt=0, description="T")

    def local(self, w: np.ndarray) -> Rule:
        """Distil the global model."""
        return Distil(w, self.weight, self.temperature)
