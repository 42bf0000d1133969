"""Schema of a study file."""

from collections.abc import Mapping
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from fedorbit.config.explain import WRITTEN, nearest
from fedorbit.config.files import flat_settings
from fedorbit.config.schema import Section
from fedorbit.results.metrics import DEFAULT, HOURS_AT, METRICS, accuracy_of

SHORT = {
    "method": "run.method",
    "dataset": "data.name",
    "partition": "partition.scheme",
    "links": "run.links",
}
"""Short names of axes; every other axis is a key of the configuration, such as training.epochs."""
METHOD, DATASET, PARTITION, LINKS = SHORT.values()
SEED, VARIANT = "seed", "variant"

Scalar = str | int | float | bool
Axes = dict[str, list[Scalar]]


class VariantSection(Section):
    """Settings under a name, such as "FedOrbit without catch-up"."""

    name: str = Field(min_length=1, description="to refer to it, and part of the runs' folders")
    label: str | None = Field(None, description="its name in tables; default: the name")
    settings: dict[str, Any] = Field(default_factory=dict, description="as in a configuration")


class QuickSection(Section):
    """Changes by --quick, beside small synthetic images and few rounds."""

    axes: dict[str, Any] = Field(default_factory=dict, description="replace those of the grids")
    settings: dict[str, Any] = Field(default_factory=dict, description="laid over all others")

    @field_validator("axes")
    @classmethod
    def _are_axes(cls, value: dict[str, Any]) -> Axes:
        return _checked(value)


class TableSection(Section):
    """Layout of results."""

    columns: tuple[str, ...] = Field(
        (DATASET, PARTITION),
        min_length=1,
        strict=False,
        description="axes, by their names in a grid; all others but the seed make rows",
    )
    references: tuple[str, ...] = Field(
        ("centralised",),
        strict=False,
        description="methods that are shown below a line and do not compete for the best value",
    )

    groups: tuple[str, ...] = Field(
        (),
        strict=False,
        description="axes whose values have rows of their own below a heading, and compete apart",
    )
    metrics: tuple[str, ...] = Field(
        DEFAULT,
        min_length=1,
        strict=False,
        description=f"what every column shows, among {', '.join((*METRICS, HOURS_AT))}",
    )

    @field_validator("columns", "groups")
    @classmethod
    def _are_axes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(axis_key(name) for name in value)

    @field_validator("metrics")
    @classmethod
    def _are_metrics(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in METRICS and accuracy_of(name) is None:
                raise ValueError(
                    f"unknown metric {name!r}{nearest(name, METRICS)}; known are "
                    f"{', '.join(METRICS)}, and {HOURS_AT} for an accuracy of N %"
                )
        if len(set(value)) < len(value):
            raise ValueError(f"a metric is named twice: {list(value)}")
        return value

    @model_validator(mode="after")
    def _columns_are_no_groups(self) -> Self:
        twice = [axis for axis in self.groups if axis in self.columns]
        if twice:
            raise ValueError(f"{', '.join(twice)} must be in columns or in groups, not in both")
        return self


class ResourcesSection(Section):
    """Resources of a run on a cluster; on one machine `--jobs` is the number of runs at a time."""

    cpus: int = Field(1, ge=1, le=1024, description="cores, and threads")
    gpus: float = Field(
        0.0, ge=0, le=1024, description="reserved; a run uses them if engine.device is cuda"
    )


class StudyFile(Section):
    """A base configuration, and grids of what differs from it."""

    title: str = Field(description="question that the study answers, in one line")
    name: str | None = Field(None, description="default: the name of the file")
    base: str = Field("paper", description="a preset, or a file relative to this one")
    settings: dict[str, Any] = Field(default_factory=dict, description="laid over the base")
    common: dict[str, Any] = Field(default_factory=dict, description="axes that all grids have")
    grid: tuple[dict[str, Any], ...] = Field(
        ({},), min_length=1, strict=False, description="each: the product of its axes"
    )
    variants: tuple[VariantSection, ...] = Field((), strict=False)
    quick: QuickSection = QuickSection()
    table: TableSection = TableSection()
    resources: ResourcesSection = ResourcesSection()
    published: dict[str, dict[str, dict[str, list[float]]]] = Field(
        default_factory=dict, description="dataset.partition.method = [accuracy, spread]"
    )
    overrides: tuple[str, ...] = Field(
        (), strict=False, description="key=value, laid over all", json_schema_extra=WRITTEN
    )
    is_quick: bool = Field(
        False, description="true where --quick has been applied", json_schema_extra=WRITTEN
    )
    cells: tuple[dict[str, Any], ...] = Field(
        (),
        strict=False,
        description="of a study's folder; not read back",
        json_schema_extra=WRITTEN,
    )

    @field_validator("common")
    @classmethod
    def _common_axes(cls, value: dict[str, Any]) -> Axes:
        return _checked(value)

    @field_validator("grid")
    @classmethod
    def _grid_axes(cls, value: tuple[dict[str, Any], ...]) -> tuple[Axes, ...]:
        return tuple(_checked(axes) for axes in value)

    @field_validator("published")
    @classmethod
    def _pairs(cls, value: Any) -> Any:
        for dataset, partitions in value.items():
            for partition, methods in partitions.items():
                for method, pair in methods.items():
                    if len(pair) != 2:
                        raise ValueError(
                            f"{dataset}.{partition}.{method} must be [accuracy, spread], got {pair}"
                        )
        return value


def axis_key(name: str) -> str:
    """Return the configuration's key of an axis; `seed` and `variant` are their own."""
    if name in SHORT:
        return SHORT[name]
    if name not in (SEED, VARIANT) and "." not in name:
        known = [*SHORT, SEED, VARIANT]
        raise ValueError(
            f"unknown axis {name!r}{nearest(name, known)}; axes are {', '.join(known)}, and keys "
            "of the configuration such as training.epochs"
        )
    return name


def _checked(axes: Mapping[str, Any]) -> Axes:
    checked: Axes = {}
    # TOML reads `training.epochs = […]` as a table in a table.
    for key, entries in flat_settings(axes, number_lists=False).items():
        if not isinstance(entries, list) or not entries:
            raise ValueError(f"axis {key!r} must be a list of values, got {entries!r}")
        for entry in entries:
            if not isinstance(entry, str | int | float | bool):
                raise ValueError(
                    f"axis {key!r} must hold texts, numbers or booleans, got {entry!r}; "
                    "use variants for anything larger"
                )
        if len(set(map(repr, entries))) < len(entries):
            raise ValueError(f"axis {key!r} names a value twice: {entries}")
        checked[axis_key(key)] = list(entries)
    return checked
