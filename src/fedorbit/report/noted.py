"""What methods noted about their aggregations, over simulated time: staleness, number, idle visits.

A method that notes nothing of a kind is not in its chart.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from fedorbit.report.curves import begun, over_hours
from fedorbit.report.replicates import Series, Setting
from fedorbit.report.statistics import Curve
from fedorbit.results.estimates import Estimate, estimate
from fedorbit.results.metrics import METRICS, values_over_seeds
from fedorbit.results.numbers import amount, with_deviation
from fedorbit.simulation.records import Record

Thinning = Callable[[int, Curve], dict[str, Any]]


@dataclass(frozen=True)
class Noted:
    """One kind of note, as it is shown."""

    heading: str
    caption: str
    of: Callable[[Sequence[Record]], list[float]]
    """One number per record of a seed; NaN where there is none."""
    final: Callable[[Series], str]
    """What a series came to, in words."""


def _staleness(records: Sequence[Record]) -> list[float]:
    return [r.get("noted", {}).get("staleness", {}).get("mean", math.nan) for r in records]


def _versions(records: Sequence[Record]) -> list[float]:
    """Aggregations so far: rounds without one note nothing."""
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
        "updates since the last evaluated round, over simulated hours.",
        _staleness,
        _metric("staleness"),
    ),
    "version": Noted(
        "Aggregations",
        "Versions of the global model so far, over simulated hours.",
        _versions,
        _last_version,
    ),
    "idle_visit": Noted(
        "Idle visits",
        "Contacts of satellites with the ground so far in which nothing was exchanged, over "
        "simulated hours.",
        _idle_visits,
        _metric("idle_visits"),
    ),
}


def noting(setting: Setting, name: str) -> list[Series]:
    """Series of a setting that noted something under a name."""
    return [s for s in begun(setting) if any(name in r.noted for r in s.replicates)]


def noted_curve(series: Series, name: str) -> Curve:
    """Mean over seeds of what was noted under a name, over simulated hours."""
    return over_hours(series, KINDS[name].of)


def noted_values(
    setting: Setting, labels: Sequence[str], thin: Thinning
) -> dict[str, dict[str, Any]]:
    """Return the curves of every kind that some series of a setting has noted."""
    shown = {}
    for name in KINDS:
        curves = {series.label: noted_curve(series, name) for series in noting(setting, name)}
        if curves:
            shown[name] = {
                "highest": highest(list(curves.values())),
                "curves": [thin(labels.index(label), one) for label, one in curves.items()],
            }
    return shown


def highest(curves: Sequence[Curve]) -> float:
    """Return the end of an axis that holds all curves with their bands."""
    tops = [one.mean + np.where(np.isfinite(one.half), one.half, 0.0) for one in curves]
    return max(1.0, 1.05 * max(float(top.max()) for top in tops))


def in_words(setting: Setting, name: str) -> str:
    """Describe a chart by what every series came to in the end."""
    kind = KINDS[name]
    told = "; ".join(f"{series.label} {kind.final(series)}" for series in noting(setting, name))
    return f"{kind.caption} Over the run: {told}."
