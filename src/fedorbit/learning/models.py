"""From a name in the configuration to a model, its layout and its first parameters."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from fedorbit.errors import ModelError
from fedorbit.learning.lenet import LeNet
from fedorbit.learning.parameters import ParameterLayout, Vector, layout_of
from fedorbit.randomness import generator
from fedorbit.user_code import described, load_object

Factory = Callable[[int, int, int, int], nn.Module]
"""`factory(height, width, channels, classes)` returns a new model."""


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A kind of model for one shape of images."""

    name: str
    image_shape: tuple[int, int, int]
    classes: int
    factory: Factory
    layout: ParameterLayout

    def build(self) -> nn.Module:
        """Return a new model with arbitrary parameters."""
        return self.factory(*self.image_shape, self.classes)

    def initial_vector(self, seed: int) -> Vector:
        """Draw first parameters as the model's own initialisation does, from the seed."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(seed, "initial model").integers(2**63)))
            model = self.build()
        return np.concatenate(
            [p.detach().numpy().astype(np.float32).ravel() for p in model.parameters()]
        )


def model_spec(
    name: str, classifier: str | None, image_shape: tuple[int, int, int], classes: int
) -> ModelSpec:
    """Find a model: `lenet`, or `package.module:factory` of the user's."""
    if name == "lenet":
        factory: Factory = LeNet
        classifier = classifier or "fc2"
    else:
        factory = load_object(name, "model.name")
        if classifier is None:
            raise ModelError(
                f"model {name} needs model.classifier, the name of its first classifier layer"
            )
    try:
        model = factory(*image_shape, classes)
    except (Exception, SystemExit) as error:  # whatever a user's factory may raise
        raise ModelError(f"model {name} cannot be built: {described(error)}") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{name} must return a torch.nn.Module, got {type(model).__name__}")
    return ModelSpec(name, image_shape, classes, factory, layout_of(model, classifier, classes))
