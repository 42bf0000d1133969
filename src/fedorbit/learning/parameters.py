"""A model is one flat float32 vector; a layout names its parts.

The vector holds what training changes, in this order: statistics such as the running means of
BatchNorm, which forward passes change, and the parameters that have a gradient. What training does
not change, such as frozen layers, is the same on all satellites and not part of the vector.

`features` and `classifier` are slices of the vector, `class_rows` the entries that belong to each
class: row c of the last layer's weight and entry c of its bias. Statistics count as features.
Everything that aggregates models works on such vectors and matrices `[n, P]` of them, and does not
depend on layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ModelError

if TYPE_CHECKING:  # PyTorch takes a second to import
    from torch import Tensor, nn

Vector = NDArray[np.float32]
"""One model, `[P]`; as a stack of models, `[n, P]`."""


@dataclass(frozen=True)
class Parameter:
    """One tensor of a model and its place in the vector."""

    name: str
    shape: tuple[int, ...]
    begin: int
    normalises: bool = False
    """True if it belongs to a normalisation layer."""

    @property
    def place(self) -> slice:
        """Slice of the vector that holds its values."""
        return slice(self.begin, self.begin + int(np.prod(self.shape)))


@dataclass(frozen=True, eq=False)
class ParameterLayout:
    """Positions of a model's parameters and buffers in its vector."""

    parameters: tuple[Parameter, ...]
    features: slice
    classifier: slice
    class_rows: NDArray[np.int64]
    """`[classes, width + 1]`: positions of each class's weights and bias."""
    buffers: tuple[Parameter, ...] = ()
    """Tensors that forward passes change: running means and variances."""

    @property
    def size(self) -> int:
        """Number of values, P."""
        return self.classifier.stop

    @property
    def statistics(self) -> slice:
        """Slice of the buffers: values that no gradient and no step moves."""
        return slice(0, self.buffers[-1].place.stop if self.buffers else 0)

    @property
    def normalisation(self) -> NDArray[np.bool_]:
        """Mask of the statistics, and of the parameters of normalisation layers."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[self.statistics] = True
        for parameter in self.parameters:
            mask[parameter.place] = parameter.normalises
        return mask

    @property
    def shared_classifier(self) -> NDArray[np.int64]:
        """Positions in the classifier that belong to no class: all layers before the last."""
        inside = np.ones(self.size, dtype=bool)
        inside[self.features] = False
        inside[self.class_rows] = False
        return np.flatnonzero(inside)


def layout_of(
    model: nn.Module, classifier: str, classes: int, carry_buffers: bool = True
) -> ParameterLayout:
    """Lay out a model whose classifier starts at the layer called `classifier`.

    The last layer must be linear with one row per class, as (4) of FedOrbit needs it.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    norms = {name for name, layer in model.named_modules() if _normalises(layer)}
    buffers = _placed(changing_buffers(model) if carry_buffers else (), 0, norms)
    parameters = _placed(named, buffers[-1].place.stop if buffers else 0, norms)
    names = [name for name, _ in model.named_parameters()]  # frozen ones, too
    first = next((n for n, name in enumerate(names) if name.startswith(f"{classifier}.")), 0)
    if first == 0:
        layers = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in names[1:]))
        raise ModelError(
            f"model.classifier must name the first classifier layer, after at least one feature "
            f"layer, got {classifier!r}; layers are {layers}"
        )
    of_classifier = [p for p in parameters if p.name in names[first:]]
    last = of_classifier[-2:]
    if [p.shape[:1] for p in last] != [(classes,)] * 2 or [len(p.shape) for p in last] != [2, 1]:
        got = " and ".join(f"{p.name} {p.shape}" for p in last) or "none"
        raise ModelError(
            f"the model's last layer must be linear with bias and {classes} outputs, and not "
            f"frozen, got {got}"
        )
    weight, bias = last
    width = weight.shape[1]
    rows = weight.begin + np.arange(classes * width).reshape(classes, width)
    biases = bias.begin + np.arange(classes)[:, None]
    return ParameterLayout(
        parameters=parameters,
        features=slice(0, of_classifier[0].begin),
        classifier=slice(of_classifier[0].begin, bias.place.stop),
        class_rows=np.concatenate((rows, biases), axis=1),
        buffers=buffers,
    )


def _normalises(layer: nn.Module) -> bool:
    """Return whether a layer's scales and shifts belong to a client's distribution (FedBN)."""
    from torch import nn

    norms = (nn.modules.batchnorm._NormBase, nn.GroupNorm, nn.LayerNorm, nn.RMSNorm)
    return isinstance(layer, norms)


def changing_buffers(model: nn.Module) -> list[tuple[str, Tensor]]:
    """Return the buffers that a model learns in: of real numbers, and kept in its state.

    Counters, masks and tables are left out: each job starts with their first values.
    """
    kept = model.state_dict().keys()
    return [(n, b) for n, b in model.named_buffers() if n in kept and b.is_floating_point()]


def matching(names: Sequence[str], patterns: Iterable[str], setting: str) -> set[str]:
    """Return the names that match shell patterns such as `features.*`, each of which must match."""
    found: set[str] = set()
    for pattern in patterns:
        these = {name for name in names if fnmatchcase(name, pattern)}
        if not these:
            raise ModelError(
                f"{setting} has {pattern!r}, which matches none of the model's tensors: "
                f"{', '.join(names)}"
            )
        found |= these
    return found


def _placed(
    tensors: Iterable[tuple[str, Tensor]], begin: int, norms: set[str]
) -> tuple[Parameter, ...]:
    """Give tensors their places, one after the other; `norms` names the normalisation layers."""
    placed: list[Parameter] = []
    for name, tensor in tensors:
        normalises = name.rpartition(".")[0] in norms
        placed.append(Parameter(name, tuple(tensor.shape), begin, normalises))
        begin = placed[-1].place.stop
    return tuple(placed)
