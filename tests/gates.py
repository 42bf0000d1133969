"""A method whose run a test can hold before a round, to stop or kill it there.

To catch a run in the middle by its length alone fails on a machine that is fast, or busy, enough.
"""

import subprocess
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE_S, wait_until

METHOD = "gated:Gated"

_MODULE = f"""
import time
from pathlib import Path
from fedorbit.methods.fedorbit import FedOrbit


class Gated(FedOrbit):
    '''FedOrbit that does not begin a round which its gate holds.'''

    gate: str = "a"

    def round(self, state, now):
        end = time.monotonic() + {PATIENCE_S}
        while now.t >= self.held_before():
            Path(f"held-{{self.gate}}").touch()
            assert time.monotonic() < end, "the gate was never opened"
            time.sleep(0.01)
        return super().round(state, now)

    def held_before(self):
        try:
            return int(Path(f"gate-{{self.gate}}").read_text())
        except FileNotFoundError:
            return 1_000_000
"""


class Gates:
    """Hold runs of processes that are started in this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "gated.py").write_text(_MODULE)

    def hold(self, gate: str = "a", *, before: int) -> None:
        """Hold runs with this gate, none of them started yet, before a round; the first is 0."""
        (self._folder / f"held-{gate}").unlink(missing_ok=True)
        (self._folder / f"gate-{gate}").write_text(str(before))

    def wait(self, process: "subprocess.Popen[Any]", gate: str = "a") -> None:
        """Wait until a run that the process began is held; its rounds before are done."""
        wait_until(lambda: self.is_held(gate) or process.poll() is not None)
        if not self.is_held(gate):
            raise AssertionError(f"ended with code {process.returncode}: {process.communicate()}")

    def is_held(self, gate: str = "a") -> bool:
        """Return whether a run stands before this gate, or did since it was closed."""
        return (self._folder / f"held-{gate}").exists()

    def open(self, gate: str = "a") -> None:
        """Open the gate."""
        (self._folder / f"gate-{gate}").unlink()
