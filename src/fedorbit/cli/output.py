"""Output: tables on standard output, progress and messages on standard error.

With `--json`, standard output holds one JSON document and nothing else. Names of stations,
classes and files are untrusted text: no console here reads markup.
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import rich.progress
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table as RichTable
from rich.text import Text

stdout = Console(markup=False, emoji=False, highlight=False, soft_wrap=False)
stderr = Console(stderr=True, markup=False, emoji=False, highlight=False)

NARROWEST_TEXT = 12
"""Longer words than this are folded before a column of numbers has to go."""


def complain(message: str, style: str = "bold red") -> None:
    """Print one sentence to standard error."""
    stderr.print(Text.assemble(("fedorbit:", style), " ", message), soft_wrap=True)


def print_json(document: dict[str, Any]) -> None:
    """Print the one document of a `--json` call; in ASCII where the encoding lacks a character."""
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    if not printable(text):
        text = json.dumps(document, indent=2, allow_nan=False)
    sys.stdout.write(f"{text}\n")


def print_toml(text: str) -> None:
    """Print a configuration; where the encoding lacks a character, as TOML escapes it."""
    if not printable(text):
        text = "".join(c if c.isascii() else f"\\U{ord(c):08x}" for c in text)
    sys.stdout.write(text)


def printable(text: str) -> bool:
    """Return whether standard output can show every character."""
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


@dataclass(frozen=True)
class Column:
    """A column: numbers are right-aligned and whole, `text` is left-aligned and may wrap.

    On a narrow terminal the columns of the highest `rank` go first; those of rank 0 always stay.
    """

    head: str
    rank: int = 0
    text: bool = False
    left: bool = False


def degree() -> str:
    """Return the sign of degrees, or the word where the terminal lacks it."""
    return "°" if printable("°") else " deg"


class Table:
    """Rows of text, printed so that no number is ever cut."""

    def __init__(self, title: str, columns: Sequence[Column]) -> None:
        self._title = title
        self._columns = list(columns)
        self._rows: list[tuple[tuple[str | Text, ...], str | None]] = []
        self._ends: set[int] = set()

    def add_row(self, *cells: str | Text, style: str | None = None) -> None:
        """Add a row with one cell per column; `Text` where a single cell has a style."""
        assert len(cells) == len(self._columns), "one cell per column"
        self._rows.append((cells, style))

    def add_section(self) -> None:
        """Draw a line below the last row."""
        self._ends.add(len(self._rows) - 1)

    def print(self) -> set[str]:
        """Print what fits; return the heads of the columns that were left out."""
        shown = list(range(len(self._columns)))
        while (needed := self._needed_width(shown)) > stdout.width:
            rank = max(self._columns[i].rank for i in shown)
            if rank == 0:
                break
            shown = [i for i in shown if self._columns[i].rank < rank]
        table = self._built(shown)
        if needed > stdout.width:  # what must stay runs over the edge, where the terminal wraps it
            table.width = needed
        stdout.print(self._title, style="bold")
        stdout.print(table, crop=False)
        left_out = [c.head for i, c in enumerate(self._columns) if i not in shown]
        if left_out:
            columns = f"{len(left_out)} columns" if len(left_out) > 8 else ", ".join(left_out)
            stdout.print(f"Too narrow for: {columns} (--json has all).", style="dim")
        return set(left_out)

    def _needed_width(self, shown: list[int]) -> int:
        wide = stdout.options.update(width=100_000)
        needed = Measurement.get(stdout, wide, self._built(shown)).maximum
        for i in shown:
            if self._columns[i].text:
                cells = [self._columns[i].head, *(str(cells[i]) for cells, _ in self._rows)]
                word = max(cell_len(word) for cell in cells for word in (cell.split() or [""]))
                needed += min(word, NARROWEST_TEXT) - max(map(cell_len, cells))
        return needed

    def _built(self, shown: list[int]) -> RichTable:
        table = RichTable(
            header_style="bold",
            box=box.SIMPLE_HEAD,
            pad_edge=False,
            collapse_padding=True,
        )
        for column in (self._columns[i] for i in shown):
            table.add_column(
                column.head,
                justify="left" if column.text or column.left else "right",
                no_wrap=not column.text,
                overflow="fold",
            )
        for number, (cells, style) in enumerate(self._rows):
            table.add_row(*(cells[i] for i in shown), style=style, end_section=number in self._ends)
        return table


def print_files(files: Sequence[Path]) -> None:
    """Print which files were written."""
    if files:
        stdout.print("Wrote " + ", ".join(str(file) for file in files), soft_wrap=True)


class TimeLeft(rich.progress.ProgressColumn):
    """The time left while a task runs, and how long it took once it is done."""

    def render(self, task: rich.progress.Task) -> Text:
        """Return `ETA 0:01:20`, or `took 0:03:00`."""
        word, seconds = "ETA", task.time_remaining
        if task.finished:
            word, seconds = "took", task.finished_time
        return Text(f"{word} {'…' if seconds is None else timedelta(seconds=int(seconds))}")


class RichProgress:
    """A progress bar with the time left; silent without a terminal."""

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
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(),
            amount,
            rich.progress.TextColumn("" if unit == "bytes" else unit),
            TimeLeft(),
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
