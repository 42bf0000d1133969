"""A method whose run a test can hold before a round, to stop or kill it there.

To catch a run in the middle by its length alone fails on a machine that is fast, or busy, enough.
"""

from pathlib import Path

METHOD = "gated:Gated"

_MODULE = """
import time
from pathlib import Path
from fedorbit.methods.fedorbit import FedOrbit


class Gated(FedOrbit):
    '''FedOrbit that does not begin a round which its gate holds.'''

    gate: str = "a"

    def round(self, state, t, fleet):
        end = time.monotonic() + 300
        while t >= self.held_before():
            assert time.monotonic() < end, "the gate was never opened"
            time.sleep(0.01)
        return super().round(state, t, fleet)

    def held_before(self):
        try:
            return int(Path(f"gate-{self.gate}").read_text())
        except FileNotFoundError:
            return 1_000_000
"""


class Gates:
    """Hold runs of processes that are started in this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        (folder / "gated.py").write_text(_MODULE)

    def hold(self, gate: str = "a", *, before: int) -> None:
        """Hold runs with this gate that start from now on before a round; the first one is 0."""
        (self._folder / f"gate-{gate}").write_text(str(before))

    def open(self, gate: str = "a") -> None:
        """Let runs with this gate pass."""
        (self._folder / f"gate-{gate}").unlink()
