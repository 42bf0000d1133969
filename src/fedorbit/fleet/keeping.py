"""Arrays that are kept for later, in memory and in checkpoints."""

import hashlib
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class Keeper:
    """Keeps copies that cannot be written to; arrays of the same bits share one while it is used.

    A model that goes to many nodes is thus kept once.
    """

    def __init__(self) -> None:
        self._copies: WeakValueDictionary[bytes, NDArray[Any]] = WeakValueDictionary()

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return a copy of an array, or the one that is kept already."""
        array = np.ascontiguousarray(array)
        bits = hashlib.sha256(f"{array.dtype.str} {array.shape} ".encode())
        bits.update(array.data)
        copy = self._copies.get(bits.digest())
        if copy is None:
            copy = self._copies[bits.digest()] = array.copy()
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
