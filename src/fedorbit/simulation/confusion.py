"""Confusion matrices, and the figures that follow from them.

A matrix counts test samples, `[true class, predicted class]`. Figures are defined as in
scikit-learn, in percent.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fedorbit.simulation.records import mean

Counts = NDArray[np.int64]
Samples = NDArray[np.int64]
Predict = Callable[[NDArray[np.float32], Samples, NDArray[np.float32] | tuple[()]], Counts]
"""Returns the class that a model gives each of some samples, with what is added to its logits."""
Matrix = list[list[int]]


class ConfusionCounter:
    """Counts what the models in use take the test samples of their orbits or satellites for."""

    def __init__(
        self,
        predict: Predict,
        labels: Counts,
        classes: int,
        test: Sequence[Samples],
        orbits: Sequence[int],
        offsets: Sequence[NDArray[np.float32]] = (),
    ) -> None:
        """`test[i]` are the test samples of client i, `orbits[i]` its orbit.

        `offsets[i]` is added to the logits of client i.
        """
        self._offsets = offsets
        self._predict, self._labels, self._classes = predict, labels, classes
        self._test, self._orbit_of = test, orbits

    def __call__(self, models: NDArray[np.float32], active: Sequence[int]) -> list[Matrix | None]:
        """Return a matrix per orbit; None where no active client has test samples.

        `models` has one row per client, or one for all.
        """
        shape = (max(self._orbit_of) + 1, self._classes, self._classes)
        counts = np.zeros(shape, dtype=np.int64)
        for client in active:
            samples = self._test[client]
            model = models[0 if len(models) == 1 else client]
            offset = self._offsets[client] if self._offsets else ()
            predicted = self._predict(model, samples, offset)
            np.add.at(counts[self._orbit_of[client]], (self._labels[samples], predicted), 1)
        return [matrix.tolist() if matrix.any() else None for matrix in counts]


def class_accuracies(matrix: ArrayLike) -> list[float | None]:
    """Return the share of each class's samples that are recognised; None of a class without any."""
    counts = np.asarray(matrix)
    return [
        100.0 * right / n if n else None
        for right, n in zip(np.diag(counts).tolist(), counts.sum(axis=1).tolist(), strict=True)
    ]


def balanced_accuracy(matrix: ArrayLike) -> float | None:
    """Return the mean of `class_accuracies` over the classes that have samples."""
    return mean(class_accuracies(matrix))


def class_f1(matrix: ArrayLike) -> list[float | None]:
    """Return the F1 score of each class; None of one that has no samples and is never predicted.

    It is 2 tp / (samples + predictions): 0 where none of its samples is recognised.
    """
    counts = np.asarray(matrix)
    named = counts.sum(axis=0) + counts.sum(axis=1)
    return [
        200.0 * right / n if n else None
        for right, n in zip(np.diag(counts).tolist(), named.tolist(), strict=True)
    ]


def macro_f1(matrix: ArrayLike) -> float | None:
    """Return the mean of `class_f1` over the classes that have one."""
    return mean(class_f1(matrix))


def class_figures(matrices: Sequence[Matrix | None]) -> dict[str, float | None]:
    """Return balanced accuracy and macro F1 as means over the orbits that have a matrix."""
    known = [matrix for matrix in matrices if matrix is not None]
    return {
        "balanced_accuracy": mean([balanced_accuracy(matrix) for matrix in known]),
        "macro_f1": mean([macro_f1(matrix) for matrix in known]),
    }
