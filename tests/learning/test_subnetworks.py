"""Sub-networks of LeNet: a masked network is the smaller one, in PyTorch and in the kernel."""

from dataclasses import replace
from functools import partial
from itertools import pairwise, product

import numpy as np
import pytest
from torch import nn

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.lenet import LeNet
from fedorbit.learning.lenet_shape import pooled
from fedorbit.learning.models import ModelSpec
from fedorbit.learning.parameters import ParameterLayout, layout_of
from fedorbit.learning.rules import Sgd
from fedorbit.learning.subnetworks import (
    HIDDEN,
    activations,
    kept_channels,
    subnetwork_mask,
    subnetwork_size,
)
from fedorbit.learning.torch_trainer import TorchTrainer
from tests.learning.rules.cases import BACKENDS, DATA, SETTINGS, SPEC, trainer_of

LAYOUT = SPEC.layout
STARTS = {"first": (0, 0, 0, 0), "shifted": (4, 13, 77, 60)}  # all of the latter wrap around


class SmallLeNet(LeNet):
    """A LeNet that has fewer channels."""

    def __init__(
        self, channels: tuple[int, ...], height: int, width: int, colours: int, classes: int
    ) -> None:
        nn.Module.__init__(self)
        conv1, conv2, fc1, fc2 = channels
        self.conv1 = nn.Conv2d(colours, conv1, 5)
        self.conv2 = nn.Conv2d(conv1, conv2, 5)
        self.fc1 = nn.Linear(conv2 * pooled(height) * pooled(width), fc1)
        self.fc2 = nn.Linear(fc1, fc2)
        self.fc3 = nn.Linear(fc2, classes)


def small_spec(width: float) -> ModelSpec:
    factory = partial(SmallLeNet, kept_channels(width))
    module = factory(*SPEC.image_shape, SPEC.classes)
    return ModelSpec("small", SPEC.image_shape, SPEC.classes, factory, layout_of(module, "fc2", 4))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("width", [0.25, 0.5, 0.75])
def test_training_a_masked_network_is_training_the_smaller_one(
    backend: str, starts: str, width: float
) -> None:
    spec, mask = small_spec(width), subnetwork_mask(LAYOUT, width, STARTS[starts])
    assert np.count_nonzero(mask) == spec.layout.size
    start = SPEC.initial_vector(0)
    job = LocalJob(0, np.where(mask, start, np.float32(0)), 2, 0.05, (0,), Sgd(part=mask))
    order = batch_order(DATA, job, 0)
    masked = trainer_of(backend).train(job, order).model
    small_job = replace(job, start=start[mask], rule=Sgd())
    small = TorchTrainer(spec, DATA, SETTINGS).train(small_job, order).model
    np.testing.assert_allclose(masked[mask], small, rtol=0, atol=3e-6)
    assert np.abs(small - start[mask]).max() > 1e-3
    np.testing.assert_array_equal(masked[~mask].view(np.int32), 0)  # momentum and decay, too


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_masked_network_classifies_as_the_smaller_one(backend: str) -> None:
    mask, start = subnetwork_mask(LAYOUT, 0.5, STARTS["shifted"]), SPEC.initial_vector(3)
    spec, samples = small_spec(0.5), np.arange(40)
    right, loss = trainer_of(backend).evaluate(np.where(mask, start, np.float32(0)), samples)
    small = TorchTrainer(spec, DATA, SETTINGS).evaluate(start[mask], samples)
    assert right == small[0]
    assert loss == pytest.approx(small[1], rel=1e-6)


def test_every_weight_is_kept_equally_often_over_all_starts() -> None:
    places = {p.name: p.place for p in LAYOUT.parameters}
    counts = np.zeros(LAYOUT.size, dtype=int)
    for conv1, conv2 in product(range(6), range(16)):
        counts += subnetwork_mask(LAYOUT, 0.25, (conv1, conv2, 0, 0))
    assert set(counts[places["conv1.weight"]]) == {2 * 16}
    assert set(counts[places["conv2.weight"]]) == {2 * 4}  # of 96: about r^2
    assert set(counts[places["conv2.bias"]]) == {4 * 6}
    counts[:] = 0
    for step in range(840):  # the least common multiple of 120 and 84
        counts += subnetwork_mask(LAYOUT, 0.5, (0, 0, step % 120, step % 84))
    assert set(counts[places["fc1.bias"]]) == {420}
    assert set(counts[places["fc3.weight"]]) == {420}


def test_widths_are_nested_and_the_widest_is_the_whole() -> None:
    masks = [subnetwork_mask(LAYOUT, width) for width in (0.25, 0.5, 0.75, 1.0)]
    for small, large in pairwise(masks):
        assert (small <= large).all()
    assert masks[-1].all()
    assert [kept_channels(r) for r in (0.25, 0.1, 1.0)] == [(2, 4, 30, 21), (1, 2, 12, 9), HIDDEN]
    moved = subnetwork_mask(LAYOUT, 0.5, STARTS["shifted"])
    assert np.count_nonzero(moved) == np.count_nonzero(masks[1]) == subnetwork_size(LAYOUT, 0.5)


def test_activations_are_those_of_the_layers() -> None:
    square = layout_of(LeNet(16, 16, 3, 4), "fc2", 4)
    expected = [12 * 12 * 6 + 2 * 2 * 16 + 120 + 84 + 4, 12 * 12 * 3 + 2 * 2 * 8 + 60 + 42 + 4]
    assert [activations(square, width) for width in (1.0, 0.5)] == expected


class Other(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.fc2 = nn.Conv2d(3, 6, 5), nn.Linear(6, 4)


@pytest.mark.parametrize(
    "layout",
    [
        layout_of(Other(), "fc2", 4),
        layout_of(SmallLeNet((6, 12, 120, 84), 20, 24, 3, 4), "fc2", 4),
        ParameterLayout((), slice(0, 1), slice(1, 2), np.array([[1]])),
    ],
)
def test_another_model_is_refused(layout: ParameterLayout) -> None:
    with pytest.raises(ModelError, match=r"sub-networks are made of LeNet alone.*model\.name"):
        subnetwork_mask(layout, 0.5)
    with pytest.raises(ModelError, match="LeNet alone"):
        activations(layout, 0.5)


@pytest.mark.parametrize("width", [0.0, -0.5, 1.5, float("nan")])
def test_a_width_that_is_none_is_refused(width: float) -> None:
    with pytest.raises(ModelError, match="above 0 and at most 1"):
        subnetwork_mask(LAYOUT, width)
