"""Pruning by magnitude: which parameters of a model go, and when."""

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.parameters import ParameterLayout, Vector

Mask = NDArray[np.bool_]


def prunable(layout: ParameterLayout) -> Mask:
    """Return the mask of parameters that may be pruned: all but the last layer's."""
    free = np.ones(layout.size, dtype=np.bool_)
    free[layout.statistics] = False
    free[layout.class_rows] = False
    return free


def prune(mask: Mask, model: Vector, free: Mask, share: float) -> None:
    """Take the smallest parameters out of a mask, until a share of the free ones is pruned.

    What was pruned stays so.
    """
    pruned = round(share * int(free.sum()))
    if int((~mask).sum()) < pruned:
        size = np.where(free, np.abs(model), np.inf)
        size[~mask] = -1.0
        mask[np.argsort(size, kind="stable")[:pruned]] = False


def staircase(t: int, begin: int, end: int, every: int) -> float:
    """Return how far a rise from 0 in one round to 1 in another is, in steps of some rounds."""
    if t < begin:
        return 0.0
    step = t - (t - begin) % every
    return min((step - begin) / max(end - begin, 1), 1.0)
