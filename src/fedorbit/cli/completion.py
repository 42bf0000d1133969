"""Shell completion: methods, and settings with their values."""

import types
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from fedorbit.config import Config
from fedorbit.config.files import literal


def complete_method(incomplete: str) -> list[str]:
    """Offer names of methods."""
    from fedorbit.methods import METHODS

    return [name for name in METHODS if name.startswith(incomplete)]


def complete_override(incomplete: str) -> list[str]:
    """Offer keys of settings, and for a key that is complete or the only one left its values."""
    settings = _settings()
    keys = [key for key in settings if key.startswith(incomplete)]
    if len(keys) > 1:
        return [f"{key}=" for key in keys]
    key = keys[0] if keys else incomplete.partition("=")[0]
    offered = [f"{key}={value}" for value in settings.get(key, [])]
    return [text for text in offered if text.startswith(incomplete)]


def _settings() -> dict[str, list[str]]:
    """Every key of a configuration, with what may stand behind it; else its default."""
    from fedorbit.methods import METHODS

    settings: dict[str, list[str]] = defaultdict(list)
    for key, values in _below(Config, ""):
        settings[key] += [value for value in values if value not in settings[key]]
    for name, method in METHODS.items():
        settings.update(_below(method, f"methods.{name}."))
    settings["run.method"] = list(METHODS)
    return settings


def _below(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, list[str]]]:
    for name, field in model.model_fields.items():
        key, parts = f"{prefix}{field.alias or name}", list(_parts(field.annotation))
        sections = [part for part in parts if _is_section(part)]
        for section in sections:
            yield from _below(section, f"{key}.")
        if not sections:
            yield key, _values(parts) or [_spelled(field.get_default(call_default_factory=True))]


def _parts(annotation: Any) -> Iterator[Any]:
    """The types of a union; entries of a `Literal` stand for themselves."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType, Literal):
        for part in get_args(annotation):
            yield from _parts(part)
    else:
        yield annotation


def _is_section(part: Any) -> bool:
    return isinstance(part, type) and issubclass(part, BaseModel)


def _values(parts: list[Any]) -> list[str]:
    choices = [part for part in parts if isinstance(part, str)]
    return ["true", "false"] if bool in parts else choices


def _spelled(value: Any) -> str:
    return literal(value) if isinstance(value, int | float | str) else ""
