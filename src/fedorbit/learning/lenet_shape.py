"""Sizes of LeNet's layers, without PyTorch, which takes a second to import."""

CONV1_WIDTH, CONV2_WIDTH, FC1_WIDTH, FC2_WIDTH = 6, 16, 120, 84
KERNEL, POOL = 5, 2
SMALLEST_SIDE = 16
"""Below this, nothing is left after two convolutions and pools."""


def pooled(side: int) -> int:
    """Side of the feature map after two convolutions and pools."""
    return ((side - KERNEL + 1) // POOL - KERNEL + 1) // POOL
