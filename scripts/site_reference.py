"""References of the configuration and of the command line, from the code, as Markdown."""

import inspect
import re
import signal
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

import typer
from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from site_equations import escaped
from typer.core import TyperArgument

from fedorbit.cli import EXIT_INTERRUPTED
from fedorbit.cli.app import LaterCommand
from fedorbit.cli.commands import EXIT_BAD_INPUT, EXIT_BUG, command_line
from fedorbit.cli.study import EXIT_FAILED_RUNS
from fedorbit.config import Config

BOUNDS = {Ge: ("ge", "≥"), Gt: ("gt", ">"), Le: ("le", "≤"), Lt: ("lt", "<")}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(value: object) -> str:
    """Return a value as code, in which a table takes `|` as it is."""
    return f"`{value}`"


def configuration() -> str:
    """Return the reference of all settings, from the schema that checks them."""
    parts = [
        "# Configuration",
        'A configuration is a TOML file. It may begin with `extends = "PRESET"`, and the command '
        "line changes single settings: `-o run.rounds=50`. `fedorbit config show paper` prints one "
        "in full. Unknown keys and values out of range are refused with one sentence. Defaults "
        "are those of the paper unless a meaning says otherwise.",
        "This page is generated from the schema.",
        "## Top level",
        settings(Config, tables=False),
    ]
    parts += chapters("", Config)
    parts += [
        "## [methods.NAME]",
        "Parameters of a method, such as `methods.fedorbit.rho`: see the "
        "[catalogue of methods](methods.md).",
    ]
    return "\n\n".join(parts)


def chapters(path: str, parent: type[BaseModel]) -> Iterator[str]:
    """Yield the parts of all tables inside a table of the configuration."""
    for key, field in parent.model_fields.items():
        choices = sections(field.annotation)
        name = f"[{path}{key}]"
        if get_origin(field.annotation) is tuple:
            name = f"[{name}]"  # an array of tables
        for section in choices:
            choice = next((f for f in ("kind", "scheme") if f in section.model_fields), "")
            of = section.model_fields[choice].annotation if len(choices) > 1 else None
            yield f"## {name}, {choice} = {get_args(of)[0]}" if of else f"## {name}"
            yield escaped(inspect.cleandoc(section.__doc__ or ""))
            yield settings(section)
            yield from chapters(f"{path}{key}.", section)


def settings(section: type[BaseModel], tables: bool = True) -> str:
    """Return the table of the settings of one section."""
    rows = [
        [code(field.alias or key), kind(field), default(field), escaped(field.description or "")]
        for key, field in section.model_fields.items()
        if tables or not sections(field.annotation)
    ]
    return table(["key", "value", "default", "meaning"], rows)


def sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that an annotation names."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [s for a in get_args(annotation) for s in sections(a)]


def kind(field: FieldInfo) -> str:
    """Return what a setting may be."""
    bounds = [m for m in field.metadata if type(m) in BOUNDS]
    return ", ".join([words(field.annotation), *map(bound, bounds)])


def bound(limit: Any) -> str:
    """Return a bound as it is read: `≤ 10,000`, and 2 to the 63rd for what 64 bits hold."""
    name, sign = BOUNDS[type(limit)]
    value = getattr(limit, name)
    if value == 2**63 - 1:
        return "< 2<sup>63</sup>"
    return f"{sign} {int(value) if value == int(value) else value:,}"


def words(annotation: Any) -> str:
    """Return a type as a user would name it."""
    names = {
        int: "integer",
        float: "number",
        bool: "true or false",
        str: "text",
        Path: "path",
        type(None): "nothing",
    }
    if annotation in names:
        return names[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(code(f'"{value}"') for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(words(a) for a in arguments if a is not type(None))
    if origin is tuple:
        inner = dict.fromkeys(words(a) for a in arguments if a is not Ellipsis)
        return f"list of {' and '.join(inner)}"
    if origin is dict or sections(annotation):
        return "table"
    return getattr(annotation, "__name__", "text").lower()


def default(field: FieldInfo) -> str:
    """Return the default of a setting."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        return "below"
    if value is None or value is PydanticUndefined:
        return "none"
    if isinstance(value, tuple) and any(isinstance(v, BaseModel) for v in value):
        return ", ".join(getattr(v, "name", "table") for v in value)
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, tuple):
        return code(list(value)).replace("'", '"')
    return code(f'"{value}"' if isinstance(value, str) else value)


EXIT_CODES = [
    ["0", "done; also `serve` that a signal has ended"],
    [str(EXIT_BUG), "internal error; of `doctor`: runs are not possible"],
    [str(EXIT_BAD_INPUT), "bad input, in one sentence on standard error"],
    [str(EXIT_FAILED_RUNS), "of `study run`: some runs have failed"],
    [str(EXIT_INTERRUPTED), "stopped by Ctrl-C (SIGINT)"],
    [str(128 + signal.SIGTERM), "stopped by SIGTERM"],
]


def commands() -> str:
    """Return the reference of all commands, from the commands themselves."""
    group = command_line()
    parts = [
        "# Command line",
        "Every command has `--help` with examples, and `--json` for scripts.",
        table(["exit code", "meaning"], EXIT_CODES),
        "This page is generated from the commands.",
    ]
    for name, entry in group.commands.items():
        command = entry.load() if isinstance(entry, LaterCommand) else entry
        parts += command_parts(f"fedorbit {name}", command)
    return "\n\n".join(parts)


def command_parts(name: str, command: Any) -> Iterator[str]:
    """Yield the parts of one command, and of those inside it."""
    yield f"## {name}"
    body, *examples = re.split(r"\n\n\[bold\]Examples?\[/bold\]\n\n", command.help)
    yield escaped(plain(body))
    for lines in map(plain, examples):
        yield "```sh\n" + lines.replace("\n\n", "\n") + "\n```"
    context = typer.Context(command)
    rows = [
        [code(called(p, context)), default_of(p), escaped(plain(p.help))]
        for p in command.get_params(context)
        if p.name != "help"
    ]
    if any(row[1] for row in rows):
        yield table(["argument", "default", "meaning"], rows)
    elif rows:
        yield table(["argument", "meaning"], [[row[0], row[2]] for row in rows])
    for inner, below in getattr(command, "commands", {}).items():
        yield from command_parts(f"{name} {inner}", below)


def plain(text: str | None) -> str:
    """Return help without the markup of the terminal; what is bold there is code."""
    return re.sub(r"\[/?bold\]", "`", text or "").replace("\\[", "[")


def called(parameter: Any, context: typer.Context) -> str:
    """Return a parameter as it is typed: an argument's name, or an option with its value."""
    if isinstance(parameter, TyperArgument):
        return parameter.display_name_raw + ("..." if parameter.nargs != 1 else "")
    return f"{', '.join(parameter.opts)} {parameter.display_type_rich(context)}".strip()


def default_of(parameter: Any) -> str:
    """Return the default as `--help` shows it: a value as code, or what decides it as text."""
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return escaped(parameter.show_default)
    return "" if parameter.default in (None, False) else code(parameter.default)
