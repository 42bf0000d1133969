"""Runs and their folders: one configuration, one or several methods.

DIR/config.toml          the whole configuration, as resolved
DIR/elements.*           a copy of the satellites' element sets, if they come from a file
DIR/plan.*               a copy of the contact plan, if it comes from a file
DIR/run.json             checksums of these files and all that follow, see `manifest`
DIR/world.json           what a report shows beside the records: data, contacts, positions
DIR/contacts.npy         the contacts, if they are too many for world.json
DIR/accuracy.png, .svg   accuracy per round of all methods, drawn by the command line
DIR/METHOD/records.jsonl one line per evaluated round
DIR/METHOD/summary.json  written when the method is done
DIR/METHOD/checkpoint-*  the two newest states
DIR/METHOD/mlflow.json   which MLflow run it is, if it is one
DIR/METHOD/wandb.json    which run of Weights & Biases it is, if it is one
DIR/tensorboard/METHOD   TensorBoard's event file, if asked for
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedorbit.cluster import ray_cluster
from fedorbit.config import Config
from fedorbit.config.files import dumps, flat_settings
from fedorbit.config.inputs import copies, copy_name, input_files, with_files
from fedorbit.errors import ModelError, RunError
from fedorbit.files import replacing
from fedorbit.methods import make_method
from fedorbit.progress import Progress, SilentProgress
from fedorbit.simulation.loop import RunProgress, SilentRunProgress, run_rounds
from fedorbit.simulation.manifest import (
    CONFIG,
    MANIFEST,
    bound_file,
    overridden,
    read_manifest,
    read_stored,
    refuse_links,
    require_files,
    write_manifest,
)
from fedorbit.simulation.outside import refuse_connections, resume_options
from fedorbit.simulation.provenance import what_counts
from fedorbit.simulation.records import RECORDS, Record, read_records, read_summary
from fedorbit.simulation.records import method_folder as method_folder
from fedorbit.simulation.run_folder import new_folder, only_one, refuse_used
from fedorbit.simulation.tracking import Tracking, connect
from fedorbit.simulation.world import World, build_world
from fedorbit.simulation.world_file import stored_plan, write_world, written_files
from fedorbit.stopping import StopRequested
from fedorbit.user_code import code_digests, require_allowed


@dataclass(frozen=True)
class MethodRun:
    """One finished method of a run."""

    method: str
    """Name of the method, as in `run.method`."""
    folder: Path
    """Folder with its records, summary and checkpoints."""
    summary: dict[str, Any]
    """Final results: accuracy, spread, samples, bytes; see docs/records.md."""

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
                    if key in ("confusion", "hops"):
                        continue
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
    for name in dict.fromkeys((*config.run.method, *config.methods)):  # also what is not run
        make_method(name, config.methods.get(name, {}))
    require_allowed(config.model.name, "model.name")
    if out is not None:  # before anything is written into a folder of other files
        refuse_used(Path(out), copies(config))
    trackers = connect(config.tracking)
    # Joined first: a wrong address leaves no folder behind.
    with _joined(config, preparing), new_folder(None if out is None else Path(out)) as folder:
        refuse_used(folder, copies(config))  # another process may have just begun here
        world = build_world(config, preparing)
        config = _store(config, folder, world.trainer().name)
        world = replace(world, config=config)
        watchers = Tracking(progress or SilentRunProgress(), trackers, config, folder)
        with _resumable(folder, config):
            return _run_all(config, folder, watchers, preparing, world)


def resume(
    folder: Path | str,
    config: Config | None = None,
    *,
    overrides: Sequence[str] = (),
    progress: RunProgress | None = None,
    preparing: Progress | None = None,
) -> RunResult:
    """Continue the run in a folder, with overrides, or with a configuration of the caller's.

    How the run is executed may change; what is computed may not. A folder may come from anywhere:
    it decides neither which code is imported nor what is connected to, see `user_code` and
    `outside`.
    """
    folder = Path(folder)
    refuse_links(folder)
    if not (folder / CONFIG).exists():
        raise RunError(f"{folder} holds no run to resume: it has no {CONFIG}")
    found = read_stored(folder)
    stored = overridden(folder, found, ())
    if config is None:
        config = overridden(folder, found, overrides)
        refuse_connections(str(folder), config, overrides)
    config = with_backend_of(stored, config)
    if keys := differing_keys(stored, config):
        raise RunError(
            f"{folder} was started with another configuration; it differs in "
            f"{', '.join(keys)}; resume without these changes, or start a new run with --out"
        )
    how = {"engine": config.engine, "tracking": config.tracking}
    stored = stored.model_copy(update=how)
    require_code(folder, stored.run.method, stored.model.name)
    with only_one(folder), _resumable(folder, stored):
        trackers = connect(stored.tracking)
        watchers = Tracking(progress or SilentRunProgress(), trackers, stored, folder)
        return _run_all(stored, folder, watchers, preparing)


def require_code(folder: Path, methods: Sequence[str], model: str) -> None:
    """Refuse code of the user's own that was not allowed, or that has changed since."""
    for name in methods:
        require_allowed(name, f"{folder / CONFIG}: run.method")
    require_allowed(model, f"{folder / CONFIG}: model.name")
    manifest = read_manifest(folder)
    if manifest is None:
        return
    now = code_digests((*methods, model))
    for module, digest in manifest.code.items():
        if now.get(module, digest) != digest:
            raise RunError(
                f"the module {module} has changed since {folder} was begun, and a run is of one "
                "code; put the module back, or move that folder away and start again"
            )


def _code_names(config: Config) -> tuple[str, ...]:
    return (*config.run.method, config.model.name)


def with_backend_of(stored: Config, config: Config) -> Config:
    """Return a configuration with the backend that a begun run has settled on, if it is "auto"."""
    if config.engine.backend != "auto":
        return config
    engine = config.engine.model_copy(update={"backend": stored.engine.backend})
    return config.model_copy(update={"engine": engine})


def differing_keys(first: Config, second: Config) -> list[str]:
    """Return settings that differ and could change a result."""
    a, b = flat_settings(what_counts(first)), flat_settings(what_counts(second))
    return sorted(key for key in a.keys() | b.keys() if a.get(key) != b.get(key))


def _run_all(
    config: Config,
    folder: Path,
    watchers: Tracking,
    preparing: Progress | None,
    world: World | None = None,
) -> RunResult:
    methods = {n: make_method(n, config.methods.get(n, {})) for n in config.run.method}
    manifest = read_manifest(folder)
    if manifest is None:
        _refuse_format_1(folder, methods)
        world = world or build_world(config, preparing)
        files = [*write_world(folder, world), *copies(config)]
        manifest = write_manifest(folder, files, code_digests(_code_names(config)))
    else:
        written = (bound_file(folder, name, manifest) for name in written_files(manifest))
        if not all(map(Path.exists, written)):
            world = build_world(config, preparing)  # removed, perhaps for being damaged
            write_world(folder, world)
        require_files(folder, manifest)
    runs, engine = [], None
    with ExitStack() as until_the_end:
        for name, method in methods.items():
            target = method_folder(folder, name)
            target.mkdir(exist_ok=True)
            summary = read_summary(target)
            if summary is None:
                world = world or build_world(config, preparing, stored_plan(folder))
                if engine is None:
                    until_the_end.enter_context(_joined(config, preparing))
                    engine = until_the_end.enter_context(world.engine())
                run_id = manifest.method_id(target.name)
                summary = run_rounds(world, engine, name, method, target, run_id, watchers)
            else:
                read_records(target)  # fails at once if they are damaged, not after all others
                watchers.catch_up(name, summary)
            runs.append(MethodRun(name, target, summary))
    return RunResult(folder, tuple(runs))


@contextmanager
def _resumable(folder: Path, config: Config) -> Iterator[None]:
    """Note on a stop how the run is resumed; turn `sys.exit` in code of the user's into an error.

    No code of fedorbit leaves that way.
    """
    try:
        yield
    except StopRequested as stop:
        stop.folder, stop.options = folder, resume_options(config)
        raise
    except SystemExit as error:
        raise ModelError(
            f"a method or model of your own has called sys.exit({error.code!r}) in {folder}; raise "
            "an exception instead, and resume the run"
        ) from error


def _refuse_format_1(folder: Path, methods: Iterable[str]) -> None:
    """Refuse a run that has begun and has no manifest."""
    if any((method_folder(folder, name) / RECORDS).exists() for name in methods):
        raise RunError(
            f"{folder} cannot be resumed: it has records and no {MANIFEST}, so an earlier version "
            "of fedorbit began it, or files are missing; resume it with that version, or start "
            "again with --out"
        )


@contextmanager
def _joined(config: Config, preparing: Progress | None) -> Iterator[None]:
    """Belong to the cluster that a configuration names, if it does."""
    with ExitStack() as until_the_end:
        if config.engine.kind == "ray":
            progress = preparing or SilentProgress()
            progress.start("joining the Ray cluster", 0, "")
            try:
                until_the_end.enter_context(ray_cluster(config.engine.ray_address))
            finally:
                progress.finish()
        yield


def _store(config: Config, folder: Path, backend: str) -> Config:
    """Write down the configuration, and return it as it will be read again.

    The folder holds all that a run needs but its images: element sets and a contact plan are
    copied into it. The backend is settled, since kernel and PyTorch round differently and a run
    keeps its choice.
    """
    engine = config.engine.model_copy(update={"backend": backend})
    config = config.model_copy(update={"engine": engine})
    files = input_files(config)
    names = {key: copy_name(key, file) for key, file in files.items()}
    with replacing(folder / CONFIG) as partial:
        stored = with_files(config, {key: Path(name) for key, name in names.items()})
        partial.write_text(dumps(stored), encoding="utf-8")
        for key, file in files.items():
            with replacing(folder / names[key]) as copy:
                copy.write_bytes(file.read_bytes())
    return with_files(config, {key: folder / name for key, name in names.items()})
