"""Options that several commands share."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fedorbit.cli.completion import complete_method, complete_override
from fedorbit.config.files import preset_names
from fedorbit.user_code import allow_code, allow_code_named_in

DEFAULT_CONFIG = "quickstart"


def _complete_config(incomplete: str) -> list[str]:
    folder, slash, begin = incomplete.rpartition("/")
    try:
        found = sorted(Path(folder + slash).glob("*.toml"))
    except OSError:
        found = []
    files = [folder + slash + path.name for path in found if path.name.startswith(begin)]
    return [name for name in preset_names() if name.startswith(incomplete)] + files


def _config(show_default: bool | str) -> Any:
    return typer.Argument(
        metavar="CONFIG",
        help="A preset (see [bold]fedorbit config list[/bold]) or a TOML file.",
        autocompletion=_complete_config,
        show_default=show_default,
    )


ConfigArgument = Annotated[str, _config(show_default=True)]
OptionalConfigArgument = Annotated[str | None, _config(show_default=DEFAULT_CONFIG)]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--override",
        "-o",
        metavar="KEY=VALUE",
        help="Change one setting, such as [bold]-o constellation.planes=7[/bold]; repeatable.",
        autocompletion=complete_override,
    ),
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        metavar="NAME",
        help="Run this method (see [bold]fedorbit methods[/bold]); repeatable.",
        show_default="those of CONFIG",
        autocompletion=complete_method,
    ),
]
OutFolder = Annotated[
    Path | None,
    typer.Option("--out", metavar="DIR", help="Write figures and tables into this folder."),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Print one JSON document for scripts instead of tables.")
]
AllowCode = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-code",
        metavar="MODULE",
        help="Import this module if a file names it as a method or model; repeatable. Modules "
        "that are named with -m or -o need no permission.",
    ),
]


def allow_typed_code(typed: Sequence[str], allowed: Sequence[str] | None) -> None:
    """Allow the modules that stand on the command line, and no others."""
    allow_code_named_in(typed)
    allow_code(*(allowed or ()))
