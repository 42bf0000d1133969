"""Settings that a job of SGD has for itself, in place of the run's."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.rules import Sgd
from tests.learning.rules import oracle
from tests.learning.rules.cases import BACKENDS, DATA, SETTINGS, SPEC, trainer_of

START, RATE = SPEC.initial_vector(0), 0.05
OWN: list[dict[str, float]] = [
    {"momentum": 0.0},
    {"weight_decay": 0.0},
    {"momentum": 0.5, "weight_decay": 0.1},
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("part", [None, SPEC.layout.classifier])
def test_they_are_those_of_a_run_that_has_them(
    backend: str, own: dict[str, float], part: Any
) -> None:
    """To the last bit, since the arithmetic is the same."""
    job = LocalJob(0, START, 2, RATE, (0,), Sgd(part=part, **own))
    order = batch_order(DATA, job, 0)
    found = trainer_of(backend).train(job, order).model
    plain = replace(job, rule=Sgd(part=part))
    such_a_run = trainer_of(backend, replace(SETTINGS, **own))  # type: ignore[arg-type]
    np.testing.assert_array_equal(found, such_a_run.train(plain, order).model)
    assert np.abs(found - trainer_of(backend).train(plain, order).model).max() > 1e-5


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_plain_step_is_the_clipped_gradient(backend: str) -> None:
    rule = Sgd(momentum=0.0, weight_decay=0.0)
    job = LocalJob(0, START, 1, 0.1, (0,), rule, samples=8)
    [batch] = batch_order(DATA, job, 0)
    gradient = oracle.gradient_at(START.astype(np.float64), batch)
    assert np.linalg.norm(gradient) > SETTINGS.clip_norm
    trained = trainer_of(backend).train(job, batch[np.newaxis])
    oracle.close(trained.model, START - 0.1 * oracle.clipped(gradient, SETTINGS.clip_norm))
    assert trained.steps == 1


@pytest.mark.parametrize(
    ("own", "message"),
    [
        ({"momentum": 1.0}, r"Sgd\.momentum must be at least 0 and below 1, got 1\.0"),
        ({"momentum": -0.1}, r"below 1, got -0\.1"),
        ({"weight_decay": -1.0}, r"Sgd\.weight_decay must be finite and at least 0, got -1\.0"),
        ({"weight_decay": float("nan")}, "at least 0, got nan"),
    ],
)
def test_other_numbers_are_refused(own: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Sgd(**own)
