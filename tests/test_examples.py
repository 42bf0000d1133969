"""Local rules and models as the examples show them."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from examples.distillation import Distil, FedDistil
from examples.moon import Contrastive, Moon, contrast
from torch import Tensor

from fedorbit import load_config, run
from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, SgdSettings, batch_order
from fedorbit.learning.rules import Rule, TorchJob, Trained
from fedorbit.learning.torch_trainer import TorchTrainer
from fedorbit.methods.fedavg import FedAvg
from fedorbit.testing import play, small_world
from tests.learning.rules.cases import DATA, SPEC

RATE = 0.1
RAW = SgdSettings(batch=64, momentum=0.0, weight_decay=0.0, clip_norm=0.0)
START, OTHER, THIRD = (SPEC.initial_vector(seed) for seed in range(3))


def features_and_logits(vector: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
    """LeNet by its equations: features are the output of fc1."""
    w = {p.name: vector[p.place].view(p.shape) for p in SPEC.layout.parameters}
    x = images
    for layer in ("conv1", "conv2"):
        x = torch.conv2d(x, w[f"{layer}.weight"], w[f"{layer}.bias"])
        x = torch.relu(torch.max_pool2d(x, 2))
    x = x.permute(0, 2, 3, 1).flatten(1)
    z = torch.relu(x @ w["fc1.weight"].T + w["fc1.bias"])
    x = torch.relu(z @ w["fc2.weight"].T + w["fc2.bias"])
    return z, x @ w["fc3.weight"].T + w["fc3.bias"]


def one_step(rule: Rule) -> tuple[np.ndarray, Tensor, Tensor]:
    """Return what one step of a rule gives, and the batch that it had."""
    job = LocalJob(1, START, 1, RATE, (0,), rule)
    order = batch_order(DATA, job, 0)
    x = DATA.images[order[0]].astype(np.float32) * DATA.scale + DATA.shift
    images = torch.from_numpy(x.transpose(0, 3, 1, 2).copy())
    found = TorchTrainer(SPEC, DATA, RAW).train(job, order).model
    return found, images, torch.from_numpy(DATA.labels[order[0]])


def stepped(loss: Tensor, w: Tensor) -> np.ndarray:
    [gradient] = torch.autograd.grad(loss, w)
    return (w - RATE * gradient).detach().numpy()


def test_the_contrastive_loss_worked_by_hand() -> None:
    z, near = torch.tensor([[2.0, 0.0]]), torch.tensor([[5.0, 0.0]])
    far = torch.tensor([[0.0, 1.0]])
    # Cosines 1 and 0 at a temperature of 1/2: -log(e^2 / (e^2 + e^0)).
    assert contrast(z, near, far, 0.5).item() == pytest.approx(math.log(1 + math.exp(-2)))
    assert contrast(z, far, near, 0.5).item() == pytest.approx(math.log(1 + math.exp(2)))
    assert contrast(z, near, near, 0.5).item() == pytest.approx(math.log(2))


def test_a_step_of_moon_follows_the_gradient_of_its_loss() -> None:
    mu, tau = 3.0, 0.5
    found, images, labels = one_step(Contrastive(OTHER, THIRD, mu, tau))
    w = torch.from_numpy(START.copy()).requires_grad_()
    z, logits = features_and_logits(w, images)
    near, far = (features_and_logits(torch.from_numpy(m), images)[0] for m in (OTHER, THIRD))

    def cosine(a: Tensor, b: Tensor) -> Tensor:
        return (a * b).sum(1) / (a.norm(dim=1) * b.norm(dim=1))

    a, b = (torch.exp(cosine(z, other) / tau) for other in (near, far))
    entropy = -torch.log_softmax(logits, 1)[torch.arange(len(labels)), labels].mean()
    expected = stepped(entropy - mu * torch.log(a / (a + b)).mean(), w)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    without, *_ = one_step(Contrastive(OTHER, THIRD, 0.0, tau))
    assert np.abs(found - without).max() > 1e-4


def test_a_step_of_distillation_follows_the_gradient_of_its_loss() -> None:
    weight, temperature = 2.0, 3.0
    found, images, labels = one_step(Distil(OTHER, weight, temperature))
    w = torch.from_numpy(START.copy()).requires_grad_()
    logits = features_and_logits(w, images)[1]
    said = features_and_logits(torch.from_numpy(OTHER), images)[1]
    p, q = torch.softmax(said / temperature, 1), torch.softmax(logits / temperature, 1)
    divergence = (p * (p / q).log()).sum(1).mean()
    entropy = -torch.log_softmax(logits, 1)[torch.arange(len(labels)), labels].mean()
    expected = stepped(entropy + weight * temperature**2 * divergence, w)
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("method", [Moon(mu=0.0), FedDistil(weight=0.0)])
def test_without_their_loss_they_are_fedavg(method: FedAvg) -> None:
    world = small_world(backend="torch")
    ours, theirs = (play(each, world)[-1]["global"] for each in (method, FedAvg()))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_moon_keeps_what_each_satellite_has_trained() -> None:
    world = small_world(np.array([[True, False, True]]), backend="torch")
    state = play(Moon(), world)[-1]
    trained = [k for k in range(6) if not np.array_equal(state["previous"][k], world.initial_model)]
    assert trained == [k for k in (0, 1, 4, 5) if len(world.partition.train[k])]


class Careless(Rule):
    """Evaluates another model inside its loss, whose values the gradient still needs."""

    def with_torch(self, job: TorchJob) -> Trained:
        w, batch = job.tensor(job.start), next(job.batches())
        job.gradient(w, batch, lambda made: made.logits.sum() + job.outputs(w, batch).logits.sum())
        return Trained(job.vector(w), 0)


def test_a_loss_that_would_spoil_the_gradient_is_refused() -> None:
    with pytest.raises(ModelError, match=r"call job.outputs before job.gradient"):
        one_step(Careless())


def test_the_resnet_runs(tmp_path: Path) -> None:
    folder = Path(__file__).parents[1] / "examples"
    few = ["data.synthetic.samples=300", "data.synthetic.size=16", "run.rounds=2"]
    config = load_config(
        folder / "resnet.toml", [*few, "training.epochs=1", "model.options.base=4"]
    )
    result = run(config, tmp_path / "run")
    assert [each.method for each in result.runs] == ["fedavg", "fedbn", "fedavgm"]
    for each in result.runs:
        assert each.summary["provenance"]["backend"] == "torch"
        assert len(each.records) == 2
    stored = load_config(tmp_path / "run" / "config.toml")
    assert stored.model == config.model
    assert stored.model.options == {"depth": 8, "base": 4, "norm": "batch"}
