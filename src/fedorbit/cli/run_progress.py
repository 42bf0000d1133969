"""Progress display of `fedorbit run`."""

from collections.abc import Iterator
from typing import Any

import rich.progress
from rich.console import RenderableType
from rich.text import Text

from fedorbit.cli.output import TimeLeft, complain, stderr
from fedorbit.results.estimates import COMPETING
from fedorbit.results.numbers import amount, percent
from fedorbit.simulation.records import Record

LINKS = {
    "to_ground_bytes": "to ground",
    "from_ground_bytes": "from ground",
    "isl_bytes": "ISL",
    "unlinked_bytes": "unlinked",
}


class _Pace(rich.progress.ProgressColumn):
    """Rounds per second."""

    def render(self, task: rich.progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.{0 if speed >= 10.0 else 1}f}/s")


class _BarsWithState(rich.progress.Progress):
    """Bars, and below each the lines of its state, so that all fit into 80 columns."""

    def get_renderables(self) -> Iterator[RenderableType]:
        """Yield the lines."""
        for task in self.tasks:
            yield self.make_tasks_table([task])
            for line in task.fields["state"]:
                yield Text(f"  {line}", overflow="ellipsis", no_wrap=True)


def state_lines(record: Record) -> list[str]:
    """Return lines with accuracy and spread, what the ground reaches, and bytes over links so far.

    Over physical links the ground reaches orbits that no station sees.
    """
    accuracy, spread = (percent(record[key], "-") for key in COMPETING)
    reached = f"{len(record['visible'])}/{len(record['orbit_accuracy'])}"
    in_view = record["satellites_in_view"]
    moved = [
        f"{name} {amount(record[key], 'B')}"
        for key, name in LINKS.items()
        if record[key] or key != "unlinked_bytes"
    ]
    return [
        f"accuracy {accuracy} %, spread {spread}; satellites in view {in_view}, "
        f"orbits reached {reached}",
        f"{record['hours']:.1f} h: {', '.join(moved)}",
    ]


class RichRunProgress:
    """Lines per method: rounds and the time left; accuracy and satellites in view; bytes."""

    def __init__(self, quiet: bool = False) -> None:
        self.notice = ""
        """Warning that is shown once, when training begins; not if the run fails before."""
        self._quiet = quiet
        self._bar: rich.progress.Progress | None = None
        self._task = rich.progress.TaskID(0)

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Start the bar of a method that begins or is resumed."""
        if self.notice:
            complain(self.notice, style="bold yellow")
            self.notice = ""
        self._bar = _BarsWithState(
            rich.progress.TextColumn("{task.description}", style="bold", markup=False),
            rich.progress.BarColumn(bar_width=20),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn("rounds"),
            _Pace(),
            TimeLeft(),
            console=stderr,
            disable=self._quiet or not stderr.is_terminal,
        )
        self._bar.start()
        self._task = self._bar.add_task(method, total=rounds, completed=rounds_done, state=())

    def round_done(self, t: int, record: Record | None) -> None:
        """Advance the bar, and show the round's record if it was evaluated."""
        if self._bar is not None:
            changes: dict[str, Any] = {"completed": t + 1}
            if record is not None:
                changes["state"] = state_lines(record)
            self._bar.update(self._task, **changes)

    def finished(self, summary: dict[str, Any]) -> None:
        """Do nothing: the table that follows has the summary."""

    def end(self) -> None:
        """Stop the bar of a method that has ended or was stopped."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
