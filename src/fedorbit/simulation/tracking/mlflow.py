"""MLflow: one MLflow run per method, on the server or in the database that MLflow is set up for.

The MLflow run of a method is remembered in its folder, so that a resumed run continues in the same
one. Which steps it has, MLflow itself is asked: a round that is done again after a kill gives the
same numbers, and is not logged twice.
"""

import hashlib
import json
import logging
import math
import os
import re
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fedorbit.documents import DocumentError, read_json
from fedorbit.errors import TrackingError, one_line
from fedorbit.extras import install_extra
from fedorbit.files import replacing
from fedorbit.locks import locked
from fedorbit.simulation.records import Record
from fedorbit.simulation.schema import TRACKED_FILE
from fedorbit.simulation.tracking.subject import Subject, headline_metrics, metrics

try:
    from mlflow import MlflowClient, get_tracking_uri
    from mlflow.entities import Metric, Param, Run, RunTag
    from mlflow.exceptions import MlflowException
except ImportError as error:
    raise TrackingError(f"MLflow cannot be imported ({error}); {install_extra('mlflow')}") from None

REMEMBERED = "mlflow.json"
LAST_METRIC = "samples_trained"
"""Logged last in every round: a step that has it is whole."""
MOST_PARAMS, MOST_METRICS = 100, 1000
"""Parameters and metrics that MLflow takes in one call."""
PATIENCE = {"MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3", "MLFLOW_HTTP_REQUEST_TIMEOUT": "30"}
"""Training waits while a server does not answer; MLflow's own patience is many minutes."""

Item = TypeVar("Item")


class MlflowServer:
    """Target of logging: a tracking URI, and an experiment there."""

    def __init__(self, uri: str | None, experiment: str) -> None:
        """Connect, and create the experiment if there is none; `uri` None: as MLflow does."""
        for key, value in PATIENCE.items():
            os.environ.setdefault(key, value)
        # Every retry would be a line of its own; the outcome is reported once, by us.
        logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
        try:
            with _one_at_a_time(uri or get_tracking_uri()):
                self.client = MlflowClient(uri)
                self.experiment_id = self._find_or_create(experiment)
        except Exception as error:
            raise TrackingError(
                f"MLflow cannot log to experiment {experiment!r} "
                f"({one_line(error, with_kind=True)}); check tracking.mlflow_uri or "
                "MLFLOW_TRACKING_URI, or leave out tracking.mlflow"
            ) from error

    def _find_or_create(self, name: str) -> str:
        found = self.client.get_experiment_by_name(name)
        if found is None:
            try:
                return str(self.client.create_experiment(name))
            except MlflowException:  # another process was faster
                found = self.client.get_experiment_by_name(name)
                if found is None:
                    raise
        if found.lifecycle_stage == "deleted":
            raise ValueError("the experiment was deleted; restore it or choose another name")
        return str(found.experiment_id)

    def find_run(self, run_id: str) -> Run | None:
        """Return a run, unless it is unknown here or was deleted."""
        try:
            run = self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise
        return run if run.info.lifecycle_stage == "active" else None


class MlflowTracker:
    """Logs one method of a run."""

    def __init__(self, server: MlflowServer, subject: Subject) -> None:
        self._server, self._client, self._subject = server, server.client, subject
        self._run_id = ""
        self._steps: set[int] = set()
        self._told: set[str] = set()
        """Headline metrics that stand there already."""
        self._status = "KILLED"

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Find the method's MLflow run or create it, and log what it lacks."""
        run = self._remembered() or self._created()
        self._run_id = run.info.run_id
        self._log_settings(run)
        self._told = set(run.data.metrics)
        if LAST_METRIC in self._told:
            history = self._client.get_metric_history(self._run_id, LAST_METRIC)
            self._steps = {metric.step for metric in history}
        if run.info.status != "RUNNING":
            self._client.update_run(self._run_id, status="RUNNING")
        missing = [
            metric
            for record, wall_time in self._subject.records_so_far()
            if record["round"] not in self._steps
            for metric in _as_metrics(metrics(record), record["round"], wall_time)
        ]
        self._log(missing)

    def round_done(self, t: int, record: Record | None) -> None:
        """Log an evaluated round, unless it was logged before a kill."""
        if record is not None and t not in self._steps:
            self._log(_as_metrics(metrics(record), t, time.time()))

    def finished(self, summary: dict[str, Any]) -> None:
        """Log the headline."""
        headline = {k: v for k, v in headline_metrics(summary).items() if k not in self._told}
        self._log(_as_metrics(headline, summary["rounds"] - 1, time.time()))
        self._status = "FINISHED"

    def end(self) -> None:
        """Record whether the run has finished or was stopped."""
        if self._run_id:
            self._client.set_terminated(self._run_id, self._status)

    def _remembered(self) -> Run | None:
        try:
            told = read_json(self._subject.folder / REMEMBERED, TRACKED_FILE)
            return self._server.find_run(told["run_id"])
        except (FileNotFoundError, DocumentError):
            return None

    def _created(self) -> Run:
        run = self._client.create_run(
            self._server.experiment_id,
            run_name=f"{self._subject.run.name}/{self._subject.method}",
        )
        with replacing(self._subject.folder / REMEMBERED) as partial:
            partial.write_text(json.dumps({"run_id": run.info.run_id}) + "\n", encoding="utf-8")
        return run

    def _log_settings(self, run: Run) -> None:
        """Log parameters once, since MLflow refuses to change them, and tags at every start."""
        settings = {_as_name(key): value for key, value in self._subject.settings.items()}
        missing = [
            Param(key, str(value)) for key, value in settings.items() if key not in run.data.params
        ]
        for some in _in_portions(missing, MOST_PARAMS):
            self._client.log_batch(self._run_id, params=some)
        origin = {f"fedorbit.{key}": value for key, value in self._subject.origin.items()}
        tags = {**origin, "fedorbit.folder": str(self._subject.folder.resolve())}
        self._client.log_batch(self._run_id, tags=[RunTag(k, v) for k, v in tags.items()])

    def _log(self, entries: Sequence[Metric]) -> None:
        for some in _in_portions(entries, MOST_METRICS):
            self._client.log_batch(self._run_id, metrics=some)


@contextmanager
def _one_at_a_time(uri: str) -> Iterator[None]:
    """Hold a lock while connecting to a database: two that create its tables at once both fail."""
    if not uri.startswith("sqlite:"):
        yield
        return
    name = f"fedorbit-{os.getuid()}-{hashlib.sha256(uri.encode()).hexdigest()[:16]}.lock"
    with locked(Path(tempfile.gettempdir()) / name, math.inf):
        yield


def _as_metrics(values: Mapping[str, float], step: int, wall_time: float) -> list[Metric]:
    return [Metric(key, value, int(1000 * wall_time), step) for key, value in values.items()]


def _in_portions(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    for begin in range(0, len(items), most):
        yield items[begin : begin + most]


def _as_name(key: str) -> str:
    """Replace what MLflow does not allow in a name, such as the colon in `module:Method`."""
    return re.sub(r"[^\w./ -]", "-", key)
