"""Random numbers inside models, such as dropout's, from the key of the job and nothing else.

PyTorch draws them from one generator per process, which all threads share: what a job would get
depends on what others do meanwhile. Here every operation that draws gets a generator of the job's
own. The mode that does so belongs to one thread, and finds the operations by PyTorch's own mark
(`nondeterministic_seeded`), whatever layer or function of the model calls them.
"""

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fedorbit.errors import ModelError

WITH_GENERATOR = {
    "default": "generator",
    "low": "low_generator",
    "low_dtype": "low_generator_dtype",
    "Tensor": "Tensor_generator",
}
"""Variants of operations that take no generator, and of those that do."""


class KeyedRandomness(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, all random numbers of this thread come from `generator`."""

    def __init__(self, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator(device)
        self.draws = 0
        """Operations that have drawn."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operation; give it the generator if it draws."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or _drops_nothing(func, args, kwargs):
            return func(*args, **kwargs)
        self.draws += 1
        if func is torch.ops.aten.native_dropout.default:
            return self._dropout(*args, **kwargs)
        if not _takes_generator(func):
            variant = WITH_GENERATOR.get(func._overloadname, "")
            if variant not in func.overloadpacket.overloads():
                raise ModelError(
                    f"the model draws random numbers by {func}, which takes no generator, so that "
                    "a run could not be repeated; use dropout, or torch.rand and its kind"
                )
            func = getattr(func.overloadpacket, variant)
        return func(*args, **kwargs | {"generator": self.generator})

    def _dropout(
        self, x: torch.Tensor, p: float, train: bool | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return dropout's output and mask, as GPUs have it in one operation."""
        kept = torch.empty_like(x, dtype=torch.bool)
        if train is False:
            return x, kept.fill_(True)
        kept.bernoulli_(1.0 - p, generator=self.generator)
        return x * kept * (1.0 / (1.0 - p) if p < 1.0 else 0.0), kept


def _takes_generator(func: Any) -> bool:
    return any(argument.name == "generator" for argument in func._schema.arguments)


def _drops_nothing(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether it is a layer with a dropout of its own, such as attention, that is 0."""
    for place, argument in enumerate(func._schema.arguments):
        if argument.name in ("dropout_p", "dropout"):
            given = args[place] if place < len(args) else kwargs.get(argument.name)
            return not (argument.default_value if given is None else given)
    return False
