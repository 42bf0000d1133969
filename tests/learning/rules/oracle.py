"""Losses, gradients and steps in double precision, by autograd and NumPy alone."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from fedorbit.learning.jobs import SgdSettings, TrainingData
from tests.learning.rules.cases import DATA, SPEC

Floats = NDArray[np.float64]
MODULE = SPEC.build().double()


def inputs(indices: NDArray[np.int64], data: TrainingData = DATA) -> tuple[Tensor, Tensor]:
    x = data.images[indices].astype(np.float64) * data.scale + data.shift
    return torch.from_numpy(x).permute(0, 3, 1, 2), torch.from_numpy(data.labels[indices])


def loss_at(w: Tensor, indices: NDArray[np.int64], data: TrainingData = DATA) -> Tensor:
    """Mean loss of some samples as a function of the flat vector."""
    images, labels = inputs(indices, data)
    tensors = {p.name: w[p.place].view(p.shape) for p in SPEC.layout.parameters}
    logits = torch.func.functional_call(MODULE, tensors, (images,))
    return functional.cross_entropy(logits, labels)


def gradient_at(w: Floats, indices: NDArray[np.int64], data: TrainingData = DATA) -> Floats:
    point = torch.from_numpy(np.array(w, np.float64)).requires_grad_()
    [gradient] = torch.autograd.grad(loss_at(point, indices, data), [point])
    return gradient.numpy()


def batches_of(order: NDArray[np.int64], size: int) -> list[list[NDArray[np.int64]]]:
    """The batches of each epoch."""
    return [[epoch[i : i + size] for i in range(0, len(epoch), size)] for epoch in order]


def clipped(g: Floats, norm: float) -> Floats:
    return g * min(1.0, norm / (np.linalg.norm(g) + 1e-6)) if norm > 0 else g


def step(
    w: Floats, m: Floats, g: Floats, rate: float, settings: SgdSettings
) -> tuple[Floats, Floats]:
    m = settings.momentum * m + clipped(g, settings.clip_norm) + settings.weight_decay * w
    return w - rate * m, m


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=3e-6)
