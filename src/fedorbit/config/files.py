"""Configuration as text: presets, TOML files, overrides, and printing one in full."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from fedorbit.config.bundled import bundled_name
from fedorbit.config.explain import nearest
from fedorbit.config.networks import expanded
from fedorbit.config.renamed import named_anew
from fedorbit.config.schema import CHOICES, LONDON, spelled_out
from fedorbit.documents import DocumentError, parse_toml, read_text
from fedorbit.errors import ConfigError

Values = dict[str, Any]

PATHS = (("constellation", "file"), ("schedule", "plan"), ("model", "weights"))
"""Settings that name a file."""


def preset_names() -> list[str]:
    """Names of the presets in the package."""
    folder = resources.files("fedorbit") / "presets"
    return sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name[-5:] == ".toml")


def preset_summary(name: str) -> str:
    """First comment line of a preset: what it is."""
    return _preset_text(name).split("\n", 1)[0].removeprefix("#").strip()


def read(source: str | Path) -> tuple[Values, str]:
    """Return the values of a preset or file, and how to call it in messages."""
    text = str(source)
    if text in preset_names():
        where = f"preset {text}"
        return _extended(_parse(_preset_text(text), where), where), where
    path = Path(source)
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; give a TOML file, such as {path / 'my.toml'}")
    looks_like_a_file = path.suffix == ".toml" or len(path.parts) > 1
    if not path.is_file():
        if looks_like_a_file:
            raise ConfigError(f"configuration file {path} does not exist")
        raise ConfigError(
            f"{text!r} is neither a preset nor a file{nearest(text, preset_names())}; "
            f"presets are {', '.join(preset_names())}"
        )
    try:
        values = _parse(read_text(path), str(path))
    except (OSError, DocumentError) as error:
        raise ConfigError(f"cannot read configuration file {path}: {error}") from None
    _anchor_paths(values, path.parent)
    return _extended(values, str(path)), str(path)


def _extended(values: Values, where: str) -> Values:
    """Lay values over the preset that they extend, if they name one."""
    base = values.pop("extends", None)
    if base is None:
        return values
    if base not in preset_names():
        hint = nearest(str(base), preset_names())
        raise ConfigError(
            f"{where}: extends must name a preset, got {base!r}{hint}; "
            f"presets are {', '.join(preset_names())}"
        )
    return merge(read(base)[0], values)


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Values:
    """Lay changes over a base, table by table; lists are replaced whole.

    A table of which another `kind` or `scheme` is chosen starts afresh.
    """
    base, changes = spelled_out(base), spelled_out(changes)
    merged = _overlaid(base, changes)
    for section, (key, default) in CHOICES.items():
        old, new = base.get(section), changes.get(section)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            before = old.get(key, default)
            if new.get(key, before) != before:
                merged[section] = dict(new)
    return merged


def _overlaid(base: Mapping[str, Any], changes: Mapping[str, Any]) -> Values:
    merged = dict(base)
    for key, value in changes.items():
        old = merged.get(key)
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            value = _overlaid(old, value)
        merged[key] = value
    return merged


def apply_overrides(values: Values, overrides: Iterable[str]) -> Values:
    """Apply every `section.key=value`; a value is TOML, or else taken as text.

    They are laid over the values together, and whole tables before the keys in them, so that no
    override undoes another one.
    """
    parsed = sorted(map(_parse_override, overrides), key=lambda change: len(change[0]))
    changes: Values = {}
    in_stations = []
    for parts, value, override in parsed:
        if parts[0] == "stations" and len(parts) > 1:
            in_stations.append((parts, value, override))
            continue
        change: Values = {parts[-1]: value}
        for part in reversed(parts[:-1]):
            change = {part: change}
        changes = _overlaid(changes, spelled_out(change))
    values = merge(values, named_anew(changes, "overrides"))
    for parts, value, override in in_stations:
        values = _override_station(values, parts, value, override)
    return values


def _parse_override(override: str) -> tuple[list[str], Any, str]:
    key, equals, text = override.partition("=")
    parts = split_key(key.strip())
    if not equals or not all(parts):
        raise ConfigError(f"override {override!r} must look like section.key=value")
    return parts, parse_value(text), override


def parse_value(text: str) -> Any:
    """Return what stands behind the equals sign of an override: TOML, or else a text."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except DocumentError:
        return text.strip()


def split_key(key: str) -> list[str]:
    """Divide a key at its dots, but for those in the name of a method: `methods.a.b:Mine.trim`."""
    parts = key.split(".")
    if parts[0] != "methods" or len(parts) < 3:
        return parts
    if ":" in parts[-1]:  # a method's whole table
        return ["methods", ".".join(parts[1:])]
    return ["methods", ".".join(parts[1:-1]), parts[-1]]


def _override_station(values: Values, parts: list[str], value: object, override: str) -> Values:
    stations = expanded(values.get("stations", [LONDON.model_dump()]))
    if not isinstance(stations, list) or not stations:
        return values  # validation says what is wrong with it
    is_place = len(parts) == 3 and re.fullmatch("[0-9]{1,5}", parts[1])
    if not is_place or int(parts[1]) >= len(stations):
        raise ConfigError(
            f"override {override!r} must look like stations.0.key=value, "
            f"with a number from 0 to {len(stations) - 1}"
        )
    chosen = stations[int(parts[1])]
    if not isinstance(chosen, Mapping):
        return values
    stations = list(stations)
    stations[int(parts[1])] = {**chosen, parts[2]: value}
    return {**values, "stations": stations}


def flat_settings(values: Mapping[str, Any], *, number_lists: bool = True) -> Values:
    """Return `section.key: value` for nested tables.

    Entries of a list of tables are numbered, or such a list is a value as any other.
    """
    flat: Values = {}
    for key, value in values.items():
        inner = value
        if number_lists and isinstance(value, list) and value and isinstance(value[0], Mapping):
            inner = {str(i): item for i, item in enumerate(value)}
        if isinstance(inner, Mapping):
            found = flat_settings(inner, number_lists=number_lists)
            flat |= {f"{key}.{name}": item for name, item in found.items()}
        else:
            flat[key] = value
    return flat


def changes_results(key: str) -> bool:
    """Return whether a setting can change a result: how a run is executed and tracked cannot.

    Of the engine's settings the backend can: kernel and PyTorch round differently.
    """
    return key == "engine.backend" or not key.startswith(("engine.", "tracking."))


def dumps(model: BaseModel) -> str:
    """Write a configuration as TOML, every key with its meaning beside it."""
    return "\n".join(_table_lines(model, "")).strip() + "\n"


def _table_lines(model: BaseModel, path: str) -> list[str]:
    lines: list[str] = []
    tables: list[str] = []  # TOML requires a table's own keys before its inner tables
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        inner = f"{path}.{name}" if path else name
        note = f"  # {field.description}" if field.description else ""
        if isinstance(value, BaseModel):
            tables += ["", f"[{inner}]", *_table_lines(value, inner)]
        elif isinstance(value, tuple) and value and isinstance(value[0], BaseModel):
            for item in value:
                tables += ["", f"[[{inner}]]", *_table_lines(item, inner)]
        elif isinstance(value, dict) and all(isinstance(item, dict) for item in value.values()):
            for key, entries in value.items():
                tables += ["", f"[{inner}.{literal(key)}]"]
                tables += [f"{entry} = {literal(item)}" for entry, item in entries.items()]
        elif value is None:
            lines.append(f"# {name} is not set{note}")
        else:
            lines.append(f"{name} = {literal(value)}{note}")
    return lines + tables


def literal(value: object) -> str:
    """Write a value as TOML on one line; a table as an inline one."""
    if isinstance(value, Mapping):
        entries = (f"{literal(str(key))} = {literal(item)}" for key, item in value.items())
        return "{" + ", ".join(entries) + "}"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, list | tuple):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    escaped = "".join(
        f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c
        for c in str(value).replace("\\", "\\\\").replace('"', '\\"')
    )
    return f'"{escaped}"'


def _preset_text(name: str) -> str:
    return (resources.files("fedorbit") / "presets" / f"{name}.toml").read_text("utf-8")


def _parse(text: str, where: str) -> Values:
    try:
        values = parse_toml(text)
    except DocumentError as error:
        raise ConfigError(f"{where} is not valid TOML: {error}") from None
    return named_anew(values, where)


def _anchor_paths(values: Values, folder: Path) -> None:
    """Read paths in a file as relative to that file, not to where the command was typed."""
    for section, key in PATHS:
        table = values.get(section)
        if not isinstance(table, dict) or not isinstance(table.get(key), str):
            continue
        if bundled_name(Path(table[key])) is None:
            table[key] = str(folder / table[key])
