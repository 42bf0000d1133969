"""Does the runs of a study that are missing, several at a time, wherever there is a place."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from fedorbit.config.files import dumps
from fedorbit.data.catalog import SYNTHETIC, open_dataset
from fedorbit.errors import DataError
from fedorbit.files import LONG_WRITTEN_S, remove_leftovers, replacing
from fedorbit.simulation.manifest import refuse_links
from fedorbit.simulation.outside import refuse_connections
from fedorbit.simulation.tracking import connect
from fedorbit.studies import folders
from fedorbit.studies.executors import Ended, Executor
from fedorbit.studies.folders import RunState, state_of
from fedorbit.studies.grid import Cell
from fedorbit.studies.processes import LocalProcesses, default_jobs
from fedorbit.studies.ray.executor import OnRay, ray_executor
from fedorbit.studies.study import Study, refuse_other_study, write_study
from fedorbit.user_code import require_allowed


@dataclass(frozen=True)
class StudyProgress:
    """A study under way."""

    states: list[RunState]
    eta_s: float | None
    """Time left, by what rounds of each method have taken; None while nothing is known."""


Watcher = Callable[[StudyProgress], None]


def status(study: Study, out: Path | str | None = None) -> list[RunState]:
    """Return the progress of every run."""
    folder = Path(out) if out is not None else study.default_out
    folders.refuse_other_configurations(folder, study.runs)
    return [state_of(folder, cell) for cell in study.runs]


def run(
    study: Study,
    out: Path | str | None = None,
    *,
    jobs: int | None = None,
    ray: OnRay | None = None,
    watch: Watcher | None = None,
) -> list[RunState]:
    """Do all missing runs and return the state of each; a failed run does not stop the others.

    Earlier failures are tried again. Runs that another process does are left to it and waited for.
    With `ray`, runs are spread over a cluster.
    """
    folder = Path(out) if out is not None else study.default_out
    refuse_other_study(study, folder)
    folders.refuse_other_configurations(folder, study.runs)
    missing = [cell for cell in study.runs if state_of(folder, cell).state != "done"]
    for cell in missing:
        for name, setting in ((cell.method, "run.method"), (cell.config.model.name, "model.name")):
            require_allowed(name, f"study {study.name}: {setting}")
        if study.folder is not None:
            refuse_connections(str(study.folder), cell.config, study.given)
    if folder.is_dir():
        refuse_links(folder)
        remove_leftovers(folder, folder / folders.HIDDEN, older_than_s=LONG_WRITTEN_S)
    for tracking in {cell.config.tracking for cell in missing}:
        connect(tracking)  # wrong settings are reported once, not by every run
    executor = _executor(study, folder, missing, jobs, ray)
    write_study(study, folder)
    for cell in missing:
        with replacing(folders.planned_config(folder, cell.slug)) as partial:
            partial.write_text(dumps(cell.config), encoding="utf-8")
    if missing:
        if watch is not None:  # a cluster takes its time to answer
            watch(StudyProgress(status(study, folder), None))
        with executor as found:
            _Runner(study, folder, missing, found, watch).work()
    return status(study, folder)


def _executor(
    study: Study, out: Path, missing: list[Cell], jobs: int | None, ray: OnRay | None
) -> AbstractContextManager[Executor]:
    if ray is not None:
        return ray_executor(study, out, missing, ray, jobs)
    image_bytes = max((_image_bytes(study, cell) for cell in missing), default=0)
    threads = {cell.slug: cell.config.engine.workers for cell in missing}
    at_once = jobs or default_jobs(image_bytes, max([1, *threads.values()]))
    return LocalProcesses(out, min(at_once, len(missing)), threads)


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


class _Runner:
    def __init__(
        self,
        study: Study,
        out: Path,
        missing: list[Cell],
        executor: Executor,
        watch: Watcher | None,
    ) -> None:
        self._study, self._out, self._executor, self._watch = study, out, executor, watch
        self._cells = {cell.slug: cell for cell in missing}
        self._waiting = deque(missing)
        self._open = set(self._cells)
        self._held: list[Cell] = []
        self._losses: Counter[str] = Counter()
        self._finished: dict[str, RunState] = {}

    def work(self) -> None:
        """Continue until every run is done or has failed."""
        while self._assign() or self._held:
            for ended in self._executor.news():
                self._note(ended)
            self._look_after_held()
            if self._watch is not None:
                self._watch(self._progress())

    def _assign(self) -> bool:
        """Begin as many runs as the executor takes; return whether any is under way."""
        while self._waiting and self._executor.busy < self._executor.at_once:
            cell = self._waiting.popleft()
            self._executor.begin(cell.slug, len(self._waiting))
        return self._executor.busy > 0

    def _note(self, ended: Ended) -> None:
        cell = self._cells[ended.slug]
        if ended.outcome == "held":
            self._held.append(cell)
        elif ended.outcome == "lost":
            self._losses[cell.slug] += 1
            times = self._losses[cell.slug]
            if times <= self._executor.retries:
                self._waiting.appendleft(cell)
            else:
                told = (
                    ended.reason if times == 1 else f"lost {times} times, at last: {ended.reason}"
                )
                folders.write_failure(self._out, cell.slug, told)
                self._open.discard(cell.slug)
        else:
            self._open.discard(cell.slug)

    def _look_after_held(self) -> None:
        """Take over what another process has left unfinished; its failures are failures."""
        for cell in list(self._held):
            if not folders.is_locked(self._out, cell.slug):
                self._held.remove(cell)
                if state_of(self._out, cell).state in ("done", "failed"):
                    self._open.discard(cell.slug)
                else:
                    self._waiting.append(cell)

    def _progress(self) -> StudyProgress:
        states = []
        for cell in self._study.runs:
            state = self._finished.get(cell.slug) or state_of(self._out, cell)
            if state.state == "done":
                self._finished[cell.slug] = state
            states.append(state)
        # Failures of an earlier attempt are runs that wait.
        states = [
            replace(s, state="missing", error=None)
            if s.state == "failed" and s.folder in self._open
            else s
            for s in states
        ]
        return StudyProgress(states, time_left_s(states, self._executor.at_once))


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
