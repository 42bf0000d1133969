"""A run that begins with weights from a file keeps them in its folder."""

from pathlib import Path

import numpy as np
import pytest
import safetensors.torch

from fedorbit import load_config, resume, run
from fedorbit.errors import FedOrbitError
from fedorbit.learning.lenet import LeNet
from fedorbit.simulation.world import build_world

SMALL = ["data.synthetic.samples=120", "data.synthetic.size=16", "data.synthetic.classes=4"]


def test_weights_are_those_of_the_runs_folder(tmp_path: Path) -> None:
    state = LeNet(16, 16, 3, 4).state_dict()
    source = tmp_path / "pretrained.safetensors"
    safetensors.torch.save_file(state, source)
    file = tmp_path / "my.toml"
    file.write_text('extends = "quickstart"\n[model]\nweights = "pretrained.safetensors"\n')
    settings = [*SMALL, "model.frozen=['conv*']", "run.method=fedavg", "run.rounds=1"]
    config = load_config(file, [*settings, "training.epochs=1"])
    folder = tmp_path / "run"
    run(config, folder)
    source.unlink()
    world = build_world(load_config(folder / "config.toml"))
    expected = np.concatenate([t.numpy().ravel() for n, t in state.items() if n[:4] != "conv"])
    np.testing.assert_array_equal(world.initial_model, expected)
    resume(folder)
    copy = folder / "weights.safetensors"
    safetensors.torch.save_file({**state, "fc3.bias": state["fc3.bias"] + 1}, copy)
    with pytest.raises(FedOrbitError, match=r"weights.safetensors"):
        resume(folder)
