"""The world as a method may see it: orbits, counts, who is in view now, training and links.

Models move between an orbit and the ground station (GS) through `upload` and `download` only. So
bytes are counted in one place, and a transfer without a contact cannot happen unnoticed: with
`links="causal"` it raises `LinkError`; with `links="ideal"`, as the paper's algorithm assumes, it
is counted apart as `unlinked_bytes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import LinkError
from fedorbit.hardware import Hardware
from fedorbit.learning.engine import Engine, Program
from fedorbit.learning.jobs import EVERYBODY, LocalJob, Trained
from fedorbit.learning.parameters import ParameterLayout, Vector
from fedorbit.learning.rules import PLAIN, Rule
from fedorbit.methods.onboard import Onboard
from fedorbit.methods.roster import Ints, Roster
from fedorbit.presence import Presence

BYTES_PER_PARAMETER = 4

Links = Literal["ideal", "causal"]
Result = TypeVar("Result")


@dataclass(frozen=True)
class TrainingPlan:
    """What all methods share: E_base epochs, and the rate eta_t = rate x decay^t."""

    epochs: int = 5
    intra_rounds: int = 1
    initial_rate: float = 0.01
    rate_decay: float = 0.998

    def rate(self, t: int) -> float:
        """Learning rate of round t."""
        return float(self.initial_rate * self.rate_decay**t)


@dataclass
class Ledger:
    """What a run has spent so far."""

    samples_trained: int = 0
    gs_uplink_bytes: int = 0
    gs_downlink_bytes: int = 0
    isl_bytes: int = 0
    unlinked_bytes: int = 0
    epochs: list[int] = field(default_factory=list)
    """Local epochs of each orbit's satellites in this round alone, times models trained."""


class Fleet:
    """Satellites in orbits, with data on board."""

    def __init__(
        self,
        *,
        engine: Engine,
        layout: ParameterLayout,
        initial_model: Vector,
        orbit_of_satellite: Ints,
        class_counts: Ints,
        visible: NDArray[np.bool_],
        presence: Presence,
        tau_max: int,
        plan: TrainingPlan,
        links: Links,
        hardware: Hardware | None = None,
        models_trained: int = 1,
    ) -> None:
        self.layout = layout
        self.plan = plan
        self.links = links
        self.tau_max = tau_max
        self.orbit_of_satellite = orbit_of_satellite
        self.ledger = Ledger(epochs=[0] * visible.shape[1])
        self._engine = engine
        self._initial_model = initial_model
        self._visible = visible
        self._presence = presence
        self._launch_round = _launch_rounds(presence, orbit_of_satellite, len(visible))
        self._dark_since = _dark_since(visible, self._launch_round)
        self._all_class_counts = class_counts
        self._rosters: dict[int, Roster] = {}
        self.onboard: Onboard | None = None
        """Clocks and batteries, where the configuration has them."""
        if hardware is not None:
            self.onboard = Onboard(
                hardware,
                class_counts.sum(axis=1),
                orbit_of_satellite,
                presence,
                BYTES_PER_PARAMETER * layout.size,
                models_trained,
            )

    @property
    def orbits(self) -> int:
        """Number of orbits, L."""
        return self._visible.shape[1]

    @property
    def classes(self) -> int:
        """Number of classes, C."""
        return self._all_class_counts.shape[1]

    def initial_model(self) -> Vector:
        """Return w(0), the same for everybody."""
        return self._initial_model.copy()

    # --- Who is there and what they hold, in round t ------------------------------------------

    def present(self, t: int) -> list[int]:
        """Orbits that have at least one satellite in round t."""
        return list(self._roster(t).orbits)

    def launched(self, t: int) -> list[int]:
        """Orbits that are there for the first time in round t, after the run's begin."""
        return [int(orbit) for orbit in np.flatnonzero(self._launch_round == t)] if t else []

    def trainers(self, orbit: int, t: int) -> list[int]:
        """Satellites of an orbit that are there and have something to learn from.

        Without those that have no time or no power for a single epoch of the method's models in
        the round going on.
        """
        satellites = self._roster(t).trainers[orbit]
        if self.onboard is None:
            return list(satellites)
        able = self.onboard.able(t)
        return [satellite for satellite in satellites if able[satellite]]

    def class_counts(self, t: int) -> Ints:
        """Training samples `[satellite, class]`: s_kc of `eq:m_strength`."""
        return self._roster(t).class_counts

    def orbit_class_counts(self, t: int) -> Ints:
        """Training samples `[orbit, class]`."""
        return self._roster(t).orbit_class_counts

    def samples(self, t: int) -> Ints:
        """Training samples of each satellite, n_k."""
        return self._roster(t).samples

    def orbit_samples(self, t: int) -> Ints:
        """Training samples of each orbit, n_l."""
        return self._roster(t).orbit_samples

    def trained_samples(self, t: int) -> Ints:
        """Training samples `[orbit]` of those who can train in round t: n_l but for limits."""
        if self.onboard is None:
            return self.orbit_samples(t)
        trainers = [self.trainers(orbit, t) for orbit in range(self.orbits)]
        return np.array([self.samples(t)[mine].sum() for mine in trainers], dtype=np.int64)

    def _roster(self, t: int) -> Roster:
        """Look up who is there; worked out anew at an event only, from presence alone."""
        segment = self._presence.segment(t)
        if segment not in self._rosters:
            there = self._presence.satellites[segment]
            self._rosters = {
                segment: Roster.of(
                    there, self._all_class_counts, self.orbit_of_satellite, self.orbits
                )
            }
        return self._rosters[segment]

    # --- Who is in view, in round t -----------------------------------------------------------

    def visible(self, t: int) -> list[int]:
        """Orbits in view of the ground station in round t, V(t)."""
        return [int(orbit) for orbit in np.flatnonzero(self._visible[t])]

    def reachable(self, t: int) -> list[int]:
        """Orbits that may exchange models with the GS in round t: in an ideal world all."""
        return self.present(t) if self.links == "ideal" else self.visible(t)

    def dark_rounds(self, t: int) -> Ints:
        """Rounds before t since each orbit was in view or launched: tau_l as round t begins."""
        return np.maximum(t - self._dark_since[t], 0)

    # --- Training -----------------------------------------------------------------------------

    def jobs(
        self,
        orbit: int,
        t: int,
        start: Vector,
        *,
        epochs: int,
        rate: float,
        intra_round: int = 0,
        intra_rounds: int = 1,
        purpose: int = 0,
        rule: Rule = PLAIN,
    ) -> list[LocalJob]:
        """Make one job for each satellite of `trainers(orbit, t)`, all from one model.

        `purpose` tells several trainings of one round apart, such as Ditto's two models. Where
        time or power is short, it is divided evenly among the `intra_rounds`.
        """
        key, to_come = (t, intra_round, purpose), max(intra_rounds - intra_round - 1, 0)
        jobs = [
            LocalJob(satellite, start, epochs, rate, key, rule, to_come)
            for satellite in self.trainers(orbit, t)
        ]
        if self.onboard is not None:
            self.onboard.ask(orbit, t, rule.models * epochs, len(self._roster(t).trainers[orbit]))
        return jobs

    def pooled_jobs(self, t: int, start: Vector, *, epochs: int, rate: float) -> list[LocalJob]:
        """Make one job on the samples of all satellites that are there, if they have any."""
        if not self.samples(t).any():
            return []
        segment = self._presence.segment(t)
        whole = bool(self._presence.satellites[segment].all())
        pool = EVERYBODY if whole else len(self.orbit_of_satellite) + segment
        return [LocalJob(pool, start, epochs, rate, key=(t,))]

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run training programs side by side; see `learning/programs.py`."""
        if self.onboard is not None:
            return self._engine.run({0: self._in_step(programs, self.onboard)})[0]
        return self._engine.run({key: self._counted(p) for key, p in programs.items()})

    def effort(self, orbit: int, t: int, planned: int) -> float:
        """Epochs per sample that an orbit did in round t, of those planned."""
        if self.onboard is None:
            return planned
        return self.onboard.done_per_sample(orbit, int(self.orbit_samples(t)[orbit]))

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
        limited = [k for k, jobs in asked.items() if jobs and not self._is_pooled(jobs[0])]
        granted = dict(asked)
        if limited:
            roster = self._roster(asked[limited[0]][0].key[0])
            wave = onboard.grant([asked[key] for key in limited], roster.satellites_of_orbit)
            granted |= zip(limited, wave, strict=True)
        for jobs in granted.values():
            if working := [job for job in jobs if job.epochs]:
                self._book(working)
        return granted

    def _counted(self, program: Program[Result]) -> Program[Result]:
        """Pass a program through and book what it trains and sends over ISLs."""
        try:
            jobs = next(program)
            while True:
                if jobs:
                    self._book(jobs)
                jobs = program.send((yield jobs))
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def _book(self, jobs: list[LocalJob]) -> None:
        """Book the jobs of one orbit, or the one job on everybody's data.

        An orbit of N satellites sends N - 1 models out and N - 1 back to aggregate them.
        """
        first, t, models = jobs[0], jobs[0].key[0], jobs[0].models
        roster, ledger = self._roster(t), self.ledger
        if self._is_pooled(first):
            orbits, trained = roster.orbits, first.epochs * int(roster.samples.sum())
        else:
            orbits = [int(self.orbit_of_satellite[first.satellite])]
            trained = sum(job.epochs * int(roster.samples[job.satellite]) for job in jobs)
            exchanged = 2 * (int(roster.satellites_of_orbit[orbits[0]]) - 1) * models
            ledger.isl_bytes += exchanged * BYTES_PER_PARAMETER * first.start.size
        ledger.samples_trained += models * trained
        for orbit in orbits:
            ledger.epochs[orbit] += models * max(job.epochs for job in jobs)

    def _is_pooled(self, job: LocalJob) -> bool:
        return not 0 <= job.satellite < len(self.orbit_of_satellite)

    # --- Links --------------------------------------------------------------------------------

    def upload(self, t: int, orbit: int, model: Vector) -> Vector:
        """Send a model from an orbit to the ground station and return what arrives there."""
        if self._has_link(t, orbit, "upload its model"):
            self.ledger.gs_uplink_bytes += BYTES_PER_PARAMETER * model.size
        else:
            self.ledger.unlinked_bytes += BYTES_PER_PARAMETER * model.size
        return model

    def download(self, t: int, orbit: int, model: Vector) -> Vector:
        """Send a model from the ground station to an orbit and return what arrives there."""
        if self._has_link(t, orbit, "receive a model"):
            self.ledger.gs_downlink_bytes += BYTES_PER_PARAMETER * model.size
        else:
            self.ledger.unlinked_bytes += BYTES_PER_PARAMETER * model.size
        return model

    def _has_link(self, t: int, orbit: int, what: str) -> bool:
        if orbit not in self._roster(t).orbits:
            raise LinkError(
                f"orbit {orbit} cannot {what} in round {t}: none of its satellites is there (see "
                "events); exchange models with fleet.reachable(t) only"
            )
        linked = bool(self._visible[t, orbit])
        if not linked and self.links == "causal":
            raise LinkError(
                f"orbit {orbit} cannot {what} in round {t}: it is not in view of the ground "
                'station; exchange models with fleet.reachable(t) only, or set links = "ideal"'
            )
        return linked

    def fedavg_uplink_bytes(self, rounds: int) -> int:
        """What FedAvg would send to the GS in as many rounds: one model per visible orbit."""
        return int(self._visible[:rounds].sum()) * BYTES_PER_PARAMETER * self.layout.size


def _launch_rounds(presence: Presence, orbit_of_satellite: Ints, rounds: int) -> Ints:
    """First round in which each orbit is there; `rounds` for one that never is."""
    there = presence.orbits(orbit_of_satellite)
    return np.where(there.any(axis=0), presence.begins[there.argmax(axis=0)], rounds)


def _dark_since(visible: NDArray[np.bool_], launch_round: Ints) -> NDArray[np.int32]:
    """For each moment before a round, the round after the last contact, or that of launch."""
    after = np.arange(1, len(visible) + 1, dtype=np.int32)[:, None]
    since = np.zeros((len(visible) + 1, visible.shape[1]), dtype=np.int32)
    np.maximum.accumulate(np.where(visible, after, 0), axis=0, out=since[1:])
    return np.maximum(since, launch_round.astype(np.int32))
