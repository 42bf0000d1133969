"""A model in PyTorch whose tensors are views into flat vectors; one for each thread.

Going to a point is one copy, and the gradient is a vector when the backward pass is done.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from fedorbit.errors import ModelError
from fedorbit.learning.keyed import KeyedRandomness
from fedorbit.learning.models import ModelSpec, tensors_of
from fedorbit.learning.parameters import changing_buffers
from fedorbit.learning.rules.base import Outputs
from fedorbit.randomness import generator


class Workspace:
    """`weights` and `gradient` are the model's, in the order of the layout."""

    def __init__(self, spec: ModelSpec, device: torch.device, draws: bool = True) -> None:
        """`draws`: whether the model may need random numbers, which makes it slower."""
        layout = spec.layout
        self.module: nn.Module = spec.build().to(device)
        self.weights = torch.zeros(layout.size, device=device)
        self.gradient = torch.zeros(layout.size, device=device)
        self.statistics = self.weights[layout.statistics]
        self.randomness = KeyedRandomness(device)
        self._spec, self._draws, self._differentiating = spec, draws, False
        tensors = tensors_of(self.module)
        for place in layout.parameters:
            tensors[place.name].data = self.weights[place.place].view(place.shape)
            tensors[place.name].grad = self.gradient[place.place].view(place.shape)
        # By .data, which counts changes in place for each tensor and not for all of the vector.
        self._buffers = {
            place.name: self.weights[place.place].view(place.shape).data for place in layout.buffers
        }
        for name, view in self._buffers.items():
            _set_buffer(self.module, name, view)
        self._variances = [b for n, b in self._buffers.items() if n.endswith("running_var")]
        self._restored = {
            name: value.to(device)
            for name, value in spec.constants.items()
            if name in dict(self.module.named_buffers())
        }
        owners = {name.rpartition(".")[0] for name, _ in changing_buffers(self.module)}
        self._never_training = [
            self.module.get_submodule(name) for name in owners if spec.freezes_statistics
        ]

    def begin(self, *key: int) -> None:
        """Begin a job: its random numbers, and first values of counters and the like."""
        seed = int(generator(self._spec.seed, "inside the model", *key).integers(2**63))
        self.randomness.generator.manual_seed(seed)
        for name, value in self._restored.items():
            _set_buffer(self.module, name, value.clone())

    def go_to(self, point: Tensor, *, training: bool) -> None:
        """Take the values of a point."""
        if self._differentiating:
            raise ModelError(
                "a loss of a rule's own must not evaluate other models: call job.outputs before "
                "job.gradient"
            )
        self.weights.copy_(point)
        for variance in self._variances:  # sums of models at other rates may have made it negative
            variance.clamp_(min=0.0)
        self.module.train(training)
        for layer in self._never_training:
            layer.eval()

    @contextmanager
    def differentiating(self) -> Iterator[None]:
        """While a gradient is computed: the values must not change."""
        self.gradient.zero_()
        self._differentiating = True
        try:
            yield
        finally:
            self._differentiating = False

    def logits(self, images: Tensor) -> Tensor:
        """Return the model's output."""
        with self.randomness if self._draws else nullcontext():
            logits: Tensor = self.module(images)
        for name, view in self._buffers.items():
            if (found := self.module.get_buffer(name)) is not view:  # a new tensor took its place
                view.copy_(found.detach())
                _set_buffer(self.module, name, view)
        return logits

    def outputs(self, images: Tensor) -> Outputs:
        """Return the model's output, and what its classifier sees."""
        seen: list[Tensor] = []
        layer = self.module.get_submodule(self._spec.classifier)
        hook = layer.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
        try:
            logits = self.logits(images)
        finally:
            hook.remove()
        if not seen:
            raise ModelError(
                f"model {self._spec.name} does not call its layer {self._spec.classifier}, so its "
                "features are not known; name another one by model.classifier"
            )
        return Outputs(seen[-1].flatten(1), logits)


def _set_buffer(module: nn.Module, name: str, value: Tensor) -> None:
    owner, _, leaf = name.rpartition(".")
    module.get_submodule(owner)._buffers[leaf] = value
