"""Random images and networks for the kernel, and the same network in PyTorch."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from fedorbit.learning.kernel import LenetKernel, available, unavailable_reason

needs_kernel = pytest.mark.skipif(not available(), reason=unavailable_reason())

SGD = {"batch": 5, "rate": 0.05, "momentum": 0.9, "weight_decay": 5e-3, "clip_norm": 0.5}


class Reference(nn.Module):
    """The model of the kernel, in PyTorch."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        side_h, side_w = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        self.fc1 = nn.Linear(16 * side_h * side_w, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(functional.max_pool2d(self.conv1(x), 2))
        x = torch.relu(functional.max_pool2d(self.conv2(x), 2))
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))

    def load(self, vector: NDArray[np.float32]) -> None:
        nn.utils.vector_to_parameters(
            torch.from_numpy(vector).to(next(self.parameters()).dtype), self.parameters()
        )

    def vector(self) -> NDArray[np.float32]:
        return nn.utils.parameters_to_vector(self.parameters()).detach().float().numpy()


@dataclass
class Case:
    """Random images, labels and parameters, and the kernel and the reference for them."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    parameters: NDArray[np.float32]
    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    kernel: LenetKernel
    reference: Reference

    def inputs(self, indices: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.images[indices].astype(np.float32) * self.scale + self.shift
        dtype = next(self.reference.parameters()).dtype
        return torch.from_numpy(x).permute(0, 3, 1, 2).to(dtype), torch.from_numpy(
            self.labels[indices]
        )

    def torch_gradient(self, indices: NDArray[np.int64]) -> tuple[list[NDArray[Any]], float]:
        x, y = self.inputs(indices)
        loss = functional.cross_entropy(self.reference(x), y)
        self.reference.zero_grad()
        loss.backward()
        return [p.grad.numpy().ravel() for p in self.reference.parameters()], loss.item()

    def standardised(self) -> dict[str, Any]:
        return {"scale": self.scale, "shift": self.shift}


def make_case(
    height: int = 18,
    width: int = 20,
    channels: int = 3,
    classes: int = 5,
    samples: int = 12,
    dtype: type = np.uint8,
    precision: torch.dtype = torch.float64,
    seed: int = 0,
) -> Case:
    rng = np.random.default_rng([seed, height, width, channels, classes])
    torch.manual_seed(int(rng.integers(2**31)))
    reference = Reference(height, width, channels, classes)
    parameters = reference.vector()
    reference.to(precision)
    shape = (samples, height, width, channels)
    if dtype is np.uint8:
        images = rng.integers(0, 256, shape, dtype=np.uint8)
        scale, shift = rng.uniform(0.01, 0.02, channels), rng.uniform(-3, -1, channels)
    else:
        images = rng.normal(size=shape).astype(dtype)
        scale, shift = rng.uniform(0.5, 2, channels), rng.uniform(-1, 1, channels)
    return Case(
        images=images,
        labels=rng.integers(0, classes, samples),
        parameters=parameters,
        scale=scale.astype(np.float32),
        shift=shift.astype(np.float32),
        kernel=LenetKernel(height, width, channels, classes),
        reference=reference,
    )
