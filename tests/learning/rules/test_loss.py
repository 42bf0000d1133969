"""The loss of a model, as a job."""

import numpy as np
import pytest

from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.rules import Loss
from fedorbit.learning.torch_trainer import TrainingCancelledError
from tests.learning.rules.cases import BACKENDS, DATA, SETTINGS, SPEC, trainer_of

START = SPEC.initial_vector(0)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("samples", [None, 7, 10_000])
def test_the_loss_is_that_of_the_evaluation(backend: str, samples: int | None) -> None:
    trainer = trainer_of(backend, SETTINGS)
    job = LocalJob(0, START, 1, 0.1, (3,), Loss(), samples=samples)
    order = batch_order(DATA, job, seed=0)
    result = trainer.train(job, order)
    _, total = trainer.evaluate(START, order[0])
    assert order.size == min(samples or 10_000, len(DATA.parts[0]))
    assert result.extra["loss"] == pytest.approx(total / order.size, rel=1e-5)
    np.testing.assert_array_equal(result.model, START)
    assert result.steps == 0
    assert (job.images(20), Loss().exchanged(100)) == (min(samples or 20, 20), 1)


@pytest.mark.parametrize("backend", BACKENDS)
def test_without_samples_it_is_not_known(backend: str) -> None:
    job = LocalJob(0, START, 0, 0.1, (3,), Loss())
    result = trainer_of(backend, SETTINGS).train(job, np.empty((0, 5), dtype=np.int64))
    assert np.isnan(result.extra["loss"])


@pytest.mark.parametrize("backend", BACKENDS)
def test_it_can_be_cancelled(backend: str) -> None:
    trainer = trainer_of(backend, SETTINGS)
    trainer.cancel()
    job = LocalJob(0, START, 1, 0.1, (3,), Loss())
    with pytest.raises(TrainingCancelledError):
        trainer.train(job, batch_order(DATA, job, seed=0))
