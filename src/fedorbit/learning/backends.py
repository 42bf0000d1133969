"""Choice of the code that trains: the C kernel where it can be used, PyTorch otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fedorbit.errors import ModelError
from fedorbit.learning import kernel
from fedorbit.learning.jobs import SgdSettings, TrainingData

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.learning.models import ModelSpec
    from fedorbit.learning.torch_trainer import Trainer

Backend = Literal["kernel", "torch"]


def resolve_backend(
    asked: str,
    model: str,
    device: str,
    image_shape: tuple[int, int, int] | None = None,
    image_type: np.dtype[Any] | None = None,
    torch_only: str = "",
) -> Backend:
    """Decide between kernel and PyTorch; the two round differently, so a run keeps its choice.

    `torch_only` names a setting that the kernel does not support; empty if there is none.
    """
    obstacle = _obstacle(model, device, image_shape, torch_only)
    if not obstacle and image_shape is not None and image_type is not None:
        obstacle = _refused_type(image_shape, image_type)
    if asked == "kernel" and obstacle:
        raise ModelError(f'engine.backend "kernel" cannot be used: {obstacle}; set it to "torch"')
    return "torch" if asked == "torch" or obstacle else "kernel"


def missed_kernel(asked: str, model: str, device: str, torch_only: str = "") -> str:
    """Return the reason why PyTorch trains LeNet on the CPU; empty if the kernel can train it.

    Also empty for other models and devices, and unless `engine.backend` is "auto".
    """
    if asked != "auto" or model != "lenet" or device != "cpu":
        return ""
    return _obstacle(model, device, None, torch_only)


def make_trainer(
    backend: Backend, spec: ModelSpec, data: TrainingData, settings: SgdSettings, device: str
) -> Trainer:
    """Return the trainer of a backend."""
    from fedorbit.learning.kernel_trainer import KernelTrainer
    from fedorbit.learning.torch_trainer import TorchTrainer

    if backend == "kernel":
        return KernelTrainer(spec, data, settings)
    try:
        return TorchTrainer(spec, data, settings, device)
    except (RuntimeError, AssertionError) as error:
        raise ModelError(f"engine.device {device!r} cannot be used: {error}") from None


def _obstacle(
    model: str, device: str, image_shape: tuple[int, int, int] | None, torch_only: str
) -> str:
    """Return the reason why the kernel cannot be used; empty if it can."""
    if model != "lenet":
        return f"it trains lenet only, and the model is {model}"
    if torch_only:
        return f"it does not know {torch_only}"
    if device != "cpu":
        return f"it runs on the CPU, and engine.device is {device}"
    if image_shape is not None and (reason := kernel.unfit_reason(*image_shape)):
        return reason
    return kernel.unavailable_reason()


def _refused_type(image_shape: tuple[int, int, int], image_type: np.dtype[Any]) -> str:
    """Return the reason why the kernel refuses a type of images; empty if it takes one on trial."""
    tried = kernel.LenetKernel(*image_shape, 2)
    try:
        tried.evaluate(
            np.zeros((1, *image_shape), image_type),
            np.zeros(1, np.int64),
            np.zeros(1, np.int64),
            parameters=np.zeros(tried.parameters, np.float32),
            scale=np.ones(image_shape[2], np.float32),
            shift=np.zeros(image_shape[2], np.float32),
        )
    except (TypeError, ValueError) as error:
        return str(error)
    return ""
