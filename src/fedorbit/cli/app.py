"""Typer, with help that flows: paragraphs of docstrings fill the terminal's width."""

import inspect
import re
from collections.abc import Callable
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup
from typer.main import get_group
from typer.models import CommandFunctionType


class FlowingHelp:
    """Help that has no line breaks but those between paragraphs, and names values, not types.

    Flags are shown without a value and arguments by their name alone; Typer would show `<bool>` and
    `<list[Path]>`, and the usage as `{STUDY}` and `{DIR}...`.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        paragraphs = inspect.cleandoc(settings.pop("help", None) or "").split("\n\n")
        flowing = "\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs)
        super().__init__(*arguments, **{**settings, "help": flowing})

    def get_params(self, ctx: Any) -> list[Any]:
        """As Click's, with names of values instead of Python's types."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command
        for parameter in parameters:
            if isinstance(parameter, TyperArgument):
                vars(parameter)["display_type_rich"] = lambda ctx: None
            elif parameter.is_flag:
                parameter.metavar = ""
            elif parameter.metavar is None:  # choices
                parameter.metavar = parameter.display_type(ctx).strip("<>")
        return parameters

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As Click's, with required arguments as bare names."""
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]
        return [re.sub(r"^\{([^|]*)\}", r"\1", piece) for piece in pieces]


class Command(FlowingHelp, TyperCommand):
    """A command of this command line."""


class Group(FlowingHelp, TyperGroup):
    """A group of commands."""


class App(typer.Typer):
    """A `typer.Typer` with the commands and groups of this module."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, **settings)

    def command(
        self, name: str | None = None, **settings: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """Register a command, as `typer.Typer.command` does."""
        return super().command(name, cls=Command, **settings)


class LaterCommand(TyperCommand):
    """A command or group whose module, of the same name, is imported when it is called.

    `help` is the line in the list of commands, the first paragraph of the command's own help.
    """

    def load(self) -> Any:
        """Import the module's `app`, or the function with its name; return that as a command."""
        assert self.name is not None
        module = import_module(f"fedorbit.cli.{self.name}")
        if hasattr(module, "app"):
            return get_group(module.app)
        app = App(rich_markup_mode=self.rich_markup_mode)
        app.command(self.name)(getattr(module, self.name))
        return get_group(app).commands[self.name]

    def make_context(self, *arguments: Any, **settings: Any) -> Any:
        """Return the context of the command itself, which is imported now."""
        return self.load().make_context(*arguments, **settings)
