"""A part of a model: a slice of its vector, or a mask over it. The rest does not change.

Slices are for layers, such as a head above a fixed body. Masks are for sub-networks: channels and
units that are switched off are spread over the vector.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ModelError

Mask = NDArray[np.bool_]
Part = slice | Mask


@dataclass(frozen=True, eq=False)
class Span:
    """A part of a vector of known length: positions in [begin, end) that are also in the mask."""

    begin: int
    end: int
    mask: Mask | None = None
    """Over the whole vector; None if all of [begin, end) belongs to the part."""

    @property
    def count(self) -> int:
        """Number of values that belong to the part."""
        return self.end - self.begin if self.mask is None else int(np.count_nonzero(self.mask))


def check_part(part: Any) -> None:
    """Refuse what is neither a slice of neighbours nor a mask."""
    if isinstance(part, slice):
        if part.step not in (None, 1):
            raise ModelError(
                f"a part of a model must be a slice without step, got {part}; use a boolean mask"
            )
    elif not (isinstance(part, np.ndarray) and part.dtype == np.bool_ and part.ndim == 1):
        raise ModelError(
            "a part of a model must be a slice of its vector or a mask [parameters] of booleans, "
            f"got {_described(part)}"
        )


def span_of(part: Part | None, size: int) -> Span:
    """Find the smallest range that holds the part; a mask without gaps becomes that range."""
    if part is None:
        return Span(0, size)
    check_part(part)
    if isinstance(part, slice):
        begin, end, _ = part.indices(size)
        return Span(begin, max(begin, end))
    if len(part) != size:
        raise ModelError(
            f"a mask must have one value per parameter, {size} in all, got {len(part)}"
        )
    if not part.any():
        return Span(0, 0)
    begin, end = int(part.argmax()), size - int(part[::-1].argmax())
    return Span(begin, end, None if part[begin:end].all() else np.ascontiguousarray(part))


def beyond(part: Part | None, begin: int) -> Part | None:
    """Return the positions of a part from `begin` on; a part of None is the whole vector."""
    if not begin:
        return part
    if part is None:
        return slice(begin, None)
    check_part(part)
    if isinstance(part, slice):
        return slice(max(part.start or 0, begin), part.stop)
    rest = part.copy()
    rest[:begin] = False
    return rest


def _described(part: Any) -> str:
    if isinstance(part, np.ndarray):
        return f"an array {list(part.shape)} of {part.dtype}"
    return type(part).__name__
