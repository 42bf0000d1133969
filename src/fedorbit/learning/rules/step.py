"""One step after the gradient: clip, decay, momentum, update; on a part of the model.

    (1)  SGD:    g <- clip(g, C) + decay w,  m <- momentum m + g,  w <- w - rate m
    (2)  Adam:   g as above,  m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
                 w <- w - rate [m / (1 - beta1^t)] / (sqrt(v / (1 - beta2^t)) + epsilon)
    (3)  AdamW:  w <- (1 - rate decay) w, and Adam with g <- clip(g, C)

beta1 is the momentum of the run. m, v and the count t start at zero in every job.

With a part, clipping, decay, momentum and update apply to the part alone. The norm that is clipped
is that of the part: a frozen layer does not shorten the steps of the others. This is our reading;
it makes training a masked model the same as training the smaller model that remains.
"""

from __future__ import annotations

import math
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
    """Settings of the optimiser, the same in all jobs of a run."""

    batch: int = 64
    momentum: float = 0.9
    weight_decay: float = 5e-4
    clip_norm: float = 1.0
    optimiser: str = "sgd"
    """sgd, adam or adamw."""
    beta2: float = 0.999
    epsilon: float = 1e-8


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
        """Number of steps done."""
        self._settings = settings
        self._rate = rate
        span = span_of(part, size)
        self._slice = slice(span.begin, span.end)
        self._places: Tensor | None = None
        if span.mask is not None:
            self._places = torch.from_numpy(np.flatnonzero(span.mask)).to(device)
        self._momentum = torch.zeros(span.count, device=device)
        adaptive = settings.optimiser != "sgd"
        self._squares = torch.zeros(span.count if adaptive else 0, device=device)

    def __call__(self, weights: Tensor, gradient: Tensor) -> None:
        """Do one step, in place. The gradient is overwritten."""
        self.count += 1
        if self._places is None:
            self._move(weights[self._slice], gradient[self._slice])
        else:
            moving = weights[self._places]
            self._move(moving, gradient[self._places])
            weights[self._places] = moving

    def _move(self, weights: Tensor, gradient: Tensor) -> None:
        settings, rate = self._settings, self._rate
        clip(gradient, settings.clip_norm)
        if settings.optimiser == "adamw":
            weights.mul_(1.0 - rate * settings.weight_decay)
        else:
            gradient.add_(weights, alpha=settings.weight_decay)
        if settings.optimiser == "sgd":
            self._momentum.mul_(settings.momentum).add_(gradient)
            weights.add_(self._momentum, alpha=-rate)
            return
        self._momentum.lerp_(gradient, 1.0 - settings.momentum)
        self._squares.mul_(settings.beta2).addcmul_(gradient, gradient, value=1.0 - settings.beta2)
        root = (self._squares.sqrt() / math.sqrt(1.0 - settings.beta2**self.count)).add_(
            settings.epsilon
        )
        weights.addcdiv_(self._momentum, root, value=-rate / (1.0 - settings.momentum**self.count))
