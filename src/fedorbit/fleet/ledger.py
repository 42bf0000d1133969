"""Costs of a run so far: training, and bytes by kind of link."""

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

BYTES_PER_PARAMETER = 4

Direction = Literal["to_ground", "from_ground", "isl"]


@dataclass
class Ledger:
    """Totals of a run; `epochs` since the last record."""

    samples_trained: int = 0
    to_ground_bytes: int = 0
    """From satellites to servers."""
    from_ground_bytes: int = 0
    """From servers to satellites."""
    isl_bytes: int = 0
    """Between satellites."""
    unlinked_bytes: int = 0
    """Over links that do not exist, but are assumed."""
    epochs: list[int] = field(default_factory=list)
    """Local epochs of each orbit's satellites, times passes."""

    def book(self, direction: Direction, size_bytes: int, linked: bool = True) -> None:
        """Count bytes that move; what has no link is counted apart."""
        key = f"{direction}_bytes" if linked else "unlinked_bytes"
        setattr(self, key, getattr(self, key) + size_bytes)

    def start_record(self) -> None:
        """Begin to count for the next record."""
        self.epochs = [0] * len(self.epochs)

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        return asdict(self)

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what a checkpoint kept."""
        vars(self).update(vars(Ledger(**{**saved, "epochs": list(saved["epochs"])})))
