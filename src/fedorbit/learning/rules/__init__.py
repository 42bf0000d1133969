"""Local rules, one per file: what a satellite does with its batches.

- `sgd.py`: SGD with an anchor that pulls, a correction of the gradient, and a part that moves.
- `coupled.py`: APFL's two models that learn through their mixture.
- `moreau.py`: pFedMe's model that is held near an anchor, and an anchor that follows it.
- `maml.py`: Per-FedAvg's gradient after a step of adaptation.
- `loss.py`: no update: the loss of a model, which a satellite may report.

A new rule is one new file: a frozen dataclass derived from `Rule` (`base.py`) with `with_torch`.
Trainers and engines run and ship it as it is. Where rules come from a module outside this package,
every node of a Ray cluster must be able to import it.
"""

from fedorbit.learning.rules.base import Batch, KernelJob, Outputs, Rule, TorchJob, Trained
from fedorbit.learning.rules.coupled import Coupled
from fedorbit.learning.rules.loss import Loss
from fedorbit.learning.rules.maml import Maml
from fedorbit.learning.rules.moreau import Moreau
from fedorbit.learning.rules.sgd import PLAIN, Sgd

__all__ = [
    "PLAIN",
    "Batch",
    "Coupled",
    "KernelJob",
    "Loss",
    "Maml",
    "Moreau",
    "Outputs",
    "Rule",
    "Sgd",
    "TorchJob",
    "Trained",
]
