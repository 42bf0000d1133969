"""Charts of the notes of methods about their aggregations: staleness, number, idle visits.

A method without notes of a kind is not in the chart of that kind.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from fedorbit.report.curves import begun, over_rounds
from fedorbit.report.replicates import Series, Setting
from fedorbit.report.statistics import Curve
from fedorbit.results.estimates import Estimate, estimate
from fedorbit.results.metrics import METRICS, values_over_seeds
from fedorbit.results.numbers import amount, with_deviation
from fedorbit.simulation.records import Record

Thinning = Callable[[int, Curve], dict[str, Any]]


@dataclass(frozen=True)
class Noted:
    """One kind of note, and its chart."""

    heading: str
    caption: str
    of: Callable[[Sequence[Record]], list[float]]
    """One number per record of a seed; NaN where there is none."""
    final: Callable[[Series], str]
    """Final value of a series, as text."""


def _staleness(records: Sequence[Record]) -> list[float]:
    return [r.get("noted", {}).get("staleness", {}).get("mean", math.nan) for r in records]


def _versions(records: Sequence[Record]) -> list[float]:
    """Return the number of aggregations so far; rounds without an aggregation note nothing."""
    noted = (r.get("noted", {}).get("version", {}).get("last", 0.0) for r in records)
    return list(accumulate(noted, max))


def _idle_visits(records: Sequence[Record]) -> list[float]:
    return list(
        accumulate(r.get("noted", {}).get("idle_visit", {}).get("count", 0) for r in records)
    )


def _metric(name: str) -> Callable[[Series], str]:
    def told(series: Series) -> str:
        runs = [r for r in series.replicates if r.records]
        return METRICS[name].printed(estimate(values_over_seeds(METRICS[name], runs)))

    return told


def _last_version(series: Series) -> str:
    last: Estimate = estimate([_versions(r.records)[-1] for r in series.replicates if r.records])
    return amount(last.mean) if last.std is None else with_deviation(last)


KINDS: dict[str, Noted] = {
    "staleness": Noted(
        "Staleness",
        "Versions of the global model that an update is behind as it is aggregated: mean of the "
        "updates since the last evaluated round.",
        _staleness,
        _metric("staleness"),
    ),
    "version": Noted(
        "Aggregations",
        "Versions of the global model so far.",
        _versions,
        _last_version,
    ),
    "idle_visit": Noted(
        "Idle visits",
        "Contacts of satellites with the ground so far in which nothing was exchanged.",
        _idle_visits,
        _metric("idle_visits"),
    ),
}


def noting(setting: Setting, name: str) -> list[Series]:
    """Series of a setting that noted something under a name."""
    return [s for s in begun(setting) if any(name in r.noted for r in s.replicates)]


def noted_curve(series: Series, name: str) -> Curve:
    """Mean over seeds of what was noted under a name."""
    return over_rounds(series, KINDS[name].of)


def noted_values(
    setting: Setting, labels: Sequence[str], thin: Thinning
) -> dict[str, list[dict[str, Any]]]:
    """Return the curves of every kind that some series of a setting has noted."""
    return {
        name: [thin(labels.index(s.label), noted_curve(s, name)) for s in found]
        for name in KINDS
        if (found := noting(setting, name))
    }


def highest(curves: Sequence[Curve]) -> float:
    """Return the end of an axis that holds all curves with their bands."""
    tops = [one.mean + np.where(np.isfinite(one.half), one.half, 0.0) for one in curves]
    return max(1.0, 1.05 * max(float(top.max()) for top in tops))


def in_words(setting: Setting, name: str) -> str:
    """Describe a chart by the final value of every series."""
    kind = KINDS[name]
    told = "; ".join(f"{series.label} {kind.final(series)}" for series in noting(setting, name))
    return f"{kind.caption} Over the run: {told}."


def is_by_clock(setting: Setting) -> bool:
    """Return whether the chart of accuracy over time comes first for a setting.

    It does where methods aggregate at contacts instead of in rounds, and where the study's table
    has hours.
    """
    runs = [r for s in setting.series for r in s.replicates]
    asked = any(m.startswith("hours_") for r in runs for m in r.run.study.metrics)
    return asked or any(noting(setting, name) for name in KINDS)
