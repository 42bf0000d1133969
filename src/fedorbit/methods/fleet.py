"""The world as a method may see it: orbits, counts, who is in view now, training and links.

Models move between an orbit and the ground station (GS) through `upload` and `download` only. So
bytes are counted in one place, and a transfer without a contact cannot happen unnoticed: with
`links="causal"` it raises `LinkError`; with `links="ideal"`, as the paper's algorithm assumes, it
is counted apart as `unlinked_bytes`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import LinkError
from fedorbit.learning.engine import Engine, Program
from fedorbit.learning.jobs import EVERYBODY, LocalJob
from fedorbit.learning.parameters import ParameterLayout, Vector

BYTES_PER_PARAMETER = 4

Links = Literal["ideal", "causal"]
Ints = NDArray[np.int64]
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
    """Local epochs of each orbit's satellites in this round alone."""


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
        tau_max: int,
        plan: TrainingPlan,
        links: Links,
    ) -> None:
        self.layout = layout
        self.plan = plan
        self.links = links
        self.tau_max = tau_max
        self.orbit_of_satellite = orbit_of_satellite
        self.class_counts = class_counts
        """Training samples `[satellite, class]`: s_kc of `eq:m_strength`."""
        self.orbit_class_counts = np.zeros((visible.shape[1], class_counts.shape[1]), np.int64)
        """Training samples `[orbit, class]`."""
        np.add.at(self.orbit_class_counts, orbit_of_satellite, class_counts)
        self.ledger = Ledger(epochs=[0] * visible.shape[1])
        self._engine = engine
        self._initial_model = initial_model
        self._visible = visible

    @property
    def orbits(self) -> int:
        """Number of orbits, L."""
        return self._visible.shape[1]

    @property
    def samples(self) -> Ints:
        """Training samples of each satellite, n_k."""
        return self.class_counts.sum(axis=1)

    @property
    def orbit_samples(self) -> Ints:
        """Training samples of each orbit, n_l."""
        return self.orbit_class_counts.sum(axis=1)

    def initial_model(self) -> Vector:
        """Return w(0), the same for everybody."""
        return self._initial_model.copy()

    def visible(self, t: int) -> list[int]:
        """Orbits in view of the ground station in round t, V(t)."""
        return [int(orbit) for orbit in np.flatnonzero(self._visible[t])]

    def reachable(self, t: int) -> list[int]:
        """Orbits that may exchange models with the GS in round t: in an ideal world all."""
        return list(range(self.orbits)) if self.links == "ideal" else self.visible(t)

    def trainers(self, orbit: int) -> list[int]:
        """Satellites of an orbit that have something to learn from."""
        members = (self.orbit_of_satellite == orbit) & (self.samples > 0)
        return [int(satellite) for satellite in np.flatnonzero(members)]

    # --- Training ---------------------------------------------------------------------------------

    def jobs(
        self,
        orbit: int,
        t: int,
        start: Vector,
        *,
        epochs: int,
        rate: float,
        intra_round: int = 0,
        purpose: int = 0,
        **changes: Any,
    ) -> list[LocalJob]:
        """Make one job for each satellite of `trainers(orbit)`, all from one model.

        `purpose` tells several trainings of one round apart, such as Ditto's two models.
        """
        key = (t, intra_round, purpose)
        return [
            LocalJob(satellite, start, epochs, rate, key, **changes)
            for satellite in self.trainers(orbit)
        ]

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run training programs side by side; see `learning/engine.py`."""
        return self._engine.run({key: self._counted(p) for key, p in programs.items()})

    def _counted(self, program: Program[Result]) -> Program[Result]:
        """Pass a program through and book what it trains and sends over ISLs."""
        try:
            jobs = next(program)
            while True:
                for job in jobs:
                    self._book(job)
                self._book_exchange(jobs)
                jobs = program.send((yield jobs))
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def _book(self, job: LocalJob) -> None:
        everybody = job.satellite == EVERYBODY
        samples = int(self.samples.sum() if everybody else self.samples[job.satellite])
        models = 1 if job.personal is None else 2
        self.ledger.samples_trained += models * job.epochs * samples

    def _book_exchange(self, jobs: list[LocalJob]) -> None:
        """An orbit of N satellites sends N - 1 models out and N - 1 back to aggregate them."""
        if not jobs or jobs[0].satellite == EVERYBODY:
            return
        orbit = int(self.orbit_of_satellite[jobs[0].satellite])
        satellites = int((self.orbit_of_satellite == orbit).sum())
        models = 1 if jobs[0].personal is None else 2
        model_bytes = BYTES_PER_PARAMETER * jobs[0].start.size
        self.ledger.isl_bytes += 2 * (satellites - 1) * models * model_bytes
        self.ledger.epochs[orbit] += jobs[0].epochs

    # --- Links ------------------------------------------------------------------------------------

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
