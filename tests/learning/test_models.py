"""Shipped models, frozen layers, and weights from a file."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn
from torch.nn import functional

from fedorbit.errors import ModelError
from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.mobilenet import MobileNet
from fedorbit.learning.models import model_spec
from fedorbit.learning.resnet import ResNet
from fedorbit.learning.torch_trainer import TorchTrainer
from tests.learning.plain_torch import (
    CLASSES,
    DATA,
    RATE,
    RESNET_BATCH,
    SETTINGS,
    SHAPE,
    module_at,
    vector_of,
)


@pytest.mark.parametrize("frozen", [("conv1.*", "conv2.*"), ("*.bias",), ("conv*", "fc1.*")])
def test_frozen_layers_are_not_trained_and_no_part_of_the_vector(frozen: tuple[str, ...]) -> None:
    shape = (16, 16, 3)
    whole = model_spec("lenet", None, shape, 4)
    if frozen == ("*.bias",):
        frozen = ("conv*.bias",)
    spec = model_spec("lenet", None, shape, 4, frozen=frozen, seed=5)
    size = sum(int(np.prod(value.shape)) for value in spec.constants.values())
    assert spec.layout.size == whole.layout.size - size < whole.layout.size
    np.testing.assert_array_equal(
        spec.initial_vector(5),
        np.concatenate(
            [
                whole.initial_vector(5)[p.place]
                for p in whole.layout.parameters
                if p.name not in spec.constants
            ]
        ),
    )
    rng = np.random.default_rng(0)
    data = replace(DATA, images=rng.integers(0, 256, (50, *shape), dtype=np.uint8))
    job = LocalJob(0, spec.initial_vector(5), 1, RATE, key=(0,))
    order = batch_order(data, job, 0)
    module = module_at(spec, job.start)
    trainable = [p for p in module.parameters() if p.requires_grad]
    optimiser = torch.optim.SGD(trainable, lr=RATE, momentum=0.9, weight_decay=5e-3)
    for begin in (0, 8, 16):
        samples = order[0, begin : begin + 8]
        x = data.images[samples].astype(np.float32) * data.scale + data.shift
        loss = functional.cross_entropy(
            module(torch.from_numpy(x.transpose(0, 3, 1, 2).copy())),
            torch.from_numpy(data.labels[samples]),
        )
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable, 1.0)
        optimiser.step()
    found = TorchTrainer(spec, data, SETTINGS).train(job, order).model
    np.testing.assert_allclose(found, vector_of(spec, module), atol=2e-6)


def test_a_pattern_without_a_match_and_a_frozen_last_layer_are_refused() -> None:
    with pytest.raises(ModelError, match=r"model.frozen has 'conv9.\*', which matches none"):
        model_spec("lenet", None, (16, 16, 3), 4, frozen=("conv9.*",))
    for frozen, message in (
        (("fc3.*",), "and not frozen"),
        (("fc2.*", "fc3.weight"), r"and not frozen, got fc3.bias \(4,\)"),
    ):
        with pytest.raises(ModelError, match=message):
            model_spec("lenet", None, (16, 16, 3), 4, frozen=frozen)


def test_a_linear_probe_has_the_last_layer_alone() -> None:
    spec = model_spec("lenet", None, (16, 16, 3), 4, frozen=("conv*", "fc1.*", "fc2.*"))
    assert spec.layout.size == 84 * 4 + 4
    assert (spec.layout.features, spec.layout.classifier) == (slice(0, 0), slice(0, 340))


@pytest.fixture
def weights(tmp_path: Path) -> Path:
    torch.manual_seed(7)
    path = tmp_path / "weights.safetensors"
    state = ResNet(*SHAPE, CLASSES, base=4, norm="batch").state_dict()
    state["norm.running_mean"].fill_(3.0)
    safetensors.torch.save_file(state, path)
    return path


def test_weights_are_loaded_by_name(weights: Path) -> None:
    spec = model_spec("resnet", None, SHAPE, CLASSES, weights=weights, **RESNET_BATCH)
    file, vector = safetensors.torch.load_file(weights), spec.initial_vector(0)
    for place in (*spec.layout.buffers, *spec.layout.parameters):
        expected = file[place.name].numpy().ravel()
        np.testing.assert_array_equal(vector[place.place], expected)
    settings = {**RESNET_BATCH, "buffers": "frozen", "frozen": ("conv.*",)}
    frozen = model_spec("resnet", None, SHAPE, CLASSES, weights=weights, **settings)
    assert torch.equal(frozen.build().conv.weight, file["conv.weight"])
    assert torch.equal(frozen.build().norm.running_mean, file["norm.running_mean"])


def test_weights_of_another_last_layer_need_an_explicit_skip(weights: Path) -> None:
    with pytest.raises(
        ModelError, match=r"fc.weight is \[4, 16\], and the model's is \[7, 16\]; leave .*\['fc.\*'"
    ):
        model_spec("resnet", None, SHAPE, 7, weights=weights, **RESNET_BATCH)
    skip = {"weights": weights, "weights_skip": ("fc.*",)}
    spec = model_spec("resnet", None, SHAPE, 7, **skip, **RESNET_BATCH)
    drawn = model_spec("resnet", None, SHAPE, 7, **RESNET_BATCH).initial_vector(2)
    found, classifier = spec.initial_vector(2), spec.layout.classifier
    np.testing.assert_array_equal(found[classifier], drawn[classifier])
    assert not np.array_equal(found[: classifier.start], drawn[: classifier.start])


def test_weights_that_do_not_fit_are_refused(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"lacks blocks.3.conv1.weight and \d+ more; leave"):
        options = {"base": 4, "norm": "batch", "depth": 14}
        model_spec("resnet", None, SHAPE, CLASSES, weights=weights, options=options)
    with pytest.raises(ModelError, match=r"has, and the model has not, .*num_batches_tracked"):
        model_spec("resnet", None, SHAPE, CLASSES, weights=weights, options={"base": 4})
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"PK\x03\x04 a pickle in disguise")
    for path, message in (
        (broken, "broken.safetensors is no safetensors file"),
        (tmp_path / "missing.safetensors", "cannot be read .*No such file"),
        (tmp_path, "cannot be read .*it is a folder"),
    ):
        with pytest.raises(ModelError, match=message):
            model_spec("resnet", None, SHAPE, CLASSES, weights=path, **RESNET_BATCH)


@pytest.mark.parametrize(("depth", "parameters"), [(20, 269_722), (56, 853_018)])
def test_resnets_have_as_many_parameters_as_the_papers(depth: int, parameters: int) -> None:
    """Published: 0.27 M and 0.85 M for CIFAR-10 (He et al., table 6); to the last one by option A."""
    for norm in ("batch", "group"):
        spec = model_spec("resnet", None, (32, 32, 3), 10, options={"depth": depth, "norm": norm})
        statistics = spec.layout.statistics.stop
        assert spec.layout.size - statistics == parameters
        assert (statistics > 0) == (norm == "batch")


def test_the_shortcut_of_a_resnet_is_option_a() -> None:
    module = ResNet(*SHAPE, CLASSES, base=8)
    block = module.blocks[1]
    nn.init.zeros_(block.norm2.weight)  # nothing but the shortcut is left
    x = torch.rand(2, 8, 12, 10)
    y = block(x)
    assert y.shape == (2, 16, 6, 5)
    torch.testing.assert_close(y[:, :8], x[:, :, ::2, ::2])
    assert not y[:, 8:].any()


def test_mobilenet_convolves_channels_one_by_one() -> None:
    module = MobileNet(*SHAPE, CLASSES, multiplier=0.25)
    groups = [layer.groups for layer in module.layers if isinstance(layer, nn.Conv2d)]
    assert groups == [1, 8, 1, 16, 1, 32, 1, 32, 1, 64, 1]
    counted = sum(p.numel() for p in module.parameters())
    widths = [8, 16, 32, 32, 64, 64]
    convolutions = 3 * 9 * 8 + sum(9 * a + a * b for a, b in pairwise(widths))
    normalisations = 2 * 8 + sum(2 * (a + b) for a, b in pairwise(widths))
    assert counted == convolutions + normalisations + 64 * CLASSES + CLASSES
    assert module(torch.rand(2, 3, 12, 10)).shape == (2, CLASSES)
    assert module.features(torch.rand(2, 3, 12, 10)).shape == (2, 64)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnet", {"depth": 10}, "depth must be 8, 14, 20"),
        ("resnet", {"norm": "layer"}, 'norm must be "group" or "batch"'),
        ("resnet", {"deep": 8}, "it takes depth, base, norm"),
        ("mobilenet", {"multiplier": 0}, "above 0 and at most 4"),
        ("lenet", {"depth": 8}, "it takes no options"),
    ],
)
def test_wrong_options_are_refused(name: str, options: dict, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        model_spec(name, None, (16, 16, 3), CLASSES, options=options)
