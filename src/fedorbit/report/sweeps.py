"""Sweeps of a method's parameter: final figures of finished runs over its values."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np

from fedorbit.report.replicates import Series, Setting, name_values
from fedorbit.report.runfiles import MethodRecords
from fedorbit.report.statistics import Curve, curve
from fedorbit.results.estimates import estimate

FINAL_FIGURES = {"accuracy": "accuracy (%)", "spread": "spread (points)"}
LEAST_VALUES = 3
"""Two values are a comparison, which the table shows as well."""
MOST_SWEEPS = 12
"""Largest number of sweeps drawn: a full grid has more, most of them much alike."""


@dataclass(frozen=True, eq=False)
class Sweep:
    """Runs of one method that differ in one numeric parameter, by its value; seeds at each."""

    parameter: str
    name: str
    """Parameter, and other values that distinguish the sweep's runs from others of the setting."""
    values: tuple[float, ...]
    replicates: tuple[tuple[MethodRecords, ...], ...]
    default: tuple[MethodRecords, ...]
    """Seeds with the parameter at its default, if there are any; a study may name its value."""

    def curve(self, key: str) -> Curve:
        """Return the mean over seeds of a final figure at every value.

        Values are evenly spaced along x, so that values of different orders of magnitude stay
        apart.
        """
        figures = [_finals(at_value, key) for at_value in self.replicates]
        table = np.full((max(map(len, figures)), len(figures)), np.nan)
        for column, found in zip(table.T, figures, strict=True):
            column[: len(found)] = found
        return curve(np.arange(len(figures), dtype=np.float64), table)

    def default_mean(self, key: str) -> float | None:
        """Mean over seeds of the figure with the default; None if there was no such run."""
        return estimate(_finals(self.default, key)).mean


def sweeps(setting: Setting) -> list[Sweep]:
    """Find every parameter of which a setting has several values, in the order of appearance."""
    methods = dict.fromkeys(series.method for series in setting.series)
    found = []
    for method in methods:
        runs = [s for s in setting.series if s.method == method and any(map(_done, s.replicates))]
        for key in dict.fromkeys(key for series in runs for key in _values(series)):
            for others, members in _equal_but_for(key, runs):
                by_value: dict[float, list[MethodRecords]] = {}
                for series in members:
                    if _is_number(value := _values(series).get(key)):
                        by_value.setdefault(value, []).extend(series.replicates)
                if len(by_value) < LEAST_VALUES:
                    continue
                left = [r for s in members if key not in s.parameters for r in s.replicates]
                rest = _telling(others, runs)
                name = f"{key} ({rest})" if rest else key
                found.append(
                    Sweep(
                        parameter=key,
                        name=f"{method}, {name}" if len(methods) > 1 else name,
                        values=tuple(sorted(by_value)),
                        replicates=tuple(_by_seed(by_value[value]) for value in sorted(by_value)),
                        default=_by_seed(left),
                    )
                )
    return found


def _equal_but_for(key: str, runs: Sequence[Series]) -> list[tuple[dict[str, Any], list[Series]]]:
    """Group series by their parameters other than `key`."""
    groups: list[tuple[dict[str, Any], list[Series]]] = []
    for series in runs:
        others = {k: v for k, v in series.parameters.items() if k != key}
        group = next((members for known, members in groups if known == others), None)
        if group is None:
            groups.append((others, group := []))
        group.append(series)
    return groups


def _telling(others: Mapping[str, Any], runs: Sequence[Series]) -> str:
    """Name parameters that not all runs have."""
    telling = [k for k, v in others.items() if any(s.parameters.get(k) != v for s in runs)]
    return name_values(others, telling)


def _values(series: Series) -> dict[str, Any]:
    """Parameters that are set, and defaults that the study's file names as values."""
    return {**series.replicates[0].run.study.parameters, **series.parameters}


def _by_seed(replicates: Iterable[MethodRecords]) -> tuple[MethodRecords, ...]:
    """One finished run per seed: a default may stand in one configuration and not in another."""
    return tuple({r.run.seed: r for r in replicates if _done(r)}.values())


def _done(replicate: MethodRecords) -> bool:
    return replicate.summary is not None


def _finals(replicates: Sequence[MethodRecords], key: str) -> list[float]:
    found = [replicate.figures.get(key) for replicate in replicates]
    return [value for value in found if value is not None]


def _is_number(value: object) -> TypeGuard[float]:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)
