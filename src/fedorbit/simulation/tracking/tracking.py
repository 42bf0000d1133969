"""One observer for the display and all trackers; no tracker that fails on the way ends a run."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fedorbit.config import Config
from fedorbit.config.tracking import TrackingSection
from fedorbit.errors import TrackingError, one_line
from fedorbit.extras import install_extra
from fedorbit.simulation.loop import RunProgress
from fedorbit.simulation.records import Record
from fedorbit.simulation.tracking.subject import Subject

Openers = Mapping[str, Callable[[Subject], RunProgress]]
"""Functions that make the observer of a method, by the tracker's name."""


def _require_packages(section: TrackingSection) -> None:
    """Refuse trackers that are not installed; fast, since nothing is imported."""
    for package in ("tensorboard", "mlflow", "wandb"):
        if getattr(section, package) and find_spec(package) is None:
            raise TrackingError(
                f"tracking.{package} needs a package that is not installed; "
                f"{install_extra(package)}, or -o tracking.{package}=false"
            )


def connect(section: TrackingSection) -> Openers:
    """Connect to every configured tracker; report wrong settings now."""
    _require_packages(section)
    openers: dict[str, Callable[[Subject], RunProgress]] = {}
    if section.tensorboard:
        from fedorbit.simulation.tracking.tensorboard import TensorBoardTracker

        openers["TensorBoard"] = TensorBoardTracker
    if section.mlflow:
        from fedorbit.simulation.tracking.mlflow import MlflowServer, MlflowTracker

        server = MlflowServer(section.mlflow_uri, section.mlflow_experiment)
        openers["MLflow"] = lambda subject: MlflowTracker(server, subject)
    if section.wandb:
        from fedorbit.simulation.tracking.wandb import WandbTracker

        openers["wandb"] = lambda subject: WandbTracker(
            subject, section.wandb_project, section.wandb_entity, section.wandb_mode
        )
    return openers


class Tracking:
    """Reports to the display, and to every tracker until it fails."""

    def __init__(
        self, display: RunProgress, openers: Openers, config: Config, folder: Path
    ) -> None:
        self._display, self._openers = display, dict(openers)
        self._config, self._folder = config, folder
        self._trackers: dict[str, RunProgress] = {}
        self._has_begun = False
        """True once a method has begun: errors of trackers no longer stop the run."""

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Report that a method starts or continues."""
        self._display.begin(method, rounds_done, rounds)
        self._begin_trackers(method, rounds_done, rounds)

    def round_done(self, t: int, record: Record | None) -> None:
        """Report that a round is done."""
        self._display.round_done(t, record)
        self._tell(lambda tracker: tracker.round_done(t, record))

    def finished(self, summary: dict[str, Any]) -> None:
        """Report that all rounds are done."""
        self._display.finished(summary)
        self._tell(lambda tracker: tracker.finished(summary))

    def end(self) -> None:
        """The method is over or stopped."""
        self._display.end()
        self._tell(lambda tracker: tracker.end())
        self._trackers = {}

    def catch_up(self, method: str, summary: dict[str, Any]) -> None:
        """Log a method that is done already; they may have missed some of it."""
        self._begin_trackers(method, summary["rounds"], summary["rounds"])
        self._tell(lambda tracker: tracker.finished(summary))
        self._tell(lambda tracker: tracker.end())
        self._trackers = {}

    def _begin_trackers(self, method: str, rounds_done: int, rounds: int) -> None:
        subject = Subject(self._folder, method, self._config)
        for name, opener in list(self._openers.items()):
            with self._forgiving(name):
                tracker = self._trackers[name] = opener(subject)
                tracker.begin(method, rounds_done, rounds)
        self._has_begun = True

    def _tell(self, what: Callable[[RunProgress], None]) -> None:
        for name, tracker in list(self._trackers.items()):
            with self._forgiving(name):
                what(tracker)

    @contextmanager
    def _forgiving(self, name: str) -> Iterator[None]:
        """Leave out a tracker that fails, also in the methods to come: waiting for it takes time.

        A stop is no failure, and passes. So does a failure before anything has been trained.
        """
        try:
            yield
        except Exception as error:
            reason = one_line(error, with_kind=True)
            del self._openers[name]
            self._trackers.pop(name, None)
            if not self._has_begun:
                raise TrackingError(
                    f"{name} failed at the start ({reason}); mend it and `fedorbit run "
                    f"--resume {self._folder}`, or -o tracking.{name.lower()}=false with that"
                ) from error
            warnings.warn(
                f"{name} failed ({reason}); the run goes on without it, and "
                f"`fedorbit run --resume {self._folder}` tells it later what it missed",
                stacklevel=2,
            )
