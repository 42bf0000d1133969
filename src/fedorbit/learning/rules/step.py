"""One step of SGD after the gradient: clip, decay, momentum, update; on a part of the model.

With a part, all of these see the part alone. The norm that is clipped is the part's: a frozen layer
does not shorten the steps of the others. This is our reading, and makes training a masked model
the same as training the smaller model that remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from fedorbit.learning.parts import Part, span_of

if TYPE_CHECKING:  # PyTorch takes a second to import
    import torch
    from torch import Tensor

CLIP_EPSILON = 1e-6  # as in torch.nn.utils.clip_grad_norm_


@dataclass(frozen=True)
class SgdSettings:
    """What all jobs of a run share. Batch order and data come with the job."""

    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4
    clip_norm: float = 1.0


def clip(gradient: Tensor, norm: float) -> Tensor:
    """Shorten a gradient to a norm, in place, if it is longer; a norm of 0 or less: leave it."""
    if norm > 0:
        import torch

        length = torch.linalg.vector_norm(gradient)
        gradient.mul_((norm / (length + CLIP_EPSILON)).clamp_(max=1.0))
    return gradient


class Step:
    """Moves weights against a gradient, in place; keeps the momentum and counts."""

    def __init__(
        self,
        settings: SgdSettings,
        rate: float,
        size: int,
        device: torch.device,
        part: Part | None = None,
    ) -> None:
        import torch

        self.count = 0
        """Steps done."""
        self._settings = settings
        self._rate = rate
        span = span_of(part, size)
        self._slice = slice(span.begin, span.end)
        self._places: Tensor | None = None
        if span.mask is not None:
            self._places = torch.from_numpy(np.flatnonzero(span.mask)).to(device)
        self._momentum = torch.zeros(span.count, device=device)

    def __call__(self, weights: Tensor, gradient: Tensor) -> None:
        """Do one step. The gradient is used up."""
        if self._places is None:
            self._move(weights[self._slice], gradient[self._slice])
        else:
            moving = weights[self._places]
            self._move(moving, gradient[self._places])
            weights[self._places] = moving
        self.count += 1

    def _move(self, weights: Tensor, gradient: Tensor) -> None:
        clip(gradient, self._settings.clip_norm)
        gradient.add_(weights, alpha=self._settings.weight_decay)
        self._momentum.mul_(self._settings.momentum).add_(gradient)
        weights.add_(self._momentum, alpha=-self._rate)
