"""The methods: one file each, reading like its paper."""

import inspect
from typing import Any, get_args

from pydantic import ValidationError

from fedorbit.config.explain import explain, nearest
from fedorbit.errors import ConfigError, ModelError
from fedorbit.fleet import Fleet, Now
from fedorbit.methods.airfl import AirFL
from fedorbit.methods.alanine import Alanine
from fedorbit.methods.apfl import APFL
from fedorbit.methods.asyncfleo import AsyncFLEO
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.centralised import Centralised
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedbn import FedBN
from fedorbit.methods.fedhap import FedHAP
from fedorbit.methods.fedleo import FedLEO
from fedorbit.methods.fedleo_sink import FedLEOSink
from fedorbit.methods.fednova import FedNova
from fedorbit.methods.fedopt import FedAdam, FedAvgM, FedYogi
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.fedprox import FedProx
from fedorbit.methods.fedrep import FedRep
from fedorbit.methods.fedsat import FedAsync, FedSat
from fedorbit.methods.fedsn import FedSN
from fedorbit.methods.fedspace import FedSpace
from fedorbit.methods.local import Local
from fedorbit.methods.per_fedavg import PerFedAvg
from fedorbit.methods.pfedme import PFedMe
from fedorbit.methods.rendezvous import Rendezvous
from fedorbit.methods.scaffold import Scaffold
from fedorbit.methods.steps import weighted_mean
from fedorbit.user_code import load_object

__all__ = [
    "METHODS",
    "Fleet",
    "Method",
    "Now",
    "State",
    "find_method",
    "make_method",
    "weighted_mean",
]

ARGUMENTS = {
    "start": ["fleet"],
    "round": ["state", "now"],
    "models": ["state"],
    "offloading": ["fleet"],
    "facts": ["state", "now"],
}
"""Names of the arguments of a method's functions."""
METHODS: dict[str, type[Method]] = {
    "local": Local,
    "centralised": Centralised,
    "fedavg": FedAvg,
    "fedprox": FedProx,
    "scaffold": Scaffold,
    "fednova": FedNova,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "apfl": APFL,
    "ditto": Ditto,
    "pfedme": PFedMe,
    "per_fedavg": PerFedAvg,
    "fedrep": FedRep,
    "fedbn": FedBN,
    "fedorbit": FedOrbit,
    "fedsat": FedSat,
    "fedasync": FedAsync,
    "fedspace": FedSpace,
    "fedsn": FedSN,
    "airfl": AirFL,
    "fedhap": FedHAP,
    "asyncfleo": AsyncFLEO,
    "fedleo_sink": FedLEOSink,
    "fedleo": FedLEO,
    "alanine": Alanine,
    "rendezvous": Rendezvous,
}


FAMILIES: tuple[Family, ...] = get_args(Family)


def family_of(name: str) -> Family:
    """Return the family of a method, without loading one from a user's file."""
    return METHODS[name].family if name in METHODS else "other"


def find_method(name: str) -> type[Method]:
    """Return a method's class by name, or from a user's file by `module:Class`."""
    if name in METHODS:
        return METHODS[name]
    if ":" not in name:
        raise ModelError(
            f"there is no method {name!r}{nearest(name.lower(), METHODS)}; known are "
            f"{', '.join(METHODS)}, and module:Class of your own"
        )
    found: Any = load_object(name, "run.method")
    if not inspect.isclass(found) or not issubclass(found, Method):
        raise ModelError(f"{name} must be a subclass of fedorbit.methods.Method")
    if missing := sorted(found.__abstractmethods__):
        raise ModelError(f"{name} lacks {', '.join(missing)}; a method has start, round, models")
    for function, takes in ARGUMENTS.items():
        _require_arguments(name, found, function, takes)
    return found


def _require_arguments(name: str, method: type[Method], function: str, takes: list[str]) -> None:
    """Refuse a function that cannot be called with the arguments it gets."""
    signature = inspect.signature(getattr(method, function))
    try:
        signature.bind("self", *takes)
    except TypeError:
        raise ModelError(
            f"{name}.{function} takes {signature}, and is called as "
            f"{function}({', '.join(takes)}); see docs/methods.md, A method of your own"
        ) from None


def make_method(name: str, parameters: dict[str, Any]) -> Method:
    """Make a method with parameters as in the configuration."""
    method = find_method(name)
    try:
        return method.model_validate(parameters)
    except ValidationError as error:
        sentences = explain(error, method)
        raise ConfigError("\n".join(f"methods.{name}: {s}" for s in sentences)) from None
