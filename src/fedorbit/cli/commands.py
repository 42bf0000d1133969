"""All commands together, and what happens when one of them fails.

Bad input ends in one sentence on standard error and exit code 2. A traceback appears only with
`--debug`, wherever on the line it stands.
"""

import errno
import os
import sys
import warnings
from collections.abc import Sequence
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from fedorbit.cli import EXIT_INTERRUPTED
from fedorbit.cli.app import App, LaterCommand
from fedorbit.cli.output import complain, stderr
from fedorbit.errors import INSTALL_TORCH, FedOrbitError, os_sentence
from fedorbit.stopping import first_stop

EXIT_BUG, EXIT_BAD_INPUT = 1, 2
WORDING = {
    "Value error, ": "",
    "Input should be greater than or equal to": "must be at least",
    "Input should be a valid integer, unable to parse string as an integer": "must be an integer",
    "Input should be a valid number, unable to parse string as a number": "must be a number",
    "Input should be ": "must be ",
}
"""Messages of pydantic about an option, and those of this program."""

app = App(
    name="fedorbit",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]First steps[/bold]\n\n"
    "fedorbit orbits  # a constellation, its contacts and links\n"
    "fedorbit data partition  # deal synthetic images to its satellites\n"
    "fedorbit run  # train three methods on them, in a minute or two\n"
    "fedorbit report runs/1  # an HTML page of the run, to open in a browser\n"
    "fedorbit config show paper > my.toml  # a file to change\n"
    "fedorbit doctor  # check backend, hardware, extras and datasets",
)
COMMANDS = {
    "run": "Train a constellation and compare methods.",
    "methods": "List the methods; with names, their parameters.",
    "orbits": "Show a constellation: times in view of its orbits, gaps, and every contact.",
    "report": "Make one self-contained HTML page of runs or a study.",
    "serve": "Show runs and studies on a local web page that follows them live.",
    "export": "Write the model of a run to a file: safetensors or ONNX.",
    "predict": "Classify images with the model of a run or of an exported file.",
    "doctor": "Check the installation: backend, hardware, extras, datasets.",
    "data": "Fetch, prepare and inspect images; deal them to satellites.",
    "study": "Run studies: grids of runs, and their tables.",
    "config": "List presets; print settings.",
}
"""The command of each module here, in the help's order: none is imported before it is called."""


def _print_version(wanted: bool) -> None:
    if wanted:
        from fedorbit import __version__

        typer.echo(f"fedorbit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_print_version,
            is_eager=True,
            help="Print the version and exit.",
        ),
    ] = False,
    debug: Annotated[
        bool,
        typer.Option("--debug", help="Show the traceback of an error; in any place of a call."),
    ] = False,
) -> None:
    """Federated learning on LEO satellite constellations.

    Lay out a constellation and see its contacts, deal images to its satellites, train them by
    several methods, and compare in tables, figures and pages.

    Every command takes [bold]--json[/bold] for scripts and [bold]--help[/bold] with examples.
    """


def command_line() -> TyperGroup:
    """Return all commands as one group."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)
    for name, summary in COMMANDS.items():
        group.add_command(LaterCommand(name, help=summary, rich_markup_mode="rich"))
    return group


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # `?` for what the terminal cannot show
    warnings.showwarning = _show_warning
    try:
        code = command_line()(
            [a for a in arguments if a != "--debug"], prog_name="fedorbit", standalone_mode=False
        )
        stop = first_stop()
        if code == EXIT_INTERRUPTED and stop and not stop.is_reported:  # Typer has caught it
            code = _report(None, str(stop), stop.exit_code, debug)
        sys.stdout.flush()  # here, where a broken pipe can be answered
    except (FedOrbitError, typer.TyperException) as error:
        code = _report(error, _sentence(error), EXIT_BAD_INPUT, debug)
    except (BrokenPipeError, SystemExit) as error:
        # The reader of our output (`head`, say) has seen enough. Typer and Rich answer that by
        # leaving with 1; it is no error. The exit must not report it either.
        if not isinstance(error, BrokenPipeError) and not _is_broken_pipe(error.__context__):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except OSError as error:
        code = _report(error, os_sentence(error), EXIT_BAD_INPUT, debug)
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            message = f"this needs PyTorch, which is not installed: {INSTALL_TORCH}"
            return _report(error, message, EXIT_BAD_INPUT, debug)
        message = f"internal error, {type(error).__name__}: {error}; --debug shows where"
        code = _report(error, message, EXIT_BUG, debug)
    return code or 0


def _show_warning(message: Warning | str, *args: Any, **kwargs: Any) -> None:
    complain(str(message), style="bold yellow")


def _is_broken_pipe(error: BaseException | None) -> bool:
    return isinstance(error, OSError) and error.errno == errno.EPIPE


def _sentence(error: FedOrbitError | typer.TyperException) -> str:
    if isinstance(error, FedOrbitError):
        return str(error)
    message = error.format_message().rstrip(".")
    for theirs, ours in WORDING.items():
        message = message.replace(theirs, ours)
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if message and context else message


def _report(error: Exception | None, message: str, code: int, debug: bool) -> int:
    if debug and error is not None:
        stderr.print_exception()
    if message:  # Typer's "no command given" has none: its help is printed already
        complain(message)
    return code
