"""A few random images, and trainers of both kinds for them."""

from dataclasses import replace

import numpy as np

from fedorbit.learning import kernel
from fedorbit.learning.backends import make_trainer
from fedorbit.learning.jobs import SgdSettings, TrainingData, standardisation
from fedorbit.learning.models import model_spec

SPEC = model_spec("lenet", None, (20, 24, 3), 4)
SETTINGS = SgdSettings(batch=8, momentum=0.9, weight_decay=5e-3, clip_norm=0.5)
BACKENDS = ["torch", *(["kernel"] if kernel.available() else [])]


def small_data() -> TrainingData:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (40, 20, 24, 3), dtype=np.uint8)
    everything = np.arange(40)
    scale, shift = standardisation(images, everything)
    parts = (np.arange(0, 23), np.arange(23, 40), np.arange(0))
    return TrainingData(images, rng.integers(0, 4, 40), scale, shift, parts, everything)


DATA = small_data()
DATA_BY_TYPE = {"uint8": DATA, "float32": replace(DATA, images=DATA.images.astype(np.float32))}
FLAT = replace(DATA, images=np.broadcast_to(DATA.images[:, :1, :1], DATA.images.shape).copy())
"""Images of one colour each: all places of a pool are the same, and it has no kinks."""


def trainer_of(backend: str, settings: SgdSettings = SETTINGS, data: TrainingData = DATA):
    return make_trainer(backend, SPEC, data, settings, "cpu")
