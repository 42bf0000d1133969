"""Personalised federated learning for non-IID LEO satellite constellations.

import fedorbit as fo

result = fo.run("quickstart")
table = result.to_pandas()
model = result.model(orbit=2, method="fedorbit")

Names are imported on first use: PyTorch takes a second, and most commands do without it.
"""

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from fedorbit.api import RunResult, load_run, resume, run
    from fedorbit.config import Config, load_config
    from fedorbit.data.from_python import prepare
    from fedorbit.errors import FedOrbitError
    from fedorbit.methods import Method
    from fedorbit.simulation.classifier import Classifier
    from fedorbit.simulation.model_files import load_model, save_model
    from fedorbit.simulation.runs import MethodRun
    from fedorbit.stopping import StopRequested
    from fedorbit.user_code import allow_code

    __version__: str

__all__ = [
    "Classifier",
    "Config",
    "FedOrbitError",
    "Method",
    "MethodRun",
    "RunResult",
    "StopRequested",
    "__version__",
    "allow_code",
    "load_config",
    "load_model",
    "load_run",
    "prepare",
    "resume",
    "run",
    "save_model",
]

_HOMES = {
    "Classifier": "fedorbit.simulation.classifier",
    "Config": "fedorbit.config",
    "FedOrbitError": "fedorbit.errors",
    "Method": "fedorbit.methods",
    "MethodRun": "fedorbit.simulation.runs",
    "RunResult": "fedorbit.api",
    "StopRequested": "fedorbit.stopping",
    "allow_code": "fedorbit.user_code",
    "load_config": "fedorbit.config",
    "load_model": "fedorbit.simulation.model_files",
    "load_run": "fedorbit.api",
    "prepare": "fedorbit.data.from_python",
    "resume": "fedorbit.api",
    "run": "fedorbit.api",
    "save_model": "fedorbit.simulation.model_files",
}
"""As in the block above, which type checkers and editors read; a test compares the two."""


def __getattr__(name: str) -> "Any":
    if name == "__version__":
        from importlib.metadata import version

        return version("fedorbit")
    if name not in _HOMES:
        raise AttributeError(f"module 'fedorbit' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
