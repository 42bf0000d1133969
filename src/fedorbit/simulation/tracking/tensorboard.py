"""TensorBoard: event files in RUN/tensorboard/METHOD, for `tensorboard --logdir RUN/tensorboard`.

The writer is PyTorch's, which is here anyway and documented; it needs the package tensorboard. A
start or resume writes the file anew from the records, so that every step stands in it once,
whatever was killed when; its first event makes a TensorBoard that is watching discard the rest.
"""

from typing import Any

from fedorbit.errors import TrackingError
from fedorbit.extras import install_extra
from fedorbit.simulation.records import Record
from fedorbit.simulation.tracking.subject import Subject, headline_metrics, metrics

try:
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams
except ImportError as error:
    raise TrackingError(
        f"TensorBoard cannot be imported ({error}); {install_extra('tensorboard')}"
    ) from None

FOLDER = "tensorboard"
COMPARED = ("summary/accuracy", "summary/spread")
"""Metrics beside the settings in TensorBoard's table of hyperparameters."""


class TensorBoardTracker:
    """Writes the event file of one method."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._writer: Any = None
        self._done: Any = None

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Write all that is known so far into a new file, then remove the old ones."""
        folder = self._subject.run / FOLDER / self._subject.folder.name
        old = list(folder.glob("events.out.tfevents.*"))
        self._writer = SummaryWriter(str(folder), purge_step=0)
        # Not `add_hparams`, which writes them into a folder, and so a run, of their own.
        described = hparams(self._subject.settings, dict.fromkeys(COMPARED))  # type: ignore[no-untyped-call]
        table, begun, self._done = described
        self._writer.file_writer.add_summary(table)
        self._writer.file_writer.add_summary(begun)
        self._writer.add_text("settings", _as_markdown(self._subject.settings))
        self._writer.add_text("provenance", _as_markdown(self._subject.origin))
        for record, wall_time in self._subject.records_so_far():
            self._write(metrics(record), record["round"], wall_time)
        self._writer.flush()
        for path in old:
            path.unlink()

    def round_done(self, t: int, record: Record | None) -> None:
        """Write an evaluated round; at once, for viewers and against a kill."""
        if record is not None:
            self._write(metrics(record), t)
            self._writer.flush()

    def finished(self, summary: dict[str, Any]) -> None:
        """Write the headline."""
        self._write(headline_metrics(summary), summary["rounds"] - 1)
        self._writer.file_writer.add_summary(self._done)

    def end(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, values: dict[str, float], step: int, wall_time: float | None = None) -> None:
        for key, value in values.items():
            self._writer.add_scalar(key, value, step, wall_time)


def _as_markdown(values: Any) -> str:
    rows = (f"| {key} | {value} |" for key, value in values.items())
    return "\n".join(("| | |", "|---|---|", *rows))
