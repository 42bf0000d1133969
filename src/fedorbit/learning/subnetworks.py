"""Sub-networks of LeNet: fewer channels in every hidden layer, as a mask over the vector.

The hidden layers of a sub-network of width r keep ceil(r w) of their w channels, a block that may
begin anywhere and wraps around; inputs and classes are kept whole. A weight belongs to it if both
of its channels do. LeNet has no normalisation: a channel whose weights and bias are zero outputs
zero and has no effect, so training the masked network is training the smaller one. It needs no
shapes of its own, in PyTorch or in the kernel.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from fedorbit.errors import ModelError
from fedorbit.learning.lenet_shape import (
    CONV1_WIDTH,
    CONV2_WIDTH,
    FC1_WIDTH,
    FC2_WIDTH,
    KERNEL,
    POOL,
)
from fedorbit.learning.parameters import Parameter, ParameterLayout
from fedorbit.learning.parts import Mask

HIDDEN = (CONV1_WIDTH, CONV2_WIDTH, FC1_WIDTH, FC2_WIDTH)
"""Channels of the hidden layers, w."""
LAYERS = ("conv1", "conv2", "fc1", "fc2", "fc3")
NAMES = tuple(f"{layer}.{kind}" for layer in LAYERS for kind in ("weight", "bias"))
"""Names of the parameters of LeNet, which identify its layout."""
ROUNDING = 1e-9
"""0.1 of 120 channels are 12, whatever 0.1 is in binary."""


def kept_channels(width: float) -> tuple[int, ...]:
    """Return how many channels of each hidden layer a sub-network of this width has."""
    if not 0 < width <= 1:
        raise ModelError(f"the width of a sub-network must be above 0 and at most 1, got {width}")
    return tuple(math.ceil(width * channels - ROUNDING) for channels in HIDDEN)


def subnetwork_mask(
    layout: ParameterLayout, width: float, starts: Sequence[int] = (0, 0, 0, 0)
) -> Mask:
    """Return the mask of a sub-network; `starts`: where the block of each hidden layer begins."""
    _require_lenet(layout)
    weights, biases = layout.parameters[::2], layout.parameters[1::2]
    blocks = [
        (np.arange(channels) - start) % channels < kept
        for channels, kept, start in zip(HIDDEN, kept_channels(width), starts, strict=True)
    ]
    inputs = [np.ones(weights[0].shape[1], dtype=np.bool_), *blocks]
    outputs = [*blocks, np.ones(weights[-1].shape[0], dtype=np.bool_)]
    mask = np.empty(layout.size, dtype=np.bool_)
    for weight, bias, out, into in zip(weights, biases, outputs, inputs, strict=True):
        mask[weight.place] = _of_weight(weight, out, into).ravel()
        mask[bias.place] = out
    return mask


@lru_cache(maxsize=64)
def subnetwork_size(layout: ParameterLayout, width: float) -> int:
    """Return the number of parameters of a sub-network, P(r): about r^2 P."""
    return int(np.count_nonzero(subnetwork_mask(layout, width)))


def activations(layout: ParameterLayout, width: float) -> int:
    """Return the number of values that the layers of a sub-network output for one image.

    Outputs are counted before pooling. The layout has only the size of the last feature map: the
    smallest square image that leads to it is assumed.
    """
    _require_lenet(layout)
    pooled = math.sqrt(layout.parameters[4].shape[1] // CONV2_WIDTH)
    second = POOL * pooled
    first = POOL * (second + KERNEL - 1)
    conv1, conv2, *dense = kept_channels(width)
    classes = len(layout.class_rows)
    return round(first**2 * conv1 + second**2 * conv2) + sum(dense) + classes


def _of_weight(weight: Parameter, out: Mask, into: Mask) -> Mask:
    """Return which values of a weight `[out, in]` or `[out, in, height, width]` are kept."""
    positions = weight.shape[1] // len(into)  # of the feature map, whose channels come last
    kept = out[:, None] & np.tile(into, positions)
    extra = (1,) * (len(weight.shape) - 2)
    return np.broadcast_to(kept.reshape(kept.shape + extra), weight.shape)


def _require_lenet(layout: ParameterLayout) -> None:
    """Refuse the layout of another model."""
    shapes = {parameter.name: parameter.shape for parameter in layout.parameters}
    widths = [shapes[name][:1] for name in NAMES[:-2] if name in shapes]
    if tuple(shapes) != NAMES or widths != [(w,) for w in HIDDEN for _ in range(2)]:
        raise ModelError(
            "sub-networks are made of LeNet alone, and this is another model: set model.name to "
            '"lenet", or let all satellites have a width of 1'
        )
