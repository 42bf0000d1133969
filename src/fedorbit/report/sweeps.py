"""What a method's parameter does: final figures of finished runs over its values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fedorbit.report.replicates import Series, Setting
from fedorbit.report.statistics import Curve, curve

FINAL_FIGURES = {"accuracy": "accuracy (%)", "spread": "spread (points)"}
LEAST_VALUES = 3
"""Two values are a comparison, which the table shows as well."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Series of one method that differ in one numeric parameter, by its value."""

    name: str
    """The parameter, and what else was set for all of them."""
    values: tuple[float, ...]
    series: tuple[Series, ...]
    default: Series | None
    """The series in which the parameter was left as it is; it may be one of those above."""

    def curve(self, key: str) -> Curve:
        """Mean over seeds of a final figure at every value."""
        figures = [_finals(series, key) for series in self.series]
        table = np.full((max(map(len, figures)), len(figures)), np.nan)
        for column, found in zip(table.T, figures, strict=True):
            column[: len(found)] = found
        return curve(np.array(self.values), table)

    def default_mean(self, key: str) -> float | None:
        """Mean over seeds of the figure with the default; None if there was no such run."""
        found = [] if self.default is None else _finals(self.default, key)
        return float(np.mean(found)) if found else None


def sweeps(setting: Setting) -> list[Sweep]:
    """Find every parameter of which a setting has several values, in the order of appearance."""
    methods = dict.fromkeys(series.method for series in setting.series)
    found = []
    for method in methods:
        runs = [s for s in setting.series if s.method == method and _finals(s, "accuracy")]
        for key in dict.fromkeys(key for series in runs for key in _values(series)):
            for others, members in _equal_but_for(key, runs):
                points = {s: _values(s)[key] for s in members if _is_number(_values(s).get(key))}
                by_value = {value: series for series, value in points.items()}
                if len(by_value) < LEAST_VALUES:
                    continue
                default = next((s for s in members if key not in s.parameters), None)
                name = f"{key} ({others})" if others else key
                name = f"{method}, {name}" if len(methods) > 1 else name
                values = tuple(sorted(by_value))
                found.append(Sweep(name, values, tuple(by_value[v] for v in values), default))
    return found


def _equal_but_for(key: str, runs: Sequence[Series]) -> list[tuple[str, list[Series]]]:
    """Group series by their parameters other than `key`, and say which are not everybody's."""
    groups: list[tuple[dict[str, Any], list[Series]]] = []
    for series in runs:
        others = {k: v for k, v in series.parameters.items() if k != key}
        group = next((members for known, members in groups if known == others), None)
        if group is None:
            groups.append((others, group := []))
        group.append(series)
    return [(_label(others, runs), members) for others, members in groups]


def _label(others: Mapping[str, Any], runs: Sequence[Series]) -> str:
    return ", ".join(
        f"{key} {str(value).lower()}"
        for key, value in others.items()
        if any(series.parameters.get(key) != value for series in runs)
    )


def _values(series: Series) -> dict[str, Any]:
    """Parameters that are set, and defaults that the study's file names as values."""
    return {**series.replicates[0].run.study.parameters, **series.parameters}


def _finals(series: Series, key: str) -> list[float]:
    """Figures of the seeds that are finished."""
    found = [r.summary.get(key) for r in series.replicates if r.summary is not None]
    return [value for value in found if value is not None]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
