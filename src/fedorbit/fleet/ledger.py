"""Costs of a run so far: training, and bytes by kind of link and by its ends."""

import math
from dataclasses import dataclass, field
from typing import Any, Literal

BYTES_PER_PARAMETER = 4
GROUND = -1
"""End of a transfer with the ground if the server, one of several, is not known."""

Direction = Literal["to_ground", "from_ground", "isl"]
Ends = tuple[int, int]
"""Source and target: an orbit, or the number of orbits plus that of a server."""
BookedHop = tuple[float, int, int]
"""Second, source and target of a message over a link."""
MOST_HOPS = 300
"""In a record: about 5 kB of a file that is read as a whole."""
GOLDEN = (math.sqrt(5) - 1) / 2
COUNTED_APART = ("transfers", "hops")
"""Entries of the ledger that are no totals of a record."""
SINCE_RECORD = ("epochs", "hops")
"""Entries of the ledger that begin anew with each record."""


@dataclass
class Hops:
    """Messages over links since the last record; of very many a sample.

    Hop n is in it if the fraction of n times the golden ratio is below `share`. This spreads the
    sample evenly, and over every hop of messages that take the same number of them.
    """

    kept: dict[int, BookedHop] = field(default_factory=dict)
    """Hops in the sample, by their number."""
    seen: int = 0
    """Number of all hops."""
    share: float = 1.0

    def add(self, hop: BookedHop) -> None:
        """Count a hop, and keep it if it is one of the sample."""
        if self._is_kept(self.seen):
            self.kept[self.seen] = hop
        self.seen += 1
        if len(self.kept) > MOST_HOPS:
            self.share /= 2
            self.kept = {n: kept for n, kept in self.kept.items() if self._is_kept(n)}

    def _is_kept(self, number: int) -> bool:
        return number * GOLDEN % 1 < self.share

    def recorded(self) -> list[list[int]]:
        """Return the sample in whole seconds, in the order of time."""
        return sorted([int(at_s), a, b] for at_s, a, b in self.kept.values())

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint keeps."""
        rows = [[n, *hop] for n, hop in self.kept.items()]
        return {"kept": rows, "seen": self.seen, "share": self.share}

    @classmethod
    def restored(cls, saved: dict[str, Any]) -> "Hops":
        """Continue from what a checkpoint kept."""
        kept = {int(n): (at_s, int(a), int(b)) for n, at_s, a, b in saved["kept"]}
        return cls(kept, saved["seen"], saved["share"])


@dataclass
class Ledger:
    """Totals of a run; `epochs` and `hops` since the last record."""

    samples_trained: int = 0
    to_ground_bytes: int = 0
    """Bytes from satellites to servers."""
    from_ground_bytes: int = 0
    """Bytes from servers to satellites."""
    isl_bytes: int = 0
    """Bytes between satellites."""
    unlinked_bytes: int = 0
    """Bytes over links that are assumed and do not exist."""
    epochs: list[int] = field(default_factory=list)
    """Local epochs of each orbit's satellites, times passes."""
    transfers: dict[Ends, tuple[int, int]] | None = field(default_factory=dict)
    """Messages and bytes over links that exist; None in a run that began without counting them."""
    hops: Hops = field(default_factory=Hops)
    """Messages over links that exist, where the two nodes are known."""

    def book(
        self,
        direction: Direction,
        ends: Ends,
        size_bytes: int,
        *,
        messages: int = 1,
        linked: bool = True,
        hop: BookedHop | None = None,
    ) -> None:
        """Count bytes that move; what has no link is counted apart."""
        key = f"{direction}_bytes" if linked else "unlinked_bytes"
        setattr(self, key, getattr(self, key) + size_bytes)
        if linked and messages and self.transfers is not None:
            before = self.transfers.get(ends, (0, 0))
            self.transfers[ends] = (before[0] + messages, before[1] + size_bytes)
        if linked and hop is not None:
            self.hops.add(hop)

    def start_record(self) -> None:
        """Begin to count for the next record."""
        self.epochs = [0] * len(self.epochs)
        self.hops = Hops()

    def totals(self) -> dict[str, Any]:
        """Return the totals of a record; later entries in the ledger do not change them."""
        totals = {k: v for k, v in vars(self).items() if k not in COUNTED_APART}
        return {**totals, "epochs": list(self.epochs)}

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint keeps: transfers as rows of source, target, messages, bytes."""
        saved = self.totals()
        if self.transfers is not None:
            rows = [[*ends, *counts] for ends, counts in sorted(self.transfers.items())]
            saved["transfers"] = rows
        if self.hops.seen:
            saved["hops"] = self.hops.saved()
        return saved

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what a checkpoint kept."""
        rows = saved.get("transfers")
        transfers = None if rows is None else {(a, b): (n, size) for a, b, n, size in rows}
        hops = Hops.restored(saved["hops"]) if "hops" in saved else Hops()
        epochs = list(saved["epochs"])
        vars(self).update({**saved, "epochs": epochs, "transfers": transfers, "hops": hops})
