"""Runs in processes of this machine.

A handful of worker processes get one run after the other; they die with this process, and a run
that was stopped continues from its checkpoint. Runs of one thread each, side by side, use cores
better than one run of many threads, which wait for each other at the end of every round. Only the
last runs, behind which none waits, may use all cores.
"""

import json
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Self

from fedorbit.learning.engine import default_workers
from fedorbit.stopping import listening_again
from fedorbit.studies import folders
from fedorbit.studies.executors import TICK_S, Ended
from fedorbit.user_code import allowed_code

PROCESS_BYTES = 600_000_000
"""Memory of a worker beside its images: PyTorch, mostly."""


def default_jobs(image_bytes: int, threads: int = 1) -> int:
    """One run per core or per `threads`, as long as their images fit into memory together."""
    by_cores = max(1, default_workers() // threads)
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(s.split()[1]) * 1024 for s in lines if s.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return by_cores
    return max(1, min(by_cores, available // (PROCESS_BYTES + image_bytes)))


class LocalProcesses:
    """Worker processes, as many as there are runs at a time."""

    retries = 0  # whatever ended a process here would end the next one, too

    def __init__(self, out: Path, at_once: int, threads: Mapping[str, int]) -> None:
        self.at_once = at_once
        self._out = out
        self._threads = threads  # by run; 0: whatever is free
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()

    @property
    def busy(self) -> int:
        """Number of runs in progress."""
        return sum(worker.slug is not None for worker in self._workers)

    def begin(self, slug: str, waiting: int) -> None:
        """Begin or continue a run in a process that is idle."""
        last = waiting < self.at_once
        free = default_workers() if last else max(1, default_workers() // self.at_once)
        self._idle_worker().order(slug, self._threads[slug] or free)

    def news(self) -> list[Ended]:
        """Wait for runs to end, a tick at most."""
        heard = [self._hear(key.data) for key, _ in self._selector.select(TICK_S)]
        return [ended for ended in heard if ended is not None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        for worker in self._workers:
            worker.stop()
        try:
            with listening_again():
                for worker in self._workers:
                    worker.wait()
        except KeyboardInterrupt:  # a second Ctrl-C: what is on disk is enough
            for worker in self._workers:
                worker.process.kill()
            raise
        finally:
            self._selector.close()

    def _idle_worker(self) -> "_Worker":
        for worker in self._workers:
            if worker.slug is None:
                return worker
        worker = _Worker(self._out)
        self._workers.append(worker)
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        return worker

    def _hear(self, worker: "_Worker") -> Ended | None:
        ended, slug = worker.answer(), worker.slug
        worker.slug = None
        if ended is None:
            self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
            self._workers.remove(worker)
            worker.stop()
            reason = worker.describe_death()
            return Ended(slug, "lost", reason) if slug is not None else None
        return ended


class _Worker:
    """A process that does one run after the other."""

    def __init__(self, out: Path) -> None:
        self._out = out
        with folders.log_file(out).open("a") as log:
            # A group of its own: Ctrl-C reaches this process, and this process stops the workers.
            self.process = subprocess.Popen(
                # -P: no module in the current folder takes the place of an installed one.
                [sys.executable, "-P", "-m", "fedorbit.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
            )
        self.slug: str | None = None

    def order(self, slug: str, workers: int) -> None:
        """Give it a run to do."""
        assert self.process.stdin is not None
        self.slug = slug
        order = {
            "out": str(self._out),
            "folder": slug,
            "engine": {"workers": workers},
            "allow_code": allowed_code(),
        }
        with suppress(BrokenPipeError):  # it is dead: the end of its standard output follows
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def answer(self) -> Ended | None:
        """Read how the run ended; None if the process is dead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            return None
        answer = json.loads(line)
        return Ended(answer["folder"], answer["state"])

    def stop(self) -> None:
        """Stop it; its run keeps a checkpoint."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()

    def wait(self) -> int:
        """Wait for its end and return its exit code."""
        assert self.process.stdout is not None
        code = self.process.wait()
        self.process.stdout.close()
        return code

    def describe_death(self) -> str:
        """Describe how the process ended."""
        code = self.wait()
        if code == -signal.SIGKILL:
            return "its process was killed, perhaps for want of memory; try fewer --jobs"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with code {code}; see {folders.log_file(self._out)}"
