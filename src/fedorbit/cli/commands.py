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

from fedorbit import __version__
from fedorbit.cli import EXIT_INTERRUPTED, config, data, doctor, models, orbits, report, run, study
from fedorbit.cli.app import App
from fedorbit.cli.output import complain, stderr
from fedorbit.errors import FedOrbitError, os_sentence
from fedorbit.stopping import first_stop

EXIT_BUG, EXIT_BAD_INPUT = 1, 2

app = App(
    name="fedorbit",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="[bold]First steps[/bold]\n\n"
    "fedorbit orbits  [dim]the paper's constellation and its contacts[/dim]\n\n"
    "fedorbit data partition  [dim]deal synthetic images to its satellites[/dim]\n\n"
    "fedorbit run  [dim]train three methods on them, in two minutes[/dim]\n\n"
    "fedorbit config show paper > my.toml  [dim]a file to change[/dim]\n\n"
    "fedorbit doctor  [dim]who trains on this machine, and what is missing[/dim]",
)
app.command()(run.run)
app.command()(run.methods)
app.command()(orbits.orbits)
app.command()(report.report)
app.command()(models.export)
app.command()(models.predict)
app.command()(doctor.doctor)
app.add_typer(data.app, name="data")
app.add_typer(study.app, name="study")
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedorbit {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print and exit."),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; works anywhere.")
    ] = False,
) -> None:
    """Federated learning on LEO satellite constellations.

    Lay out a constellation and see its contacts, deal images to its satellites, train them by
    several methods, and compare in tables, figures and pages.

    Every command takes [bold]--json[/bold] for scripts and [bold]--help[/bold] with examples.
    """


def execute(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # `?` for what the terminal cannot show
    warnings.showwarning = _show_warning
    try:
        code = app(
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
    context = getattr(error, "ctx", None)
    return f"{message} (see {context.command_path} --help)" if message and context else message


def _report(error: Exception | None, message: str, code: int, debug: bool) -> int:
    if debug and error is not None:
        stderr.print_exception()
    if message:  # Typer's "no command given" has none: its help is printed already
        complain(message)
    return code
