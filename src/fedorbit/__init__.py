"""Personalised federated learning for non-IID LEO satellite constellations.

import fedorbit as fo

result = fo.run(fo.load_config("quickstart"))
table = pandas.DataFrame(result.table())
"""

TYPE_CHECKING = False  # as in typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Config",
    "Method",
    "RunResult",
    "StopRequested",
    "allow_code",
    "load_config",
    "prepare",
    "resume",
    "run",
]

_HOMES = {
    "Config": "fedorbit.config",
    "load_config": "fedorbit.config",
    "Method": "fedorbit.methods",
    "RunResult": "fedorbit.simulation.runs",
    "StopRequested": "fedorbit.stopping",
    "allow_code": "fedorbit.user_code",
    "prepare": "fedorbit.data.from_python",
    "resume": "fedorbit.simulation.runs",
    "run": "fedorbit.simulation.runs",
}


def __getattr__(name: str) -> "Any":
    """Import on first use: PyTorch takes a second, and most commands do without it."""
    if name == "__version__":
        from importlib.metadata import version

        return version("fedorbit")
    if name not in _HOMES:
        raise AttributeError(f"module 'fedorbit' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)
