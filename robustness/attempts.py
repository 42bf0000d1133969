"""One attempt at a run: start it, wait for a moment in one of its phases, send a signal.

Attempts go through the real executable, or are forked from a process that has imported everything,
which saves two seconds each.
"""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import forkserver

POLL_S = 0.002
PHASES = {"start": 1, "world": 1, "rounds": 6, "summary": 1, "figure": 1}
"""Phases in which a run is killed, with the relative frequency of each."""
STRETCH = 0.3
"""The share of its rounds that an attempt is left at most: so a run is killed several times."""
SOON_S = 0.03
EARLY = 0.7
"""The share of its time after which a stop comes at the latest; a resumed run has less to do."""
HURRIED, HURRY_S = 5, 0.05
"""Signals of a user who cannot wait."""
IMPORTS = "_multiarray_umath"
"""A library that is loaded once the command line has begun to import."""
PATIENCE_S = 600.0


@dataclass(frozen=True)
class Pace:
    """Times of an undisturbed attempt."""

    first_record_s: float
    end_s: float
    rounds: int

    @property
    def rounds_s(self) -> float:
        """Return how long the rounds take, and what comes behind them."""
        return self.end_s - self.first_record_s


@dataclass(frozen=True)
class Ended:
    """End of an attempt."""

    code: int
    stderr: str
    in_rounds: bool
    """True if it had written a record when the signal came."""
    forked: bool
    signalled: bool


class Attempt:
    """A process at work in a folder."""

    def __init__(
        self,
        argv: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        entry: forkserver.Entry | None,
    ) -> None:
        """Start it; forked if there is a function to call, else by the executable."""
        self.folder = folder
        self.forked = entry is not None
        self.begin = time.monotonic()
        self.records_before = recorded_bytes(folder)
        self._err = tempfile.TemporaryFile()  # noqa: SIM115 - closed when the attempt has ended
        self._code: int | None = None
        if entry is not None:
            null = os.open(os.devnull, os.O_WRONLY)
            self.process = forkserver.fork(
                entry, argv, folder.parent, environment, null, self._err.fileno(),
                limit_memory=False,
            )  # fmt: skip
            os.close(null)
        else:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("fedorbit")), *argv],
                cwd=folder.parent,
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._err,
                start_new_session=True,
            ).pid

    def is_over(self) -> bool:
        """Return whether the process has ended."""
        if self._code is None:
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code is not None

    def wait_for(self, condition: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
        """Wait until something is so; False if the process ended, or the time is over."""
        end = time.monotonic() + patience_s
        while not self.is_over() and time.monotonic() < end:
            if condition():
                return True
            time.sleep(POLL_S)
        return False

    def in_rounds(self) -> bool:
        """Return whether it has written a record."""
        return recorded_bytes(self.folder) > self.records_before

    def signal(self, number: int) -> None:
        """Send the process a signal, if it still runs."""
        if not self.is_over():
            os.kill(self.process, number)

    def kill(self) -> None:
        """Kill the process and all that it has started."""
        family = [self.process, *descendants(self.process)] if not self.is_over() else []
        for process in family:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def ended(self, in_rounds: bool, signalled: bool) -> Ended:
        """Wait for the end and tell how it was."""
        if not self.wait_for(lambda: False) and not self.is_over():
            self.kill()
            self.wait_for(lambda: False)
        self._err.seek(0)
        stderr = self._err.read().decode("utf-8", "replace")
        self._err.close()
        assert self._code is not None
        return Ended(self._code, stderr, in_rounds, self.forked, signalled)


def kill_in_phase(attempt: Attempt, rng: random.Random, pace: Pace) -> Ended:
    """Kill an attempt at a random moment of a random phase; it may end before."""
    phase = rng.choices(list(PHASES), list(PHASES.values()))[0]
    begun = _triggers(attempt, pace)[phase]
    longest = {
        "start": pace.first_record_s,
        "world": SOON_S,
        "rounds": STRETCH * pace.rounds_s,
        "summary": SOON_S,
        "figure": max(SOON_S, 0.1 * pace.end_s),
    }
    attempt.wait_for(begun)
    delay_s = rng.uniform(0, longest[phase])
    attempt.wait_for(lambda: False, delay_s)
    in_rounds, over = attempt.in_rounds(), attempt.is_over()
    attempt.kill()
    return attempt.ended(in_rounds, signalled=not over)


def stop_at_random(attempt: Attempt, rng: random.Random, pace: Pace, number: int) -> Ended:
    """Ask an attempt to stop at a random moment, once or in a hurry; it may end before."""
    # Before that Python itself starts, and answers as it likes.
    attempt.wait_for(lambda: IMPORTS in _mapped(attempt.process))
    attempt.wait_for(lambda: False, rng.uniform(0, EARLY * pace.end_s))
    in_rounds, over = attempt.in_rounds(), attempt.is_over()
    for _ in range(rng.choice((1, HURRIED))):
        attempt.signal(number)
        time.sleep(HURRY_S / HURRIED)
    return attempt.ended(in_rounds, signalled=not over)


def _mapped(process: int) -> str:
    try:
        return Path(f"/proc/{process}/maps").read_text()
    except OSError:
        return ""


def _triggers(attempt: Attempt, pace: Pace) -> dict[str, Callable[[], object]]:
    folder = attempt.folder
    made = set(folder.rglob("*"))

    def new(pattern: str) -> Callable[[], object]:
        return lambda: any(path not in made for path in folder.rglob(pattern))

    return {
        "start": lambda: True,
        "world": new("[cw]o*.*"),  # config.toml, world.json
        "rounds": attempt.in_rounds,
        "summary": new(f"checkpoint-*{pace.rounds}.json"),
        "figure": new(".accuracy*"),
    }


def recorded_bytes(folder: Path) -> int:
    """Return the length of all records below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("records.jsonl"))


def descendants(process: int) -> list[int]:
    """Return the processes that a process has started, and theirs."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            for child in map(int, children.read_text().split()):
                found += [child, *descendants(child)]
        except OSError:
            continue
    return found
