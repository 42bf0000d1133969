"""Executors of runs: processes of this machine, or a cluster. The runner uses this interface."""

from dataclasses import dataclass
from typing import Literal, Protocol

TICK_S = 0.5
"""Seconds to wait for events before progress is shown again."""

Outcome = Literal["done", "failed", "held", "lost"]
"""`held`: another process does the run. `lost`: its process has ended without an answer."""


@dataclass(frozen=True)
class Ended:
    """End of a run that was begun."""

    slug: str
    outcome: Outcome
    reason: str = ""
    """For a lost run: a sentence about the end of its process that begins with "its"."""


class Executor(Protocol):
    """Does several runs at a time."""

    retries: int
    """Number of restarts of a lost run before it counts as failed."""

    @property
    def at_once(self) -> int:
        """Number of runs that it can do at a time, now."""

    @property
    def busy(self) -> int:
        """Number of runs in progress."""

    def begin(self, slug: str, waiting: int) -> None:
        """Begin or continue a run; `waiting` more runs have no place yet."""

    def news(self) -> list[Ended]:
        """Wait for runs to end, a tick at most."""
