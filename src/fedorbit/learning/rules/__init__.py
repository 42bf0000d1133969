"""Local rules, one per file: what a satellite does with its batches.

- `sgd.py`: SGD with an anchor that pulls, a correction of the gradient, and a part that moves.
- `coupled.py`: APFL's two models that learn through their mixture.

A new rule is one new file: a frozen dataclass derived from `Rule` (`base.py`) with `with_torch`.
Trainers and engines run and ship it as it is. Where rules come from a module outside this package,
every node of a Ray cluster must be able to import it.
"""

from fedorbit.learning.rules.base import KernelJob, Rule, TorchJob, Trained
from fedorbit.learning.rules.coupled import Coupled
from fedorbit.learning.rules.sgd import PLAIN, Sgd

__all__ = ["PLAIN", "Coupled", "KernelJob", "Rule", "Sgd", "TorchJob", "Trained"]
