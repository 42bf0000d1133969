"""LocalSGD against PyTorch's own optimiser, clipping and autograd."""

import threading

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import (
    EVERYBODY,
    LocalJob,
    SgdSettings,
    TrainingData,
    batch_order,
    standardisation,
)
from fedorbit.learning.models import ModelSpec, model_spec
from fedorbit.learning.parameters import layout_of
from fedorbit.learning.rules import Coupled, Sgd
from fedorbit.learning.torch_trainer import TorchTrainer, TrainingCancelledError

RATE = 0.05


@pytest.fixture(params=["uint8", "uint16", "float32"])
def data(request: pytest.FixtureRequest) -> TrainingData:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, 16, 17, 3)).astype(request.param)
    everything = np.arange(40)
    scale, shift = standardisation(images, everything)
    labels = rng.integers(0, 4, 50)
    parts = (np.arange(0, 23), np.arange(23, 40), np.arange(0))
    return TrainingData(images, labels, scale, shift, parts, everything)


@pytest.fixture
def spec() -> ModelSpec:
    return model_spec("lenet", None, (16, 17, 3), 4)


def module_at(spec: ModelSpec, vector: np.ndarray) -> nn.Module:
    module = spec.build()
    torch.nn.utils.vector_to_parameters(torch.from_numpy(vector.copy()), module.parameters())
    return module


def vector_of(module: nn.Module) -> np.ndarray:
    return torch.nn.utils.parameters_to_vector(module.parameters()).detach().numpy()


def batch(data: TrainingData, indices: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    x = data.images[indices].astype(np.float32) * data.scale + data.shift
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), torch.from_numpy(data.labels[indices])


def reference(spec, data, settings, job, order) -> np.ndarray:
    """LocalSGD as everybody writes it: DataLoader order, torch.optim.SGD, clip_grad_norm_."""
    module = module_at(spec, job.start)
    optimiser = torch.optim.SGD(
        module.parameters(),
        lr=job.rate,
        momentum=settings.momentum,
        weight_decay=settings.weight_decay,
    )
    for epoch in order:
        for begin in range(0, len(epoch), settings.batch):
            x, y = batch(data, epoch[begin : begin + settings.batch])
            loss = functional.cross_entropy(module(x), y)
            w = torch.nn.utils.parameters_to_vector(module.parameters())
            rule = job.rule
            if rule.anchor is not None:
                loss = loss + rule.pull / 2 * ((w - torch.from_numpy(rule.anchor)) ** 2).sum()
            if rule.correction is not None:
                loss = loss + (w * torch.from_numpy(rule.correction)).sum()
            optimiser.zero_grad()
            loss.backward()
            if settings.clip_norm:
                torch.nn.utils.clip_grad_norm_(module.parameters(), settings.clip_norm)
            optimiser.step()
    return vector_of(module)


@pytest.mark.parametrize("clip_norm", [0.0, 0.5, 100.0])
@pytest.mark.parametrize("change", ["plain", "pull", "correction", "both"])
def test_local_sgd_is_that_of_torch(data, spec, clip_norm: float, change: str) -> None:
    settings = SgdSettings(batch=8, momentum=0.9, weight_decay=5e-3, clip_norm=clip_norm)
    rng = np.random.default_rng(1)
    start = spec.initial_vector(0)
    noise = rng.normal(0, 0.1, (2, len(start))).astype(np.float32)
    job = LocalJob(
        0,
        start,
        epochs=2,
        rate=RATE,
        key=(0,),
        rule=Sgd(
            anchor=start + noise[0] if change in ("pull", "both") else None,
            pull=0.3 if change in ("pull", "both") else 0.0,
            correction=noise[1] if change in ("correction", "both") else None,
        ),
    )
    order = batch_order(data, job, seed=0)
    assert order.shape == (2, 23)  # batches of 8, 8 and 7: the last one is kept
    trained = TorchTrainer(spec, data, settings).train(job, order)
    expected = reference(spec, data, settings, job, order)
    assert np.abs(expected - start).max() > 1e-3
    np.testing.assert_allclose(trained.model, expected, atol=2e-6)
    assert (trained.steps, trained.extra) == (6, {})


def test_apfl_is_the_gradient_of_the_mixture(data, spec) -> None:
    settings = SgdSettings(batch=8, momentum=0.9, weight_decay=5e-3, clip_norm=1.0)
    w0, v0 = spec.initial_vector(0), spec.initial_vector(1)
    job = LocalJob(0, w0, 1, RATE, (0,), Coupled(v0, 0.3))
    order = batch_order(data, job, seed=0)

    # By autograd on the whole coupled expression, with torch's optimiser for each model.
    w, v = (torch.from_numpy(x.copy()).requires_grad_() for x in (w0, v0))
    alpha = torch.tensor(0.3, requires_grad=True)
    layout = {p.name: p for p in spec.layout.parameters}
    module = spec.build()

    def loss_at(vector: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        tensors = {n: vector[p.place].view(p.shape) for n, p in layout.items()}
        return functional.cross_entropy(torch.func.functional_call(module, tensors, (x,)), y)

    options = {"lr": RATE, "momentum": 0.9, "weight_decay": 5e-3}
    optimisers = [torch.optim.SGD([p], **options) for p in (w, v)]
    for begin in range(0, 23, 8):
        x, y = batch(data, order[0, begin : begin + 8])
        [gradient_w] = torch.autograd.grad(loss_at(w, x, y), [w])
        mixed = loss_at(alpha * v + (1 - alpha) * w.detach(), x, y)
        gradient_v, slope = torch.autograd.grad(mixed, [v, alpha])
        w.grad, v.grad = gradient_w, gradient_v
        for p, optimiser in zip((w, v), optimisers, strict=True):
            torch.nn.utils.clip_grad_norm_([p], 1.0)
            optimiser.step()
        alpha = (alpha - RATE * slope).clamp(0, 1).detach().requires_grad_()

    trained = TorchTrainer(spec, data, settings).train(job, order)
    np.testing.assert_allclose(trained.model, w.detach().numpy(), atol=2e-6)
    np.testing.assert_allclose(trained.extra["personal"], v.detach().numpy(), atol=2e-6)
    assert trained.extra["alpha"] == pytest.approx(alpha.item(), abs=1e-5)
    assert abs(trained.extra["alpha"] - 0.3) > 1e-3
    assert trained.steps == 3


def test_nothing_to_train_on_changes_nothing(data, spec) -> None:
    trainer = TorchTrainer(spec, data, SgdSettings())
    start = spec.initial_vector(0)
    for job in (
        LocalJob(2, start, 3, RATE, key=(0,)),
        LocalJob(0, start, 0, RATE, key=(0,)),
        LocalJob(2, start, 3, RATE, (0,), Coupled(start + 1, 0.25)),
    ):
        trained = trainer.train(job, batch_order(data, job, 0))
        np.testing.assert_array_equal(trained.model, start)
        assert trained.model is not start
        assert trained.steps == 0
        if isinstance(job.rule, Coupled):
            np.testing.assert_array_equal(trained.extra["personal"], start + 1)
            assert trained.extra["personal"] is not job.rule.personal
            assert trained.extra["alpha"] == 0.25


def test_jobs_are_not_changed(data, spec) -> None:
    start = spec.initial_vector(0)
    vectors = [start, start + 0.1, start - 0.1, start + 0.2]
    copies = [v.copy() for v in vectors]
    trainer = TorchTrainer(spec, data, SgdSettings())
    for rule in (Sgd(vectors[1], 1.0, vectors[2]), Coupled(vectors[3], 0.5)):
        each = LocalJob(0, vectors[0], 1, RATE, (0,), rule)
        trainer.train(each, batch_order(data, each, 0))
    for vector, copy in zip(vectors, copies, strict=True):
        np.testing.assert_array_equal(vector, copy)


def test_evaluation_counts_and_sums(data, spec) -> None:
    vector = spec.initial_vector(0)
    samples = np.arange(40, 50)
    x, y = batch(data, samples)
    logits = module_at(spec, vector)(x).detach()
    correct, loss = TorchTrainer(spec, data, SgdSettings()).evaluate(vector, samples)
    assert correct == int((logits.argmax(1) == y).sum())
    assert loss == pytest.approx(
        float(functional.cross_entropy(logits, y, reduction="sum")), rel=1e-5
    )


def test_batch_order_is_a_shuffle_per_epoch_from_the_key_alone(data) -> None:
    start = np.zeros(1, dtype=np.float32)
    job = LocalJob(1, start, 3, RATE, key=(4, 0, 0))
    order = batch_order(data, job, seed=7)
    np.testing.assert_array_equal(np.sort(order, axis=1), np.tile(np.arange(23, 40), (3, 1)))
    assert not np.array_equal(order[0], order[1])
    np.testing.assert_array_equal(batch_order(data, job, seed=7), order)
    for other in (LocalJob(1, start, 3, RATE, (5, 0, 0)), LocalJob(1, start, 3, RATE, (4, 1, 0))):
        assert not np.array_equal(batch_order(data, other, seed=7), order)
    assert not np.array_equal(batch_order(data, job, seed=8), order)
    everybody = batch_order(data, LocalJob(EVERYBODY, start, 1, RATE, (0,)), seed=7)
    np.testing.assert_array_equal(np.sort(everybody[0]), np.arange(40))


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_standardisation_gives_mean_0_and_deviation_1(dtype: type) -> None:
    rng = np.random.default_rng(2)
    images = rng.normal([100, 50, 200], [20, 3, 1], (700, 9, 9, 3)).clip(0, 255).astype(dtype)
    images[..., 2] = 7  # a channel that carries nothing
    samples = rng.permutation(700)[:600]
    scale, shift = standardisation(images, samples)
    standard = images[samples].astype(np.float64) * scale + shift
    np.testing.assert_allclose(standard.mean(axis=(0, 1, 2)), 0.0, atol=1e-5)
    np.testing.assert_allclose(standard.std(axis=(0, 1, 2)), [1.0, 1.0, 0.0], atol=1e-5)
    scale, shift = standardisation(images, np.arange(0))
    assert scale.tolist() == [1.0, 1.0, 1.0] and shift.tolist() == [0.0, 0.0, 0.0]


def test_a_job_can_be_cancelled(data, spec) -> None:
    trainer = TorchTrainer(spec, data, SgdSettings(batch=1))
    job = LocalJob(0, spec.initial_vector(0), 100_000, RATE, key=(0,))
    timer = threading.Timer(0.3, trainer.cancel)
    timer.start()
    with pytest.raises(TrainingCancelledError):
        trainer.train(job, batch_order(data, job, 0))
    timer.join()


class Breaking(nn.Module):
    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.fc1 = nn.Linear(height * width * channels, 8)
        self.fc2 = nn.Linear(8, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc2(images.flatten(1))


class Rolling(Breaking):
    """Draws where no key reaches: from NumPy's own generator."""

    dice = np.random.default_rng(0)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc2(self.fc1(images.flatten(1))) * float(self.dice.random())


@pytest.mark.parametrize(
    ("model", "sentence"),
    [(Rolling, "gives different outputs for the same images"), (Breaking, "cannot be trained on")],
)
def test_a_model_that_cannot_run_or_be_repeated_is_refused(
    model: type[nn.Module], sentence: str
) -> None:
    layout = layout_of(model(4, 4, 1, 2), "fc2", 2)
    spec = ModelSpec("mine", (4, 4, 1), 2, model, layout)
    images = np.zeros((1, 4, 4, 1), dtype=np.float32)
    zero, everything = np.zeros(1, dtype=np.int64), np.arange(1)
    scale = np.ones(1, dtype=np.float32)
    data = TrainingData(images, zero, scale, scale, (everything,), everything)
    with pytest.raises(ModelError, match=sentence):
        TorchTrainer(spec, data, SgdSettings())
