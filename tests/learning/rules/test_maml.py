"""Per-FedAvg's local update: the gradient after one step of adaptation."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, SgdSettings, batch_order
from fedorbit.learning.models import ModelSpec
from fedorbit.learning.parameters import layout_of
from fedorbit.learning.rules import Maml, Sgd
from fedorbit.learning.torch_trainer import TorchTrainer
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
RAW = SgdSettings(batch=8, momentum=0.0, weight_decay=0.0, clip_norm=0.0)
"""With these and a rate of 1, one step is the gradient."""


def job_of(rule: Maml, samples: int | None) -> LocalJob:
    return LocalJob(0, START, 2, RATE, (0,), rule, samples=samples)


@cache
def expected_of(rule: Maml, size: int, samples: int | None) -> Any:
    """The model after all batches, by the equations of the rule's file."""
    job, settings = job_of(rule, samples), replace(SETTINGS, batch=size)
    w, m = job.start.astype(np.float64), np.zeros(SIZE)
    for epoch in oracle.batches_of(batch_order(DATA, job, 0), settings.batch):
        for batch, other in zip(epoch, [*epoch[1:], epoch[0]], strict=True):
            ahead = oracle.clipped(oracle.gradient_at(w, other), settings.clip_norm)
            g = v = oracle.gradient_at(w - rule.alpha * ahead, batch)
            if rule.hessian:
                length = np.linalg.norm(v)
                reach = rule.radius * v / length
                forth = oracle.gradient_at(w + reach, other)
                back = oracle.gradient_at(w - reach, other)
                g = v - rule.alpha * (forth - back) * length / (2 * rule.radius)
            w, m = oracle.step(w, m, g, job.rate, settings)
    return w


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("images", DATA_BY_TYPE)
@pytest.mark.parametrize(
    ("rule", "batch", "samples"),
    [
        (Maml(0.5), 8, None),  # 23 samples: the last batch has 7, and looks ahead to the first
        (Maml(0.5, hessian=True), 8, None),
        (Maml(0.1, hessian=True, radius=0.03), 5, None),
        (Maml(0.5), 64, None),  # one batch per epoch
        (Maml(0.5, hessian=True), 23, None),
        (Maml(0.5, hessian=True), 8, 9),  # of a part of the samples: batches of 8 and 1
        (Maml(0.5), 8, 1),
    ],
)
def test_whole_jobs_follow_the_equations(
    backend: str, images: str, rule: Maml, batch: int, samples: int | None
) -> None:
    settings = replace(SETTINGS, batch=batch)
    job = job_of(rule, samples)
    data = DATA_BY_TYPE[images]
    trained = trainer_of(backend, settings, data).train(job, batch_order(data, job, 0))
    oracle.close(trained.model, expected_of(rule, batch, samples))
    assert trained.steps == 2 * -(-(samples or 23) // batch)
    assert trained.extra == {}
    plain = replace(job, rule=Sgd())
    sgd = trainer_of(backend, settings, data).train(plain, batch_order(data, plain, 0))
    assert np.abs(trained.model - sgd.model).max() > 1e-4


class Smooth(nn.Module):
    """A network without kinks, whose second derivative says all about its gradients nearby."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(height * width * channels, 6)
        self.fc2 = nn.Linear(6, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc2(torch.tanh(self.fc1(images.flatten(1))))


@pytest.mark.parametrize("samples", [8, 16])  # one batch, and two
def test_the_hessians_term_is_that_of_autograd(samples: int) -> None:
    """Autograd differentiates f(w - alpha grad f(w; D); D') as a whole."""
    shape = SPEC.image_shape
    layout = layout_of(Smooth(*shape, 4), "fc2", 4)
    spec = ModelSpec("smooth", shape, 4, Smooth, layout)
    module, start, alpha = Smooth(*shape, 4).double(), spec.initial_vector(0), 0.1
    job = LocalJob(0, start, 1, 0.01, (0,), samples=samples)
    order = batch_order(DATA, job, 0)

    def loss(w: torch.Tensor, batch: Any) -> torch.Tensor:
        x, y = oracle.inputs(batch)
        tensors = {p.name: w[p.place].view(p.shape) for p in layout.parameters}
        return functional.cross_entropy(torch.func.functional_call(module, tensors, (x,)), y)

    w = torch.from_numpy(start.astype(np.float64))
    [epoch] = oracle.batches_of(order, RAW.batch)
    for batch, other in zip(epoch, [*epoch[1:], epoch[0]], strict=True):
        w = w.detach().requires_grad_()
        [inner] = torch.autograd.grad(loss(w, other), [w], create_graph=True)
        [gradient] = torch.autograd.grad(loss(w - alpha * inner, batch), [w])
        w = w - job.rate * gradient
    expected = w.detach().numpy()
    trainer = TorchTrainer(spec, DATA, RAW)

    def error_of(hessian: bool) -> float:
        rule = Maml(alpha, hessian, radius=0.003)
        model = trainer.train(replace(job, rule=rule), order).model
        return float(np.linalg.norm(model - expected) / np.linalg.norm(expected - start))

    assert error_of(hessian=True) < 1e-3
    assert error_of(hessian=False) > 1e-2


@pytest.mark.parametrize("backend", BACKENDS)
def test_of_lenet_too_where_nothing_is_near_a_kink(backend: str) -> None:
    """Differences see the kinks of ReLU and of pools, and autograd does not."""
    alpha, job = 0.3, LocalJob(0, START, 1, 1.0, (0,), samples=8)
    order, w = batch_order(FLAT, job, 0), torch.from_numpy(START.astype(np.float64))
    w.requires_grad_()
    [batch] = order
    [inner] = torch.autograd.grad(oracle.loss_at(w, batch, FLAT), [w], create_graph=True)
    [gradient] = torch.autograd.grad(oracle.loss_at(w - alpha * inner, batch, FLAT), [w])
    exact, trainer = gradient.numpy(), trainer_of(backend, RAW, FLAT)

    def error_of(hessian: bool) -> float:
        trained = trainer.train(replace(job, rule=Maml(alpha, hessian, radius=1e-3)), order)
        return float(np.linalg.norm(START - trained.model - exact) / np.linalg.norm(exact))

    assert error_of(hessian=True) < 1e-3
    assert error_of(hessian=False) > 1e-1


ONE_BY_ONE = replace(RAW, batch=1)


@pytest.mark.parametrize(("hessian", "gradient"), [(False, -0.9), (True, -0.81)])
@pytest.mark.parametrize("radius", [0.01, 1.0])
def test_a_quadratic_by_hand(hessian: bool, gradient: float, radius: float) -> None:
    """At w = 0 with m = 1, h = 1, alpha = 0.1: w~ = 0.1, v = -0.9, (1 - 0.1) v = -0.81."""
    job = Quadratics([1.0], [1.0], [[0]], ONE_BY_ONE)
    trained = Maml(0.1, hessian, radius).with_torch(job)
    assert trained.model[0] == pytest.approx(-gradient, abs=1e-5)
    assert trained.steps == 1


def test_a_batch_looks_ahead_to_the_next_one_of_its_epoch() -> None:
    """Two batches with h = 1 and 2, m = 1 and -1, alpha = 0.1, steps that do not move.

    At w = 0: batch 0 after a step on batch 1 is at -0.2, so v = -1.2, less 0.1 * 2 v: -0.96;
    batch 1 after a step on batch 0 is at 0.1, so v = 2.2, less 0.1 * 1 v: 1.98.
    """
    for epoch, gradients in (([0, 1], [-0.96, 1.98]), ([1, 0], [1.98, -0.96])):
        job, steps = Quadratics([1.0, -1.0], [1.0, 2.0], [epoch], ONE_BY_ONE), []
        job.step = lambda steps=steps, **_: Recorder(steps)  # type: ignore[method-assign]
        Maml(0.1, hessian=True).with_torch(job)
        assert steps == pytest.approx(gradients, abs=1e-5)


class Recorder:
    """A step that does not move and keeps the gradients."""

    def __init__(self, gradients: list[float]) -> None:
        self._gradients = gradients
        self.count = 0

    def __call__(self, weights: torch.Tensor, gradient: torch.Tensor) -> None:
        self._gradients.append(float(gradient))


def test_the_look_ahead_is_clipped_and_the_differences_are_not() -> None:
    """f = 2 (w - 3)^2 at w = 0: gradient -12, clipped to -0.5, so w~ = 0.05 and v = -11.8.

    The Hessian is 4, though each of the two gradients of the difference is far above the norm.
    """
    job, steps = Quadratics([3.0], [4.0], [[0]], replace(ONE_BY_ONE, clip_norm=0.5)), []
    job.step = lambda **_: Recorder(steps)  # type: ignore[method-assign]
    Maml(0.1, hessian=False).with_torch(job)
    Maml(0.1, hessian=True).with_torch(job)
    assert steps == pytest.approx([-11.8, -11.8 * (1 - 0.4)], abs=1e-3)


def test_a_gradient_of_zero_has_no_direction() -> None:
    job = Quadratics([0.0], [1.0], [[0]], ONE_BY_ONE)
    np.testing.assert_array_equal(Maml(0.1, hessian=True).with_torch(job).model, 0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_model_that_has_diverged_stays_visible(backend: str) -> None:
    start = np.full(SIZE, np.nan, np.float32)
    job = LocalJob(0, start, 1, RATE, (0,), Maml(0.1, hessian=True))
    assert np.isnan(trainer_of(backend).train(job, batch_order(DATA, job, 0)).model).all()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("hessian", [False, True])
def test_no_look_ahead_is_sgd_to_the_last_bit(backend: str, hessian: bool) -> None:
    trainer = trainer_of(backend)
    jobs = [LocalJob(0, START, 2, RATE, (0,), rule) for rule in (Maml(0.0, hessian), Sgd())]
    maml, sgd = (trainer.train(job, batch_order(DATA, job, 0)) for job in jobs)
    np.testing.assert_array_equal(maml.model.view(np.int32), sgd.model.view(np.int32))
    assert maml.steps == sgd.steps == 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_start_does_not_change_and_may_be_read_only(backend: str) -> None:
    start = START.copy()
    start.setflags(write=False)
    job = LocalJob(0, start, 1, RATE, (0,), Maml(0.1, hessian=True))
    trained = trainer_of(backend).train(job, batch_order(DATA, job, 0))
    np.testing.assert_array_equal(start, START)
    assert trained.model.flags.writeable


def test_what_it_costs() -> None:
    assert [Maml(0.1).passes, Maml(0.1, hessian=True).passes] == [2, 4]
    assert [Maml(0.0).passes, Maml(0.0, hessian=True).passes] == [1, 1]
    assert Maml(0.1).exchanged(SIZE) == SIZE
    assert Maml(0.1).vectors == {}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"alpha": -0.1}, r"Maml\.alpha must be finite and at least 0, got -0\.1"),
        ({"alpha": float("inf")}, "alpha must be finite and at least 0, got inf"),
        ({"radius": 0.0}, r"Maml\.radius must be finite and above 0, got 0\.0"),
        ({"radius": -1.0}, r"Maml\.radius must be finite and above 0, got -1\.0"),
        ({"radius": float("nan")}, "radius must be finite and above 0, got nan"),
    ],
)
def test_other_numbers_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ModelError, match=message):
        Maml(**({"alpha": 0.1} | change))
