"""FedProx: FedAvg with a proximal term in the local objective.

Li et al., "Federated Optimization in Heterogeneous Networks", 2020.

    (1)  y_k = LocalSGD of F_k(y) + mu/2 |y - w|^2 from w;  y_l and w as in FedAvg, (2) and (3)

Departures: none. The proximal gradient is part of the gradient that is clipped.
"""

from pydantic import Field

from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Rule, Sgd
from fedorbit.methods.fedavg import FedAvg


class FedProx(FedAvg):
    """FedAvg whose local models are pulled toward the global one."""

    mu: float = Field(0.01, ge=0, description="strength of the proximal term")

    def local(self, w: Vector) -> Rule:
        """Pull toward the global model."""
        return Sgd(anchor=w, pull=self.mu)
