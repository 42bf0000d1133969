"""Typer, with help that flows: paragraphs of docstrings fill the terminal's width."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.models import CommandFunctionType


class FlowingHelp:
    """Help that has no line breaks but those between paragraphs.

    Flags say that they are flags by having no value; Typer would put `<bool>` there.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        paragraphs = inspect.cleandoc(settings.pop("help", None) or "").split("\n\n")
        flowing = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        super().__init__(*arguments, **{**settings, "help": flowing})

    def get_params(self, ctx: Any) -> list[Any]:
        """As Click's, with flags shown without a value."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command
        for parameter in parameters:
            if isinstance(parameter, TyperOption) and parameter.is_flag:
                parameter.metavar = ""
        return parameters


class Command(FlowingHelp, TyperCommand):
    """A command of this command line."""


class Group(FlowingHelp, TyperGroup):
    """A group of commands."""


class App(typer.Typer):
    """Typer's, with these commands and groups."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, **settings)

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """As Typer's."""
        return super().command(name, cls=Command, **settings)
