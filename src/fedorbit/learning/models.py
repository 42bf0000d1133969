"""From a name in the configuration to a model, its layout and its first values."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fedorbit.errors import ModelError, closest
from fedorbit.learning.lenet import LeNet
from fedorbit.learning.mobilenet import MobileNet
from fedorbit.learning.parameters import ParameterLayout, Vector, layout_of, matching
from fedorbit.learning.resnet import ResNet
from fedorbit.learning.weights import load_weights
from fedorbit.randomness import generator
from fedorbit.user_code import described, load_object, module_of

Factory = Callable[[int, int, int, int], nn.Module]
"""`factory(height, width, channels, classes)` returns a new model."""

MODELS: dict[str, tuple[Callable[..., nn.Module], str]] = {
    "lenet": (LeNet, "fc2"),
    "resnet": (ResNet, "fc"),
    "mobilenet": (MobileNet, "fc"),
}
"""Shipped models, each with its first classifier layer."""


@dataclass(frozen=True, eq=False)
class ModelSpec:
    """A kind of model for one shape of images."""

    name: str
    image_shape: tuple[int, int, int]
    classes: int
    factory: Factory
    layout: ParameterLayout
    classifier: str = ""
    """The first classifier layer."""
    seed: int = 0
    """Seed of the run, from which random numbers inside the model, as for dropout, derive."""
    constants: Mapping[str, Tensor] = field(default_factory=dict)
    """Tensors that training does not change, by name: frozen parameters, counters, tables."""
    freezes_statistics: bool = False
    """True if layers with statistics, such as BatchNorm, train in evaluation mode."""
    weights: Path | None = None
    weights_skip: tuple[str, ...] = ()

    def build(self) -> nn.Module:
        """Return a new model; tensors that the layout places have arbitrary values."""
        module = self.factory(*self.image_shape, self.classes)
        tensors = tensors_of(module)
        for name, value in self.constants.items():
            tensors[name].requires_grad_(False)
            tensors[name].data = value.clone()
        return module

    def initial_vector(self, seed: int) -> Vector:
        """Return first values: the model's own initialisation from the seed, or the weights'."""
        module = _drawn(self.factory, (*self.image_shape, self.classes), seed)
        if self.weights is not None:
            load_weights(module, self.weights, self.weights_skip)
        tensors, layout = tensors_of(module), self.layout
        return np.concatenate(
            [
                tensors[place.name].detach().numpy().astype(np.float32).ravel()
                for place in (*layout.buffers, *layout.parameters)
            ]
        )


def model_spec(
    name: str,
    classifier: str | None,
    image_shape: tuple[int, int, int],
    classes: int,
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    buffers: str = "average",
    frozen: Sequence[str] = (),
    weights: Path | None = None,
    weights_skip: Sequence[str] = (),
) -> ModelSpec:
    """Find a model: a shipped one, or `package.module:factory` of the user's.

    The keywords are those of `[model]` in the configuration.
    """
    factory, classifier = _find(name, classifier)
    if options:
        _require_options(name, factory, options)
        factory = partial(factory, **options)
    try:
        model = _drawn(factory, (*image_shape, classes), seed)
    except (Exception, SystemExit) as error:  # whatever a user's factory may raise
        raise ModelError(f"model {name} cannot be built: {described(error)}") from error
    if not isinstance(model, nn.Module):
        raise ModelError(f"{name} must return a torch.nn.Module, got {type(model).__name__}")
    if weights is not None:
        load_weights(model, weights, weights_skip)
    parameters = dict(model.named_parameters())
    for parameter in matching(list(parameters), frozen, "model.frozen"):
        parameters[parameter].requires_grad_(False)
    layout = layout_of(model, classifier, classes, buffers != "frozen")
    placed = {place.name for place in (*layout.buffers, *layout.parameters)}
    return ModelSpec(
        name,
        image_shape,
        classes,
        factory,
        layout,
        classifier,
        seed,
        constants={n: t.detach() for n, t in tensors_of(model).items() if n not in placed},
        freezes_statistics=buffers == "frozen",
        weights=weights,
        weights_skip=tuple(weights_skip),
    )


def tensors_of(module: nn.Module) -> dict[str, Tensor]:
    """Return parameters and buffers by name."""
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _find(name: str, classifier: str | None) -> tuple[Callable[..., nn.Module], str]:
    """Return a factory, and its first classifier layer."""
    if name in MODELS:
        factory, first = MODELS[name]
        return factory, classifier or first
    if module_of(name) is None:
        near = closest(name, MODELS)
        raise ModelError(
            f"model.name must be {', '.join(MODELS)} or package.module:name, got {name!r}"
            + (f"; did you mean {near!r}?" if near else "")
        )
    factory = load_object(name, "model.name")
    if classifier is None:
        raise ModelError(
            f"model {name} needs model.classifier, the name of its first classifier layer"
        )
    return factory, classifier


def _require_options(name: str, factory: Any, options: Mapping[str, Any]) -> None:
    """Refuse options that a model does not take."""
    try:
        signature = inspect.signature(factory)
        signature.bind(0, 0, 0, 0, **options)
    except ValueError:  # nothing is known of it
        return
    except TypeError as error:
        known = list(signature.parameters)[4:]
        raise ModelError(
            f"model.options: {name} {error}; it takes {', '.join(known) or 'no options'}"
        ) from None


def _drawn(factory: Factory, shape: tuple[int, int, int, int], seed: int) -> nn.Module:
    """Return a model with first values from the seed; PyTorch's own generator stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, "initial model").integers(2**63)))
        return factory(*shape)
