"""Utility of an aggregation, for FedSpace's schedule search: two estimates.

`mass_utility` needs no training. A ridge regression learns the fall of the loss from aggregations
that are tried out on synthetic images, dealt like the run's, before the run.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.errors import ModelError
from fedorbit.fleet import Fleet, Rehearsal
from fedorbit.fleet.training import batch
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.methods.aggregation_schedule import (
    DISCOUNTS,
    EMPTY,
    OLDEST,
    SAMPLES,
    STALENESS,
    UPDATES,
    WEIGHT,
    Floats,
    Ints,
    Outlook,
    random_schedules,
    with_updates,
)
from fedorbit.methods.global_model import discount

RIDGE = 1.0
"""Strength of the regression's pull to zero, of features with deviation 1."""
SCHEDULES = 200
"""Random schedules whose buffers are tried out."""
JOBS_AT_A_TIME = 64
"""Trained models that are in memory together."""


def mass_utility(contents: Floats, total_samples: int, power: float) -> Floats:
    """Return U = (sum c(s_k) n_k / n)^p."""
    return np.asarray((contents[:, WEIGHT] / max(total_samples, 1)) ** power)


def features(contents: Floats, total_samples: int, status: NDArray[np.float64] | float) -> Floats:
    """Return what the regression sees of buffers and of the training status T.

    |B|, share of n, sum and mean of c, mean and largest s, T, and their products in pairs.
    """
    count = np.maximum(contents[:, UPDATES], 1)
    single = np.column_stack(
        [
            contents[:, UPDATES],
            contents[:, SAMPLES] / max(total_samples, 1),
            contents[:, DISCOUNTS],
            contents[:, DISCOUNTS] / count,
            contents[:, STALENESS] / count,
            contents[:, OLDEST],
            np.broadcast_to(status, len(contents)),
        ]
    )
    first, second = np.triu_indices(single.shape[1])
    return np.hstack([single, single[:, first] * single[:, second]])


class Regression(NamedTuple):
    """A ridge regression on features that are standardised."""

    centre: Floats
    scale: Floats
    slope: Floats
    offset: float

    @classmethod
    def fit(cls, x: Floats, y: Floats) -> "Regression":
        """Fit rows of features to targets."""
        centre, scale = x.mean(axis=0), x.std(axis=0)
        scale[scale < 1e-12] = 1.0  # a constant feature explains nothing
        z = (x - centre) / scale
        slope = np.linalg.solve(
            np.einsum("np,nq->pq", z, z) + RIDGE * np.eye(z.shape[1]),
            np.einsum("np,n->p", z, y - y.mean()),
        )
        return cls(centre, scale, slope, float(y.mean()))

    def predict(self, x: Floats) -> Floats:
        """Return predictions, one for each row."""
        return np.asarray(
            np.einsum("...p,p->...", (x - self.centre) / self.scale, self.slope) + self.offset
        )

    @classmethod
    def unknown(cls) -> "Regression":
        """Return what predicts 0 for everything."""
        zero = np.zeros(features(EMPTY[None], 1, 0.0).shape[1])
        return cls(zero, zero + 1.0, zero, 0.0)

    @classmethod
    def of_array(cls, array: Floats) -> "Regression":
        """Return a regression that `array` has stored."""
        return cls(array[0], array[1], array[2], float(array[3, 0]))

    def array(self) -> Floats:
        """Return it as one array, for a method's state."""
        return np.array(
            [self.centre, self.scale, self.slope, np.full_like(self.slope, self.offset)]
        )


class Trial(NamedTuple):
    """An aggregation to try out: at a version, of updates that satellites made of older ones."""

    version: int
    satellites: Ints
    staleness: Ints


def draw_trials(
    outlook: Outlook, pairs: int, versions: int, least: int, most: int, rng: np.random.Generator
) -> list[Trial]:
    """Draw buffers that random schedules lead to, each with a version at which it is aggregated.

    Of an update that would be older than the first version, the staleness is cut.
    """
    schedules = random_schedules(outlook.visits, SCHEDULES, least, most, rng)
    open_buffers: list[list[tuple[Ints, Ints]]] = [[] for _ in schedules]
    buffers: list[tuple[Ints, Ints]] = []
    for played in outlook.play(schedules):
        for row, staleness in enumerate(played.staleness):
            brings = staleness >= 0
            open_buffers[row].append((played.visitors[brings], staleness[brings]))
        for row in played.rows.tolist():
            satellites, ages = zip(*open_buffers[row], strict=True)
            buffers.append((np.concatenate(satellites), np.concatenate(ages)))
            open_buffers[row] = []
    if not buffers:
        return []
    chosen, at = rng.integers(len(buffers), size=pairs), rng.integers(versions, size=pairs)
    return [
        Trial(j, buffers[i][0], np.minimum(buffers[i][1], j))
        for i, j in zip(chosen.tolist(), at.tolist(), strict=True)
    ]


def learn_utility(
    fleet: Fleet, outlook: Outlook, trials: list[Trial], versions: int, by_samples: bool
) -> Regression:
    """Learn by how much the loss falls; by nothing where no aggregation could be tried out.

    On synthetic images FedAvg over all satellites makes versions w_0 to w_J. Each trial adds the
    discounted updates of its satellites, trained from older versions, to one of them. Targets are
    F(w_j) - F(w_j after it), F being the mean loss on images of no satellite.
    """
    if fleet.rehearsal is None:
        raise ModelError(
            'utility = "ridge" learns from synthetic images, and this fleet was made without '
            'them; set methods.fedspace.utility = "mass"'
        )
    if not trials:
        return Regression.unknown()
    n = outlook.samples
    contents = np.array([_contents(trial, n, outlook.alpha) for trial in trials])
    with fleet.rehearsal() as rehearsal:
        gain, status = _tried_out(fleet, outlook, trials, versions, by_samples, rehearsal)
    usable = np.isfinite(gain) & np.isfinite(status)  # a model may diverge
    if not usable.any():
        return Regression.unknown()
    return Regression.fit(features(contents[usable], int(n.sum()), status[usable]), gain[usable])


def _tried_out(
    fleet: Fleet,
    outlook: Outlook,
    trials: list[Trial],
    versions: int,
    by_samples: bool,
    rehearsal: Rehearsal,
) -> tuple[Floats, Floats]:
    """Return by how much the loss falls in each trial, and the training loss before it."""
    n, engine = outlook.samples, rehearsal.engine
    after = np.zeros((len(trials), fleet.layout.size), dtype=np.float32)  # sums, then models
    models = [fleet.initial_model()]
    for base in range(versions):
        users: dict[int, list[tuple[int, float]]] = {}  # of an update: trials, and its weights
        for number, trial in enumerate(trials):
            of_base = np.flatnonzero(trial.version - trial.staleness == base)
            weights = discount(trial.staleness, outlook.alpha)
            weights = weights * n[trial.satellites] if by_samples else weights
            share = (weights / weights.sum())[of_base]
            for k, weight in zip(trial.satellites[of_base].tolist(), share.tolist(), strict=True):
                users.setdefault(k, []).append((number, weight))
        models.append(_next_version(fleet, models[-1], base, n, rehearsal, users, after))
    at = np.array([trial.version for trial in trials])
    held_out, train = rehearsal.held_out, rehearsal.train
    loss = np.array([x for _, x in engine.evaluate(models, [held_out] * len(models))])
    status = np.array([x for _, x in engine.evaluate(models, [train] * len(models))]) / len(train)
    for number, j in enumerate(at.tolist()):
        after[number] += models[j]
    loss_after = np.array([x for _, x in engine.evaluate([*after], [held_out] * len(after))])
    return (loss[at] - loss_after) / len(held_out), status[at]


def _contents(trial: Trial, n: Ints, alpha: float) -> Floats:
    arrived = np.ones(len(trial.satellites), dtype=np.bool_)
    return with_updates(EMPTY, trial.staleness, n[trial.satellites], alpha, arrived)


def _next_version(
    fleet: Fleet,
    w: Vector,
    base: int,
    n: Ints,
    rehearsal: Rehearsal,
    users: dict[int, list[tuple[int, float]]],
    after: Vector,
) -> Vector:
    """Train all satellites from w; add updates to the trials that use them; return the mean."""
    plan, mean = fleet.plan, np.zeros(len(w))
    satellites = np.flatnonzero(n).tolist()
    for begin in range(0, len(satellites), JOBS_AT_A_TIME):
        some = satellites[begin : begin + JOBS_AT_A_TIME]
        jobs = [LocalJob(k, w, plan.epochs, plan.rate(0), (base,)) for k in some]
        for k, trained in zip(some, rehearsal.engine.run({0: batch(jobs)})[0], strict=True):
            mean += n[k] / n.sum() * trained.model
            for number, weight in users.get(k, ()):
                after[number] += np.float32(weight) * (trained.model - w)
    return mean.astype(np.float32)
