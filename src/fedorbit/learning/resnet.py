"""Residual networks for small images, after He et al., "Deep Residual Learning", 2016, section 4.2.

A 3x3 convolution, then three stages of n blocks with w, 2 w and 4 w channels, the second and third
at half the resolution of the one before; global mean, one linear layer. The depth is 6 n + 2, such
as 8, 14 or 20; w is `base`. Where a block changes the shape, its shortcut takes every second pixel
and fills new channels with zeros (option A of the paper), which has no parameters.

GroupNorm by default: it has no statistics, which satellites with different classes would disagree
about (Hsieh et al., "The Non-IID Data Quagmire", 2020). `norm = "batch"` is the paper's.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

Norm = Literal["group", "batch"]
GROUP_CHANNELS = 8
"""Channels of a group, or fewer where the width is no multiple of it."""


class ResNet(nn.Module):
    """The classifier is `fc`, and all before it the feature extractor."""

    def __init__(
        self,
        height: int,
        width: int,
        channels: int,
        classes: int,
        *,
        depth: int = 8,
        base: int = 16,
        norm: Norm = "group",
    ) -> None:
        super().__init__()
        blocks, rest = divmod(depth - 2, 6)
        if rest or blocks < 1:
            raise ValueError(f"depth must be 8, 14, 20 or another 6 n + 2, got {depth}")
        self.conv = convolution(channels, base)
        self.norm = normalisation(norm, base)
        stages = []
        inputs = base
        for outputs in (base, 2 * base, 4 * base):
            for number in range(blocks):
                stride = 2 if number == 0 and outputs != base else 1
                stages.append(Block(inputs, outputs, stride, norm))
                inputs = outputs
        self.blocks = nn.Sequential(*stages)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits `[n, classes]` of images `[n, channels, height, width]`."""
        logits: Tensor = self.fc(self.features(images))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """Return what the classifier sees, `[n, 4 base]`."""
        x = torch.relu(self.norm(self.conv(images)))
        mean: Tensor = self.blocks(x).mean(dim=(2, 3))
        return mean


class Block(nn.Module):
    """Two convolutions beside a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int, norm: Norm) -> None:
        super().__init__()
        self.stride, self.new_channels = stride, outputs - inputs
        self.conv1, self.norm1 = convolution(inputs, outputs, stride), normalisation(norm, outputs)
        self.conv2, self.norm2 = convolution(outputs, outputs), normalisation(norm, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, before which comes its last ReLU."""
        y = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        shortcut = x[:, :, :: self.stride, :: self.stride]
        if self.new_channels:
            shortcut = functional.pad(shortcut, (0, 0, 0, 0, 0, self.new_channels))
        return torch.relu(y + shortcut)


def convolution(inputs: int, outputs: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    """Return a 3x3 convolution without bias: a normalisation follows."""
    layer = nn.Conv2d(inputs, outputs, 3, stride, padding=1, groups=groups, bias=False)
    nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
    return layer


def normalisation(norm: Norm, channels: int) -> nn.Module:
    """Return a normalisation of so many channels."""
    if norm == "batch":
        return nn.BatchNorm2d(channels)
    if norm != "group":
        raise ValueError(f'norm must be "group" or "batch", got {norm!r}')
    size = next(n for n in range(GROUP_CHANNELS, 0, -1) if channels % n == 0)
    return nn.GroupNorm(channels // size, channels)
