"""FedProx: FedAvg with a proximal term in the local objective.

Li et al., "Federated Optimization in Heterogeneous Networks", 2020. Satellites minimise
F_k(w) + mu/2 |w - w_global|^2.

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
