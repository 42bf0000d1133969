"""`fedorbit run`: train a constellation."""

import shlex
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from fedorbit.cli.onboard import print_onboard
from fedorbit.cli.options import (
    DEFAULT_CONFIG,
    AllowCode,
    AsJson,
    Methods,
    OptionalConfigArgument,
    Overrides,
    allow_typed_code,
)
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    print_files,
    print_json,
    stderr,
    stdout,
)
from fedorbit.cli.run_progress import RichRunProgress
from fedorbit.config import Config, load_config
from fedorbit.config.files import literal
from fedorbit.errors import ConfigError, RunError
from fedorbit.results.numbers import amount, averaged, percent, ratio
from fedorbit.simulation.records import Record
from fedorbit.stopping import StopRequested

JSON_KEYS = (
    "method", "accuracy", "spread", "per_orbit", "balanced_accuracy", "macro_f1", "similarity",
    "beta", "rounds",
    "samples_trained", "to_ground_bytes", "from_ground_bytes", "isl_bytes", "unlinked_bytes",
    "to_ground_vs_fedavg", "seconds",
)  # fmt: skip


class Tracker(StrEnum):
    """Trackers that a run can log to."""

    TENSORBOARD = "tensorboard"
    MLFLOW = "mlflow"
    WANDB = "wandb"


Track = Annotated[
    list[Tracker] | None,
    typer.Option(
        "--track",
        metavar="TRACKER",
        help="Log to tensorboard, mlflow or wandb; repeatable, each is an extra.",
    ),
]


def run(
    config: OptionalConfigArgument = None,
    overrides: Overrides = None,
    method: Methods = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="DIR", help="The run's folder.", show_default="runs/1, runs/2 …"
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option("--resume", metavar="DIR", help="Continue a run that was stopped."),
    ] = None,
    track: Track = None,
    engine: Annotated[
        str | None,
        typer.Option(
            "--engine",
            metavar="local|ray",
            help="Train with threads of this process, or on a Ray cluster.",
            show_default="engine.kind of CONFIG",
        ),
    ] = None,
    ray_address: Annotated[
        str | None,
        typer.Option(
            "--ray-address",
            metavar="HOST:PORT",
            help="The cluster; implies --engine ray.",
            show_default="RAY_ADDRESS, else Ray is started on this machine",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Train a constellation and compare methods.

    Ctrl-C stops a run and keeps a checkpoint; --resume continues it to the same result. Settings of
    execution, such as threads, may differ then.

    [bold]Examples[/bold]

    fedorbit run  # the quickstart: synthetic images, three methods

    fedorbit run paper -m fedorbit -o partition.scheme=pathological --out runs/a

    fedorbit run --resume runs/a -o engine.workers=1

    fedorbit run paper -o run.links=causal -o methods.fedorbit.rho=0.9

    fedorbit run --track tensorboard --out runs/seen  # also with --resume

    fedorbit run -o onboard.samples_per_s=50 -o onboard.deadline=true  # slow CPUs

    fedorbit run paper --ray-address 10.0.0.1:6379  # same result, on a cluster
    """
    from fedorbit.simulation import runs  # PyTorch takes a second to import

    changes = [*(overrides or [])]
    allow_typed_code([*changes, *(method or [])], allow_code)
    if method:
        changes.append(f"run.method=[{', '.join(repr(name) for name in method)}]")
    changes += [f"tracking.{tracker}=true" for tracker in track or []]
    changes += _engine_changes(engine, ray_address)
    if resume is not None and out is not None:
        raise RunError(
            f"--out {out} cannot be used with --resume {resume}: a run goes on in its own folder; "
            "leave out one of the two"
        )
    watcher = RichRunProgress(quiet)
    preparing = None if quiet else RichProgress()
    try:
        if resume is not None:
            given = load_config(config, changes) if config else None
            result = runs.resume(
                resume, given, overrides=changes, progress=watcher, preparing=preparing
            )
        else:
            loaded = load_config(config or DEFAULT_CONFIG, changes)
            watcher.notice = "\n".join(filter(None, _notices(loaded)))
            result = runs.run(loaded, out, progress=watcher, preparing=preparing)
    except StopRequested as stop:
        if stop.folder is None:  # nothing has begun
            raise
        command = shlex.join(["fedorbit", "run", "--resume", str(stop.folder), *stop.options])
        stderr.print(f"{stop}; nothing is lost: go on with `{command}`", soft_wrap=True)
        stop.is_reported = True
        raise typer.Exit(stop.exit_code) from None
    from fedorbit.report.run_figures import write_accuracy_figure  # slow to import

    records = {r.method: r.records for r in result.runs}
    write_accuracy_figure(result.folder, records)
    if as_json:
        print_json({"runs": [_json_row(r.summary, r.folder) for r in result.runs]})
        return
    summaries = [r.summary for r in result.runs]
    _print_comparison(summaries, averaged([len(r.records) for r in result.runs]))
    _print_unchanged(records)
    print_onboard(summaries)
    print_files([result.folder / "accuracy.png", *(r.folder for r in result.runs)])
    _print_next(result.folder)


def _print_next(folder: Path) -> None:
    """Print the commands that show a run, and what each does."""
    stdout.print("Next:")
    for command, what in (
        ("report", "one HTML file: charts, map, links"),
        ("serve", "a live page with a globe"),
    ):
        line = shlex.join(["fedorbit", command, str(folder)])
        stdout.print(f"  {line}  # {what}", soft_wrap=True)


def _engine_changes(engine: str | None, ray_address: str | None) -> list[str]:
    """Spell the options about the engine as overrides."""
    if ray_address is not None and engine == "local":
        raise ConfigError(
            f"--ray-address {ray_address} cannot be used with --engine local; leave out one of "
            "the two"
        )
    changes = [] if engine is None else [f"engine.kind={literal(engine)}"]
    if ray_address is not None:
        changes += ['engine.kind="ray"', f"engine.ray_address={literal(ray_address)}"]
    return changes


def _notices(config: Config) -> tuple[str, str]:
    """Return the warnings to print before the first round; empty where there are none."""
    return _slow_path_notice(config), _links_notice(config)


def _links_notice(config: Config) -> str:
    """Return a notice where the configured links between satellites do not limit it."""
    if config.is_routed or config.network is None or config.network.isl == "assumed":
        return ""
    return (
        f'network.isl = "{config.network.isl}" does not limit orbits with run.links = '
        f'"{config.run.links}": their satellites exchange at once; set run.links = "physical"'
    )


def _slow_path_notice(config: Config) -> str:
    """Explain why PyTorch trains where it was not asked for; empty if the kernel does."""
    from fedorbit.learning.backends import missed_kernel  # imports PyTorch

    engine = config.engine
    reason = missed_kernel(engine.backend, config.model.name, engine.device, config.torch_only)
    if not reason:
        return ""
    return (
        "PyTorch trains, more slowly than the C kernel would, because "
        f"{reason.partition(';')[0]}; see `fedorbit doctor`"
    )


def _print_comparison(summaries: list[dict[str, Any]], averages: str) -> None:
    rounds = summaries[0]["rounds"]
    compared = any(row["to_ground_vs_fedavg"] is not None for row in summaries)
    table = Table(
        f"After {rounds} rounds, {summaries[0]['links']} links ({averages})",
        [
            Column("method", left=True),
            Column("accuracy"),
            Column("spread"),
            Column("per orbit", rank=5),
            Column("samples", rank=4),
            Column("to ground", rank=2),
            *([Column("/FedAvg", rank=1)] if compared else []),
            Column("unlinked", rank=3),
        ],
    )
    for row in summaries:
        table.add_row(
            row["method"],
            percent(row["accuracy"], "-"),
            percent(row["spread"], "-"),
            " ".join("-" if a is None else f"{a:.0f}" for a in row["per_orbit"][:8]),
            amount(row["samples_trained"]),
            amount(row["to_ground_bytes"], "B"),
            *([ratio(row["to_ground_vs_fedavg"], "x", "-")] if compared else []),
            amount(row["unlinked_bytes"], "B"),
        )
    table.print()
    if summaries[0].get("isl") == "assumed" and (orbits := summaries[0]["unlinked_orbits"]):
        stdout.print(
            f"Satellites of {len(orbits)} of {len(summaries[0]['per_orbit'])} orbits do not always "
            "see each other; their exchanges are assumed to be possible (physical links: "
            "docs/methods.md)",
            soft_wrap=True,
        )
    similarity = summaries[0].get("similarity")
    if similarity is not None:  # old runs did not record it
        stdout.print(f"Class similarity of the orbits: {similarity:.3f}")
    for row in summaries:
        if row.get("beta") not in (None, similarity):
            stdout.print(f"{row['method']} blends with beta = {row['beta']:.3f}")


def _print_unchanged(records: Mapping[str, Sequence[Record]]) -> None:
    """Name methods of which no model in use has changed: a run can be too short for its links."""
    still = [
        method
        for method, rounds in records.items()
        if len(rounds) > 1
        and all(record["orbit_loss"] == rounds[0]["orbit_loss"] for record in rounds)
    ]
    if still:
        stdout.print(
            f"No model in use has changed since the first round: {', '.join(still)}. Training and "
            "contacts take time; set run.rounds higher (`fedorbit orbits` shows when orbits are in "
            "view)"
        )


def _json_row(summary: dict[str, Any], folder: Path) -> dict[str, Any]:
    # Methods that do not blend have no beta of their own; theirs is what the classes give.
    told = {"beta": summary["similarity"], **summary}
    hardware: dict[str, Any] = {key: told[key] for key in ("onboard", "service") if key in told}
    return {**{key: told.get(key) for key in JSON_KEYS}, **hardware, "folder": str(folder)}
