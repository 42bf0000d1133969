"""Vectors that are kept for later, in memory and in checkpoints."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.learning.parameters import Vector

Arrays = dict[str, NDArray[Any]]


def kept(vector: Vector, last: Vector | None = None) -> Vector:
    """Return a copy that cannot be written to, or the last one if it is equal.

    A model that goes to many nodes one after the other is thus kept once.
    """
    if last is not None and np.array_equal(last, vector):
        return last
    copy = vector.copy()
    copy.flags.writeable = False
    return copy


class Shelf:
    """Names arrays for a checkpoint; one that is put twice has one name and is written once."""

    def __init__(self, prefix: str) -> None:
        self.arrays: Arrays = {}
        self._prefix = prefix
        self._names: dict[int, str] = {}

    def put(self, array: NDArray[Any]) -> str:
        """Keep an array and return its name; the caller holds the array meanwhile."""
        name = self._names.setdefault(id(array), f"{self._prefix}:{len(self._names)}")
        self.arrays[name] = array
        return name
