"""Adam against torch.optim, and images that are held on the device."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.models import model_spec
from fedorbit.learning.torch_trainer import TorchTrainer
from tests.learning.plain_torch import (
    CLASSES,
    DATA,
    RATE,
    RESNET_BATCH,
    SETTINGS,
    SHAPE,
    by_torch,
    trained,
)


@pytest.mark.parametrize("optimiser", ["adam", "adamw"])
@pytest.mark.parametrize("name", ["resnet", "mobilenet"])
def test_adam_is_that_of_torch(optimiser: str, name: str) -> None:
    spec = model_spec(name, None, SHAPE, CLASSES, options={"norm": "batch"})
    job = LocalJob(0, spec.initial_vector(0), 2, 1e-3, key=(0,))
    settings = replace(
        SETTINGS, optimiser=optimiser, momentum=0.8, beta2=0.95, epsilon=1e-3, weight_decay=0.1
    )
    make = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}[optimiser]
    expected = by_torch(
        spec,
        job,
        batch_order(DATA, job, 0),
        lambda p: make(p, lr=1e-3, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.1),
    )
    found = trained(spec, job, settings).model
    np.testing.assert_allclose(found, expected, atol=2e-5)
    assert np.abs(found - job.start)[spec.layout.statistics.stop :].max() > 1e-3


@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
def test_images_on_the_device_give_the_same_bits(dtype: type) -> None:
    """The path of GPUs, on the CPU: all images are copied once, batches are gathered there."""
    data = replace(DATA, images=DATA.images.astype(dtype))
    spec = model_spec("resnet", None, SHAPE, CLASSES, **RESNET_BATCH)
    job = LocalJob(0, spec.initial_vector(0), 2, RATE, key=(0,))
    order = batch_order(data, job, 0)
    found = []
    for resident in (True, False):
        trainer = TorchTrainer(spec, data, SETTINGS, resident=resident)
        found.append((trainer.train(job, order).model, trainer.evaluate(job.start, order[0])))
    np.testing.assert_array_equal(found[0][0], found[1][0])
    assert found[0][1] == found[1][1]
