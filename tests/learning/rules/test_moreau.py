"""pFedMe's local update: theta near an anchor, and an anchor that follows theta."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, SgdSettings, Trained, batch_order
from fedorbit.learning.rules import Moreau, Sgd
from tests.learning.rules import oracle
from tests.learning.rules.cases import (
    BACKENDS,
    DATA,
    DATA_BY_TYPE,
    FLAT,
    SETTINGS,
    SPEC,
    trainer_of,
)
from tests.learning.rules.quadratics import Quadratics

SIZE, START, RATE = SPEC.layout.size, SPEC.initial_vector(0), 0.05
ANCHOR = START + np.random.default_rng(5).normal(0, 0.02, SIZE).astype(np.float32)


def job_of(rule: Moreau, samples: int | None) -> LocalJob:
    return LocalJob(0, START, 2, RATE, (0,), rule, samples=samples)


@cache
def expected_of(rule: Moreau, batch: int, samples: int | None) -> tuple[Any, Any, int]:
    """theta and the anchor after all batches, and the number of steps."""
    job = job_of(rule, samples)
    settings = replace(SETTINGS, batch=batch, momentum=rule.momentum)
    theta, anchor = job.start.astype(np.float64), rule.anchor.astype(np.float64)
    m, steps = np.zeros(SIZE), 0
    for epoch in oracle.batches_of(batch_order(DATA, job, 0), settings.batch):
        for indices in epoch:
            for _ in range(rule.repeats):
                g = oracle.gradient_at(theta, indices) + rule.pull * (theta - anchor)
                theta, m = oracle.step(theta, m, g, job.rate, settings)
                steps += 1
            anchor = anchor + rule.follow * (theta - anchor)
    return theta, anchor, steps


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("images", DATA_BY_TYPE)
@pytest.mark.parametrize(
    ("rule", "batch", "samples"),
    [
        (Moreau(ANCHOR, 2.0, 1, 0.0), 8, None),
        (Moreau(ANCHOR, 2.0, 3, 0.3), 8, None),  # 23 samples: the last batch has 7
        (Moreau(ANCHOR, 2.0, 2, 0.8, momentum=0.5), 5, None),
        (Moreau(ANCHOR, 0.0, 2, 0.5), 8, None),
        (Moreau(ANCHOR, 2.0, 2, 0.3), 23, None),
        (Moreau(ANCHOR, 2.0, 2, 0.3), 64, 9),  # one batch per epoch, of a part of the samples
        (Moreau(ANCHOR, 2.0, 4, 1.0), 8, 1),
    ],
)
def test_whole_jobs_follow_the_equations(
    backend: str, images: str, rule: Moreau, batch: int, samples: int | None
) -> None:
    settings = replace(SETTINGS, batch=batch)
    job = job_of(rule, samples)
    data = DATA_BY_TYPE[images]
    trained = trainer_of(backend, settings, data).train(job, batch_order(data, job, 0))
    theta, anchor, steps = expected_of(rule, batch, samples)
    oracle.close(trained.model, theta)
    oracle.close(trained.extra["anchor"], anchor)
    assert trained.steps == steps
    assert np.abs(trained.model - START).max() > 1e-3
    assert trained.extra.keys() == {"anchor"}
    assert (np.abs(anchor - ANCHOR).max() > 1e-3) == (rule.follow > 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_steps_on_one_batch_solve_the_inner_problem(backend: str) -> None:
    """At its minimum grad f + decay theta + lambda (theta - w) is zero, clipping or not."""
    rule = Moreau(START, pull=20.0, repeats=300, follow=0.0)
    job = LocalJob(0, START, 1, 0.03, (0,), rule, samples=3)
    order = batch_order(FLAT, job, 0)
    theta = trainer_of(backend, data=FLAT).train(job, order).model.astype(np.float64)
    terms = (
        oracle.gradient_at(theta, order[0], FLAT),
        SETTINGS.weight_decay * theta,
        rule.pull * (theta - START),
    )
    assert np.linalg.norm(terms[0]) > SETTINGS.clip_norm
    assert min(np.linalg.norm(term) for term in terms) > 0.04
    assert np.linalg.norm(sum(terms)) < 1e-4


def test_a_quadratic_by_hand() -> None:
    """With f = (theta - m)^2 / 2, m = 1 and -2, lambda = 5, the minima are (m + 5 w) / 6.

    From w = 0: theta = 1/6, w = 1/12; theta = (-2 + 5/12) / 6, w half-way to it.
    """
    plain = SgdSettings(batch=1, momentum=0.9, weight_decay=0.0, clip_norm=0.0)
    job = Quadratics([1.0, -2.0], [1.0, 1.0], [[0, 1]], plain, rate=0.1)
    trained = Moreau(np.zeros(1, np.float32), 5.0, repeats=60, follow=0.5).with_torch(job)
    theta = (-2 + 5 / 12) / 6
    assert trained.model[0] == pytest.approx(theta, abs=1e-6)
    assert trained.extra["anchor"][0] == pytest.approx((1 / 12 + theta) / 2, abs=1e-6)
    assert trained.steps == 120


@pytest.mark.parametrize("backend", BACKENDS)
def test_one_step_and_an_anchor_that_arrives_is_sgd_without_momentum(backend: str) -> None:
    trainer = trainer_of(backend)
    rule = Moreau(START, pull=5.0, repeats=1, follow=1.0)
    jobs = [LocalJob(0, START, 2, RATE, (0,), each) for each in (rule, Sgd(momentum=0.0))]
    moreau, sgd = (trainer.train(job, batch_order(DATA, job, 0)) for job in jobs)
    np.testing.assert_array_equal(moreau.model, sgd.model)
    np.testing.assert_array_equal(moreau.extra["anchor"], sgd.model)
    assert moreau.steps == sgd.steps == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_anchor_that_does_not_follow_keeps_its_bits(backend: str) -> None:
    job = LocalJob(0, START, 1, RATE, (0,), Moreau(ANCHOR, 1.0, 2, 0.0))
    trained = trainer_of(backend).train(job, batch_order(DATA, job, 0))
    np.testing.assert_array_equal(trained.extra["anchor"].view(np.int32), ANCHOR.view(np.int32))
    assert not np.shares_memory(trained.extra["anchor"], ANCHOR)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_stronger_pull_holds_theta_nearer(backend: str) -> None:
    trainer, distances = trainer_of(backend), []
    for pull in (1.0, 5.0, 15.0):
        job = LocalJob(0, START, 2, RATE, (0,), Moreau(START, pull, 5, 0.1))
        trained = trainer.train(job, batch_order(DATA, job, 0))
        distances.append(np.linalg.norm(trained.model - trained.extra["anchor"]))
    assert distances == sorted(distances, reverse=True)
    assert distances[2] < distances[0] / 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_callers_vectors_do_not_change_and_may_be_read_only(backend: str) -> None:
    start, anchor = START.copy(), ANCHOR.copy()
    for vector in (start, anchor):
        vector.setflags(write=False)
    job = LocalJob(0, start, 1, RATE, (0,), Moreau(anchor, 2.0, 2, 0.5))
    trained = trainer_of(backend).train(job, batch_order(DATA, job, 0))
    np.testing.assert_array_equal(start, START)
    np.testing.assert_array_equal(anchor, ANCHOR)
    assert trained.model.flags.writeable and trained.extra["anchor"].flags.writeable


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("satellite", "epochs"), [(2, 3), (0, 0)])
def test_a_job_without_batches_gives_back_the_anchor(
    backend: str, satellite: int, epochs: int
) -> None:
    job = LocalJob(satellite, START, epochs, RATE, (0,), Moreau(ANCHOR, 2.0, 3, 0.5))
    results = [
        trainer_of(backend).train(job, batch_order(DATA, job, 0)),
        Trained.untouched(job),
    ]
    for trained in results:
        assert trained.steps == 0
        np.testing.assert_array_equal(trained.model, START)
        np.testing.assert_array_equal(trained.extra["anchor"], ANCHOR)
        assert trained.extra["anchor"] is not ANCHOR


def test_what_it_costs() -> None:
    rule = Moreau(ANCHOR, 2.0, 7, 0.5)
    assert rule.passes == 7
    assert rule.exchanged(SIZE) == 2 * SIZE
    assert rule.vectors == {"anchor": ANCHOR}
    assert LocalJob(0, START, 3, RATE, (0,), rule).images(23) == 7 * 3 * 23


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pull": -0.1}, r"Moreau\.pull must be finite and at least 0, got -0\.1"),
        ({"pull": float("nan")}, "pull must be finite and at least 0, got nan"),
        ({"repeats": 0}, r"Moreau\.repeats must be finite and at least 1, got 0"),
        ({"follow": -0.1}, r"Moreau\.follow must be between 0 and 1, got -0\.1"),
        ({"follow": 1.5}, r"follow must be between 0 and 1, got 1\.5"),
        ({"follow": float("nan")}, "follow must be between 0 and 1, got nan"),
        ({"momentum": 1.0}, r"Moreau\.momentum must be at least 0 and below 1, got 1\.0"),
    ],
)
def test_other_numbers_are_refused(change: dict[str, Any], message: str) -> None:
    arguments = {"anchor": ANCHOR, "pull": 1.0, "repeats": 1, "follow": 0.5} | change
    with pytest.raises(ModelError, match=message):
        Moreau(**arguments)
