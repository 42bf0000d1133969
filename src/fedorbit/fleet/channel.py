"""Channels: the vector that arrives when one is sent, and the bytes that carry it.

    @dataclass(frozen=True)
    class Noisy(Channel):
        deviation: float

        def carry(self, vector, rng):
            noise = rng.normal(0.0, self.deviation, vector.size)
            return (vector + noise).astype(np.float32)

A channel is end to end: the source encodes once, relays forward the same bytes.
"""

from dataclasses import dataclass

import numpy as np

from fedorbit.errors import ModelError
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER
from fedorbit.learning.parameters import Vector


@dataclass(frozen=True)
class Channel:
    """Carries all values as they are, four bytes each; subclasses change either."""

    def carry(self, vector: Vector, rng: np.random.Generator) -> Vector:
        """Return what arrives, of the same length; the given vector cannot be written to.

        `rng` belongs to this message: its draws are the same in a run that is resumed.
        """
        return vector

    def bytes(self, values: int) -> int:
        """Return the number of bytes of so many values."""
        return BYTES_PER_PARAMETER * values


EXACT = Channel()


def require_vector(vector: Vector) -> None:
    """Refuse what is not one flat vector of float32."""
    if not isinstance(vector, np.ndarray) or vector.ndim != 1 or vector.dtype != np.float32:
        raise ModelError(
            f"{_described(vector)} cannot be sent: a message is one flat vector of float32; "
            "flatten it, or send several"
        )


def carried(channel: Channel, values: Vector, rng: np.random.Generator) -> Vector:
    """Return what arrives of values; refuse what would not fit into their place."""
    view = values.view()
    view.flags.writeable = False
    arrived = channel.carry(view, rng)
    shape = getattr(arrived, "shape", None), getattr(arrived, "dtype", None)
    if shape != (values.shape, np.dtype(np.float32)):
        raise ModelError(
            f"{type(channel).__name__}.carry must return a vector of {values.size} values of "
            f"float32, got {_described(arrived)}"
        )
    return arrived


def size_bytes(channel: Channel, values: int) -> int:
    """Return the number of bytes that a channel takes for values; refuse what cannot be counted."""
    size = channel.bytes(values)
    if not isinstance(size, int | np.integer) or size < 0:
        raise ModelError(
            f"{type(channel).__name__}.bytes must return a whole number of bytes from 0 on, got "
            f"{size!r}"
        )
    return int(size)


def _described(array: object) -> str:
    if isinstance(array, np.ndarray):
        return f"an array of {array.dtype} of shape {array.shape}"
    return f"a {type(array).__name__}"
