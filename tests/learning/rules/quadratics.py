"""A job in PyTorch whose losses are parabolas: what a rule does with it can be said by hand."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from fedorbit.learning.jobs import SgdSettings
from fedorbit.learning.rules.base import Batch
from fedorbit.learning.rules.step import Step


class Quadratics:
    """A job whose batches are functions h/2 (w - m)^2; the samples are their numbers."""

    least_batch = 1

    def __init__(
        self,
        m: list[float],
        h: list[float],
        order: list[list[int]],
        settings: SgdSettings,
        rate=1.0,
    ) -> None:
        self.start, self.rate = np.zeros(1, np.float32), rate
        self.order, self.settings = np.array(order), settings
        self._m, self._h = m, h

    def batches(self) -> Iterator[Batch]:
        epochs, samples = self.order.shape
        for epoch in range(epochs):
            for begin in range(samples):
                yield self.batch(epoch, begin)

    def batch(self, epoch: int, begin: int) -> Batch:
        sample = self.order[epoch, begin]
        return Batch(torch.tensor(self._m[sample]), torch.tensor(self._h[sample]))

    def gradient(self, point: torch.Tensor, batch: Batch) -> torch.Tensor:
        return batch.labels * (point - batch.images)

    def step(self, part: Any = None, *, rate: Any = None, settings: Any = None) -> Step:
        rate = self.rate if rate is None else rate
        return Step(settings or self.settings, rate, 1, torch.device("cpu"), part)

    def tensor(self, vector: NDArray[np.float32]) -> torch.Tensor:
        return torch.from_numpy(vector.copy())

    def vector(self, tensor: torch.Tensor) -> NDArray[np.float32]:
        return tensor.numpy().copy()
