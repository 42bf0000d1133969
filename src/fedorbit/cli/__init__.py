"""The command line. Commands live in modules of their own; `commands` puts them together.

Nothing is imported here before signals are answered: a Ctrl-C in the first moments is answered by
one line, too.
"""

import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

EXIT_INTERRUPTED = 130


def main(arguments: "Sequence[str] | None" = None) -> None:
    """Run the command line and exit."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _leave)
    from fedorbit import stopping

    stopping.answer_signals_once()
    try:
        # In here, since NumPy and others take a while: a signal meanwhile is answered, too.
        from fedorbit.cli.commands import execute

        code = execute(arguments)
    except stopping.StopRequested as stop:
        print(f"fedorbit: {stop}", file=sys.stderr)
        code = stop.exit_code
    stopping.ignore_signals()
    stopping.ignore_signals_to_the_end()
    sys.exit(code)


def _leave(number: int, frame: object) -> None:
    import os

    os.write(2, f"fedorbit: stopped by {signal.Signals(number).name}\n".encode())
    os._exit(128 + number)
