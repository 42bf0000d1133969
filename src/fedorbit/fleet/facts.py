"""Facts that a method notes on a message or a job: plain values that a checkpoint can keep."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from fedorbit.errors import ModelError

Fact = bool | int | float | str


def plain(facts: Mapping[str, Any]) -> dict[str, Fact]:
    """Return facts as plain values; NumPy's numbers and arrays of one number become such."""
    return {name: _plain(name, fact) for name, fact in facts.items()}


def _plain(name: str, fact: Any) -> Fact:
    if isinstance(fact, np.generic | np.ndarray) and fact.size == 1:
        fact = fact.item()
    if not isinstance(fact, bool | int | float | str) or (
        isinstance(fact, float) and not math.isfinite(fact)
    ):
        raise ModelError(
            f"{name} = {fact!r} cannot be noted on a message or job: it must be a finite number, "
            "text, True or False; send what is larger as the vector"
        )
    return fact
