"""Does the runs of a study that are missing, several at a time.

A handful of worker processes get one run after the other; they die with this process, and a run
that was stopped goes on from its checkpoint. Runs of one thread each, side by side, use cores
better than one run of many threads, which wait for each other at the end of every round. Only the
last runs, behind which nobody waits, may use all cores.
"""

import json
import selectors
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fedorbit.config.files import dumps
from fedorbit.data.catalog import SYNTHETIC, open_dataset
from fedorbit.errors import DataError
from fedorbit.files import replacing
from fedorbit.learning.engine import default_workers
from fedorbit.simulation.tracking import connect
from fedorbit.studies import folders
from fedorbit.studies.folders import RunState, state_of
from fedorbit.studies.grid import Cell
from fedorbit.studies.study import Study, write_study

TICK_S = 0.5
PROCESS_BYTES = 600_000_000
"""What a worker needs beside its images: PyTorch, mostly."""


@dataclass(frozen=True)
class Progress:
    """A study under way."""

    states: list[RunState]
    eta_s: float | None
    """Time left, by what rounds of each method have taken; None while nothing is known."""


Watcher = Callable[[Progress], None]


def status(study: Study, out: Path | str | None = None) -> list[RunState]:
    """Tell how far every run is."""
    folder = Path(out) if out is not None else study.default_out
    folders.refuse_other_configurations(folder, study.runs)
    return [state_of(folder, cell) for cell in study.runs]


def run(
    study: Study,
    out: Path | str | None = None,
    *,
    jobs: int | None = None,
    watch: Watcher | None = None,
) -> list[RunState]:
    """Do what is missing and return how every run ended; a failed one does not stop the others.

    Earlier failures are tried again. Runs that another process does are left to it and waited for.
    """
    folder = Path(out) if out is not None else study.default_out
    folders.refuse_other_configurations(folder, study.runs)
    missing = [cell for cell in study.runs if state_of(folder, cell).state != "done"]
    for tracking in {cell.config.tracking for cell in missing}:
        connect(tracking)  # what is wrong with a tracker is said once, not by every run
    image_bytes = max((_image_bytes(study, cell) for cell in missing), default=0)
    write_study(study, folder)
    for cell in missing:
        with replacing(folders.planned_config(folder, cell.slug)) as partial:
            partial.write_text(dumps(cell.config), encoding="utf-8")
    if missing:
        jobs = min(jobs or default_jobs(image_bytes), len(missing))
        _Runner(study, folder, missing, jobs, watch).work()
    return status(study, folder)


def default_jobs(image_bytes: int) -> int:
    """One run per core, as long as their images fit into memory together."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(s.split()[1]) * 1024 for s in lines if s.startswith("MemAvailable"))
    except (OSError, StopIteration):  # not Linux
        return default_workers()
    return max(1, min(default_workers(), available // (PROCESS_BYTES + image_bytes)))


def _image_bytes(study: Study, cell: Cell) -> int:
    """Return the size of a run's images; refuse a dataset that is not prepared."""
    data = cell.config.data
    if data.name == SYNTHETIC:
        made = data.synthetic
        return made.samples * made.size**2 * made.channels
    try:
        return int(open_dataset(data.name).images.nbytes)
    except DataError as error:
        raise DataError(f"study {study.name}: {error}; --quick does without it") from None


class _Worker:
    """A process that does one run after the other."""

    def __init__(self, out: Path) -> None:
        self._out = out
        with folders.log_file(out).open("a") as log:
            # A group of its own: Ctrl-C reaches this process, and this process stops the workers.
            self.process = subprocess.Popen(
                [sys.executable, "-m", "fedorbit.studies.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                process_group=0,
            )
        self.cell: Cell | None = None

    def order(self, cell: Cell, workers: int) -> None:
        """Give it a run to do."""
        assert self.process.stdin is not None
        self.cell = cell
        order = {"out": str(self._out), "folder": cell.slug, "workers": workers}
        with suppress(BrokenPipeError):  # it is dead, which its standard output tells next
            self.process.stdin.write(json.dumps(order) + "\n")
            self.process.stdin.flush()

    def answer(self) -> str | None:
        """Read how the run ended; None if the process is dead."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        return str(json.loads(line)["state"]) if line.endswith("\n") else None

    def stop(self) -> None:
        """Let it stop: its run keeps a checkpoint."""
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
        """Say how the process ended."""
        code = self.wait()
        if code == -signal.SIGKILL:
            return "its process was killed, perhaps for want of memory; try fewer --jobs"
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with code {code}; see {folders.log_file(self._out)}"


class _Runner:
    def __init__(
        self, study: Study, out: Path, missing: list[Cell], jobs: int, watch: Watcher | None
    ) -> None:
        self._study, self._out, self._jobs, self._watch = study, out, jobs, watch
        self._waiting = deque(missing)
        self._held: list[Cell] = []
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._finished: dict[str, RunState] = {}

    def work(self) -> None:
        """Go on until every run is done or has failed."""
        try:
            while self._assign() or self._held:
                for key, _ in self._selector.select(TICK_S):
                    self._hear(key.data)
                self._look_after_held()
                if self._watch is not None:
                    self._watch(self._progress())
        finally:
            self._end()

    def _assign(self) -> bool:
        """Give every idle worker a run; return whether any is at work."""
        while self._waiting and sum(w.cell is not None for w in self._workers) < self._jobs:
            cell = self._waiting.popleft()
            last = len(self._waiting) < self._jobs
            threads = default_workers() if last else max(1, default_workers() // self._jobs)
            self._idle_worker().order(cell, threads)
        return any(worker.cell is not None for worker in self._workers)

    def _idle_worker(self) -> _Worker:
        for worker in self._workers:
            if worker.cell is None:
                return worker
        worker = _Worker(self._out)
        self._workers.append(worker)
        self._selector.register(worker.process.stdout, selectors.EVENT_READ, worker)  # type: ignore[arg-type]
        return worker

    def _hear(self, worker: _Worker) -> None:
        answer, cell = worker.answer(), worker.cell
        worker.cell = None
        if answer is None:
            self._selector.unregister(worker.process.stdout)  # type: ignore[arg-type]
            self._workers.remove(worker)
            worker.stop()
            if cell is not None:
                folders.write_failure(self._out, cell.slug, worker.describe_death())
        elif answer == "held" and cell is not None:
            self._held.append(cell)

    def _look_after_held(self) -> None:
        """Take over what another process has left unfinished; its failures are failures."""
        for cell in list(self._held):
            if not folders.is_claimed(self._out, cell.slug):
                self._held.remove(cell)
                if state_of(self._out, cell).state not in ("done", "failed"):
                    self._waiting.append(cell)

    def _progress(self) -> Progress:
        states = []
        for cell in self._study.runs:
            state = self._finished.get(cell.slug) or state_of(self._out, cell)
            if state.state == "done":
                self._finished[cell.slug] = state
            states.append(state)
        # Failures of an earlier attempt are runs that wait.
        waiting = {cell.slug for cell in self._waiting}
        states = [
            replace(s, state="missing", error=None) if s.folder in waiting else s for s in states
        ]
        return Progress(states, time_left_s(states, self._jobs))

    def _end(self) -> None:
        for worker in self._workers:
            worker.stop()
        try:
            for worker in self._workers:
                worker.wait()
        except KeyboardInterrupt:  # a second Ctrl-C: what is on disk is enough
            for worker in self._workers:
                worker.process.kill()
            raise
        finally:
            self._selector.close()


def time_left_s(states: Sequence[RunState], jobs: int) -> float | None:
    """Estimate the time left from what rounds of each method have taken so far."""
    rates = {
        method: _seconds_per_round(s for s in states if s.method == method)
        for method in {s.method for s in states}
    }
    overall = _seconds_per_round(states)
    if overall is None:
        return None
    left = [
        (s.rounds - s.rounds_done) * (rates[s.method] or overall)
        for s in states
        if s.state not in ("done", "failed")
    ]
    return max(sum(left) / jobs, max(left, default=0.0))


def _seconds_per_round(states: Iterable[RunState]) -> float | None:
    known = [s for s in states if s.rounds_done]
    rounds = sum(s.rounds_done for s in known)
    return sum(s.seconds for s in known) / rounds if rounds else None
