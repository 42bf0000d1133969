"""One slot of the world, as a method sees it, and the only way in which anything moves.

now.satellites_of(server), now.servers_of(k), now.next_server(k), now.neighbours(k)
    now.contacts(server)                   in seconds: the order of events inside the slot
    now.passes()                           the same contacts, whole and with their range
    now.window(a, b, seconds)              the next contact: orbits are predictable
    now.ways(sources)                      earliest routes to all nodes, by store and forward
    now.visits_ahead(slots)                predicted contacts of all satellites, slot by slot
now.send(source, target, vector, route=…, part=…, channel=…, **about) -> slot of arrival
    now.inbox(node)
now.superpose(server, signals)         several satellites at once: the channel adds
now.train(jobs), now.run(programs)     training within the slot
now.begin(jobs), now.finished()        training that takes as long as it takes on board
now.orbits                             the orbit tier of the three-tier methods
    now.orbits.run(programs)               programs of orbits, whose aggregation may take longer
now.note(staleness=…)                  numbers for the record, such as versions and idle visits
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.fleet.channel import EXACT, Channel
from fedorbit.fleet.facts import Fact
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER
from fedorbit.fleet.network import Mail
from fedorbit.fleet.orbits import OrbitTier
from fedorbit.fleet.roster import Ints
from fedorbit.fleet.routes import Ways
from fedorbit.fleet.superposition import Signal, Superposed
from fedorbit.fleet.training import Finished, batch
from fedorbit.hardware import Floats
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import EVERYBODY, LocalJob, Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part
from fedorbit.learning.rules import PLAIN, Rule
from fedorbit.orbits.plan import Contact, Pass, Window

if TYPE_CHECKING:
    from fedorbit.fleet.fleet import Fleet

Result = TypeVar("Result")

ROUNDING = 1e-9
"""A training that ends with a slot but for rounding errors ends with it."""


class Now:
    """Slot `t`."""

    def __init__(self, fleet: "Fleet", t: int) -> None:
        self.fleet, self.t = fleet, t
        self._roster = fleet.rosters.at(t)

    # --- What there is --------------------------------------------------------------------------

    @cached_property
    def orbits(self) -> OrbitTier:
        """Orbits as units: what the three-tier methods use."""
        return OrbitTier(self.fleet, self.t, self._roster)

    @property
    def rate(self) -> float:
        """Learning rate of this slot, eta_t."""
        return self.fleet.plan.rate(self.t)

    @property
    def satellites(self) -> list[int]:
        """Active satellites."""
        activity = self.fleet.rosters.activity
        return [int(k) for k in np.flatnonzero(activity.during(self.t))]

    @property
    def servers(self) -> list[int]:
        """Node numbers of the servers that share the global model: all, unless some have no link.

        Others relay only (`network.servers`).
        """
        return self.fleet.topology.ground

    @property
    def samples(self) -> Ints:
        """Training samples of each satellite, n_k."""
        return self._roster.samples

    @property
    def class_counts(self) -> Ints:
        """Training samples `[satellite, class]`: s_kc of FedOrbit."""
        return self._roster.class_counts

    # --- Links ----------------------------------------------------------------------------------

    def satellites_of(self, server: int | None = None) -> list[int]:
        """Active satellites in contact with a server, or with any, as the slot begins."""
        return self.fleet.topology.satellites_of(self.t, server)

    def servers_of(self, satellite: int) -> list[int]:
        """Servers in contact with a satellite as the slot begins."""
        return self.fleet.topology.servers_of(self.t, satellite)

    def contacts(self, server: int | None = None) -> list[Contact]:
        """Contacts with a server, or with any, that overlap this slot, cut to it.

        By begin and then by satellite: the order of events inside the slot. Seconds are counted
        since the run's start.
        """
        return self.fleet.topology.contacts(self.t, server)

    def passes(self) -> list[Pass]:
        """Contacts with servers that overlap this slot, whole and with their range."""
        return self.fleet.topology.passes(self.t)

    def next_server(self, satellite: int) -> int | None:
        """Predict the server that a satellite is in contact with first, now or later, if any."""
        contact = self.fleet.topology.next_contact(self.t, satellite)
        return None if contact is None else contact.server

    def neighbours(self, satellite: int) -> list[int]:
        """Active satellites that have a link to this one."""
        return self.fleet.topology.neighbours(self.t, satellite)

    def links(self, models: int = 1) -> list[tuple[int, int]]:
        """Pairs of active satellites with a link in this slot for as long as some models take."""
        here = self.satellites
        if len(here) < 2:
            return []
        return self.fleet.topology.links(self.t, models * self.transfer_s(here[0], here[1]))

    def window(
        self, a: int, b: int, seconds: float = 0.0, after_s: float | None = None
    ) -> Window | None:
        """Return the contact of two nodes that is under way or comes next: orbits are known.

        The first that lasts for so many seconds from now on, or from its begin; None if there is
        none. `after_s`: from a later moment on, such as the end of a training. Nodes that are
        always linked while active have one until an event or the schedule ends it.
        """
        return self.fleet.topology.window(self.t, a, b, seconds, after_s)

    def ways(
        self,
        sources: int | Sequence[int],
        start_s: float | Floats | None = None,
        *,
        by_servers: bool = True,
    ) -> Ways:
        """Return the earliest routes from one or several nodes to all others, and when they arrive.

        By store and forward over contacts, and over links within orbits where such are assumed.
        Each hop takes the time of one model. `start_s`: when the sources have the message, one
        time or one per source; as the slot begins unless given. `by_servers`: whether servers
        relay. A message sent along the route with `wait=True` arrives in the predicted slot or
        before, unless other messages use the contacts: within a slot, `send` does not order
        contacts.
        """
        self.fleet.topology.require_nodes(*np.atleast_1d(sources).tolist())
        start_s = self.t * self.fleet.round_s if start_s is None else start_s
        return self.fleet.routes.ways(sources, start_s, by_servers)

    def visits_ahead(self, slots: int | None = None) -> NDArray[np.bool_]:
        """Predict which satellites meet a server in this slot and later ones, `slots` in all.

        `[slot, satellite]`, from geometry and the satellites that are active now: later losses and
        launches are not known. Without `slots`, to the end of the run.
        """
        return self.fleet.topology.visits_ahead(self.t, slots)

    def transfer_s(self, a: int, b: int, values: int | None = None) -> float:
        """Seconds that values take over the link from a to b: those of a model unless given."""
        self.fleet.topology.require_nodes(a, b)
        values = self.fleet.layout.size if values is None else values
        return self.fleet.network.seconds(a, b, BYTES_PER_PARAMETER * values)

    # --- Messages -------------------------------------------------------------------------------

    def send(
        self,
        source: int,
        target: int,
        vector: Vector,
        *,
        route: Sequence[int] | None = None,
        part: Part | None = None,
        announce: bool = False,
        channel: Channel = EXACT,
        wait: bool = False,
        **about: Fact,
    ) -> int | None:
        """Send a vector, with facts written on it; return the slot in which it arrives.

        Without a link in this slot, or without the time for it, `wait` keeps it where it is until
        the next contact; None if there is none any more. Without `wait` it is a `LinkError`; with
        ideal links it arrives all the same and is counted as unlinked. Servers reach each other at
        any time, at no cost.

        `route` names the nodes in between, which store and forward it: it passes over each link in
        the first slot in which that is possible, over several in one slot if they exist, and is
        counted on each. Only the values of `part`, a slice or a mask, travel and are counted;
        `announce` also counts the mask, a bit per parameter, for a receiver without it.
        `channel` decides what arrives and how many bytes that takes.
        """
        return self.fleet.network.send(
            self.t,
            source,
            target,
            vector,
            route=route or (),
            part=part,
            announce=announce,
            channel=channel,
            wait=wait,
            about=about,
        )

    def inbox(self, node: int) -> list[Mail]:
        """Take what has arrived at a node."""
        return self.fleet.network.receive(self.t, node)

    def superpose(
        self,
        server: int,
        signals: Mapping[int, Signal],
        *,
        at_s: float,
        seconds: float = 0.0,
        mu: float = 0.0,
        total: float = 1.0,
    ) -> Superposed:
        """Transmit from satellites to a server at once; return the noisy weighted mean it receives.

        They must be in contact with it from a moment of this slot on, for so many seconds. Of the
        signals, those are transmitted that give the best trade of quantity and distortion: all of
        them with `mu` 0. `total` is the weight that all satellites have. See `superposition.py`.
        """
        return self.fleet.network.superpose(
            self.t, server, signals, at_s=at_s, seconds=seconds, mu=mu, total=total
        )

    # --- Training -------------------------------------------------------------------------------

    def job(
        self,
        satellite: int,
        start: Vector,
        *,
        epochs: int | None = None,
        rate: float | None = None,
        purpose: int = 0,
        rule: Rule = PLAIN,
        samples: int | None = None,
    ) -> LocalJob:
        """Make a job for one satellite; epochs and rate are the run's unless given.

        `purpose` is a number that distinguishes several trainings of one slot. `samples` limits
        those of an epoch.
        """
        self.fleet.topology.require_satellite(satellite)
        epochs = self.fleet.plan.epochs if epochs is None else epochs
        rate = self.rate if rate is None else rate
        key = (self.t, 0, purpose)
        job = LocalJob(satellite, start, epochs, rate, key, rule, samples=samples)
        if self.fleet.onboard is not None:
            orbit = int(self.fleet.orbit_of_satellite[satellite])
            asked = job.whole_epochs(int(self.samples[satellite]))
            self.fleet.onboard.ask(orbit, self.t, asked)
        return job

    def training_s(self, satellite: int, epochs: int | None = None) -> float:
        """Seconds that epochs, the run's unless given, take on board; 0 without a speed there."""
        self.fleet.topology.require_satellite(satellite)
        if self.fleet.onboard is None:
            return 0.0
        epochs = self.fleet.plan.epochs if epochs is None else epochs
        return self.fleet.onboard.epochs_s(satellite, epochs)

    def training_slots(self, satellite: int, work: float = 1.0, further_s: float = 0.0) -> int:
        """Slots after which a training that begins now has ended: one at least.

        `work`: share of the run's epochs, or of their computing. `further_s`: seconds of all else.
        """
        seconds = work * self.training_s(satellite) + further_s
        return max(1, math.ceil(seconds / self.fleet.round_s - ROUNDING))

    def pooled_jobs(self, start: Vector, *, epochs: int) -> list[LocalJob]:
        """Make one job on the samples of all active satellites, if they have any."""
        if not self.samples.any():
            return []
        activity = self.fleet.rosters.activity
        segment = activity.segment(self.t)
        whole = bool(activity.satellites[segment].all())
        pool = EVERYBODY if whole else self.fleet.satellites + segment
        return [LocalJob(pool, start, epochs, self.rate, key=(self.t,))]

    def train(self, jobs: Sequence[LocalJob]) -> list[Trained]:
        """Train within this slot."""
        return self.run({0: batch(list(jobs))})[0]

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run training programs side by side within this slot; see `learning/programs.py`."""
        return self.fleet.training.run(programs)

    def begin(
        self,
        jobs: Sequence[LocalJob],
        about: Sequence[Mapping[str, Fact]] = (),
        after_s: Sequence[float] = (),
    ) -> None:
        """Begin jobs that take as long as they take on board; `about` notes facts on each.

        `after_s`: the moment of this slot at which each can begin, such as `arrival_s` of a model
        that it starts from; as the slot begins unless given.
        """
        slot_s = self.t * self.fleet.round_s
        about, after_s = about or [{} for _ in jobs], after_s or [slot_s for _ in jobs]
        self.fleet.training.begin(self.t, jobs, about, after_s)

    def finished(self) -> list[Finished]:
        """Take what satellites have finished since the slot before."""
        return self.fleet.training.finished(self.t)

    def is_busy(self, satellite: int) -> bool:
        """Return whether a satellite has a job under way, or a finished one not collected yet."""
        return self.fleet.training.is_busy(satellite)

    def busy_s(self, satellite: int) -> float:
        """Seconds of this slot for which a satellite has trained, or has waited for its orbit.

        0 where time on board is not modelled.
        """
        onboard = self.fleet.onboard
        return 0.0 if onboard is None else onboard.clock_s(satellite)

    # --- Records --------------------------------------------------------------------------------

    def note(self, **numbers: float) -> None:
        """Note numbers by name; a record has their count, mean, maximum and last, since the last.

        Names that several methods share: `version` (aggregations of the global model so far),
        `staleness` (versions that an update is behind, as it is aggregated), `buffer` (updates that
        wait at the server), `idle_visit` (1 for each contact with nothing to exchange).
        """
        self.fleet.notes.add(numbers)
