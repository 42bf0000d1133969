"""Orbits as units in one slot: the tier between satellites and the ground of the paper's methods.

The satellites of an orbit reach each other, and the ground reaches an orbit through any of them.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from fedorbit.errors import LinkError
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER
from fedorbit.fleet.roster import Ints, Roster
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule

if TYPE_CHECKING:
    from fedorbit.fleet.fleet import Fleet

Rules = Rule | Callable[[int], Rule]
"""A rule for all satellites, or a function that returns that of a satellite."""


class OrbitTier:
    """The orbits in slot `t`."""

    def __init__(self, fleet: "Fleet", t: int, roster: Roster) -> None:
        self.fleet, self.t, self._roster = fleet, t, roster
        self._visible = [int(orbit) for orbit in np.flatnonzero(fleet.visible[t])]

    # --- Which there are ------------------------------------------------------------------------

    @property
    def active(self) -> list[int]:
        """Orbits that have at least one active satellite."""
        return list(self._roster.orbits)

    @property
    def visible(self) -> list[int]:
        """Orbits in view of the ground, V(t)."""
        return list(self._visible)

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
        """Training samples `[orbit]` of satellites that can train now: n_l but for limits."""
        if self.fleet.onboard is None:
            return self.samples
        trainers = [self.trainers(orbit) for orbit in range(self.fleet.orbits)]
        return np.array([self._roster.samples[mine].sum() for mine in trainers], dtype=np.int64)

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

    def jobs(
        self,
        orbit: int,
        start: Vector,
        *,
        epochs: int,
        rate: float,
        intra_round: int = 0,
        intra_rounds: int = 1,
        purpose: int = 0,
        rule: Rules = PLAIN,
        samples: int | None = None,
    ) -> list[LocalJob]:
        """Make one job for each satellite of `trainers(orbit)`, all from one model.

        `purpose` distinguishes several trainings of one round, such as Ditto's two models. Where
        time or power is short, it is divided evenly among the `intra_rounds`. `rule` may be a
        function of the satellite. `samples` limits those of an epoch.
        """
        key, to_come = (self.t, intra_round, purpose), max(intra_rounds - intra_round - 1, 0)
        jobs = [
            LocalJob(satellite, start, epochs, rate, key, _rule(rule, satellite), to_come, samples)
            for satellite in self.trainers(orbit)
        ]
        if self.fleet.onboard is not None and (asked := self._roster.trainers[orbit]):
            passes = _rule(rule, asked[0]).passes * epochs
            self.fleet.onboard.ask(orbit, self.t, passes, len(asked))
        return jobs

    def train(self, orbit: int, start: Vector, **settings: Any) -> Program[list[Trained]]:
        """Train an orbit's satellites from one model, and have them exchange the results.

        A training program, to be used with `yield from`; takes what `jobs` takes.
        """
        jobs = self.jobs(orbit, start, **settings)
        with self._exchange_to_come(orbit, jobs):
            trained = yield jobs
        if any(result.steps for result in trained):
            self.exchange(orbit, jobs[0].rule.exchanged(self.fleet.layout.size))
        return trained

    def _exchange_to_come(self, orbit: int, jobs: list[LocalJob]) -> AbstractContextManager[None]:
        """Keep time on board free for the exchanges after these jobs, and those like them."""
        if self.fleet.onboard is None or not jobs:
            return nullcontext()
        values = jobs[0].rule.exchanged(self.fleet.layout.size)
        return self.fleet.onboard.exchange_to_come(
            orbit, values, self._others(orbit), 1 + jobs[0].to_come
        )

    def exchange(self, orbit: int, values: int | None = None) -> None:
        """Bring vectors of all satellites together and hand the result back, over ISLs.

        An orbit of N active satellites sends N - 1 vectors out and N - 1 back. `values` is the
        length of each, that of a model unless given.
        """
        values = self.fleet.layout.size if values is None else values
        others = self._others(orbit)
        self.fleet.ledger.book("isl", BYTES_PER_PARAMETER * 2 * others * values)
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
        linked = self._has_link(orbit, "upload its model")
        self.fleet.ledger.book("to_ground", BYTES_PER_PARAMETER * model.size, linked)
        return model

    def download(self, orbit: int, model: Vector) -> Vector:
        """Send a model from the ground to an orbit and return what arrives there."""
        linked = self._has_link(orbit, "receive a model")
        self.fleet.ledger.book("from_ground", BYTES_PER_PARAMETER * model.size, linked)
        return model

    def _has_link(self, orbit: int, what: str) -> bool:
        if orbit not in self._roster.orbits:
            raise LinkError(
                f"orbit {orbit} cannot {what} in round {self.t}: none of its satellites is active "
                "(see events); exchange models with now.orbits.reachable only"
            )
        linked = bool(self.fleet.visible[self.t, orbit])
        self.fleet.network.require(
            linked,
            f"orbit {orbit} cannot {what} in round {self.t}: it is not in view of the ground",
            "exchange models with now.orbits.reachable only",
        )
        return linked


def _rule(rule: Rules, satellite: int) -> Rule:
    return rule if isinstance(rule, Rule) else rule(satellite)
