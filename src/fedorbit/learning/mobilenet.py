"""A small network of depthwise separable convolutions, after Howard et al., "MobileNets", 2017.

A 3x3 convolution, then blocks of a 3x3 convolution of every channel by itself and a 1x1 convolution
across channels, each with a normalisation and a ReLU; global mean, one linear layer. The widths are
the first ones of the paper times `multiplier`, and the resolution is halved before the second and
the fourth block. The paper's further layers are for images of 224 pixels.
"""

import torch
from torch import Tensor, nn

from fedorbit.learning.resnet import Norm, convolution, normalisation

FIRST = 32
BLOCKS = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1))
"""Channels and stride of each block, at multiplier 1."""


class MobileNet(nn.Module):
    """The classifier is `fc`, and all before it the feature extractor."""

    def __init__(
        self,
        height: int,
        width: int,
        channels: int,
        classes: int,
        *,
        multiplier: float = 0.5,
        norm: Norm = "group",
    ) -> None:
        super().__init__()
        if not 0 < multiplier <= 4:
            raise ValueError(f"multiplier must be above 0 and at most 4, got {multiplier}")
        inputs = _scaled(FIRST, multiplier)
        layers = [convolution(channels, inputs), normalisation(norm, inputs), nn.ReLU()]
        for wanted, stride in BLOCKS:
            outputs = _scaled(wanted, multiplier)
            across = nn.Conv2d(inputs, outputs, 1, bias=False)
            nn.init.kaiming_normal_(across.weight, nonlinearity="relu")
            layers += [
                convolution(inputs, inputs, stride, groups=inputs),
                normalisation(norm, inputs),
                nn.ReLU(),
                across,
                normalisation(norm, outputs),
                nn.ReLU(),
            ]
            inputs = outputs
        self.layers = nn.Sequential(*layers)
        self.fc = nn.Linear(inputs, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits `[n, classes]` of images `[n, channels, height, width]`."""
        logits: Tensor = self.fc(self.features(images))
        return logits

    def features(self, images: Tensor) -> Tensor:
        """Return what the classifier sees."""
        return torch.mean(self.layers(images), dim=(2, 3))


def _scaled(channels: int, multiplier: float) -> int:
    """Return a width in whole groups of four channels."""
    return max(4, 4 * round(channels * multiplier / 4))
