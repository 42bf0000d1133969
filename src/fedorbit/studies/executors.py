"""Where runs are done: in processes of this machine, or on a cluster. The runner knows no more."""

from dataclasses import dataclass
from typing import Literal, Protocol

TICK_S = 0.5
"""How long to wait for news before progress is shown again."""

Outcome = Literal["done", "failed", "held", "lost"]
"""`held`: another process does the run. `lost`: whoever did it is gone, and did not say why."""


@dataclass(frozen=True)
class Ended:
    """News of a run that was begun."""

    slug: str
    outcome: Outcome
    reason: str = ""
    """For a lost one: how its process ended, in a sentence that begins with "its"."""


class Executor(Protocol):
    """Does several runs at a time."""

    retries: int
    """How often a lost run is begun again before it counts as failed."""

    @property
    def at_once(self) -> int:
        """How many runs it does at a time, just now."""

    @property
    def busy(self) -> int:
        """How many runs are begun and have not ended."""

    def begin(self, slug: str, waiting: int) -> None:
        """Begin or go on with a run; `waiting` more runs have no place yet."""

    def news(self) -> list[Ended]:
        """Wait for runs to end, a tick at most."""
