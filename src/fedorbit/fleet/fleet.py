"""A constellation with data on board and servers on the ground, for the length of a run.

`Fleet` holds what does not change from slot to slot. What does is behind `Fleet.at(t)`: one slot,
`Now`, through which alone a method trains and moves anything. What is under way (mail, jobs begun,
cycles of orbits, charges) and what was spent belong to the fleet, and to its part of a checkpoint.
"""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.errors import ModelError
from fedorbit.fleet.aggregation import Aggregations
from fedorbit.fleet.keeping import Arrays
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER, GROUND, Ledger
from fedorbit.fleet.momentum import OrbitMomentum
from fedorbit.fleet.moves import Move
from fedorbit.fleet.network import Links, Network
from fedorbit.fleet.notes import Notes
from fedorbit.fleet.now import Now
from fedorbit.fleet.onboard import ONE_MODEL, Needs, Onboard
from fedorbit.fleet.rehearsal import Rehearsal
from fedorbit.fleet.roster import Ints, Rosters
from fedorbit.fleet.routes import Routes
from fedorbit.fleet.topology import Flags, Topology
from fedorbit.fleet.training import Training
from fedorbit.hardware import Hardware
from fedorbit.learning.engine import Engine
from fedorbit.learning.parameters import ParameterLayout, Vector
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.routing import HopTimes
from fedorbit.orbits.service import LinkRates

UNLIMITED = LinkRates()
"""Messages take no time."""


@dataclass(frozen=True)
class TrainingPlan:
    """Shared settings: E_base epochs, the rate eta_t = rate x decay^t, SGD's settings."""

    epochs: int = 5
    intra_rounds: int = 1
    initial_rate: float = 0.01
    rate_decay: float = 0.998
    batch: int = 64
    momentum: float = 0.9
    orbit_momentum: float = 0.0
    optimiser: str = "sgd"

    def require_sgd(self, method: str) -> None:
        """Refuse an optimiser whose steps are not proportional to gradients."""
        if self.optimiser != "sgd":
            raise ModelError(
                f'{method} needs training.optimiser = "sgd", since it takes steps for multiples of '
                f'gradients, got "{self.optimiser}"'
            )

    def rate(self, t: int) -> float:
        """Learning rate of round t."""
        return float(self.initial_rate * self.rate_decay**t)


class Fleet:
    """Satellites in orbits, with data on board, and servers."""

    def __init__(
        self,
        *,
        engine: Engine,
        layout: ParameterLayout,
        initial_model: Vector,
        orbit_of_satellite: Ints,
        class_counts: Ints,
        visible: Flags,
        contacts: ContactPlan,
        activity: Activity,
        tau_max: int,
        plan: TrainingPlan,
        links: Links,
        round_s: float,
        seed: int = 0,
        rates: LinkRates = UNLIMITED,
        isl_mbps: float | None = None,
        routed: bool = False,
        server_groups: Sequence[int] | None = None,
        unlinked_orbits: Collection[int] = (),
        hardware: Hardware | None = None,
        needs: Needs = ONE_MODEL,
        geometry: ContactPlan | None = None,
        rehearsal: Callable[[], AbstractContextManager[Rehearsal]] | None = None,
        sample_bytes: int = 0,
        moves: Sequence[Move] = (),
    ) -> None:
        """`visible[slot, orbit]`; `contacts`: of active satellites; `seed`: of all random draws.

        `geometry`: contacts of all satellites; predictions of contacts use nothing else.

        `routed`: satellites of an orbit have no links but contacts, of `isl_mbps`. Otherwise
        satellites of `unlinked_orbits` are assumed to have links that do not exist.
        `server_groups`: servers with the same number are linked; all unless given. `sample_bytes`:
        size of one image. `moves`: samples moved before the first round; `class_counts` includes
        them, and their bytes are booked here.
        """
        self.layout, self.plan, self.links, self.tau_max = layout, plan, links, tau_max
        self.orbit_of_satellite, self.round_s = orbit_of_satellite, round_s
        self.seed = seed
        self.rehearsal = rehearsal
        """Source of synthetic images with the run's mix of classes, for learning before the run."""
        self.visible = visible
        self.classes = int(class_counts.shape[1])
        self._initial_model = initial_model
        self.rosters = Rosters(activity, class_counts, orbit_of_satellite)
        self.launch_round = _launch_rounds(activity, orbit_of_satellite, len(visible))
        self.dark_since = _dark_since(visible, self.launch_round)
        self.ledger = Ledger(epochs=[0] * visible.shape[1])
        """Costs so far."""
        self.notes = Notes()
        """Numbers that the method has noted since the last record."""
        self.momentum = OrbitMomentum(plan.orbit_momentum)
        """Momentum of orbits over their intra-orbit rounds."""
        self.sample_bytes, self.moves = sample_bytes, tuple(moves)
        self.topology = Topology(
            contacts,
            orbit_of_satellite,
            activity,
            len(visible),
            round_s,
            assumed_isl=not routed,
            unlinked_orbits=unlinked_orbits,
            server_groups=server_groups,
            geometry=geometry,
        )
        for move in self.moves:
            linked = self.topology.exists(move.source, move.target)
            ends = self.topology.group(move.source), self.topology.group(move.target)
            self.ledger.book("isl", ends, sample_bytes * move.total, linked=linked)
        isl_mbps = isl_mbps if routed else None
        self.network = Network(
            self.topology,
            links=links,
            rates=rates,
            isl_mbps=isl_mbps,
            seed=seed,
            ledger=self.ledger,
        )
        self.aggregations: Aggregations | None = None
        """Cycles of orbits, where they take time."""
        size_bytes = BYTES_PER_PARAMETER * layout.size
        self._hop_times = HopTimes.of(
            size_bytes, rates.to_ground_mbps, rates.from_ground_mbps, isl_mbps
        )
        if routed:
            self.aggregations = Aggregations(
                self.routes, activity, orbit_of_satellite, round_s, size_bytes, self.notes
            )
        self.onboard: Onboard | None = None
        """Clocks and batteries, where the configuration has them."""
        if hardware is not None:
            self.onboard = Onboard(
                hardware,
                class_counts.sum(axis=1),
                orbit_of_satellite,
                activity,
                layout.size,
                needs,
                plan.batch,
            )
        self.training = Training(
            engine, self.rosters, orbit_of_satellite, round_s, self.onboard, self.ledger
        )

    @property
    def orbits(self) -> int:
        """Number of orbits, L."""
        return self.visible.shape[1]

    @property
    def satellites(self) -> int:
        """Number of satellites, K."""
        return len(self.orbit_of_satellite)

    @property
    def servers(self) -> range:
        """Node numbers of the servers."""
        return range(self.satellites, self.satellites + self.topology.servers)

    @property
    def ground_end(self) -> int:
        """The ground as an end of transfers: its only server, or GROUND where it has several."""
        ground = self.topology.ground
        return self.topology.group(ground[0]) if len(ground) == 1 else GROUND

    @cached_property
    def routes(self) -> Routes:
        """Earliest routes over all links, those included that are assumed within orbits."""
        return Routes(self.topology, self._hop_times, self.ledger)

    def orbits_without_routes(self) -> list[int]:
        """Orbits whose satellites do not all reach each other from the run's start on."""
        active, found = self.rosters.activity.during(0), []
        for orbit in range(self.orbits):
            members = np.flatnonzero(active & (self.orbit_of_satellite == orbit))
            if not np.isfinite(self.routes.arrivals_of_each_s(members, 0.0)[:, members]).all():
                found.append(orbit)
        return found

    def initial_model(self) -> Vector:
        """Return w(0), the same on all nodes."""
        return self._initial_model.copy()

    def at(self, t: int) -> Now:
        """Return slot t; mail that has waited for it moves, jobs that end in it are booked."""
        self.network.begin(t)
        self.training.settle(t)
        if self.aggregations is not None:
            self.aggregations.settle(t)
        return Now(self, t)

    def fedavg_to_ground_bytes(self, rounds: int) -> int:
        """Return FedAvg's bytes to the ground in as many rounds: one model per visible orbit."""
        return int(self.visible[:rounds].sum()) * BYTES_PER_PARAMETER * self.layout.size

    # --- Checkpoints ----------------------------------------------------------------------------

    def saved(self) -> tuple[dict[str, Any], Arrays]:
        """Return the fleet's part of a checkpoint: plain values, and arrays by name."""
        moving, payloads = self.network.saved()
        jobs, models = self.training.saved()
        values = {"ledger": self.ledger.saved(), **moving, "jobs": jobs}
        if notes := self.notes.saved():
            values["notes"] = notes
        arrays = {**payloads, **models, **self.momentum.saved()}
        if self.onboard is not None:
            values["onboard"] = self.onboard.saved()
        if self.aggregations is not None:
            values["cycles"], results = self.aggregations.saved()
            arrays |= results
        return values, arrays

    def restore(self, values: dict[str, Any], arrays: Arrays) -> None:
        """Continue from what a checkpoint kept."""
        self.ledger.restore(values["ledger"])
        self.notes.restore(values.get("notes", {}))
        self.network.restore(values, arrays)
        self.training.restore(values["jobs"], arrays)
        self.momentum.restore(arrays)
        if self.onboard is not None:
            self.onboard.restore(values["onboard"])
        if self.aggregations is not None:
            self.aggregations.restore(values["cycles"], arrays)


def _launch_rounds(activity: Activity, orbit_of_satellite: Ints, rounds: int) -> Ints:
    """First round in which each orbit is active; `rounds` for one that never is."""
    there = activity.orbits(orbit_of_satellite)
    return np.where(there.any(axis=0), activity.begins[there.argmax(axis=0)], rounds)


def _dark_since(visible: Flags, launch_round: Ints) -> NDArray[np.int32]:
    """Return, before each round, the round after the last contact, or of launch: `[t, orbit]`."""
    after = np.arange(1, len(visible) + 1, dtype=np.int32)[:, None]
    since = np.zeros((len(visible) + 1, visible.shape[1]), dtype=np.int32)
    np.maximum.accumulate(np.where(visible, after, 0), axis=0, out=since[1:])
    return np.maximum(since, launch_round.astype(np.int32))
