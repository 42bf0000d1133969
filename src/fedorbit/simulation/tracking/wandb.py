"""Weights & Biases: one run there per method, online, or offline for `wandb sync` later.

The run of a method is remembered in its folder, so that a resumed method continues in the same one.
Online, W&B reports its last step, and only later ones are logged. Offline it keeps a
folder per start (in `WANDB_DIR`, or `./wandb`); each start logs all that is recorded, and removes
the folders of earlier ones.
"""

import json
import os
import re
import secrets
import shutil
from pathlib import Path
from typing import Any, Literal

from fedorbit.documents import DocumentError, read_json
from fedorbit.errors import TrackingError
from fedorbit.extras import install_extra
from fedorbit.files import replacing
from fedorbit.simulation.records import Record
from fedorbit.simulation.schema import TRACKED_FILE
from fedorbit.simulation.tracking.subject import Subject, headline_metrics, metrics

# Errors are sent to its makers only where the user allows that; read while it is imported.
os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
try:
    import wandb
    from wandb import Settings
except ImportError as error:
    raise TrackingError(
        f"Weights & Biases cannot be imported ({error}); {install_extra('wandb')}"
    ) from None

REMEMBERED = "wandb.json"

Mode = Literal["online", "offline"]


class WandbTracker:
    """Logs one method of a run."""

    def __init__(
        self, subject: Subject, project: str, entity: str | None, mode: Mode | None
    ) -> None:
        """`mode` None: that of `WANDB_MODE`, or else online."""
        self._subject, self._project, self._entity = subject, project, entity
        self._offline = (mode or os.environ.get("WANDB_MODE", "online")) != "online"
        self._run: Any = None
        self._first = 0
        """Steps before this are logged already."""
        self._status = 1

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Start or resume the method's run, and log what it lacks."""
        run_id = self._remembered() or self._created()
        # Neither the terminal nor code, whose commit is among the settings, is sent.
        quiet = Settings(silent=True, console="off", disable_git=True, disable_code=True)
        origin = {f"fedorbit.{key}": value for key, value in self._subject.origin.items()}
        self._run = wandb.init(
            project=self._project,
            entity=self._entity,
            id=run_id,
            name=f"{self._subject.run.name}/{method}",
            group=self._subject.run.name,
            config={**self._subject.settings, **origin},
            mode="offline" if self._offline else "online",
            resume=None if self._offline else "allow",
            reinit="create_new",
            settings=quiet,
        )
        self._first = 0 if self._offline else self._run.starting_step
        for record, _ in self._subject.records_so_far():
            self._log(record)
        if self._offline:
            own = Path(self._run.dir).parent
            # W&B adds a number to the name of a folder that begins in the same second as another.
            same_run = re.compile(rf"offline-run-[^-]+-{re.escape(run_id)}(-\d+)?")
            for folder in own.parent.iterdir():
                if folder != own and same_run.fullmatch(folder.name):
                    shutil.rmtree(folder)

    def round_done(self, t: int, record: Record | None) -> None:
        """Log an evaluated round, unless it was logged before a kill."""
        if record is not None:
            self._log(record)

    def finished(self, summary: dict[str, Any]) -> None:
        """Write the headline into the run's summary."""
        self._run.summary.update(headline_metrics(summary))
        self._status = 0

    def end(self) -> None:
        """Close the run: as finished, or as failed where the method was stopped."""
        if self._run is not None:
            self._run.finish(exit_code=self._status)

    def _log(self, record: Record) -> None:
        if record["round"] >= self._first:
            self._run.log(metrics(record), step=record["round"])

    def _remembered(self) -> str | None:
        try:
            told: str = read_json(self._subject.folder / REMEMBERED, TRACKED_FILE)["run_id"]
        except (FileNotFoundError, DocumentError):
            return None
        return told

    def _created(self) -> str:
        run_id = secrets.token_hex(8)
        with replacing(self._subject.folder / REMEMBERED) as partial:
            partial.write_text(json.dumps({"run_id": run_id}) + "\n", encoding="utf-8")
        return run_id
