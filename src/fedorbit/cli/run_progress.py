"""What `fedorbit run` shows while it trains."""

from collections.abc import Iterator
from typing import Any

import rich.progress
from rich.console import RenderableType
from rich.text import Text

from fedorbit.cli.output import TimeLeft, complain, stderr
from fedorbit.results.estimates import COMPETING
from fedorbit.results.numbers import amount, percent
from fedorbit.simulation.records import Record

MOST_NAMED = 8
"""More orbits in view than these are counted."""
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
    """Return how good the models are, what the ground reaches, and the bytes over links so far."""
    accuracy, spread = (percent(record[key], "-") for key in COMPETING)
    seen, orbits = record["visible"], len(record["orbit_accuracy"])
    which = ", ".join(map(str, seen)) if seen else "none"
    if len(seen) == orbits:
        which = "all"
    elif len(seen) > MOST_NAMED:
        which = str(len(seen))
    moved = [
        f"{name} {amount(record[key], 'B')}"
        for key, name in LINKS.items()
        if record[key] or key != "unlinked_bytes"
    ]
    return [
        f"accuracy {accuracy} %, spread {spread}; orbits in view: {which} of {orbits}",
        f"{record['hours']:.1f} h: {', '.join(moved)}",
    ]


class RichRunProgress:
    """Lines per method: rounds and the time left; accuracy and orbits in view; bytes over links."""

    def __init__(self, quiet: bool = False) -> None:
        self.notice = ""
        """Said once, when training begins: what cannot even start has worse to report."""
        self._quiet = quiet
        self._bar: rich.progress.Progress | None = None
        self._task = rich.progress.TaskID(0)

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """A method starts or goes on."""
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
        """A round is over."""
        if self._bar is not None:
            changes: dict[str, Any] = {"completed": t + 1}
            if record is not None:
                changes["state"] = state_lines(record)
            self._bar.update(self._task, **changes)

    def finished(self, summary: dict[str, Any]) -> None:
        """All rounds are done; the table tells."""

    def end(self) -> None:
        """The method is over or stopped."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = None
