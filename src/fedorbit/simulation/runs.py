"""Runs and their folders: one configuration, one or several methods.

DIR/config.toml          the whole configuration, as resolved
DIR/world.json           what a report shows beside the records: data, contacts, positions
DIR/accuracy.png, .svg   accuracy per round of all methods
DIR/METHOD/records.jsonl one line per evaluated round
DIR/METHOD/summary.json  written when the method is done
DIR/METHOD/checkpoint-*  the two newest states
"""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedorbit.config import Config, load_config
from fedorbit.config.files import dumps
from fedorbit.errors import RunError
from fedorbit.files import replacing
from fedorbit.learning.backends import resolve_backend
from fedorbit.methods import make_method
from fedorbit.progress import Progress
from fedorbit.simulation.loop import NobodyWatches, RunProgress, StopRequested, run_rounds
from fedorbit.simulation.records import CONFIG, WORLD, Record, read_records, read_summary
from fedorbit.simulation.records import method_folder as method_folder
from fedorbit.simulation.setting import write_setting
from fedorbit.simulation.world import World, build_world


@dataclass(frozen=True)
class MethodRun:
    """One finished method."""

    method: str
    folder: Path
    summary: dict[str, Any]

    @property
    def records(self) -> list[Record]:
        """One record per evaluated round."""
        return read_records(self.folder)


@dataclass(frozen=True)
class RunResult:
    """All methods of a run. `pandas.DataFrame(result.table())` is a table of everything."""

    folder: Path
    runs: tuple[MethodRun, ...]

    def table(self) -> list[dict[str, Any]]:
        """Return flat rows, one per method and evaluated round."""
        rows = []
        for run in self.runs:
            for record in run.records:
                row: dict[str, Any] = {"method": run.method}
                for key, value in record.items():
                    if key in ("visible", "present"):
                        row[f"{key}_orbits"] = len(value)
                    elif isinstance(value, list):
                        row |= {f"{key}_{orbit}": entry for orbit, entry in enumerate(value)}
                    else:
                        row[key] = value
                rows.append(row)
        return rows


def run(
    config: Config,
    out: Path | str | None = None,
    *,
    progress: RunProgress | None = None,
    preparing: Progress | None = None,
) -> RunResult:
    """Run every method of a configuration in a new folder; default `runs/1`, `runs/2` …"""
    folder = Path(out) if out is not None else _next_free(Path("runs"))
    config = _with_backend(config)
    for name in config.run.method:
        make_method(name, config.methods.get(name, {}))
    if (folder / CONFIG).exists():
        raise RunError(
            f"{folder} already holds a run; go on with `fedorbit run --resume {folder}`, "
            "or choose another --out"
        )
    # Hidden files are what a killed start leaves behind; they are nobody's work.
    if folder.exists() and (
        not folder.is_dir() or any(not path.name.startswith(".") for path in folder.iterdir())
    ):
        raise RunError(f"{folder} is in use and holds no run; choose another --out")
    # Whatever can go wrong at the start does so here, and leaves no folder behind.
    world = build_world(config, preparing)
    world.trainer()
    with replacing(folder / CONFIG) as partial:
        partial.write_text(dumps(config), encoding="utf-8")
    return _run_all(config, folder, progress or NobodyWatches(), preparing, world)


def resume(
    folder: Path | str,
    config: Config | None = None,
    *,
    progress: RunProgress | None = None,
    preparing: Progress | None = None,
) -> RunResult:
    """Go on with the run in a folder; a configuration, if given, must be the same."""
    folder = Path(folder)
    if not (folder / CONFIG).is_file():
        raise RunError(f"{folder} holds no run to resume: it has no {CONFIG}")
    stored = load_config(folder / CONFIG)
    config = _with_backend(config) if config is not None else None
    if config is not None and (keys := differing_keys(stored, config)):
        raise RunError(
            f"{folder} was started with another configuration; it differs in {', '.join(keys)}; "
            "resume without these changes, or start a new run with --out"
        )
    # How to run it may change; what is computed may not.
    if config is not None:
        stored = stored.model_copy(update={"engine": config.engine})
    return _run_all(stored, folder, progress or NobodyWatches(), preparing)


def differing_keys(first: Config, second: Config) -> list[str]:
    """Return settings that differ and could change a result."""
    a, b = _flat(first.model_dump()), _flat(second.model_dump())
    return sorted(
        key
        for key in a.keys() | b.keys()
        if a.get(key) != b.get(key) and (not key.startswith("engine.") or key == "engine.backend")
    )


def _run_all(
    config: Config,
    folder: Path,
    progress: RunProgress,
    preparing: Progress | None,
    world: World | None = None,
) -> RunResult:
    from fedorbit.report.run_figures import write_accuracy_figure  # slow to import

    methods = {n: make_method(n, config.methods.get(n, {})) for n in config.run.method}
    with _only_one(folder):
        if not (folder / WORLD).exists():  # also for runs of a time when there was none
            world = world or build_world(config, preparing)
            write_setting(folder, world)
        runs = []
        for name, method in methods.items():
            target = method_folder(folder, name)
            target.mkdir(exist_ok=True)
            summary = read_summary(target)
            if summary is None:
                world = world or build_world(config, preparing)
                try:
                    summary = run_rounds(world, name, method, target, progress)
                except StopRequested as stop:
                    stop.folder = folder
                    raise
            runs.append(MethodRun(name, target, summary))
        result = RunResult(folder, tuple(runs))
        write_accuracy_figure(folder, {r.method: r.records for r in runs})
    return result


@contextmanager
def _only_one(folder: Path) -> Iterator[None]:
    """Refuse to run twice in one folder at the same time."""
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunError(f"another process runs in {folder}; wait for it or stop it") from None
        yield


def _with_backend(config: Config) -> Config:
    """Write down who trains: kernel and PyTorch round differently, and a run keeps its choice."""
    engine = config.engine
    backend = resolve_backend(engine.backend, config.model.name, engine.device)
    return config.model_copy(update={"engine": engine.model_copy(update={"backend": backend})})


def _next_free(root: Path) -> Path:
    number = 1
    while (root / str(number)).exists():
        number += 1
    return root / str(number)


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
