"""Personalised federated learning for non-IID LEO satellite constellations.

import fedorbit as fo

result = fo.run(fo.load_config("quickstart"))
table = pandas.DataFrame(result.table())
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__version__ = version("fedorbit")
__all__ = ["Config", "Method", "RunResult", "StopRequested", "load_config", "resume", "run"]

_HOMES = {
    "Config": "fedorbit.config",
    "load_config": "fedorbit.config",
    "Method": "fedorbit.methods",
    "RunResult": "fedorbit.simulation.runs",
    "StopRequested": "fedorbit.simulation.loop",
    "resume": "fedorbit.simulation.runs",
    "run": "fedorbit.simulation.runs",
}


def __getattr__(name: str) -> Any:
    """Import on first use: PyTorch takes a second, and most commands do without it."""
    if name not in _HOMES:
        raise AttributeError(f"module 'fedorbit' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
