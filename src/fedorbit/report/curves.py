"""Numbers of a series in the report: curves over rounds and cost, row of the headline table."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from fedorbit.report.replicates import Series, Setting
from fedorbit.report.runfiles import MethodRecords
from fedorbit.report.statistics import Curve, Floats, curve
from fedorbit.results.estimates import COMPETING, Estimate, best, estimate
from fedorbit.results.metrics import accuracy_of, find_metric, values_over_seeds
from fedorbit.simulation.records import Record

TRAFFIC = {
    "to_ground_bytes": "to ground",
    "from_ground_bytes": "from ground",
    "isl_bytes": "inter-satellite",
    "unlinked_bytes": "without a link",
}
LINKS = {
    "bytes": ("to_ground_bytes", "from_ground_bytes", "isl_bytes"),
    "ground_bytes": ("to_ground_bytes", "from_ground_bytes"),
}
"""Traffic that accuracy is drawn against: over all links, or between satellites and ground."""
FURTHER = (
    "balanced_accuracy", "macro_f1", "hours_to_80", "from_ground", "isl", "staleness",
    "idle_visits",
)  # fmt: skip
"""Metrics that the headline table has where the study asks for them or methods note them."""
ASYNCHRONOUS = ("hours_to_80", "staleness", "idle_visits")
"""Metrics that the table has whenever a method noted something about its aggregations."""
NOTED = ("staleness", "version", "idle_visit")
"""Names of notes of methods about their aggregations."""
CEILING = "centralised"
"""Method that has all data in one place: a reference, never marked as the best."""


def per_round(series: Series, key: str) -> Curve:
    """Mean over seeds of a figure in every evaluated round."""
    rounds = rounds_of(series.replicates)
    return curve(rounds, _values(series.replicates, rounds, [key]))


def against(series: Series, key: str, cost: Sequence[str]) -> Curve:
    """Mean over seeds of a figure over the mean cost so far, which is a sum of some figures."""
    rounds = rounds_of(series.replicates)
    spent = curve(rounds, _values(series.replicates, rounds, cost)).mean
    return curve(spent, _values(series.replicates, rounds, [key]))


def over_rounds(series: Series, of: Callable[[Sequence[Record]], Sequence[float]]) -> Curve:
    """Mean over seeds of any number per record; `of` gives those of a seed.

    Rounds of which no seed has a number (NaN) are left out, so that a line leads over them.
    """
    rounds = rounds_of(series.replicates)
    values = np.full((len(series.replicates), len(rounds)), np.nan)
    for row, replicate in zip(values, series.replicates, strict=True):
        places = np.searchsorted(rounds, [record["round"] for record in replicate.records])
        row[places] = of(replicate.records)
    known = np.isfinite(values).any(axis=0)
    return curve(rounds[known], values[:, known])


def in_hours(full: Curve, round_s: float) -> Curve:
    """Return a curve over rounds as one over simulated time: a record is of its round's end."""
    return replace(full, x=(full.x + 1.0) * round_s / 3600.0)


def orbit_accuracies(series: Series) -> tuple[Floats, Floats]:
    """Rounds, and accuracies `[orbit, round]` as means over seeds."""
    rounds = rounds_of(series.replicates)
    orbits = max(len(r.records[0]["orbit_accuracy"]) for r in series.replicates if r.records)
    rows = np.full((len(series.replicates), len(rounds), orbits), np.nan)
    for index, replicate in enumerate(series.replicates):
        places = np.searchsorted(rounds, [record["round"] for record in replicate.records])
        for place, record in zip(places, replicate.records, strict=True):
            rows[index, place] = [np.nan if a is None else a for a in record["orbit_accuracy"]]
    known = np.isfinite(rows)
    total, n = np.where(known, rows, 0.0).sum(axis=0), known.sum(axis=0)
    return rounds, np.divide(total, n, out=np.full(total.shape, np.nan), where=n > 0).T


def begun(setting: Setting) -> list[Series]:
    """Series of which at least one round is recorded."""
    return [s for s in setting.series if any(r.records for r in s.replicates)]


def visible_windows(setting: Setting) -> list[list[list[int]]] | None:
    """Rounds in view `[begin, end)` per orbit; None if they are not recorded.

    Older runs have no `world.json`; if they evaluated every round, the records have it as well.
    """
    if setting.run.world is not None:
        windows: list[list[list[int]]] = setting.run.world["visible"]
        return windows
    longest = max((r for s in setting.series for r in s.replicates), key=lambda r: r.rounds_done)
    if not longest.records or len(longest.records) != longest.rounds_done:
        return None
    visible: list[list[list[int]]] = [[] for _ in longest.records[0]["orbit_accuracy"]]
    for record in longest.records:
        t = record["round"]
        for orbit in record["visible"]:
            if visible[orbit] and visible[orbit][-1][1] == t:
                visible[orbit][-1][1] = t + 1
            else:
                visible[orbit].append([t, t + 1])
    return visible


@dataclass(frozen=True)
class HeadlineRow:
    """A series' final figures over its seeds."""

    series: str
    seeds: tuple[int, ...]
    finished: int
    rounds: int
    planned_rounds: int
    accuracy: Estimate
    spread: Estimate
    samples_trained: Estimate
    to_ground_bytes: Estimate
    to_ground_vs_fedavg: Estimate
    further: dict[str, Estimate]
    """Metrics of FURTHER, and hours at the accuracies that the study asks for; an empty estimate
    where the runs have no such number."""
    published: tuple[float, float] | None = None
    """Accuracy and spread as published elsewhere."""
    best: tuple[str, ...] = ()
    """Figures in which no other finished series of the setting is better."""

    @property
    def is_finished(self) -> bool:
        """Return whether all seeds are done."""
        return self.finished == len(self.seeds)

    def printed(self, name: str) -> str:
        """Write a further metric; hours at an accuracy that only some seeds reach have no mean."""
        value = self.further.get(name, estimate(()))
        if accuracy_of(name) is not None and 0 < value.n < self.accuracy.n:
            return f"{value.n}/{self.accuracy.n} runs"
        return find_metric(name).printed(value)

    def as_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)


def headline_rows(setting: Setting) -> list[HeadlineRow]:
    """Rows of the headline table of a setting."""
    rows = [_row(series) for series in setting.series]
    ranked = [
        number
        for number, (row, series) in enumerate(zip(rows, setting.series, strict=True))
        if row.is_finished and series.method != CEILING
    ]
    winners = {key: best({n: getattr(rows[n], key).mean for n in ranked}, key) for key in COMPETING}
    return [
        replace(row, best=tuple(key for key in COMPETING if number in winners[key]))
        for number, row in enumerate(rows)
    ]


def further_metrics(settings: Sequence[Setting]) -> list[str]:
    """Choose the metrics that the headline table shows beside its own columns.

    Candidates are those of `FURTHER` and hours at an accuracy that the runs' study asks for, and
    `ASYNCHRONOUS` where a method notes its aggregations; shown are those that at least one series
    has.
    """
    rows = [row for setting in settings for row in headline_rows(setting)]
    runs = [r for setting in settings for s in setting.series for r in s.replicates]
    asked = {name for r in runs for name in r.run.study.metrics}
    if any(name in r.noted for r in runs for name in NOTED):
        asked |= set(ASYNCHRONOUS)
    known = {name for row in rows for name, value in row.further.items() if value.n}
    return [*filter((asked & known).__contains__, FURTHER), *sorted(asked & known - {*FURTHER})]


def is_compared_with_fedavg(settings: Sequence[Setting]) -> bool:
    """Return whether bytes to the ground are known beside FedAvg's: over routes they are not."""
    rows = (row for setting in settings for row in headline_rows(setting))
    return any(row.to_ground_vs_fedavg.mean is not None for row in rows)


def _row(series: Series) -> HeadlineRow:
    begun_runs = [replicate for replicate in series.replicates if replicate.records]
    figures = [replicate.figures for replicate in series.replicates if replicate.records]

    def over_seeds(key: str) -> Estimate:
        return estimate([figure.get(key) for figure in figures])

    asked = {name for replicate in begun_runs for name in replicate.run.study.metrics}
    names = {*FURTHER, *(name for name in asked if accuracy_of(name) is not None)}
    return HeadlineRow(
        series=series.label,
        seeds=tuple(sorted(replicate.run.seed for replicate in series.replicates)),
        finished=sum(replicate.summary is not None for replicate in series.replicates),
        rounds=min(replicate.rounds_done for replicate in series.replicates),
        planned_rounds=max(replicate.run.rounds for replicate in series.replicates),
        accuracy=over_seeds("accuracy"),
        spread=over_seeds("spread"),
        samples_trained=over_seeds("samples_trained"),
        to_ground_bytes=over_seeds("to_ground_bytes"),
        to_ground_vs_fedavg=over_seeds("to_ground_vs_fedavg"),
        further={n: estimate(values_over_seeds(find_metric(n), begun_runs)) for n in names},
        published=next(filter(None, (r.run.study.published for r in series.replicates)), None),
    )


def rounds_of(replicates: Sequence[MethodRecords]) -> Floats:
    """All rounds that some seed has recorded."""
    rounds = {record["round"] for replicate in replicates for record in replicate.records}
    return np.array(sorted(rounds), dtype=np.float64)


def _values(replicates: Sequence[MethodRecords], rounds: Floats, keys: Sequence[str]) -> Floats:
    """Sums of some figures `[seed, round]`; NaN where a seed has no record."""
    values = np.full((len(replicates), len(rounds)), np.nan)
    for row, replicate in zip(values, replicates, strict=True):
        places = np.searchsorted(rounds, [record["round"] for record in replicate.records])
        for place, record in zip(places, replicate.records, strict=True):
            found = [record[key] for key in keys]
            row[place] = np.nan if None in found else sum(found)
    return values
