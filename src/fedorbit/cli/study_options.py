"""Arguments and options of `fedorbit study`."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from fedorbit.cli.completion import complete_override


class StudyEngine(StrEnum):
    """Engines of a study."""

    LOCAL = "local"
    RAY = "ray"


class RayFiles(StrEnum):
    """Ways in which files of runs on a cluster reach the study's folder."""

    SHARED = "shared"
    RETURN = "return"


class Format(StrEnum):
    """Formats of a table."""

    TERMINAL = "terminal"
    MARKDOWN = "markdown"
    LATEX = "latex"
    CSV = "csv"


def _complete_study(incomplete: str) -> list[str]:
    from fedorbit.studies import shipped_names

    return [name for name in shipped_names() if name.startswith(incomplete)]


StudyArgument = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="A shipped study (see [bold]fedorbit study list[/bold]), a TOML file, or the folder "
        "of a study that was run.",
        autocompletion=_complete_study,
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="The study's folder.", show_default="studies/NAME"),
]
Quick = Annotated[
    bool,
    typer.Option(
        "--quick", help="Small synthetic images, few rounds, one seed; in studies/NAME-quick."
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        "--seeds", metavar="LIST", help="Seeds, such as 0,1,2 or 0-4.", show_default="the study's"
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        "-o",
        metavar="KEY=VALUE",
        help="Change a setting of all runs, or select among the values of an axis, such as "
        "[bold]-o run.rounds=50[/bold] or [bold]-o 'method=[\"fedavg\"]'[/bold]; repeatable.",
        autocompletion=complete_override,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs",
        "-j",
        min=1,
        metavar="N",
        help="Runs at a time.",
        show_default="one per core; on a cluster, as many as fit",
    ),
]
Engine = Annotated[
    StudyEngine,
    typer.Option("--engine", help="Processes of this machine, or tasks of a Ray cluster."),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="HOST:PORT",
        help="The cluster.",
        show_default="RAY_ADDRESS, else Ray is started on this machine",
    ),
]
Cpus = Annotated[
    int | None,
    typer.Option(
        "--cpus", min=1, metavar="N", help="Cores and threads of a run.", show_default="1"
    ),
]
Gpus = Annotated[
    float | None,
    typer.Option(
        "--gpus",
        min=0,
        metavar="N",
        help="GPUs reserved for a run, also a part of one. A run uses them if its engine.device "
        "is cuda.",
        show_default="0",
    ),
]
Files = Annotated[
    RayFiles,
    typer.Option(
        "--ray-files",
        help="shared: all nodes have the study's folder, and its locks, under one path. return: "
        "they do not, and send their files while they run.",
    ),
]
Reuse = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="DIR",
        help="Copy runs that are finished in or below DIR and have the same settings, "
        "instead of doing them again; repeatable.",
    ),
]
