"""Typer, with help that flows: paragraphs of docstrings fill the terminal's width."""

import inspect
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperOption
from typer.models import CommandFunctionType


class App(typer.Typer):
    """A group of commands of this command line."""

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """As Typer's, with `Command` as the class of commands."""
        return super().command(name, **{"cls": Command, **settings})


class Command(TyperCommand):
    """A command whose help has no line breaks but those between paragraphs.

    Flags say that they are flags by having no value; Typer would put `<bool>` there.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        paragraphs = inspect.cleandoc(self.help or "").split("\n\n")
        self.help = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)

    def get_params(self, ctx: Any) -> list[Any]:
        """As Click's, with flags shown without a value."""
        parameters = super().get_params(ctx)
        for parameter in parameters:
            if isinstance(parameter, TyperOption) and parameter.is_flag:
                parameter.metavar = ""
        return parameters
