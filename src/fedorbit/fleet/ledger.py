"""Costs of a run so far: training, and bytes by kind of link and by its ends."""

from dataclasses import dataclass, field
from typing import Any, Literal

BYTES_PER_PARAMETER = 4
GROUND = -1
"""End of a transfer with the ground where it is not said with which of several servers."""

Direction = Literal["to_ground", "from_ground", "isl"]
Ends = tuple[int, int]
"""Source and target: an orbit, or the number of orbits plus that of a server."""


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
    transfers: dict[Ends, tuple[int, int]] | None = field(default_factory=dict)
    """Messages and bytes over links that exist; None in a run that began without counting them."""

    def book(
        self,
        direction: Direction,
        ends: Ends,
        size_bytes: int,
        *,
        messages: int = 1,
        linked: bool = True,
    ) -> None:
        """Count bytes that move; what has no link is counted apart."""
        key = f"{direction}_bytes" if linked else "unlinked_bytes"
        setattr(self, key, getattr(self, key) + size_bytes)
        if linked and messages and self.transfers is not None:
            before = self.transfers.get(ends, (0, 0))
            self.transfers[ends] = (before[0] + messages, before[1] + size_bytes)

    def start_record(self) -> None:
        """Begin to count for the next record."""
        self.epochs = [0] * len(self.epochs)

    def totals(self) -> dict[str, Any]:
        """Return what a record has; it stays as it is while the ledger goes on."""
        totals = {k: v for k, v in vars(self).items() if k != "transfers"}
        return {**totals, "epochs": list(self.epochs)}

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: transfers as rows of source, target, messages, bytes."""
        if self.transfers is None:
            return self.totals()
        rows = [[*ends, *counts] for ends, counts in sorted(self.transfers.items())]
        return {**self.totals(), "transfers": rows}

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what a checkpoint kept."""
        rows = saved.get("transfers")
        transfers = None if rows is None else {(a, b): (n, size) for a, b, n, size in rows}
        vars(self).update({**saved, "epochs": list(saved["epochs"]), "transfers": transfers})
