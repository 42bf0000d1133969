"""Waiting for something that other processes do, on machines that may be busy."""

import time
from collections.abc import Callable

PATIENCE_S = 300.0


def wait_until(condition: Callable[[], object]) -> None:
    """Wait until something is so."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)
