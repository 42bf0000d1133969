"""What the user sees: tables on standard output, progress and messages on standard error.

With `--json`, standard output holds one JSON document and nothing else.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import rich.progress
from rich import box
from rich.console import Console
from rich.table import Table

stdout = Console(highlight=False, soft_wrap=False)
stderr = Console(stderr=True, highlight=False)


def print_json(document: dict[str, Any]) -> None:
    """Print the one document of a `--json` call."""
    json.dump(document, sys.stdout, indent=2, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def table(title: str, columns: Sequence[str], left: Sequence[str] = ()) -> Table:
    """Return an empty table; columns are right-aligned unless listed in `left`."""
    result = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        header_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    for column in columns:
        is_left = column in left
        result.add_column(column, justify="left" if is_left else "right", no_wrap=not is_left)
    return result


def print_files(files: Sequence[Path]) -> None:
    """Say which files were written."""
    if files:
        stdout.print("Wrote " + ", ".join(str(file) for file in files), soft_wrap=True)


class RichProgress:
    """A progress bar with the time left; silent where nobody watches."""

    def __init__(self) -> None:
        self._bar: rich.progress.Progress | None = None
        self._task: rich.progress.TaskID | None = None

    def start(self, label: str, total: int, unit: str) -> None:
        """Begin a task of `total` units; 0 means that the total is not known."""
        self.finish()
        if unit == "bytes":
            amount: rich.progress.ProgressColumn = rich.progress.DownloadColumn()
        else:
            amount = rich.progress.MofNCompleteColumn()
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}"),
            rich.progress.BarColumn(),
            amount,
            rich.progress.TextColumn("" if unit == "bytes" else unit),
            rich.progress.TimeElapsedColumn(),
            rich.progress.TextColumn("ETA"),
            rich.progress.TimeRemainingColumn(),
            console=stderr,
            transient=True,
            disable=not stderr.is_terminal,
        )
        self._bar.start()
        self._task = self._bar.add_task(label, total=total or None)

    def advance(self, n: int) -> None:
        """Report that `n` more units are done."""
        if self._bar is not None and self._task is not None:
            self._bar.advance(self._task, n)

    def finish(self) -> None:
        """End the task, whether it was completed or not."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None
