"""A trained model for use: images as they are stored in, one logit per class out.

A `Classifier` is a PyTorch module with its standardisation inside. Its card has the shape and type
of the images, the names of the classes, and the origin of the parameters.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedorbit.data.stream import Images
from fedorbit.errors import ModelError
from fedorbit.learning.models import ModelSpec, model_spec, tensors_of
from fedorbit.learning.parameters import Vector
from fedorbit.simulation.world import World
from fedorbit.simulation.world_file import describe_input

BATCH = 256
"""Images that are classified at a time."""


@dataclass(frozen=True)
class ModelCard:
    """Everything about a model but its parameters."""

    model: str
    """Name of the model, as in `model.name`."""
    layer: str | None
    """First classifier layer, as in `model.classifier`."""
    classes: tuple[str, ...]
    image_shape: tuple[int, int, int]
    """Height, width and channels."""
    dtype: str
    """Type of the images as they are stored: uint8, uint16 or float32."""
    scale: tuple[float, ...]
    """Scale per channel; images are standardised to x * scale + shift."""
    shift: tuple[float, ...]
    method: str
    """Method that trained it."""
    serves: str
    """Nodes that use it: `everyone`, or one such as `orbit 2`."""
    rounds: int
    """Number of rounds after which it was taken."""
    file_bands: int = 0
    """Number of bands of the files that images were prepared from; 0: as many as an image has."""
    kept_bands: tuple[int, ...] = ()
    """Numbers, from 1, of the bands that an image has, in the image's order; empty: all."""
    options: dict[str, Any] = field(default_factory=dict)
    """Options of the model, as in `model.options`."""
    log_prior: tuple[float, ...] = ()
    """Log-prior of the classes where the model is in use, added to the logits; empty: none."""

    def spec(self) -> ModelSpec:
        """Return the kind of model; code of the user's own must be allowed."""
        shape, classes = self.image_shape, len(self.classes)
        return model_spec(self.model, self.layer, shape, classes, options=self.options)

    def to_json(self) -> str:
        """Return the card as one JSON object."""
        return json.dumps(vars(self))

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "ModelCard":
        """Return the card in a JSON object of the shape that a schema has checked."""
        values: dict[str, Any] = {
            key: tuple(document[key]) if isinstance(document[key], list) else document[key]
            for key in cls.__dataclass_fields__
            if key in document
        }
        return cls(**values)


class Classifier(nn.Module):
    """A trained model as a PyTorch module that takes images as they are stored.

    Standardisation is inside. `card` names the classes, the shape and type of the images, and the
    method and rounds that the parameters come from.
    """

    scale: Tensor
    shift: Tensor
    log_prior: Tensor

    def __init__(self, card: ModelCard, spec: ModelSpec) -> None:
        """Make one with arbitrary parameters."""
        super().__init__()
        self.card = card
        self.body = spec.build()
        self._layout = spec.layout
        self.register_buffer("scale", torch.tensor(card.scale, dtype=torch.float32))
        self.register_buffer("shift", torch.tensor(card.shift, dtype=torch.float32))
        self.set_log_prior(card.log_prior)
        self.eval()

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes, in the order of the logits."""
        return self.card.classes

    def forward(self, images: Tensor) -> Tensor:
        """Return logits `[n, classes]` of stored images `[n, height, width, channels]`."""
        standardised = images.to(torch.float32) * self.scale + self.shift
        logits: Tensor = self.body(standardised.permute(0, 3, 1, 2))
        return logits + self.log_prior

    def set_log_prior(self, log_prior: Sequence[float] | Vector) -> None:
        """Set what is added to the logits; nothing if it is empty."""
        values = log_prior if len(log_prior) else [0.0] * len(self.classes)
        device = self.scale.device
        self.register_buffer("log_prior", torch.tensor(values, dtype=torch.float32, device=device))

    def load_vector(self, vector: Vector) -> "Classifier":
        """Take the parameters of a flat vector; return this module."""
        tensors, layout = tensors_of(self.body), self._layout
        with torch.no_grad():
            for place in (*layout.buffers, *layout.parameters):
                values = torch.from_numpy(vector[place.place].copy())
                if place.name.endswith("running_var"):
                    values.clamp_(min=0.0)  # as in training: a mean beyond its models may be below
                tensors[place.name].copy_(values.view(place.shape))
        return self

    def named_arrays(self) -> dict[str, NDArray[Any]]:
        """Return parameters and buffers of the model by PyTorch's names."""
        return {name: t.cpu().numpy().copy() for name, t in self.body.state_dict().items()}

    def load_arrays(self, arrays: dict[str, NDArray[Any]]) -> "Classifier":
        """Take parameters and buffers by PyTorch's names; return this module."""
        self.body.load_state_dict({name: torch.from_numpy(a) for name, a in arrays.items()})
        return self

    def probabilities(self, images: Images) -> NDArray[np.float64]:
        """Return the probability of each class, `[n, classes]`, of stored images."""
        return torch.softmax(self._logits(images).double(), dim=1).cpu().numpy()

    def predict(self, images: Images) -> NDArray[np.int64]:
        """Return the number of the most probable class of each stored image."""
        return self._logits(images).argmax(dim=1).cpu().numpy()

    def _logits(self, images: Images) -> Tensor:
        shape, dtype = self.card.image_shape, self.card.dtype
        if images.shape[1:] != shape or images.dtype != dtype:
            raise ModelError(
                f"images must be {dtype} of shape (n, {', '.join(map(str, shape))}), as they are "
                f"stored, got {images.dtype} of shape {images.shape}"
            )
        with torch.inference_mode():
            batches = [  # copies, since PyTorch has no tensors that may only be read
                self(torch.from_numpy(np.array(images[b : b + BATCH])).to(self.scale.device))
                for b in range(0, len(images), BATCH)
            ]
        return torch.cat(batches) if batches else torch.empty((0, len(self.classes)))


class WorldPredictor:
    """Classifies samples of a run's data by any model of the run, on one thread."""

    def __init__(self, world: World) -> None:
        engine, self._images = world.config.engine, world.data.images
        card = card_of(world, method="", serves="", rounds=0)
        self._classifier = Classifier(card, world.spec).to(engine.device)

    def __call__(
        self, model: Vector, samples: NDArray[np.int64], log_prior: Sequence[float] | Vector = ()
    ) -> NDArray[np.int64]:
        """Return the class that a model gives each sample."""
        with _one_thread():
            self._classifier.load_vector(model).set_log_prior(log_prior)
            parts = [
                self._classifier.predict(self._images[samples[begin : begin + BATCH]])
                for begin in range(0, len(samples), BATCH)
            ]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def card_of(world: World, *, method: str, serves: str, rounds: int) -> ModelCard:
    """Describe a model of a run's world."""
    return ModelCard.from_document(
        {
            "model": world.spec.name,
            "layer": world.config.model.classifier,
            "options": dict(world.config.model.options),
            "classes": world.dataset.class_names,
            "image_shape": world.spec.image_shape,
            **describe_input(world),
            "method": method,
            "serves": serves,
            "rounds": rounds,
        }
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep PyTorch to one thread: more could round differently."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
