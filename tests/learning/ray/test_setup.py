"""Setup of a process of a cluster: the same model, constants included, without its weights' file."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch

from fedorbit.errors import ClusterError
from fedorbit.learning.resnet import ResNet
from fedorbit.testing import small_world


def test_a_node_trains_with_the_constants_of_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "weights.safetensors"
    safetensors.torch.save_file(ResNet(16, 16, 3, 4, base=4, norm="batch").state_dict(), file)
    model = {
        "name": "resnet",
        "options": {"base": 4, "norm": "batch"},
        "frozen": ["conv.*"],
        "buffers": "frozen",
        "weights": file,
    }
    world = small_world(model=model)
    setup = world.setup(world.trainer())
    file.unlink()
    sent = pickle.loads(pickle.dumps(setup))  # noqa: S301
    sent.open()  # which compares a probe of training
    constants = {name: value + 1 for name, value in sent.constants.items()}
    with pytest.raises(ClusterError, match="does not train to the same bits"):
        replace(sent, constants=constants).open()
