"""Configuration: one TOML file or preset, checked as a whole before anything runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fedorbit.config import explain, files
from fedorbit.config.schema import Config
from fedorbit.errors import ConfigError

__all__ = ["Config", "load_config", "load_values"]


def load_config(source: str | Path, overrides: Sequence[str] = ()) -> Config:
    """Load a preset by name or a TOML file by path, then apply `section.key=value` overrides.

    A file may say `extends = "paper"` to start from a preset and state only what differs.
    The order of overrides matters only where two set the same key: the last one counts.
    """
    values, where = files.read(source)
    return load_values(files.apply_overrides(values, overrides), where)


def load_values(values: Mapping[str, Any], where: str) -> Config:
    """Check values that were read from somewhere."""
    try:
        return Config.model_validate(values)
    except ValidationError as error:
        sentences = explain.explain(error, Config)
        raise ConfigError("\n".join(f"{where}: {sentence}" for sentence in sentences)) from None
