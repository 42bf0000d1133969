"""Traps around a call: what it must not change, import or connect to."""

import random
import socket
from dataclasses import dataclass
from pathlib import Path

from mutations import Outside
from promises import Failure, Tree, snapshot

EVIL = """from pathlib import Path
Path({mark!r}).write_text("imported")


def factory(*arguments, **options):
    raise RuntimeError("the trap was called")
"""
CANARY = "leave me alone\n"


@dataclass
class Traps:
    """A folder that nothing leads to but links, a mark of imported code, and a listening socket."""

    folder: Path
    listener: socket.socket
    _seen: Tree

    @classmethod
    def around(cls, folder: Path) -> "Traps":
        """Set up traps in a new folder."""
        (folder / "outside").mkdir(parents=True)
        (folder / "outside" / "canary").write_text(CANARY)
        listener = socket.create_server(("127.0.0.1", 0))
        return cls(folder, listener, snapshot(folder / "outside"))

    @property
    def outside(self) -> Outside:
        """File outside of the given folders that links lead to."""
        return Outside(self.folder / "outside" / "canary")

    @property
    def address(self) -> str:
        """Address that no command has reason to connect to."""
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def check(self) -> list[Failure]:
        """Return the traps that were sprung since the last check."""
        failures = []
        before, self._seen = self._seen, snapshot(self.folder / "outside")
        if self._seen != before:
            failures.append(Failure("outside changed", "a file beside the given folders changed"))
        if self._mark.exists():
            failures.append(Failure("code executed", "a module in the given folder was imported"))
            self._mark.unlink()
        return failures

    def close(self) -> None:
        """Stop listening."""
        self.listener.close()

    def plant_module(self, folder: Path) -> None:
        """Put a module into a folder; when it is imported, it leaves a mark."""
        (folder / "evil.py").write_text(EVIL.format(mark=str(self._mark)))

    @property
    def _mark(self) -> Path:
        return self.folder / "mark"


def evil_name(rng: random.Random, folder: str) -> str:
    """Return a name by which a configuration could mean the module in a folder."""
    return rng.choice((f"{folder}.evil:factory", "evil:factory"))
