"""BatchNorm and other layers with statistics, against plain PyTorch."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.models import ModelSpec, model_spec
from fedorbit.learning.rules import Coupled, Loss, Maml, Moreau, Sgd
from fedorbit.learning.torch_trainer import TorchTrainer
from fedorbit.user_code import allow_code
from tests.learning.plain_torch import (
    CLASSES,
    DATA,
    RATE,
    RESNET_BATCH,
    SETTINGS,
    SHAPE,
    batch,
    by_torch,
    module_at,
    trained,
)


def own(name: str, **settings) -> ModelSpec:
    allow_code(__name__)
    return model_spec(f"{__name__}:{name}", "fc", SHAPE, CLASSES, **settings)


class CumulativeNorm(nn.Module):
    """BatchNorm whose statistics are means over all batches, by a counter of integers."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(height * width * channels, momentum=None)
        self.fc = nn.Linear(height * width * channels, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(images.flatten(1)))


class ReplacedBuffer(CumulativeNorm):
    """Statistics that are not changed in place: every pass makes a new tensor."""

    def __init__(self, *shape: int) -> None:
        super().__init__(*shape)
        self.norm = nn.PReLU()
        self.register_buffer("mean", torch.zeros(shape[0] * shape[1] * shape[2]))
        self.register_buffer("table", torch.rand(3), persistent=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.norm(images.flatten(1))
        if self.training:
            self.mean = 0.5 * self.mean + 0.5 * x.mean(dim=0).detach()
        return self.fc(x - self.mean)


@pytest.mark.parametrize("name", ["resnet", "CumulativeNorm", "ReplacedBuffer"])
def test_training_with_statistics_is_that_of_torch(name: str) -> None:
    if name == "resnet":
        spec = model_spec("resnet", None, SHAPE, CLASSES, **RESNET_BATCH)
    else:
        spec = own(name)
    job = LocalJob(0, spec.initial_vector(0), 2, RATE, key=(0,))
    order = batch_order(DATA, job, 0)
    found, expected = trained(spec, job), by_torch(spec, job, order)
    np.testing.assert_allclose(found.model, expected, atol=5e-6)
    where = spec.layout.statistics
    assert where.stop == sum(int(np.prod(b.shape)) for b in spec.layout.buffers) > 0
    assert np.abs(found.model[where] - job.start[where]).mean() > 0.05
    assert found.steps == 6


def test_a_counter_starts_anew_in_every_job() -> None:
    """Statistics of a job are the means over its batches, however many jobs came before."""
    spec = own("CumulativeNorm")
    trainer, start = TorchTrainer(spec, DATA, SETTINGS), spec.initial_vector(0)
    jobs = [LocalJob(satellite, start, 1, RATE, key=(0,)) for satellite in (0, 1, 0)]
    first, _, again = (trainer.train(job, batch_order(DATA, job, 0)) for job in jobs)
    np.testing.assert_array_equal(first.model, again.model)
    order = batch_order(DATA, jobs[0], 0)[0]
    means = [batch(order[b : b + 8])[0].flatten(1).mean(dim=0) for b in (0, 8, 16)]
    [mean, _] = spec.layout.buffers
    expected = torch.stack(means).mean(dim=0).numpy()
    np.testing.assert_allclose(first.model[mean.place], expected, atol=1e-5)


def test_evaluation_uses_the_statistics_of_the_model() -> None:
    spec = model_spec("resnet", None, SHAPE, CLASSES, **RESNET_BATCH)
    job = LocalJob(0, spec.initial_vector(0), 2, RATE, key=(0,))
    model, samples = trained(spec, job).model, np.arange(40, 50)
    x, y = batch(samples)
    logits = module_at(spec, model).eval()(x).detach()
    correct, loss = TorchTrainer(spec, DATA, SETTINGS).evaluate(model, samples)
    assert correct == int((logits.argmax(1) == y).sum())
    assert loss == pytest.approx(
        float(functional.cross_entropy(logits, y, reduction="sum")), rel=1e-5
    )
    where = spec.layout.statistics
    negative = model.copy()
    negative[where] -= 100.0  # as noise over the air or a step beyond a mean may leave them
    assert np.isfinite(TorchTrainer(spec, DATA, SETTINGS).evaluate(negative, samples)[1])


def test_frozen_statistics_are_no_part_of_the_vector_and_stay() -> None:
    settings = {**RESNET_BATCH, "buffers": "frozen"}
    spec = model_spec("resnet", None, SHAPE, CLASSES, **settings)
    free = model_spec("resnet", None, SHAPE, CLASSES, **RESNET_BATCH)
    assert spec.layout.size == free.layout.size - free.layout.statistics.stop
    job = LocalJob(0, spec.initial_vector(0), 2, RATE, key=(0,))
    expected = by_torch(spec, job, batch_order(DATA, job, 0), mode="eval")
    np.testing.assert_allclose(trained(spec, job).model, expected, atol=5e-6)


@pytest.mark.parametrize("part", ["head", "body", "mask"])
def test_statistics_outside_the_part_keep_their_bits(part: str) -> None:
    spec = model_spec("resnet", None, SHAPE, CLASSES, **RESNET_BATCH)
    start, size, head = spec.initial_vector(0), spec.layout.size, spec.layout.classifier
    parts = {"head": head, "body": spec.layout.features, "mask": np.arange(size) >= head.start}
    job = LocalJob(0, start, 1, RATE, (0,), Sgd(part=parts[part]))
    found = trained(spec, job).model
    inside = np.zeros(size, dtype=bool)
    inside[parts[part]] = True
    np.testing.assert_array_equal(found[~inside], start[~inside])
    moved = found != start
    assert moved[spec.layout.statistics].any() == (part == "body")
    assert moved[inside].mean() > 0.9


@pytest.mark.parametrize("rule", ["pull", "correction", "coupled", "moreau", "maml", "hessian"])
def test_every_rule_moves_statistics_by_forward_passes_alone(rule: str) -> None:
    """No pull, correction or decay reaches them: they are means of what the batches gave."""
    spec = own("CumulativeNorm")
    start = spec.initial_vector(0)
    rules = {
        "pull": Sgd(anchor=start + 50, pull=0.5),
        "correction": Sgd(correction=np.full_like(start, 50)),
        "coupled": Coupled(start.copy(), 0.5),
        "moreau": Moreau(start + 50, pull=0.5, repeats=2, follow=0.1),
        "maml": Maml(0.1),
        "hessian": Maml(0.1, hessian=True),
    }
    found = trained(spec, LocalJob(0, start, 1, RATE, (0,), rules[rule]))
    mean, variance = (found.model[b.place] for b in spec.layout.buffers)
    assert 0.02 < np.abs(mean).mean() < 1.0 and 0.5 < variance.mean() < 1.5
    assert np.isfinite(found.model).all() and variance.min() > 0
    if rule == "coupled":
        personal = found.extra["personal"]
        mean, variance = (personal[b.place] for b in spec.layout.buffers)
        assert np.abs(mean).mean() > 0.02 and 0.5 < variance.mean() < 1.5


def test_a_batch_of_one_image_is_left_out_where_it_has_no_statistics() -> None:
    spec = own("CumulativeNorm")
    trainer = TorchTrainer(spec, DATA, replace(SETTINGS, batch=11))
    start = spec.initial_vector(0)
    job = LocalJob(0, start, 1, RATE, key=(0,))  # 23 images: 11, 11 and 1
    assert trainer.train(job, batch_order(DATA, job, 0)).steps == 2
    alone = LocalJob(2, start, 3, RATE, key=(0,))
    np.testing.assert_array_equal(trainer.train(alone, batch_order(DATA, alone, 0)).model, start)
    for each, steps in ((job, 2), (alone, 0)):
        ahead = replace(each, rule=Maml(0.1))
        assert trainer.train(ahead, batch_order(DATA, ahead, 0)).steps == steps
    assert TorchTrainer(model_spec("lenet", None, (16, 16, 3), 4), DATA, SETTINGS).least_batch == 1


def test_the_loss_is_that_of_the_model_in_use() -> None:
    spec = own("CumulativeNorm")
    start = spec.initial_vector(0)
    for satellite in (0, 2):  # the second has a single image
        found = trained(spec, LocalJob(satellite, start, 1, RATE, (0,), Loss()))
        x, y = batch(DATA.parts[satellite])
        expected = functional.cross_entropy(module_at(spec, start).eval()(x), y).item()
        assert found.extra["loss"] == pytest.approx(expected, rel=1e-5)
        np.testing.assert_array_equal(found.model, start)
