"""The command line. Commands live in modules of their own; `commands` puts them together."""

import sys
from collections.abc import Sequence

EXIT_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit."""
    try:
        # In here, since NumPy and others take a while: Ctrl-C meanwhile is no reason to panic.
        from fedorbit.cli.commands import execute

        code = execute(arguments)
    except KeyboardInterrupt:
        print("fedorbit: interrupted", file=sys.stderr)
        code = EXIT_INTERRUPTED
    sys.exit(code)
