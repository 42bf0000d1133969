"""Progress display of a study."""

from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING

import rich.progress

from fedorbit.cli.output import stderr

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.studies import StudyProgress


class StudyBars:
    """A bar for the whole study with the time left, and one for every run at work."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._bars = rich.progress.Progress(
            rich.progress.TextColumn("{task.description}", markup=False),
            rich.progress.BarColumn(bar_width=20),
            rich.progress.MofNCompleteColumn(),
            rich.progress.TextColumn("{task.fields[state]}", markup=False),
            console=stderr,
            transient=True,
            disable=not stderr.is_terminal,
        )
        self._tasks: dict[str, rich.progress.TaskID] = {}

    def __enter__(self) -> "StudyBars":
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, progress: "StudyProgress") -> None:
        """Redraw."""
        running = {s.folder: s for s in progress.states if s.state == "running"}
        for folder in [f for f in self._tasks if f not in running and f != ""]:
            self._bars.remove_task(self._tasks.pop(folder))
        for state in running.values():
            self._update(state.folder, state.folder, state.rounds_done, state.rounds, "rounds")
        ended = sum(s.state in ("done", "failed") for s in progress.states)
        failed = sum(s.state == "failed" for s in progress.states)
        left = "…" if progress.eta_s is None else str(timedelta(seconds=round(progress.eta_s)))
        told = f"runs  ETA {left}" + (f"  {failed} failed" if failed else "")
        self._update("", self._name, ended, len(progress.states), told)

    def _update(self, key: str, label: str, done: int, total: int, told: str) -> None:
        if key not in self._tasks:
            self._tasks[key] = self._bars.add_task(label, total=total, state=told)
        self._bars.update(self._tasks[key], completed=done, state=told)
