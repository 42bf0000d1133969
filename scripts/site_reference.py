"""References of the configuration and of the command line, from the code, as Markdown."""

import inspect
import re
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from site_equations import escaped

from fedorbit.cli.app import LaterCommand
from fedorbit.cli.commands import command_line
from fedorbit.config import Config

BOUNDS = {Ge: "≥ {.ge}", Gt: "> {.gt}", Le: "≤ {.le}", Lt: "< {.lt}"}


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(value: object) -> str:
    """Return a value as code in a cell of a table."""
    return "`" + str(value).replace("|", "\\|") + "`"


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
    bounds = [BOUNDS[type(m)].format(m) for m in field.metadata if type(m) in BOUNDS]
    return ", ".join([words(field.annotation), *bounds])


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
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, tuple) and any(isinstance(v, BaseModel) for v in value):
        return ", ".join(getattr(v, "name", "table") for v in value)
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, tuple):
        return code(list(value)).replace("'", '"')
    return code(f'"{value}"' if isinstance(value, str) else value)


def commands() -> str:
    """Return the reference of all commands, from the commands themselves."""
    group = command_line()
    parts = [
        "# Command line",
        "Every command has `--help` with examples, and `--json` for scripts. Exit codes: 0, "
        "2 after bad input (one sentence on standard error), 130 after Ctrl-C.",
        "This page is generated from the commands.",
    ]
    for name, entry in group.commands.items():
        command = entry.load() if isinstance(entry, LaterCommand) else entry
        parts += command_parts(f"fedorbit {name}", command)
    return "\n\n".join(parts)


def command_parts(name: str, command: Any) -> Iterator[str]:
    """Yield the parts of one command, and of those inside it."""
    yield f"## {name}"
    text = re.sub(r"\[dim\]", "# ", command.help or "")
    text = re.sub(r"\[/?(?:bold|dim)\]", "", text).replace("\\[", "[")
    body, _, lines = re.sub(r"\n\nExamples?\n\n", "\0", text).partition("\0")
    yield escaped(body)
    if lines:
        yield "```sh\n" + lines.replace("\n\n", "\n") + "\n```"
    rows = []
    for parameter in command.params:
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        is_option = parameter.param_type_name == "option"
        label = ", ".join(map(code, parameter.opts)) if is_option else code(parameter.name.upper())
        given = parameter.default
        shown = code(given) if given not in (None, False, (), []) and not callable(given) else ""
        meaning = re.sub(r"\[/?(?:bold|dim)\]", "", getattr(parameter, "help", None) or "")
        rows.append([label, "required" if parameter.required else shown, escaped(meaning)])
    if rows:
        yield table(["argument", "default", "meaning"], rows)
    for inner, below in getattr(command, "commands", {}).items():
        yield from command_parts(f"{name} {inner}", below)
