"""Reading of finished and unfinished runs: every method of every run at or below some folders."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedorbit.config import load_values
from fedorbit.config.files import flat_settings
from fedorbit.config.renamed import current_name
from fedorbit.documents import parse_toml, read_text
from fedorbit.errors import ConfigError, RunError
from fedorbit.progress import Progress, SilentProgress
from fedorbit.results.reading import MethodResults, add_hours, read_results
from fedorbit.simulation.manifest import CONFIG, read_stored, refuse_links
from fedorbit.simulation.records import STUDY, read_setting

TRAINING = "training."


@dataclass(frozen=True)
class Variant:
    """A study's name for the settings of a run."""

    label: str
    of_series: bool
    """True if the study's variants change parameters of methods and training settings alone."""
    keys: frozenset[str]
    """Settings that some variant of the study has; the key of a list stands for all its entries."""


@dataclass(frozen=True)
class StudyEntry:
    """A run's entry in the file of its study; all defaults for a run outside a study."""

    title: str | None = None
    """Title of the study; None for a quick stand-in."""
    place: int = 0
    """Position of the run in the study, from 0."""
    published: tuple[float, float] | None = None
    """Accuracy and spread published elsewhere for exactly this setting."""
    variant: Variant | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Values of the method's parameters that the study names; a default may be among them."""
    training: frozenset[str] = frozenset()
    """Training settings that the study varies, such as `training.epochs`: part of a series."""
    metrics: tuple[str, ...] = ()
    """Metrics of the study's table, if its file names any."""


@dataclass(frozen=True, eq=False)
class RunFolder:
    """A run's folder: its configuration as text and values, and its setting where it has one."""

    path: Path
    config_text: str
    config: dict[str, Any]
    world: dict[str, Any] | None
    study: StudyEntry = StudyEntry()

    @property
    def seed(self) -> int:
        """Seed of the run."""
        return int(self.config.get("seed", 0))

    @property
    def rounds(self) -> int:
        """Number of rounds that are configured."""
        return int(self.config["run"]["rounds"])

    @property
    def is_relayed(self) -> bool:
        """True if stations reach orbits over other satellites, too, and not only those in view."""
        isl = self.config.get("network", {}).get("isl")
        return self.config["run"].get("links") == "physical" and isl == "line-of-sight"

    @property
    def round_s(self) -> float:
        """Length of a round in seconds of simulated time."""
        return float(self.config.get("schedule", {}).get("round_s", 300.0))


@dataclass(frozen=True, eq=False)
class MethodRecords(MethodResults):
    """One method of a run, with its results so far."""

    run: RunFolder
    method: str


def read_runs(folders: Sequence[Path], progress: Progress | None = None) -> list[MethodRecords]:
    """Read all runs at or below the folders; methods that have not begun have no records."""
    found = list(dict.fromkeys(run for folder in folders for run in _run_folders(folder)))
    progress = progress or SilentProgress()
    progress.start("reading runs", len(found), "runs")
    methods = []
    try:
        for path in found:
            methods += read_run(path)
            progress.advance(1)
    finally:
        progress.finish()
    return in_order(methods)


def read_run(path: Path, with_checkpoints: bool = True) -> list[MethodRecords]:
    """Read all methods of one run."""
    run = _read_folder(path)
    return [_read_method(run, name, with_checkpoints) for name in run.config["run"]["method"]]


def in_order(methods: Sequence[MethodRecords]) -> list[MethodRecords]:
    """Order methods by folder and by their place in a study; it is an error if none has begun."""
    paths = list(dict.fromkeys(method.run.path for method in methods))
    folders = list(dict.fromkeys(path.parent for path in paths))
    if not any(method.records for method in methods):
        names = ", ".join(str(path) for path in paths)
        raise RunError(f"{names}: no round is recorded yet; report again once a round is done")
    return sorted(methods, key=lambda m: (folders.index(m.run.path.parent), m.run.study.place))


def _run_folders(folder: Path) -> list[Path]:
    if not folder.is_dir():
        raise RunError(f"{folder} is no folder; give the folder of a run or of a study")
    configs = sorted(folder.rglob(CONFIG))
    if not configs:
        raise RunError(
            f"{folder} holds no run: there is no {CONFIG} in it or below; "
            "make one with `fedorbit run --out DIR`"
        )
    return [path.parent.resolve() for path in configs]


def _read_folder(path: Path) -> RunFolder:
    # A report must not need what the configuration names, such as a file of element sets.
    refuse_links(path)
    stored = read_stored(path)
    try:
        load_values(stored.values, str(path / CONFIG))
    except ConfigError as error:
        first = str(error).split("\n", 1)[0]
        raise RunError(f"{first}; leave {path} out") from None
    return RunFolder(path, stored.text, stored.values, read_setting(path), _study_entry(path))


def _study_entry(path: Path) -> StudyEntry:
    """Look a run up in its study's file, if there is one; missing entries are no error."""
    try:
        study = parse_toml(read_text(path.parent / STUDY))
        cells = [(n, c) for n, c in enumerate(study["cells"]) if c.get("folder") == path.name]
        said = {key: value for _, cell in reversed(cells) for key, value in cell.items()}
        settings = {
            key: value for _, cell in cells for key, value in cell.get("settings", {}).items()
        }
        accuracy, spread = map(float, said.get("published", (math.nan, math.nan)))
        variant = _variant(study.get("variants", ()), said.get("variant"))
        varied = {key for cell in study["cells"] for key in cell.get("settings", {})}
        if variant and variant.of_series:
            varied |= variant.keys
        return StudyEntry(
            title=None if study.get("is_quick") else study.get("title"),
            place=cells[0][0] if cells else len(study["cells"]),
            published=None if math.isnan(accuracy) else (accuracy, spread),
            variant=variant,
            parameters=method_parameters(settings, said.get("method", "")),
            training=frozenset(key for key in varied if key.startswith(TRAINING)),
            metrics=tuple(map(str, study.get("table", {}).get("metrics", ()))),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return StudyEntry()


def method_parameters(flat: Mapping[str, Any], method: str) -> dict[str, Any]:
    """Pick a method's parameters from settings such as `methods.fedorbit.rho`."""
    prefix = f"methods.{method}."
    return {k.removeprefix(prefix): v for k, v in flat.items() if k.startswith(prefix)}


def _variant(variants: Sequence[dict[str, Any]], name: str | None) -> Variant | None:
    settings = [key for v in variants for key in flat_settings(v.get("settings", {}))]
    # events.0.round: events
    keys = frozenset(current_name(re.split(r"\.\d", key)[0]) for key in settings)
    of_series = all(key.startswith(("methods.", TRAINING)) for key in keys)
    labels = {v["name"]: str(v.get("label", v["name"])) for v in variants}
    return None if name is None else Variant(labels[name], of_series, keys)


def _read_method(run: RunFolder, method: str, with_checkpoints: bool) -> MethodRecords:
    results = read_results(run.path, method, with_checkpoints)
    add_hours(results.records, run.round_s)
    return MethodRecords(results.records, results.summary, run, method)
