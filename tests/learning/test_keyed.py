"""Dropout and its kind: random numbers inside models come from the key of the job alone."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.jobs import LocalJob, SgdSettings, batch_order
from fedorbit.learning.keyed import KeyedRandomness
from fedorbit.learning.models import ModelSpec, model_spec
from fedorbit.learning.programs import Program
from fedorbit.learning.rules import Trained
from fedorbit.learning.torch_trainer import TorchTrainer
from fedorbit.randomness import generator
from fedorbit.user_code import allow_code
from tests.learning.plain_torch import (
    CLASSES,
    DATA,
    RATE,
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


class Dropping(nn.Module):
    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.body = nn.Linear(height * width * channels, 16)
        self.fc = nn.Linear(16, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = functional.dropout(torch.relu(self.body(images.flatten(1))), 0.4, self.training)
        return self.fc(x)


class Noisy(Dropping):
    """Draws by a function without a generator of its own."""

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.body(images.flatten(1))
        return self.fc(x + torch.rand(x.shape) if self.training else x)


class Attending(nn.Module):
    """A transformer over the rows of an image; its attention drops, too."""

    dropout = 0.3

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.embed = nn.Linear(width * channels, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, self.dropout, batch_first=True)
        self.fc = nn.Linear(8, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.encoder(self.embed(images.transpose(1, 2).flatten(2))).mean(dim=1))


class Calm(Attending):
    dropout = 0.0


def test_dropout_is_drawn_from_the_key() -> None:
    """Against a step by hand with the mask that the job's generator gives."""
    spec = own("Dropping", seed=3)
    start = spec.initial_vector(0)
    job = LocalJob(1, start, 1, RATE, key=(4, 0))
    raw = SgdSettings(batch=64, momentum=0.0, weight_decay=0.0, clip_norm=0.0)
    order = batch_order(DATA, job, 0)
    seed = int(generator(3, "inside the model", 1, 4, 0).integers(2**63))
    draws = torch.Generator().manual_seed(seed)
    module = module_at(spec, start)
    x, y = batch(order[0])
    hidden = torch.relu(module.body(x.flatten(1)))
    kept = torch.empty_like(hidden).bernoulli_(0.6, generator=draws)
    functional.cross_entropy(module.fc(hidden * kept / 0.6), y).backward()
    expected = start - RATE * np.concatenate([p.grad.numpy().ravel() for p in module.parameters()])
    np.testing.assert_allclose(trained(spec, job, raw).model, expected, atol=1e-6)


@pytest.mark.parametrize("name", ["Dropping", "Noisy", "Attending"])
def test_threads_and_order_do_not_change_what_is_drawn(name: str) -> None:
    spec = own(name)
    start = spec.initial_vector(0)
    jobs = [LocalJob(k % 2, start, 3, RATE, key=(k,)) for k in range(12)]

    def program(mine: list[LocalJob]) -> Program[list[Trained]]:
        return (yield mine)

    found = []
    for workers, these in ((1, jobs), (2, jobs), (2, jobs[::-1])):
        torch.manual_seed(workers)  # PyTorch's own generator has no part in it
        engine = LocalEngine(TorchTrainer(spec, DATA, SETTINGS), DATA, 0, workers)
        results = engine.run({0: program(these)})[0]
        engine.close()
        models = {job.key: result.model for job, result in zip(these, results, strict=True)}
        found.append([models[job.key] for job in jobs])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    other = TorchTrainer(replace(spec, seed=1), DATA, SETTINGS)
    assert not np.array_equal(
        other.train(jobs[0], batch_order(DATA, jobs[0], 0)).model, found[0][0]
    )


def test_a_transformer_without_dropout_trains_as_in_torch() -> None:
    spec = own("Calm")
    job = LocalJob(0, spec.initial_vector(0), 2, RATE, key=(0,))
    expected = by_torch(spec, job, batch_order(DATA, job, 0))
    np.testing.assert_allclose(trained(spec, job).model, expected, atol=5e-6)


def test_a_model_is_evaluated_without_dropout() -> None:
    spec = own("Dropping")
    trainer, samples = TorchTrainer(spec, DATA, SETTINGS), np.arange(40, 50)
    start = spec.initial_vector(0)
    x, y = batch(samples)
    expected = functional.cross_entropy(module_at(spec, start).eval()(x), y, reduction="sum")
    assert trainer.evaluate(start, samples)[1] == pytest.approx(expected.item(), rel=1e-5)


def test_fused_dropout_of_gpus_is_dropout() -> None:
    x, mode = torch.full((4000,), 2.0), KeyedRandomness(torch.device("cpu"))
    with mode:
        mode.generator.manual_seed(1)
        y, kept = torch.native_dropout(x, 0.25, True)
        mode.generator.manual_seed(1)
        again, _ = torch.native_dropout(x, 0.25, True)
        same, _ = torch.native_dropout(x, 0.25, False)
    torch.testing.assert_close(y, torch.where(kept, 2.0 / 0.75, 0.0))
    assert kept.float().mean().item() == pytest.approx(0.75, abs=0.03)
    assert torch.equal(y, again) and torch.equal(same, x)


def test_random_numbers_that_no_key_can_reach_are_refused() -> None:
    """Attention of one operation: with a dropout it draws, without one it does not."""
    x, mode = torch.rand(1, 1, 2, 4), KeyedRandomness(torch.device("cpu"))
    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    with mode:
        attention(x, x, x)
        attention(x, x, x, dropout_p=0.0)
        assert mode.draws == 0
        with pytest.raises(ModelError, match="takes no generator"):
            attention(x, x, x, 0.5)
