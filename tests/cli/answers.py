"""Outputs of commands, for tests."""

from typing import NamedTuple


class Done(NamedTuple):
    """Outputs of a finished command."""

    stdout: str
    stderr: str


def one_sentence(done: Done) -> str:
    """The message of a refused call: one line on standard error, nothing on standard output."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    [line] = done.stderr.strip().splitlines()
    return line.removeprefix("fedorbit: ")
