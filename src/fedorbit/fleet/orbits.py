"""Orbits as units in one slot: the tier between satellites and the ground of the paper's methods.

The satellites of an orbit reach each other, and the ground reaches an orbit through any of them.
Where they do so over contacts of the plan alone (`links = "physical"`), both take routes: see
`routes` and `aggregation`.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from fedorbit.errors import LinkError
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER
from fedorbit.fleet.roster import Ints, Roster
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import NOTHING_AHEAD, Ahead, LocalJob, Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule

if TYPE_CHECKING:
    from fedorbit.fleet.fleet import Fleet

Rules = Rule | Callable[[int], Rule]
"""A rule for all satellites, or a function from a satellite to its rule."""
Result = TypeVar("Result")


class Phase(NamedTuple):
    """A training of an orbit's satellites with the exchange after it, announced in advance.

    Time and power on board are shared out among all phases of a round.
    """

    epochs: int = 0
    """Epochs of training; 0: an exchange alone."""
    rule: Rules = PLAIN
    samples: int | None = None
    """Samples per epoch; None: all."""

    def job(
        self,
        satellite: int,
        start: Vector,
        rate: float = 0.0,
        key: tuple[int, ...] = (),
        to_come: Ahead = NOTHING_AHEAD,
    ) -> LocalJob:
        """Make the job of a satellite."""
        rule = _rule(self.rule, satellite)
        return LocalJob(satellite, start, self.epochs, rate, key, rule, to_come, self.samples)


class OrbitTier:
    """The orbits in slot `t`."""

    def __init__(self, fleet: "Fleet", t: int, roster: Roster) -> None:
        self.fleet, self.t, self._roster = fleet, t, roster
        self._contact = fleet.visible[t]

    # --- Which there are ------------------------------------------------------------------------

    @property
    def active(self) -> list[int]:
        """Orbits that have at least one active satellite."""
        return list(self._roster.orbits)

    @property
    def in_contact(self) -> list[int]:
        """Orbits in contact with the ground, V(t), also those with a cycle under way.

        Contacts may be relayed where orbits use routes: a message gets there and back in the slot,
        and so does the model that the orbit holds.
        """
        return [int(orbit) for orbit in np.flatnonzero(self._contact) if self._can_meet(int(orbit))]

    def _can_meet(self, orbit: int) -> bool:
        """Return whether an orbit can exchange the model that it holds with the ground."""
        cycles = self.fleet.aggregations
        return bool(self._contact[orbit]) and (
            cycles is None or cycles.reaches_ground(self.t, orbit, self.satellites(orbit))
        )

    @property
    def visible(self) -> list[int]:
        """Orbits in contact with the ground that have no cycle under way."""
        cycles = self.fleet.aggregations
        if cycles is None:
            return self.in_contact
        return [orbit for orbit in self.in_contact if not cycles.is_busy(orbit)]

    @property
    def under_way(self) -> list[int]:
        """Orbits with a cycle under way, or a result that was not handed over yet."""
        cycles = self.fleet.aggregations
        return [] if cycles is None else [o for o in self.active if cycles.is_busy(o)]

    @property
    def reachable(self) -> list[int]:
        """Orbits that may exchange models with the ground: with ideal links all."""
        return self.active if self.fleet.links == "ideal" else self.visible

    @property
    def launched(self) -> list[int]:
        """Orbits that are active for the first time, after the run's begin."""
        if self.t == 0:
            return []
        return [int(orbit) for orbit in np.flatnonzero(self.fleet.launch_round == self.t)]

    def dark_rounds(self, after: int = 0) -> Ints:
        """Rounds since each orbit was in view or launched: tau_l as this round begins.

        `after=1`: as the next one does.
        """
        t = self.t + after
        return np.maximum(t - self.fleet.dark_since[t], 0)

    def satellites(self, orbit: int) -> list[int]:
        """Active satellites of an orbit."""
        active = self.fleet.rosters.activity.during(self.t)
        mine = active & (self.fleet.orbit_of_satellite == orbit)
        return [int(satellite) for satellite in np.flatnonzero(mine)]

    # --- What they hold -------------------------------------------------------------------------

    @property
    def samples(self) -> Ints:
        """Training samples of each orbit, n_l."""
        return self._roster.orbit_samples

    @property
    def class_counts(self) -> Ints:
        """Training samples `[orbit, class]`."""
        return self._roster.orbit_class_counts

    @property
    def trained_samples(self) -> Ints:
        """Training samples `[orbit]` of satellites that can train now: n_l but for limits.

        Where a cycle was handed over in this slot: those of the satellites that trained in it.
        """
        cycles = self.fleet.aggregations
        if self.fleet.onboard is None and cycles is None:
            return self.samples
        trained = [self._samples_of_trainers(orbit) for orbit in range(self.fleet.orbits)]
        for orbit, one in cycles.handed.items() if cycles is not None else ():
            trained[orbit] = one.samples
        return np.array(trained, dtype=np.int64)

    def _samples_of_trainers(self, orbit: int) -> int:
        return int(self._roster.samples[self.trainers(orbit)].sum())

    def trainers(self, orbit: int) -> list[int]:
        """Active satellites of an orbit that have something to learn from.

        Without those that have no time or no power for a single epoch of the method's models.
        """
        satellites = self._roster.trainers[orbit]
        if self.fleet.onboard is None:
            return list(satellites)
        able = self.fleet.onboard.able(self.t)
        return [satellite for satellite in satellites if able[satellite]]

    # --- Training -------------------------------------------------------------------------------

    def run(
        self, programs: Mapping[int, Program[Result]], *, upload: bool = False, purpose: int = 0
    ) -> dict[int, Result]:
        """Run programs of orbits, and return the results of cycles that have ended in this slot.

        Keys are orbits; a second program of orbit l, beside its first, has the key ~l. Satellites
        of an orbit that always reach each other end in the slot in which they begin. Otherwise
        programs of orbits with a cycle under way do not run, and results may come slots later, or
        never: so use what is returned, and keep in it what belongs to it. `upload`: the result
        goes to the ground first, so it is returned in a slot in which it can. `purpose`
        distinguishes several cycles that a method begins in one slot: results are returned to
        calls with the same. Call it in every slot, also without programs.
        """
        cycles = self.fleet.aggregations
        if cycles is None:
            return self.fleet.training.run(programs)
        free = {key: each for key, each in programs.items() if not cycles.is_busy(_orbit(key))}
        orbits = {_orbit(key) for key in free}
        with cycles.running(orbits) as running:
            results = self.fleet.training.run(free)
        for orbit in sorted(orbits):
            cycles.begin(
                self.t,
                orbit,
                self.satellites(orbit),
                running[orbit],
                {key: results[key] for key in (orbit, ~orbit) if key in results},
                samples=self._samples_of_trainers(orbit),
                upload=upload,
                purpose=purpose,
            )
        handed = cycles.hand_over(self.t, purpose, lambda orbit: bool(self._contact[orbit]))
        return {key: result for one in handed for key, result in one.results.items()}

    def jobs(
        self,
        orbit: int,
        start: Vector,
        *,
        epochs: int,
        rate: float,
        intra_round: int = 0,
        purpose: int = 0,
        rule: Rules = PLAIN,
        samples: int | None = None,
        to_come: Sequence[Phase] = (),
    ) -> list[LocalJob]:
        """Make one job for each satellite of `trainers(orbit)`, all from one model.

        `intra_round` and `purpose` distinguish trainings of one round, such as Ditto's two models.
        `rule` may be a function of the satellite. `samples` limits those of an epoch. `to_come` is
        what follows in the round: where time or power is short, it is divided among all of it.
        """
        this, key = Phase(epochs, rule, samples), (self.t, intra_round, purpose)
        able, onboard = self.trainers(orbit), self.fleet.onboard
        if onboard is None:
            return [this.job(satellite, start, rate, key) for satellite in able]
        jobs = [
            this.job(satellite, start, rate, key, self._ahead(satellite, start, to_come))
            for satellite in self._roster.trainers[orbit]
        ]
        if jobs:
            asked = sum(job.whole_epochs(self._held(job.satellite)) for job in jobs)
            onboard.ask(orbit, self.t, asked)
        return [job for job in jobs if job.satellite in able]

    def _ahead(self, satellite: int, start: Vector, phases: Sequence[Phase]) -> Ahead:
        """Return the work of a satellite in later phases."""
        jobs, held = [phase.job(satellite, start) for phase in phases], self._held(satellite)
        return Ahead(
            wanted=sum(job.work(held) for job in jobs),
            least=sum(job.first_epoch().work(held) for job in jobs),
        )

    def _held(self, satellite: int) -> int:
        """Training samples of a satellite."""
        return int(self._roster.samples[satellite])

    def train(
        self, orbit: int, start: Vector, *, to_come: Sequence[Phase] = (), **settings: Any
    ) -> Program[list[Trained]]:
        """Train an orbit's satellites from one model, and have them exchange the results.

        A training program, to be used with `yield from`; takes what `jobs` takes.
        """
        jobs = self.jobs(orbit, start, to_come=to_come, **settings)
        before_s = self._worked_s(jobs)
        with self._exchange_to_come(orbit, jobs, to_come):
            trained = yield jobs
        if any(result.steps for result in trained):
            values = jobs[0].rule.exchanged(self.fleet.layout.size)
            if self.fleet.aggregations is None:
                self.exchange(orbit, values)
            else:
                training_s = {k: s - before_s[k] for k, s in self._worked_s(jobs).items()}
                cycle = self.fleet.aggregations.cycle(self.t, orbit)
                cycle.add(jobs[0].key[1], training_s, values)
        return trained

    def _worked_s(self, jobs: list[LocalJob]) -> dict[int, float]:
        """Seconds for which the satellites of jobs have trained in this slot so far."""
        onboard = self.fleet.onboard
        return {
            job.satellite: 0.0 if onboard is None else onboard.worked_s(job.satellite)
            for job in jobs
        }

    def _exchange_to_come(
        self, orbit: int, jobs: list[LocalJob], to_come: Sequence[Phase]
    ) -> AbstractContextManager[None]:
        """Keep time on board free for the exchange after these jobs, and those of later phases."""
        if self.fleet.onboard is None or not jobs:
            return nullcontext()
        rules = [jobs[0].rule, *(_rule(phase.rule, jobs[0].satellite) for phase in to_come)]
        values = sum(rule.exchanged(self.fleet.layout.size) for rule in rules)
        return self.fleet.onboard.exchange_to_come(orbit, values, self._others(orbit))

    def exchange(self, orbit: int, values: int | None = None) -> None:
        """Bring vectors of all satellites together and hand the result back, over ISLs.

        An orbit of N active satellites sends N - 1 vectors out and N - 1 back. `values` is the
        length of each, that of a model unless given. Over routes it belongs into a program, and
        the vectors travel with those of the program's last exchange.
        """
        values = self.fleet.layout.size if values is None else values
        if self.fleet.aggregations is not None:
            cycle = self.fleet.aggregations.cycle(self.t, orbit)
            cycle.add_to_last(self.satellites(orbit), values)
            return
        others, linked = self._others(orbit), orbit not in self.fleet.topology.unlinked_orbits
        size_bytes, messages = BYTES_PER_PARAMETER * 2 * others * values, 2 * others
        ends = (orbit, orbit)
        self.fleet.ledger.book("isl", ends, size_bytes, messages=messages, linked=linked)
        if self.fleet.onboard is not None:
            self.fleet.onboard.exchange(orbit, values, others)

    def _others(self, orbit: int) -> int:
        """Active satellites of an orbit but the first."""
        return int(self._roster.satellites_of_orbit[orbit]) - 1

    def effort(self, orbit: int, planned: int) -> float:
        """Epochs per sample that an orbit did in this round, of those planned."""
        if self.fleet.onboard is None:
            return planned
        return self.fleet.onboard.done_per_sample(orbit, int(self.samples[orbit]))

    # --- The ground -----------------------------------------------------------------------------

    def upload(self, orbit: int, model: Vector) -> Vector:
        """Send a model from an orbit to the ground and return what arrives there."""
        linked, cycles = self._has_link(orbit, "upload its model"), self.fleet.aggregations
        if cycles is None:
            size_bytes, ends = BYTES_PER_PARAMETER * model.size, (orbit, self.fleet.ground_end)
            self.fleet.ledger.book("to_ground", ends, size_bytes, linked=linked)
        else:
            cycles.upload(self.t, orbit, self.satellites(orbit), model.size)
        return model

    def download(self, orbit: int, model: Vector) -> Vector:
        """Send a model from the ground to an orbit and return what arrives there."""
        linked, cycles = self._has_link(orbit, "receive a model"), self.fleet.aggregations
        if cycles is None:
            size_bytes, ends = BYTES_PER_PARAMETER * model.size, (self.fleet.ground_end, orbit)
            self.fleet.ledger.book("from_ground", ends, size_bytes, linked=linked)
        else:
            cycles.download(self.t, self.satellites(orbit), model.size)
        return model

    def _has_link(self, orbit: int, what: str) -> bool:
        if orbit not in self._roster.orbits:
            raise LinkError(
                f"orbit {orbit} cannot {what} in round {self.t}: none of its satellites is active "
                "(see events); exchange models with now.orbits.reachable only"
            )
        linked = self._can_meet(orbit)
        self.fleet.network.require(
            linked,
            f"orbit {orbit} cannot {what} in round {self.t}: it is not in contact with the ground",
            "exchange models with now.orbits.reachable only",
        )
        return linked


def _orbit(key: int) -> int:
    """Return the orbit of a program: that of its first, or second, has the key l, or ~l."""
    return key if key >= 0 else ~key


def _rule(rule: Rules, satellite: int) -> Rule:
    return rule if isinstance(rule, Rule) else rule(satellite)
