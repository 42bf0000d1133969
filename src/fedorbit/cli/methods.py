"""`fedorbit methods`: what can be run."""

from typing import Annotated, Any

import typer

from fedorbit.cli.completion import complete_method
from fedorbit.cli.options import AsJson, allow_typed_code
from fedorbit.cli.output import Column, Table, print_json, stdout
from fedorbit.methods import METHODS, Method, find_method

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME",
        help="Methods whose parameters are shown; module:Class of your own, too.",
        autocompletion=complete_method,
    ),
]


def methods(names: Names = None, as_json: AsJson = False) -> None:
    """List the methods; with names, their parameters.

    Set them in a file under [bold]\\[methods.NAME][/bold], or with -o methods.NAME.KEY=VALUE.

    [bold]Examples[/bold]

    fedorbit methods

    fedorbit methods fedorbit ditto
    """
    allow_typed_code(names or [], None)
    chosen = {name: find_method(name) for name in names} if names else METHODS
    if as_json:
        print_json({"methods": {name: _row(cls) for name, cls in chosen.items()}})
    elif names:
        _print_parameters(chosen)
    else:
        table = Table("Methods", [Column("method", left=True), Column("meaning", text=True)])
        for name, cls in chosen.items():
            table.add_row(name, _row(cls)["description"])
        table.print()
        stdout.print("Parameters of one: fedorbit methods NAME", style="dim")


def _print_parameters(chosen: dict[str, type[Method]]) -> None:
    table = Table(
        "Methods and their parameters",
        [
            Column("method", left=True),
            Column("parameter", left=True),
            Column("default"),
            Column("meaning", text=True),
        ],
    )
    for name, cls in chosen.items():
        row = _row(cls)
        table.add_row(name, "", "", row["description"], style="bold")
        for key, parameter in row["parameters"].items():
            table.add_row("", key, str(parameter["default"]), parameter["description"])
    table.print()


def _row(method: type[Method]) -> dict[str, Any]:
    return {
        "description": (method.__doc__ or "").strip().split("\n")[0],
        "parameters": {
            field.alias or key: {"default": field.default, "description": field.description or ""}
            for key, field in method.model_fields.items()
        },
    }
