"""Grids to cells: the product of every grid's axes, resolved to full configurations."""

import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from fedorbit.config import Config, load_config
from fedorbit.config.explain import nearest
from fedorbit.config.files import dumps, flat_settings, literal, split_key
from fedorbit.config.inputs import anywhere
from fedorbit.config.renamed import current_name
from fedorbit.errors import ConfigError, FedOrbitError
from fedorbit.methods import METHODS, make_method
from fedorbit.studies.schema import (
    DATASET,
    LINKS,
    METHOD,
    PARTITION,
    SEED,
    SHORT,
    VARIANT,
    Axes,
    Scalar,
    StudyFile,
    VariantSection,
)
from fedorbit.user_code import module_of

ALWAYS = (DATASET, PARTITION, METHOD, SEED)
"""Axes that every grid has: where a study names no values, the base configuration's."""


@dataclass(frozen=True)
class Cell:
    """One point of a grid and the run that answers it."""

    slug: str
    """Name of the run's folder."""
    grid: int
    axes: dict[str, Scalar]
    variant: VariantSection | None
    config: Config

    @property
    def method(self) -> str:
        """Method of the run, which has just one."""
        return self.config.run.method[0]

    @cached_property
    def extra(self) -> dict[str, Scalar]:
        """Axes beside those that every grid has."""
        return {k: v for k, v in self.axes.items() if k not in (*ALWAYS, VARIANT)}

    def value(self, axis: str) -> Any:
        """Return the cell's value on an axis, also on one that its grid does not name."""
        if axis == VARIANT:
            return self.variant.name if self.variant else None
        return self.axes[axis] if axis in self.axes else _lookup(self.config, axis)

    def described(self) -> dict[str, Any]:
        """Return the cell's entry in `study.toml`, for readers of the study's folder."""
        variant = {VARIANT: self.variant.name} if self.variant else {}
        return {
            "folder": self.slug,
            "method": self.method,
            "dataset": self.config.data.name,
            "partition": self.config.partition.scheme,
            "links": self.config.run.links,
            "seed": self.config.seed,
            **variant,
            "settings": {k: v for k, v in self.extra.items() if k != LINKS},
        }


def expand(name: str, file: StudyFile) -> tuple[Cell, ...]:
    """Return all cells of a study, in the order of its file."""
    variants = {variant.name: variant for variant in file.variants}
    settings = _overrides(file.settings)
    base = _load(name, file.base, [*settings, *file.overrides])
    cells = []
    for number, grid in enumerate(file.grid):
        axes = _with_defaults({**file.common, **grid}, base)
        for point in _points(axes):
            variant = None
            if VARIANT in point:
                variant = _find(name, variants, str(point[VARIANT]))
            overrides = [
                *settings,
                *(_overrides(variant.settings) if variant else ()),
                *(_override(key, value) for key, value in point.items() if key != VARIANT),
                *file.overrides,
            ]
            where = f"{name}, {_told(point)}"
            config = _normalised(_load(where, file.base, overrides), where)
            slug = _slug(point, variant, config, base)
            cells.append(Cell(slug, number, point, variant, config))
    return tuple(_one_folder_per_run(cells))


def _with_defaults(axes: Axes, base: Config) -> Axes:
    missing = [key for key in ALWAYS if key not in axes]
    defaults = {key: _lookup(base, key) for key in missing}
    return {
        **{k: list(v) if isinstance(v, tuple) else [v] for k, v in defaults.items()},
        **axes,
    }


def _points(axes: Axes) -> Iterator[dict[str, Scalar]]:
    for values in itertools.product(*axes.values()):
        yield dict(zip(axes, values, strict=True))


def _find(study: str, variants: Mapping[str, VariantSection], name: str) -> VariantSection:
    if name not in variants:
        raise ConfigError(
            f"study {study}: there is no variant {name!r}{nearest(name, variants)}; "
            f"known are {', '.join(variants) or 'none'}"
        )
    return variants[name]


def _overrides(settings: Mapping[str, Any]) -> list[str]:
    flat = flat_settings(settings, number_lists=False)
    return [_override(key, value) for key, value in flat.items()]


def _override(key: str, value: Any) -> str:
    return f"{key}={literal([value] if key == METHOD and isinstance(value, str) else value)}"


def _load(where: str, base: str, overrides: list[str]) -> Config:
    try:
        return load_config(base, overrides)
    except ConfigError as error:
        # A preset is right: what is wrong is the study's, or an override's.
        sentences = (s.removeprefix(f"preset {base}: ") for s in str(error).split("\n"))
        raise ConfigError("\n".join(f"study {where}: {s}" for s in sentences)) from None


def _normalised(config: Config, where: str) -> Config:
    """Write equal settings in one way: no other method's parameters, none at its default.

    So cells that compute the same have the same configuration, and share a run.
    """
    if config.run.rounds > config.schedule.rounds:
        raise ConfigError(
            f"study {where}: run.rounds must be at most schedule.rounds "
            f"({config.schedule.rounds}), got {config.run.rounds}; raise schedule.rounds"
        )
    [method] = config.run.method
    parameters: dict[str, Any] = {}
    try:
        for name in {**config.methods, method: {}}:
            given = config.methods.get(name, {})
            if module_of(name) is not None:
                # Imported when it is run, not when it is looked at; so its defaults are not known.
                parameters = given if name == method else parameters
                continue
            made = make_method(name, given)
            if name == method:
                parameters = made.model_dump(by_alias=True, exclude_defaults=True)
    except FedOrbitError as error:
        raise type(error)(f"study {where}: {error}") from None
    changes: dict[str, Any] = {"methods": {method: parameters} if parameters else {}}
    return anywhere(config.model_copy(update=changes))


def _slug(
    point: Mapping[str, Scalar], variant: VariantSection | None, config: Config, base: Config
) -> str:
    """Name a run by what it is; an axis that is at the base's value goes without saying."""
    parts = [config.data.name, config.partition.scheme, config.run.method[0]]
    parts += [variant.name] if variant else []
    for key, value in point.items():
        default = _lookup(config if key.startswith("methods.") else base, key)
        told = default is not None if key.startswith("methods.") else default != value
        if key not in (*ALWAYS, VARIANT) and told:
            parts.append(f"{short_key(key)}-{value}")
    parts.append(f"seed{config.seed}")
    return "_".join(re.sub(r"[^A-Za-z0-9.-]+", "-", str(part)) for part in parts)


def _one_folder_per_run(cells: list[Cell]) -> Iterator[Cell]:
    """Give equal configurations one folder, and different ones different folders."""
    texts = [dumps(cell.config) for cell in cells]
    claims: dict[str, set[str]] = defaultdict(set)
    for cell, text in zip(cells, texts, strict=True):
        claims[cell.slug].add(text)
    slug_of: dict[str, str] = {}
    for cell, text in zip(cells, texts, strict=True):
        slug = cell.slug
        if len(claims[slug]) > 1:
            slug += f"_{hashlib.sha256(text.encode()).hexdigest()[:8]}"
        yield replace(cell, slug=slug_of.setdefault(text, slug))


def short_key(key: str) -> str:
    """Return the last part of a key: `rho` of `methods.fedorbit.rho`."""
    return key.rpartition(".")[2]


def method_label(method: str) -> str:
    """Return how a paper would write a method: FedAvg for fedavg; one's own as it is run."""
    if method not in METHODS:
        return method
    return METHODS[method].label or METHODS[method].__name__


def _lookup(config: Config, key: str) -> Any:
    """Return a setting by its key; None for a method's parameter that is not set."""
    value: Any = config
    for part in split_key(current_name(key)):
        value = value.get(part) if isinstance(value, dict) else getattr(value, part, None)
    return value


def _told(point: Mapping[str, Scalar]) -> str:
    """Name the cell, for messages."""
    names = {key: name for name, key in SHORT.items()}
    return ", ".join(f"{names.get(key, short_key(key))} {value}" for key, value in point.items())
