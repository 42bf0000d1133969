"""Costs of a run so far: training, and bytes by kind of link and by its ends."""

from dataclasses import dataclass, field
from typing import Any, Literal

BYTES_PER_PARAMETER = 4
GROUND = -1
"""End of a transfer with the ground if the server, one of several, is not known."""

Direction = Literal["to_ground", "from_ground", "isl"]
Ends = tuple[int, int]
"""Source and target: an orbit, or the number of orbits plus that of a server."""
Hop = tuple[float, int, int]
"""A message that passes over a link: from which second on, from which node, to which."""
MOST_HOPS = 300
"""In a record: about 5 kB of a file that is read as a whole."""
COUNTED_APART = ("transfers", "hops", "hops_seen")
"""Entries of the ledger that are no totals of a record."""


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
    hops: list[Hop] = field(default_factory=list)
    """Messages over links that exist, where the two nodes are known; of very many a sample."""
    hops_seen: int = 0
    """Number of the messages that `hops` are a sample of."""

    def book(
        self,
        direction: Direction,
        ends: Ends,
        size_bytes: int,
        *,
        messages: int = 1,
        linked: bool = True,
        hop: Hop | None = None,
    ) -> None:
        """Count bytes that move; what has no link is counted apart."""
        key = f"{direction}_bytes" if linked else "unlinked_bytes"
        setattr(self, key, getattr(self, key) + size_bytes)
        if linked and messages and self.transfers is not None:
            before = self.transfers.get(ends, (0, 0))
            self.transfers[ends] = (before[0] + messages, before[1] + size_bytes)
        if linked and hop is not None:
            self.add_hop(hop)

    def add_hop(self, hop: Hop) -> None:
        """Keep a hop: every one, and where these are too many every second, fourth and so on."""
        if self.hops_seen % self._hop_stride() == 0:
            self.hops.append(hop)
        self.hops_seen += 1
        if len(self.hops) > MOST_HOPS:
            self.hops = self.hops[::2]

    def _hop_stride(self) -> int:
        stride = 1
        while self.hops_seen > MOST_HOPS * stride:
            stride *= 2
        return stride

    def start_record(self) -> None:
        """Begin to count for the next record."""
        self.epochs = [0] * len(self.epochs)
        self.hops, self.hops_seen = [], 0

    def recorded_hops(self) -> list[list[int]]:
        """Return the hops of a record, in whole seconds and in their order in time."""
        return sorted([int(at_s), source, target] for at_s, source, target in self.hops)

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
        if self.hops:
            saved |= {"hops": list(map(list, self.hops)), "hops_seen": self.hops_seen}
        return saved

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what a checkpoint kept."""
        rows = saved.get("transfers")
        transfers = None if rows is None else {(a, b): (n, size) for a, b, n, size in rows}
        hops = [(at_s, int(source), int(target)) for at_s, source, target in saved.get("hops", [])]
        epochs = list(saved["epochs"])
        vars(self).update({**saved, "epochs": epochs, "transfers": transfers, "hops": hops})
