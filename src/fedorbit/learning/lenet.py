"""LeNet for any input size: the paper's on-board model.

conv 5x5 -> 6, pool, conv 5x5 -> 16, pool, fc 120, fc 84, fc C. The pools come before the ReLUs:
max and ReLU commute, and the ReLU then has a quarter of the work. Features are flattened in the
order height, width, channel, which for images in channels-last memory is a view and not a copy.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedorbit.learning.lenet_shape import (
    CONV1_WIDTH,
    CONV2_WIDTH,
    FC1_WIDTH,
    FC2_WIDTH,
    KERNEL,
    POOL,
    SMALLEST_SIDE,
    pooled,
)


class LeNet(nn.Module):
    """The classifier starts at `fc2`; `conv1`, `conv2` and `fc1` are the feature extractor."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        if min(height, width) < SMALLEST_SIDE:
            raise ValueError(
                f"LeNet needs images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels, "
                f"got {height} x {width}"
            )
        self.conv1 = nn.Conv2d(channels, CONV1_WIDTH, KERNEL)
        self.conv2 = nn.Conv2d(CONV1_WIDTH, CONV2_WIDTH, KERNEL)
        self.fc1 = nn.Linear(CONV2_WIDTH * pooled(height) * pooled(width), FC1_WIDTH)
        self.fc2 = nn.Linear(FC1_WIDTH, FC2_WIDTH)
        self.fc3 = nn.Linear(FC2_WIDTH, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits `[n, classes]` of images `[n, channels, height, width]`."""
        x = torch.relu(functional.max_pool2d(self.conv1(images), POOL))
        x = torch.relu(functional.max_pool2d(self.conv2(x), POOL))
        x = x.permute(0, 2, 3, 1).flatten(1)
        x = torch.relu(self.fc1(x))
        x = torch.relu(self.fc2(x))
        logits: Tensor = self.fc3(x)
        return logits
