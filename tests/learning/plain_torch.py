"""Training as everybody writes it in PyTorch: what the trainer must agree with."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from fedorbit.learning.jobs import LocalJob, SgdSettings, TrainingData, batch_order, standardisation
from fedorbit.learning.models import ModelSpec, tensors_of
from fedorbit.learning.rules import Trained
from fedorbit.learning.torch_trainer import TorchTrainer

SHAPE, CLASSES, RATE = (12, 10, 3), 4, 0.05
SETTINGS = SgdSettings(batch=8, momentum=0.9, weight_decay=5e-3, clip_norm=1.0)
RESNET_BATCH = {"options": {"base": 4, "norm": "batch"}}


def small_data() -> TrainingData:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (50, *SHAPE), dtype=np.uint8)
    everything = np.arange(40)
    scale, shift = standardisation(images, everything)
    parts = (np.arange(0, 23), np.arange(23, 40), np.arange(40, 41))
    return TrainingData(images, rng.integers(0, CLASSES, 50), scale, shift, parts, everything)


DATA = small_data()


def batch(indices: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    x = DATA.images[indices].astype(np.float32) * DATA.scale + DATA.shift
    return torch.from_numpy(x.transpose(0, 3, 1, 2).copy()), torch.from_numpy(DATA.labels[indices])


def module_at(spec: ModelSpec, vector: np.ndarray) -> nn.Module:
    """Return the model as PyTorch has it, with the values of a vector."""
    module = spec.build()
    tensors = tensors_of(module)
    with torch.no_grad():
        for place in (*spec.layout.buffers, *spec.layout.parameters):
            tensors[place.name].copy_(torch.from_numpy(vector[place.place]).view(place.shape))
    return module


def vector_of(spec: ModelSpec, module: nn.Module) -> np.ndarray:
    tensors, layout = tensors_of(module), spec.layout
    places = (*layout.buffers, *layout.parameters)
    return np.concatenate([tensors[p.name].detach().numpy().ravel() for p in places])


def by_torch(
    spec: ModelSpec, job: LocalJob, order: np.ndarray, make=None, mode: str = "train"
) -> np.ndarray:
    """LocalSGD as everybody writes it, on the parameters that are not frozen."""
    module = module_at(spec, job.start)
    trainable = [p for p in module.parameters() if p.requires_grad]
    optimiser = (
        make(trainable)
        if make
        else torch.optim.SGD(trainable, lr=job.rate, momentum=0.9, weight_decay=5e-3)
    )
    getattr(module, mode)()
    for epoch in order:
        for begin in range(0, len(epoch), SETTINGS.batch):
            x, y = batch(epoch[begin : begin + SETTINGS.batch])
            optimiser.zero_grad()
            functional.cross_entropy(module(x), y).backward()
            torch.nn.utils.clip_grad_norm_(trainable, 1.0)
            optimiser.step()
    return vector_of(spec, module)


def trained(spec: ModelSpec, job: LocalJob, settings: SgdSettings = SETTINGS, **more) -> Trained:
    return TorchTrainer(spec, DATA, settings, **more).train(job, batch_order(DATA, job, 0))
