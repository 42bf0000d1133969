"""Weights of a model from a safetensors file, by name. No pickle is ever loaded."""

from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from fedorbit.errors import ModelError, one_line, os_sentence
from fedorbit.inputs import read_regular

MOST_BYTES = 4 * 2**30
REMEDY = "leave tensors out with model.weights_skip, such as"


def load_weights(module: nn.Module, file: Path, skip: Iterable[str] = ()) -> None:
    """Copy a file's tensors into a model; names and shapes must be the model's.

    Tensors whose names match a pattern of `skip`, in the file or in the model, are left out: the
    model keeps what it has.
    """
    own = {name: tensor for name, tensor in module.state_dict().items() if not _any(skip, name)}
    found = {name: tensor for name, tensor in _read(file).items() if not _any(skip, name)}
    for problem, names in (
        ("lacks", own.keys() - found.keys()),
        ("has, and the model has not,", found.keys() - own.keys()),
    ):
        if names:
            raise ModelError(
                f"model.weights {file} {problem} {_listed(names)}; {REMEDY} [{min(names)!r}]"
            )
    for name, tensor in own.items():
        if tensor.shape != found[name].shape:
            raise ModelError(
                f"model.weights {file}: {name} is {list(found[name].shape)}, and the model's is "
                f"{list(tensor.shape)}; {REMEDY} [{name.rpartition('.')[0] + '.*'!r}]"
            )
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(found[name])


def _read(file: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load(read_regular(file, MOST_BYTES))
    except OSError as error:
        raise ModelError(f"model.weights cannot be read ({os_sentence(error)})") from None
    except SafetensorError as error:
        raise ModelError(
            f"model.weights {file} is no safetensors file ({one_line(error)}); convert it, see "
            "docs/models.md"
        ) from None


def _any(patterns: Iterable[str], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _listed(names: Iterable[str]) -> str:
    first, *more = sorted(names)
    return f"{first} and {len(more)} more" if more else first
