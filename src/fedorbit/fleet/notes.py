"""Numbers that a method notes while it runs, such as staleness: one summary of each per record."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from fedorbit.errors import ModelError


@dataclass
class Note:
    """Numbers noted under one name since the last record."""

    count: int = 0
    total: float = 0.0
    greatest: float = -math.inf
    last: float = 0.0

    def add(self, number: float) -> None:
        """Note one more number."""
        self.count += 1
        self.total += number
        self.greatest = max(self.greatest, number)
        self.last = number

    def summary(self) -> dict[str, float]:
        """Return how many numbers there were, their mean, the greatest and the last."""
        mean = self.total / self.count
        return {"count": self.count, "mean": mean, "max": self.greatest, "last": self.last}


class Notes:
    """Numbers by name."""

    def __init__(self) -> None:
        self._notes: dict[str, Note] = {}

    def add(self, numbers: Mapping[str, float]) -> None:
        """Note one number under each name."""
        for name, number in numbers.items():
            value = float(number)
            if not math.isfinite(value):
                raise ModelError(f"{name} = {number!r} cannot be noted: it must be a finite number")
            self._notes.setdefault(name, Note()).add(value)

    def record(self) -> dict[str, Any]:
        """Return the entry of a record; none without notes."""
        if not self._notes:
            return {}
        return {"noted": {name: note.summary() for name, note in sorted(self._notes.items())}}

    def start_record(self) -> None:
        """Begin to note for the next record."""
        self._notes = {}

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return {name: asdict(note) for name, note in self._notes.items()}

    def restore(self, saved: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue from what a checkpoint kept."""
        self._notes = {name: Note(**note) for name, note in saved.items()}
