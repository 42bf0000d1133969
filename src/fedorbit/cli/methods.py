"""`fedorbit methods`: what can be run."""

from typing import Any

from fedorbit.cli.options import AsJson
from fedorbit.cli.output import Column, Table, print_json
from fedorbit.methods import METHODS, Method


def methods(as_json: AsJson = False) -> None:
    """List the methods and their parameters.

    Set them in a file under [bold]\\[methods.NAME][/bold], or with -o methods.NAME.KEY=VALUE.

    [bold]Example[/bold]

    fedorbit methods
    """
    if as_json:
        print_json({"methods": {name: _row(cls) for name, cls in METHODS.items()}})
        return
    table = Table(
        "Methods",
        [
            Column("method", left=True),
            Column("parameter", left=True),
            Column("default"),
            Column("meaning", text=True),
        ],
    )
    for name, cls in METHODS.items():
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
