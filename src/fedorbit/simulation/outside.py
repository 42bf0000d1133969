"""Connections to other machines that a run's folder names, and may not decide.

A folder from elsewhere may name an MLflow server, Weights & Biases or a Ray cluster. Resuming
it connects only where the user has named the same setting, on the command line or in a
configuration of their own.
"""

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from fedorbit.config import Config
from fedorbit.config.files import apply_overrides, flat_settings, literal
from fedorbit.errors import RunError
from fedorbit.user_code import module_of


def refuse_connections(where: str, config: Config, given: Iterable[str]) -> None:
    """Refuse connections in the settings of a folder, unless the user's overrides name them."""
    found = connections(config, given)
    if not found:
        return
    asked = ", ".join(f"{key} = {literal(value)}" for key, value in found.items())
    repeat = shlex.join(_overrides(found))
    switches = {
        "engine": "--engine local",
        "tracking.mlflow": "-o tracking.mlflow=false",
        "tracking.wandb": "-o tracking.wandb=false",
    }
    without = " ".join(
        switch for key, switch in switches.items() if any(k.startswith(key) for k in found)
    )
    raise RunError(
        f"{where} asks for connections, which a folder does not decide: {asked}; add {repeat} "
        f"if you want that, or {without} to do without"
    )


def resume_options(config: Config) -> tuple[str, ...]:
    """Return what the command that resumes a run must name, since its folder does not decide it."""
    names = (*config.run.method, config.model.name)
    modules = sorted({module for name in names if (module := module_of(name)) is not None})
    allowed = [option for module in modules for option in ("--allow-code", module)]
    return (*allowed, *_overrides(connections(config, ())))


def _overrides(settings: Mapping[str, Any]) -> list[str]:
    pairs = (f"{key}={literal(value)}" for key, value in settings.items())
    return [option for pair in pairs for option in ("-o", pair)]


def connections(config: Config, given: Iterable[str]) -> dict[str, Any]:
    """Settings of a folder that would connect to another machine and that no override names."""
    tracking, engine = config.tracking, config.engine
    wanted: dict[str, Any] = {}
    if tracking.mlflow:
        wanted["tracking.mlflow"] = True
        if tracking.mlflow_uri is not None:
            wanted["tracking.mlflow_uri"] = tracking.mlflow_uri
    if tracking.wandb:
        wanted["tracking.wandb"] = True
        if tracking.wandb_entity is not None:
            wanted["tracking.wandb_entity"] = tracking.wandb_entity
    if engine.kind == "ray":
        wanted["engine.kind"] = "ray"
        if engine.ray_address is not None:
            wanted["engine.ray_address"] = engine.ray_address
    named = flat_settings(apply_overrides({}, given))
    return {key: value for key, value in wanted.items() if key not in named}
