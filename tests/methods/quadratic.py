"""Satellites with f_k(w) = h_k/2 |w - m_k|^2 instead of images: rounds that can be worked by hand.

Rules, methods, engine and fleet are the real ones; only the gradient of a batch is that of f_k. A
satellite has as many samples as one says, and with batches of one sample as many steps per epoch.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fedorbit.activity import Activity
from fedorbit.fleet import Fleet, TrainingPlan
from fedorbit.fleet.network import Links
from fedorbit.hardware import Hardware
from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.jobs import PLAINLY, LocalJob, Seen, SgdSettings, Trained, TrainingData
from fedorbit.learning.parameters import ParameterLayout
from fedorbit.learning.rules.base import Batch
from fedorbit.learning.torch_trainer import _Job
from fedorbit.methods import Method, State
from fedorbit.orbits.plan import KINDS, ContactPlan, merged, plan_of_slots

Floats = NDArray[Any]


class QuadraticTrainer:
    """Does jobs of satellites whose loss is a parabola."""

    name = "torch"
    statistics, least_batch = slice(0, 0), 1

    def __init__(self, h: Floats, m: Floats, data: TrainingData, settings: SgdSettings) -> None:
        self.h, self.m, self.data, self.settings = h, m, data, settings
        self.device = torch.device("cpu")
        self.gradients: list[tuple[int, float, list[float]]] = []
        """Satellite, point (its first value) and gradient of every evaluation."""

    def train(self, job: LocalJob, order: NDArray[np.int64], seen: Seen = PLAINLY) -> Trained:
        return job.rule.with_torch(_Job(self, job, order, seen))  # type: ignore[arg-type]

    def gather(self, samples: NDArray[np.int64], views: None, offset: None) -> Batch:
        return Batch(torch.empty(0), torch.from_numpy(self.data.labels[samples]))

    def gradient(self, point: Tensor, batch: Batch, *settings: Any) -> Tensor:
        satellite = int(batch.labels[0])
        slope = self.h[satellite] * (point - torch.as_tensor(self.m[satellite]))
        self.gradients.append((satellite, float(point[0]), slope.tolist()))
        return slope.float().clone()

    def cancel(self) -> None:
        pass


@contextmanager
def quadratic_fleet(
    h: Sequence[float],
    m: Sequence[Sequence[float]],
    *,
    samples: Sequence[int] | None = None,
    class_counts: Sequence[Sequence[int]] | None = None,
    orbit_of: Sequence[int] | None = None,
    visible: Sequence[Sequence[int]] | None = None,
    epochs: int = 1,
    rate: float = 0.1,
    momentum: float = 0.0,
    orbit_momentum: float = 0.0,
    batch: int = 1,
    clip_norm: float = 0.0,
    weight_decay: float = 0.0,
    intra_rounds: int = 1,
    rounds: int = 400,
    start: Sequence[float] | None = None,
    contacts: ContactPlan | Floats | None = None,
    samples_per_s: float | None = None,
    links: Links = "ideal",
    routed: bool = False,
) -> Iterator[Fleet]:
    """Yield a fleet; all satellites are in one orbit that is always in view unless said.

    A round takes a second. `class_counts`: what methods are told, not what is trained. `contacts`: of single satellites, in place of `visible`; whole rounds
    `[slot, satellite, server]`, or a plan.
    """
    samples = [1] * len(h) if samples is None else samples
    orbit = np.zeros(len(h), dtype=np.int64) if orbit_of is None else np.array(orbit_of)
    owner = np.repeat(np.arange(len(h)), samples)
    images = np.zeros((len(owner), 1, 1, 1), dtype=np.float32)
    parts = tuple(np.flatnonzero(owner == k) for k in range(len(h)))
    unit = np.ones(1, dtype=np.float32)
    data = TrainingData(images, owner, unit, unit, parts, np.arange(len(owner)))
    settings = SgdSettings(batch, momentum, weight_decay, clip_norm)
    means = np.array(m, dtype=np.float64)
    size = means.shape[1]
    seen = np.ones((rounds, orbit.max() + 1)) if visible is None else np.array(visible)
    if isinstance(contacts, ContactPlan):
        plan = contacts
    else:
        in_contact = seen[:, orbit, None] if contacts is None else np.asarray(contacts)
        plan = plan_of_slots(in_contact.astype(bool), 1.0)
        by_orbit = [in_contact[:, orbit == o].any(axis=(1, 2)) for o in range(orbit.max() + 1)]
        seen = np.stack(by_orbit, axis=1)
    layout = ParameterLayout((), slice(0, size - 1), slice(size - 1, size), np.array([[size - 1]]))
    trainer = QuadraticTrainer(np.array(h), means, data, settings)
    engine = LocalEngine(trainer, data, 0, 1)
    speeds = None if samples_per_s is None else np.full(len(h), samples_per_s)
    hardware = None if speeds is None else Hardware(speeds, round_s=1.0)
    w = np.zeros(size, dtype=np.float32) if start is None else np.array(start, dtype=np.float32)
    try:
        fleet = Fleet(
            engine=engine,
            layout=layout,
            initial_model=w,
            orbit_of_satellite=orbit,
            class_counts=np.array(class_counts or [[n] for n in samples], dtype=np.int64),
            visible=seen.astype(bool),
            contacts=plan,
            activity=Activity.always(len(h)),
            tau_max=rounds,
            plan=TrainingPlan(epochs, intra_rounds, rate, 1.0, batch, momentum, orbit_momentum),
            links=links,
            round_s=1.0,
            hardware=hardware,
            routed=routed,
        )
        fleet.trainer = trainer  # type: ignore[attr-defined]
        yield fleet
    finally:
        engine.close()


@contextmanager
def paired_orbits(
    m: Floats, visible: Sequence[Sequence[int]], *, routed: bool, **settings: Any
) -> Iterator[Fleet]:
    """Yield a fleet of orbits of two satellites, of which the first alone meets the ground.

    It does so within the slots in which its orbit is visible. Mates are linked in every fifth slot,
    orbit by orbit. With `routed` these links are all that they have, otherwise they always reach
    each other.
    """
    seen = np.array(visible, dtype=bool)
    rounds, orbits, ground = *seen.shape, len(m)
    meets = [(2 * o, ground, t + 0.1, t + 0.9) for t, o in np.argwhere(seen).tolist()]
    mates = [
        (2 * o, 2 * o + 1, t + 0.4, t + 0.6)
        for t in range(rounds)
        for o in range(orbits)
        if (t + o) % 5 == 0
    ]
    first, second, begin_s, end_s = np.array(meets + mates).T
    plan = ContactPlan(
        satellites=ground,
        servers=1,
        horizon_s=float(rounds),
        first=first.astype(np.int32),
        second=second.astype(np.int32),
        begin_s=begin_s,
        end_s=end_s,
        kind=np.where(second < ground, KINDS.index("isl"), 0).astype(np.uint8),
        range_km=np.full(len(first), np.nan),
    )
    with quadratic_fleet(
        np.ones(len(m)).tolist(),
        m.tolist(),
        orbit_of=np.repeat(np.arange(orbits), 2).tolist(),
        visible=visible,
        contacts=merged(plan),
        links="physical" if routed else "causal",
        routed=routed,
        rounds=rounds,
        **settings,
    ) as fleet:
        yield fleet


def play_on(fleet: Fleet, method: Method, rounds: int) -> State:
    """Play rounds from the start and return the last state."""
    state = method.start(fleet)
    for t in range(rounds):
        state = method.round(state, fleet.at(t))
    return state
