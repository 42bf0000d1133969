"""Ctrl-C and SIGTERM: the first signal raises an exception, later ones are ignored meanwhile.

The command line answers signals by `stop_once` from its first line to its last. The first signal
raises `StopRequested`; further ones are ignored, so that what is being written is finished and no
traceback appears, but for one that comes more than ten seconds later, which ends the process. Where
a stop may take long, `listening_again` accepts a second signal.
While a library is imported, a signal ends the process instead: an exception in the middle of
PyTorch's start-up can abort it, and a run that was begun is as safe as after a kill.
A program that uses fedorbit as a library keeps its own handlers but for the time of a run's rounds.
"""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM)
PATIENCE_S = 10.0
"""Seconds that a stop may take before a further signal ends the process."""

Handler = Callable[[int, FrameType | None], Any]


class StopRequested(KeyboardInterrupt):
    """A signal asks the run to end; it can be resumed from `folder`."""

    def __init__(self, signal_number: int) -> None:
        super().__init__(f"stopped by {signal.Signals(signal_number).name}")
        self.signal_number = signal_number
        self.folder: Path | None = None
        """The run's folder, once there is one."""
        self.options: tuple[str, ...] = ()
        """Options that the command line needs to resume it."""
        self.is_reported = False
        """True once the stop has been reported to the user."""

    @property
    def exit_code(self) -> int:
        """Exit code that shells expect of a program ended by this signal."""
        return 128 + self.signal_number


_received: list[StopRequested] = []


def first_stop() -> StopRequested | None:
    """Return the first stop that was requested of the command line, if any was."""
    return _received[0] if _received else None


def stop_once(number: int, frame: FrameType | None) -> None:
    """Raise `StopRequested`, and ignore the signals that follow."""
    ignore_signals()
    _received.append(StopRequested(number))
    if _is_importing(frame):
        _leave(number)
    raise _received[-1]


def _leave(number: int) -> None:
    stop = StopRequested(number)
    os.write(2, f"fedorbit: {stop}\n".encode())
    os._exit(stop.exit_code)


def request_stop(number: int) -> None:
    """Stop as the signal would, on behalf of a library that has answered it."""
    if is_command_line():
        stop_once(number, None)
    raise StopRequested(number)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None


def answer_signals_once() -> None:
    """Answer the next signal by `stop_once`, until further notice."""
    _set(dict.fromkeys(SIGNALS, stop_once))


def ignore_signals() -> None:
    """Ignore signals while a stop is handled; one that comes much later ends the process."""
    ignored_since_s = time.monotonic()

    def ignore(number: int, frame: FrameType | None) -> None:
        # Code that catches everything has swallowed the stop: a later request must work.
        if time.monotonic() - ignored_since_s > PATIENCE_S:
            _leave(number)

    # Not SIG_IGN: Python reports a signal that arrives while it is set by a traceback.
    _set(dict.fromkeys(SIGNALS, ignore))


def ignore_signals_to_the_end() -> None:
    """Ignore signals while the process ends, when Python functions no longer answer them."""
    _set(dict.fromkeys(SIGNALS, signal.SIG_IGN))


def is_command_line() -> bool:
    """Return whether signals are handled as on the command line."""
    return signal.getsignal(signal.SIGINT) is stop_once or bool(_received)


@contextmanager
def listening_again() -> Iterator[None]:
    """Accept one more signal where the command line already ignores them."""
    with _handlers(stop_once if _received else None):
        yield


@contextmanager
def stopping_on_signals() -> Iterator[None]:
    """Turn signals into `StopRequested`, so that a checkpoint can still be written."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise StopRequested(number)

    with _handlers(None if is_command_line() else stop):
        yield


@contextmanager
def deaf_to_signals() -> Iterator[None]:
    """Finish what is being written, however often a stop is requested."""
    with _handlers(lambda number, frame: None):
        yield


@contextmanager
def _handlers(handler: Handler | None) -> Iterator[None]:
    """Answer signals by a handler; only the main thread may set one, others do without."""
    if handler is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before, stops = {number: signal.getsignal(number) for number in SIGNALS}, len(_received)
    _set(dict.fromkeys(SIGNALS, handler))
    try:
        yield
    finally:
        if len(_received) == stops:  # else signals are ignored from now on
            _set(before)


def _set(handlers: dict[signal.Signals, Any]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
