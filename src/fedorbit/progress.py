"""Progress of long work, reported independently of its display.

Reading a dataset, downloading a file and training a run all take minutes. Each takes a `Progress`
and reports to it; the command line shows a bar, tests and libraries pass `SilentProgress`.
"""

from typing import Protocol


class Progress(Protocol):
    """One task after the other: `start`, any number of `advance`, `finish` (also on failure)."""

    def start(self, label: str, total: int, unit: str) -> None:
        """Begin a task of `total` units; 0 means that the total is not known."""

    def advance(self, n: int) -> None:
        """Report that `n` more units are done."""

    def finish(self) -> None:
        """End the task, whether it was completed or not."""


class SilentProgress:
    """Shows nothing."""

    def start(self, label: str, total: int, unit: str) -> None:
        """Begin a task."""

    def advance(self, n: int) -> None:
        """Report work done."""

    def finish(self) -> None:
        """End the task."""
