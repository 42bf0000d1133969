"""Local training that a method requests: within a slot, or begun now and finished later.

Trained samples and epochs are booked here, per orbit. Bytes over links are not: training implies no
exchange; a method requests each.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from fedorbit.errors import ModelError
from fedorbit.fleet.facts import Fact, plain
from fedorbit.fleet.keeping import Arrays, Keeper, Shelf
from fedorbit.fleet.ledger import Ledger
from fedorbit.fleet.onboard import Onboard
from fedorbit.fleet.roster import Ints, Rosters
from fedorbit.learning.engine import Engine, Program
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.learning.parameters import Vector

Result = TypeVar("Result")


@dataclass(frozen=True, eq=False)
class Finished:
    """A job that was begun on board and has ended, or is under way."""

    satellite: int
    start: Vector
    trained: Trained
    begun: int
    """Slot in which it was begun."""
    end_s: float
    """Moment at which it ends, in seconds since the run's start; infinite if never."""
    about: dict[str, Fact]
    """Facts that the method noted about it."""

    @property
    def model(self) -> Vector:
        """The trained model."""
        return self.trained.model

    @property
    def update(self) -> Vector:
        """Change of the model by training."""
        return self.trained.model - self.start


@dataclass(frozen=True, eq=False)
class _Begun:
    """A job under way, and what is booked when it ends."""

    work: Finished
    images: int
    epochs: int
    booked: bool = False


class _SlotEpochs:
    """Epochs of each satellite in one slot: those of an orbit are its busiest satellite's."""

    def __init__(self) -> None:
        self._slot = -1
        self._done: Counter[tuple[int, int]] = Counter()
        self._most: Counter[int] = Counter()

    def add(self, slot: int, orbit: int, satellite: int, epochs: int) -> int:
        """Add to a satellite's epochs; return by how many those of its orbit grow."""
        if slot != self._slot:
            self._slot, self._done, self._most = slot, Counter(), Counter()
        self._done[orbit, satellite] += epochs
        growth = max(self._done[orbit, satellite] - self._most[orbit], 0)
        self._most[orbit] += growth
        return growth


class Training:
    """Runs jobs on the engine, limited by what is on board where that is modelled."""

    def __init__(
        self,
        engine: Engine,
        rosters: Rosters,
        orbit_of_satellite: Ints,
        round_s: float,
        onboard: Onboard | None,
        ledger: Ledger,
    ) -> None:
        self._engine, self._rosters, self._onboard = engine, rosters, onboard
        self._orbit_of_satellite = orbit_of_satellite
        self._round_s = round_s
        self._ledger = ledger
        self._under_way: list[_Begun] = []
        self._epochs = _SlotEpochs()
        self._keeper = Keeper()

    # --- Within a slot --------------------------------------------------------------------------

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run training programs side by side; see `learning/programs.py`."""
        if self._onboard is not None:
            return self._engine.run({0: self._in_step(programs, self._onboard)})[0]
        return self._engine.run({key: self._booked(p) for key, p in programs.items()})

    def _in_step(
        self, programs: Mapping[int, Program[Result]], onboard: Onboard
    ) -> Program[dict[int, Result]]:
        """Run programs as one that yields what all of them yield, in their order.

        Time and power are then shared out in the same way whatever the threads do.
        """
        results: dict[int, Result] = {}
        waiting: dict[int, list[LocalJob]] = {}

        def advance(key: int, trained: list[Trained] | None) -> None:
            program = programs[key]
            try:
                waiting[key] = next(program) if trained is None else program.send(trained)
            except StopIteration as stop:
                results[key] = stop.value

        for key in programs:
            advance(key, None)
        while waiting:
            wave, waiting = self._granted(waiting, onboard), {}
            done = iter((yield [job for jobs in wave.values() for job in jobs if job.epochs]))
            for key, jobs in wave.items():
                advance(key, [next(done) if job.epochs else Trained.untouched(job) for job in jobs])
        return results

    def _granted(
        self, asked: dict[int, list[LocalJob]], onboard: Onboard
    ) -> dict[int, list[LocalJob]]:
        """Cut jobs to what satellites can do, and book them; pooled ones are not on board."""
        for jobs in asked.values():
            self._require_free(jobs)
        granted = {key: list(jobs) for key, jobs in asked.items()}
        places = [
            (key, number)
            for key, jobs in asked.items()
            for number, job in enumerate(jobs)
            if not self._is_pooled(job)
        ]
        cut = onboard.grant([asked[key][number] for key, number in places])
        for (key, number), job in zip(places, cut, strict=True):
            granted[key][number] = job
        for jobs in granted.values():
            self._book([job for job in jobs if job.epochs])
        return granted

    def _booked(self, program: Program[Result]) -> Program[Result]:
        """Pass a program through and book what it trains."""
        try:
            jobs = next(program)
            while True:
                self._require_free(jobs)
                self._book(jobs)
                jobs = program.send((yield jobs))
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def _book(self, jobs: Sequence[LocalJob]) -> None:
        """Book jobs within a slot; pooled ones count for all orbits that are active."""
        for job in jobs:
            t, held = job.key[0], self._held(job)
            images, epochs = job.images(held), job.whole_epochs(held)
            pooled = self._is_pooled(job)
            orbits = self._rosters.at(t).orbits if pooled else [self._orbit_of(job.satellite)]
            self._ledger.samples_trained += images
            for orbit in orbits:
                self._ledger.epochs[orbit] += self._epochs.add(t, orbit, job.satellite, epochs)

    def _held(self, job: LocalJob) -> int:
        """Return the number of samples of the satellite of a job."""
        samples = self._rosters.at(job.key[0]).samples
        return int(samples.sum() if self._is_pooled(job) else samples[job.satellite])

    def _orbit_of(self, satellite: int) -> int:
        return int(self._orbit_of_satellite[satellite])

    def _require_free(self, jobs: Sequence[LocalJob]) -> None:
        """Refuse jobs within a slot of satellites that are away, or have one under way."""
        for job in jobs:
            if self._is_pooled(job):
                continue
            self._require_active(job)
            t = job.key[0]
            if any(
                begun.work.satellite == job.satellite and not self._has_ended(begun.work, t)
                for begun in self._under_way
            ):
                raise ModelError(
                    f"satellite {job.satellite} cannot train within round {t}: it has a job under "
                    "way; wait for now.finished(), or add the job to it with now.begin"
                )

    def _require_active(self, job: LocalJob) -> None:
        t = job.key[0]
        if not self._rosters.activity.active(t, job.satellite):
            raise ModelError(
                f"satellite {job.satellite} cannot train in round {t}: it is not active (see "
                "events); make jobs for now.satellites only"
            )

    def _is_pooled(self, job: LocalJob) -> bool:
        return not 0 <= job.satellite < len(self._orbit_of_satellite)

    # --- Longer than a slot ---------------------------------------------------------------------

    def begin(
        self,
        t: int,
        jobs: Sequence[LocalJob],
        about: Sequence[Mapping[str, Any]],
        after_s: Sequence[float],
    ) -> None:
        """Begin jobs on board in slot t; each ends when its satellite has had the time for it.

        A satellite does one job after the other. Without a speed on board training takes no time,
        and the job has ended when the next slot begins.
        """
        self._require_begun(jobs, about)
        notes = [plain(facts) for facts in about]
        if self._onboard is not None:
            jobs = self._onboard.grant_begun(t, jobs)
        working = [job for job in jobs if job.epochs]
        done = iter(self._engine.run({0: batch(working)})[0])
        for job, facts, from_s in zip(jobs, notes, after_s, strict=True):
            trained = self._kept(next(done) if job.epochs else Trained.untouched(job))
            start = self._keeper.keep(job.start)
            work = Finished(job.satellite, start, trained, t, self._end_s(t, job, from_s), facts)
            held = self._held(job)
            self._under_way.append(_Begun(work, job.images(held), job.whole_epochs(held)))
        self.settle(t)

    def settle(self, t: int) -> None:
        """Book jobs that end in slot t or have ended before; nothing happens if they are booked.

        What a lost satellite does not finish is thus never counted as trained. Satellites leave
        between slots, so that whether a job ends in a slot is known as the slot begins.
        """
        self._under_way = [self._settled(begun, t) for begun in self._under_way]

    def _settled(self, begun: "_Begun", t: int) -> "_Begun":
        if begun.booked or begun.work.end_s > (t + 1) * self._round_s:
            return begun
        satellite, orbit = begun.work.satellite, self._orbit_of(begun.work.satellite)
        self._ledger.samples_trained += begun.images
        self._ledger.epochs[orbit] += self._epochs.add(t, orbit, satellite, begun.epochs)
        if self._onboard is not None:
            self._onboard.count(orbit, begun.epochs)
        return replace(begun, booked=True)

    def _require_begun(self, jobs: Sequence[LocalJob], about: Sequence[Mapping[str, Any]]) -> None:
        """Refuse what cannot be begun before anything is trained or booked."""
        if len(about) != len(jobs):
            raise ModelError(
                f"now.begin has {len(jobs)} jobs and {len(about)} notes in `about`: it takes one "
                "for each job, or none at all"
            )
        for job in jobs:
            if self._is_pooled(job):
                raise ModelError(
                    "a job on the samples of all satellites cannot be begun on board: no satellite "
                    "holds them; train it with now.train"
                )
            self._require_active(job)

    def _end_s(self, t: int, job: LocalJob, after_s: float) -> float:
        """Return the moment at which a job ends that begins in slot t, or after running jobs.

        It begins when what its satellite does within the slot is over. A satellite trains nothing
        while it is inactive.
        """
        works = (begun.work for begun in self._under_way)
        busy = [work.end_s for work in works if work.satellite == job.satellite]
        seconds = clock_s = 0.0
        if self._onboard is not None:
            seconds, clock_s = self._onboard.training_s(job), self._onboard.clock_s(job.satellite)
        begin_s = max([t * self._round_s + clock_s, after_s, *busy])
        activity = self._rosters.activity
        return activity.worked_until_s(job.satellite, begin_s, seconds, self._round_s)

    def _kept(self, trained: Trained) -> Trained:
        """Return a result that cannot be changed, as a checkpoint would give it back."""
        extra = {
            name: self._keeper.keep(value) if np.ndim(value) else np.asarray(value).item()
            for name, value in trained.extra.items()
        }
        return Trained(self._keeper.keep(trained.model), trained.steps, extra)

    def finished(self, t: int) -> list[Finished]:
        """Hand over what has ended by the beginning of slot t, in the order of its end.

        What an inactive satellite has finished stays on board.
        """
        active = self._rosters.activity.during(t)

        def is_here(work: Finished) -> bool:
            return self._has_ended(work, t) and bool(active[work.satellite])

        ended = [begun.work for begun in self._under_way if is_here(begun.work)]
        self._under_way = [begun for begun in self._under_way if not is_here(begun.work)]
        return sorted(ended, key=lambda work: (work.end_s, work.satellite))

    def _has_ended(self, work: Finished, t: int) -> bool:
        """Return whether a job has ended by the beginning of slot t."""
        return work.end_s <= t * self._round_s and work.begun < t

    def is_busy(self, satellite: int) -> bool:
        """Return whether a satellite has a job under way, or one whose result was not collected."""
        return any(begun.work.satellite == satellite for begun in self._under_way)

    # --- Checkpoints ----------------------------------------------------------------------------

    def saved(self) -> tuple[list[dict[str, Any]], Arrays]:
        """Return jobs under way for a checkpoint: plain values, and arrays by name."""
        shelf = Shelf("job")
        jobs = []
        for begun in self._under_way:
            work, trained = begun.work, begun.work.trained
            # Numbers too are arrays there: to the last bit, and also where one is not finite.
            extra = {name: shelf.put(np.asarray(value)) for name, value in trained.extra.items()}
            jobs.append(
                {
                    "satellite": work.satellite,
                    "begun": work.begun,
                    "end_s": work.end_s if math.isfinite(work.end_s) else None,  # as JSON has it
                    "about": dict(work.about),
                    "start": shelf.put(work.start),
                    "model": shelf.put(trained.model),
                    "steps": trained.steps,
                    "extra": extra,
                    "images": begun.images,
                    "epochs": begun.epochs,
                    "booked": begun.booked,
                }
            )
        return jobs, shelf.arrays

    def restore(self, jobs: list[dict[str, Any]], arrays: Arrays) -> None:
        """Continue with the jobs that a checkpoint kept."""
        self._under_way, self._epochs = [], _SlotEpochs()
        for job in jobs:
            extra = {name: arrays[place] for name, place in job["extra"].items()}
            trained = self._kept(Trained(arrays[job["model"]], job["steps"], extra))
            start, about = self._keeper.keep(arrays[job["start"]]), dict(job["about"])
            end_s = math.inf if job["end_s"] is None else job["end_s"]
            work = Finished(job["satellite"], start, trained, job["begun"], end_s, about)
            self._under_way.append(_Begun(work, job["images"], job["epochs"], job["booked"]))


def batch(jobs: list[LocalJob]) -> Program[list[Trained]]:
    """Return the program that is one batch of jobs."""
    trained = yield jobs
    return list(trained)
