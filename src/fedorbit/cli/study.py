"""`fedorbit study`: grids of runs, and their tables."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from fedorbit.cli import EXIT_INTERRUPTED
from fedorbit.cli.app import App
from fedorbit.cli.options import AllowCode, AsJson, allow_typed_code
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    complain,
    print_files,
    print_json,
    print_toml,
    stderr,
    stdout,
)
from fedorbit.cli.study_options import (
    Cpus,
    Engine,
    Files,
    Format,
    Gpus,
    Jobs,
    Out,
    Overrides,
    Quick,
    RayAddress,
    RayFiles,
    Reuse,
    Seeds,
    StudyArgument,
    StudyEngine,
)
from fedorbit.cli.study_progress import StudyBars
from fedorbit.errors import ConfigError
from fedorbit.stopping import first_stop

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.studies import Study, StudyTable
    from fedorbit.studies.folders import RunState

app = App(
    help="""Run studies: grids of runs, and their tables.

    [bold]Examples[/bold]

    fedorbit study list  # the shipped studies

    fedorbit study run paper-eurosat --quick  # a stand-in, in minutes

    fedorbit study status paper-eurosat --quick

    fedorbit study table paper-eurosat --quick

    fedorbit study show ablation > my-study.toml  # to start one of your own
    """,
    no_args_is_help=True,
)

EXIT_FAILED_RUNS = 3
MANY_SEEDS = 10_000


@app.command()
def run(
    study: StudyArgument,
    out: Out = None,
    quick: Quick = False,
    jobs: Jobs = None,
    engine: Engine = StudyEngine.LOCAL,
    ray_address: RayAddress = None,
    cpus: Cpus = None,
    gpus: Gpus = None,
    ray_files: Files = RayFiles.SHARED,
    seeds: Seeds = None,
    overrides: Overrides = None,
    reuse: Reuse = None,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Run all missing runs of a study.

    Ctrl-C stops and keeps all checkpoints; the same command continues. Several processes may work
    on one study: each run is done by one of them. A failed run does not stop the others; the exit
    code is then 3, and the next call tries it again.

    With [bold]--engine ray[/bold] every run is a task of a Ray cluster, whose nodes have the same
    fedorbit and the prepared datasets. A run whose process or node is lost continues elsewhere from
    its checkpoint, three times at most. See docs/studies.md, "On a cluster".

    [bold]Examples[/bold]

    fedorbit study run paper-eurosat --quick  # a stand-in, in minutes

    fedorbit study run paper-eurosat --seeds 0 -o partition=pathological

    fedorbit study run my-study.toml --out results --jobs 4

    fedorbit study run ablation --reuse studies/paper-eurosat  # copy its runs

    fedorbit study run ablation --engine ray --ray-address head:6379 --cpus 2
    """
    from fedorbit import studies

    on_ray = None
    if engine == StudyEngine.RAY:
        on_ray = studies.OnRay(ray_address, cpus, gpus, ray_files.value)
    elif ray_address or cpus or gpus or ray_files != RayFiles.SHARED:
        raise ConfigError(
            "--ray-address, --ray-files, --cpus and --gpus are for a cluster; add --engine ray, or "
            "use --jobs and -o engine.workers=N on this machine"
        )
    loaded, folder = _load(study, quick, seeds, overrides, out, allow_code)
    if taken := studies.take_over(loaded, folder, reuse or []):
        stderr.print(f"taken over: {', '.join(taken)}", soft_wrap=True)
    try:
        with StudyBars(loaded.name) as bars:
            states = studies.run(loaded, folder, jobs=jobs, ray=on_ray, watch=bars.show)
    except KeyboardInterrupt:
        stderr.print("stopped; nothing is lost: the same command goes on", soft_wrap=True)
        code = EXIT_INTERRUPTED
        if (stop := first_stop()) is not None:
            code, stop.is_reported = stop.exit_code, True
        raise typer.Exit(code) from None
    failed = [state for state in states if state.state == "failed"]
    if as_json:
        print_json(_status_json(loaded, folder, states))
    else:
        if len(failed) < len(states):
            _print_table(studies.table(loaded, folder))
        stdout.print(f"{len(states) - len(failed)} of {len(states)} runs done in {folder}")
    for state in failed:
        complain(f"{state.folder} failed: {state.error}")
    if failed:
        raise typer.Exit(EXIT_FAILED_RUNS)


@app.command()
def status(
    study: StudyArgument,
    out: Out = None,
    quick: Quick = False,
    seeds: Seeds = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """List the runs of a study: done, running, interrupted, failed or missing.

    [bold]Examples[/bold]

    fedorbit study status paper-eurosat --quick

    fedorbit study status studies/ablation --json
    """
    from fedorbit import studies

    loaded, folder = _load(study, quick, seeds, overrides, out, allow_code)
    states = studies.status(loaded, folder)
    if as_json:
        print_json(_status_json(loaded, folder, states))
        return
    table = Table(
        f"{loaded.name} in {folder}: {_counted(states)}",
        [
            Column("run", left=True),
            Column("state", left=True),
            Column("rounds"),
            Column("why", text=True),
        ],
    )
    for state in states:
        rounds = f"{state.rounds_done}/{state.rounds}"
        table.add_row(state.folder, state.state, rounds, state.error or "")
    table.print()


@app.command("table")
def print_table(
    study: StudyArgument,
    form: Annotated[
        Format, typer.Option("--format", help="LaTeX needs the package booktabs.")
    ] = Format.TERMINAL,
    out: Out = None,
    quick: Quick = False,
    seeds: Seeds = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Print a study's results: mean and standard deviation over seeds, best in bold.

    Where a seed is missing, the table says how many are done and shows no mean. Published values,
    where the study has them, stand below ours with the difference.

    [bold]Examples[/bold]

    fedorbit study table paper-eurosat

    fedorbit study table ablation --format latex > ablation.tex
    """
    from fedorbit import studies

    made = studies.table(*_load(study, quick, seeds, overrides, out, allow_code))
    formats: dict[Format, Callable[[StudyTable], str]] = {
        Format.MARKDOWN: studies.markdown,
        Format.LATEX: studies.latex,
        Format.CSV: studies.as_csv,
    }
    if as_json:
        print_json(studies.as_json(made))
    elif form in formats:
        typer.echo(formats[form](made), nl=False)
    else:
        _print_table(made)


@app.command("export")
def export_study(
    study: StudyArgument,
    to: Annotated[Path, typer.Option("--to", metavar="DIR", help="Folder of the copy.")],
    out: Out = None,
    quick: Quick = False,
    seeds: Seeds = None,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Copy a study's results for others: records, tables, page and figures, no checkpoints.

    Runs that are not finished are left out. The copy is a study's folder like any other: table
    and report work on it.

    [bold]Example[/bold]

    fedorbit study export paper-eurosat --to results/paper-eurosat
    """
    from fedorbit import studies
    from fedorbit.report.page import write_page
    from fedorbit.report.paper_figures import write_figures
    from fedorbit.report.replicates import compare
    from fedorbit.report.runfiles import read_runs

    loaded, folder = _load(study, quick, seeds, overrides, out, allow_code)
    exported = studies.export(loaded, folder, to)
    comparison = compare(read_runs([to / slug for slug in exported], RichProgress()))
    page = write_page(to / "report.html", comparison)
    figures = write_figures(to / "figures", comparison, RichProgress())
    if as_json:
        document = {"folder": str(to), "runs": exported, "page": str(page)}
        print_json({**document, "figures": [str(path) for path in figures]})
        return
    missing = len(loaded.runs) - len(exported)
    left_out = f"; {missing} unfinished left out" if missing else ""
    runs = "1 run" if len(exported) == 1 else f"{len(exported)} runs"
    stdout.print(f"{runs}, tables, page and {len(figures)} figures{left_out}")
    print_files([to])


@app.command("list")
def list_studies(as_json: AsJson = False) -> None:
    """List the shipped studies and their numbers of runs.

    [bold]Example[/bold]

    fedorbit study list
    """
    from fedorbit.studies import load_study, shipped_names

    table = Table(
        "Studies",
        [
            Column("study", left=True),
            Column("runs"),
            Column("quick"),
            Column("what it answers", text=True),
        ],
    )
    rows: dict[str, Any] = {}
    for name in shipped_names():
        full, quick = load_study(name), load_study(name, quick=True)
        rows[name] = {
            "title": full.file.title,
            "runs": len(full.runs),
            "rounds": sum(cell.config.run.rounds for cell in full.runs),
            "quick_runs": len(quick.runs),
            "datasets": sorted({cell.config.data.name for cell in full.runs}),
        }
        table.add_row(name, str(len(full.runs)), str(len(quick.runs)), full.file.title)
    if as_json:
        print_json({"studies": rows})
    else:
        table.print()


@app.command()
def show(study: StudyArgument, as_json: AsJson = False) -> None:
    """Print a study's file, to start one of your own.

    [bold]Example[/bold]

    fedorbit study show ablation > my-study.toml
    """
    import tomllib

    from fedorbit.studies import study_text

    text = study_text(study)
    if as_json:
        print_json(tomllib.loads(text))
    else:
        print_toml(text)


def _load(
    source: str,
    quick: bool,
    seeds: str | None,
    overrides: list[str] | None,
    out: Path | None,
    allow_code: list[str] | None,
) -> "tuple[Study, Path]":
    from fedorbit.studies import load_study, shipped_names

    allow_typed_code(overrides or [], allow_code)

    chosen = _seed_list(seeds) if seeds is not None else None
    loaded = load_study(source, quick=quick, seeds=chosen, overrides=overrides or [])
    is_folder = source not in shipped_names() and Path(source).is_dir() and not quick
    return loaded, out or (Path(source) if is_folder else loaded.default_out)


def _seed_list(text: str) -> list[int]:
    """Read `0,1,2` or `0-4`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ConfigError(f"--seeds must look like 0,1,2 or 0-4, got {text!r}")
        begin, end = int(first), int(last or first)
        if end < begin or end - begin > MANY_SEEDS:
            raise ConfigError(f"--seeds: {part!r} must go up, by at most {MANY_SEEDS}")
        seeds += range(begin, end + 1)
    return list(dict.fromkeys(seeds))


def _print_table(made: "StudyTable") -> None:
    from fedorbit.results.estimates import COMPETING
    from fedorbit.studies.formats import heads, lines

    # On a narrow terminal the last metrics go first; what methods compete in stays.
    ranks = [0 if name in COMPETING else 1 + n for n, name in enumerate(made.metrics)]
    columns = zip(heads(made), ranks * len(made.columns), strict=True)
    numbers = [Column(head, rank=rank) for head, rank in columns]
    printed = Table(made.heading, [Column("", left=True), *numbers])
    for line in lines(made):
        if line.begins_section:
            printed.add_section()
        cells = (Text(text, "bold" if best else "") for text, best in line.cells)
        printed.add_row(line.label, *cells, style="dim" if line.published else None)
    printed.print()
    stdout.print(made.note, style="dim")


def _status_json(study: "Study", out: Path, states: "list[RunState]") -> dict[str, Any]:
    return {
        "study": study.name,
        "quick": study.quick,
        "folder": str(out),
        "runs": [state.as_json() for state in states],
    }


def _counted(states: "list[RunState]") -> str:
    kinds = [state.state for state in states]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
