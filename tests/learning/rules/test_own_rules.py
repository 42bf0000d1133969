"""A new rule is one file: trainers and engines run it without knowing it."""

import threading

import numpy as np
import pytest

from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.jobs import LocalJob, SgdSettings, Trained, batch_order
from fedorbit.learning.rules import Coupled, Maml, Moreau, Sgd
from fedorbit.learning.torch_trainer import TrainingCancelledError
from tests.learning.kernel.cases import needs_kernel
from tests.learning.rules.cases import DATA, SPEC, trainer_of
from tests.learning.rules.own_rules import SignSgd

SIZE = SPEC.layout.size
START = SPEC.initial_vector(0)
SCALES = np.linspace(0, 1, SIZE, dtype=np.float32)


def jobs_of(epochs: int = 2) -> list[LocalJob]:
    return [LocalJob(k, START, epochs, 1e-3, (0,), SignSgd(SCALES)) for k in range(3)]


def test_a_rule_finds_its_own_vectors() -> None:
    part = np.ones(SIZE, bool)
    assert Sgd().vectors == {}
    assert Sgd(anchor=START, pull=0.1, part=slice(3)).vectors.keys() == {"anchor"}
    assert Sgd(correction=START, part=part).vectors == {"correction": START, "part": part}
    assert Coupled(START, 0.5).vectors.keys() == {"personal"}
    assert Moreau(START, 1.0, 2, 0.5).vectors == {"anchor": START}
    assert Maml(0.1, hessian=True).vectors == {}
    assert SignSgd(SCALES).vectors.keys() == {"scales"}


def test_threads_run_it() -> None:
    def program():
        return (yield jobs_of())

    engine = LocalEngine(trainer_of("torch"), DATA, seed=0, workers=2)
    try:
        large, small, empty = engine.run({0: program()})[0]
    finally:
        engine.close()
    # 23 and 17 samples in batches of 8, twice.
    assert (large.steps, small.steps, empty.steps) == (6, 6, 0)
    moved = np.abs(large.model - START)
    assert (moved <= 6 * 1e-3 * SCALES * (1 + 1e-5) + 1e-7).all() and moved.max() > 4e-3
    assert np.abs(large.extra["mean"]).max() > 0
    np.testing.assert_array_equal(empty.model, START)
    np.testing.assert_array_equal(empty.extra["mean"], 0)


def test_a_job_that_was_left_out_has_what_the_rule_says() -> None:
    untouched = Trained.untouched(jobs_of()[0])
    assert untouched.steps == 0 and untouched.model is not START
    np.testing.assert_array_equal(untouched.model, START)
    np.testing.assert_array_equal(untouched.extra["mean"], np.zeros(SIZE))


@needs_kernel
def test_pytorch_does_what_the_kernel_cannot_and_one_warning_says_so() -> None:
    kernel, torch = trainer_of("kernel"), trainer_of("torch")
    job, plain = jobs_of()[0], LocalJob(0, START, 1, 1e-3, (0,))
    order = batch_order(DATA, job, 0)
    with pytest.warns(UserWarning, match="the kernel has no SignSgd: PyTorch trains"):
        first = kernel.train(job, order)
    second = kernel.train(job, order)  # a second warning would be an error here
    expected = torch.train(job, order)
    for trained in (first, second):
        np.testing.assert_array_equal(trained.model, expected.model)
        np.testing.assert_array_equal(trained.extra["mean"], expected.extra["mean"])
    assert kernel.train(plain, batch_order(DATA, plain, 0)).steps == 3


@needs_kernel
@pytest.mark.filterwarnings("ignore:the kernel has no SignSgd")
@pytest.mark.parametrize("before", [True, False])
def test_such_a_job_can_be_cancelled(before: bool) -> None:
    kernel = trainer_of("kernel", SgdSettings(batch=1))
    [job, *_] = jobs_of(epochs=100_000)
    timer = threading.Timer(0.0 if before else 0.5, kernel.cancel)
    timer.start()
    if before:
        timer.join()
    with pytest.raises(TrainingCancelledError):
        kernel.train(job, batch_order(DATA, job, 0))
    timer.join()
