"""A model is one flat float32 vector; a layout names its parts.

`features` and `classifier` are slices of the vector, `class_rows` the entries that belong to each
class: row c of the last layer's weight and entry c of its bias. Everything that aggregates models
works on such vectors and matrices `[n, P]` of them, and knows nothing about layers.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ModelError

if TYPE_CHECKING:  # PyTorch takes a second to import
    from torch import nn

Vector = NDArray[np.float32]
"""One model, `[P]`; as a stack of models, `[n, P]`."""


@dataclass(frozen=True)
class Parameter:
    """One tensor of a model and its place in the vector."""

    name: str
    shape: tuple[int, ...]
    begin: int

    @property
    def place(self) -> slice:
        """Where its values are in the vector."""
        return slice(self.begin, self.begin + int(np.prod(self.shape)))


@dataclass(frozen=True, eq=False)
class ParameterLayout:
    """Where the parts of a model are in its vector."""

    parameters: tuple[Parameter, ...]
    features: slice
    classifier: slice
    class_rows: NDArray[np.int64]
    """`[classes, width + 1]`: positions of each class's weights and bias."""

    @property
    def size(self) -> int:
        """Number of parameters, P."""
        return self.classifier.stop

    @property
    def shared_classifier(self) -> NDArray[np.int64]:
        """Positions in the classifier that belong to no class: all layers before the last."""
        inside = np.ones(self.size, dtype=bool)
        inside[self.features] = False
        inside[self.class_rows] = False
        return np.flatnonzero(inside)


def layout_of(model: nn.Module, classifier: str, classes: int) -> ParameterLayout:
    """Lay out a model whose classifier starts at the layer called `classifier`.

    The last layer must be linear with one row per class, as `eq:m_intra_classifier` needs it.
    """
    buffers = [name for name, _ in model.named_buffers()]
    if buffers:
        raise ModelError(
            f"the model keeps state outside its parameters ({buffers[0]}); "
            "aggregation would lose it; use GroupNorm instead of BatchNorm"
        )
    named = list(model.named_parameters())
    sizes = [parameter.numel() for _, parameter in named]
    begins = np.concatenate(([0], np.cumsum(sizes))).tolist()
    parameters = tuple(
        Parameter(name, tuple(tensor.shape), begin)
        for (name, tensor), begin in zip(named, begins[:-1], strict=True)
    )
    in_classifier = [p.name.startswith(f"{classifier}.") for p in parameters]
    if not any(in_classifier) or in_classifier[0]:
        layers = ", ".join(dict.fromkeys(p.name.rpartition(".")[0] for p in parameters[1:]))
        raise ModelError(
            f"model.classifier must name the first classifier layer, after at least one feature "
            f"layer, got {classifier!r}; layers are {layers}"
        )
    first = in_classifier.index(True)
    *_, weight, bias = parameters
    if weight.shape[:1] != (classes,) or len(weight.shape) != 2 or bias.shape != (classes,):
        raise ModelError(
            f"the model's last layer must be linear with bias and {classes} outputs, "
            f"got {weight.name} {weight.shape} and {bias.name} {bias.shape}"
        )
    width = weight.shape[1]
    rows = weight.begin + np.arange(classes * width).reshape(classes, width)
    biases = bias.begin + np.arange(classes)[:, None]
    assert all(p.place.stop == q.begin for p, q in pairwise(parameters))
    return ParameterLayout(
        parameters=parameters,
        features=slice(0, parameters[first].begin),
        classifier=slice(parameters[first].begin, begins[-1]),
        class_rows=np.concatenate((rows, biases), axis=1),
    )
