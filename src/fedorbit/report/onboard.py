"""Time and charge on board, of runs that recorded them: curves per round, and a table per orbit."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from fedorbit.report.curves import begun, rounds_of
from fedorbit.report.markup import Html, table
from fedorbit.report.replicates import Series, Setting
from fedorbit.report.statistics import Curve, curve
from fedorbit.report.wording import listed
from fedorbit.results.estimates import estimate
from fedorbit.results.numbers import percent

MAX_TABLE_ORBITS = 40

Thinning = Callable[[int, Curve], dict[str, Any]]


def onboard_values(
    setting: Setting, labels: Sequence[str], thin: Thinning
) -> dict[str, Any] | None:
    """Return curves of the slowest orbit and of the emptiest battery; None if none are recorded."""
    clocked = [series for series in begun(setting) if _has(series, "onboard_s")]
    if not clocked:
        return None
    time = [_over_orbits(series, "onboard_s", max, 1.0) for series in clocked]
    charged = [series for series in clocked if _has(series, "charge_lowest")]
    return {
        "round_s": setting.run.round_s,
        "time": [thin(labels.index(s.label), c) for s, c in zip(clocked, time, strict=True)],
        "charge": [
            thin(labels.index(s.label), _over_orbits(s, "charge_lowest", min, 100.0))
            for s in charged
        ],
    }


def time_in_words(setting: Setting) -> str:
    """Describe how long the longest round of each series takes."""
    told = (
        f"{series.label} up to {max(longest):.1f} s in orbit {longest.index(max(longest))}"
        for series in begun(setting)
        if any(longest := _extremes(series, "onboard_s", max))
    )
    return f"Seconds that the slowest orbit trains in a round: {listed(list(told)) or 'none'}."


def charge_in_words(setting: Setting) -> str:
    """Describe how empty the batteries of each series get."""
    told = (
        f"{series.label} down to {100.0 * min(lowest):.1f} % in orbit {lowest.index(min(lowest))}"
        for series in begun(setting)
        if (lowest := _extremes(series, "charge_lowest", min))
    )
    return f"Charge of the emptiest battery after an evaluated round: {listed(list(told))}."


def time_table(setting: Setting) -> Html:
    """Build a table of the longest round of every orbit, and how often it was too long."""
    rows: list[tuple[str, ...]] = []
    for series in begun(setting):
        longest = _extremes(series, "onboard_s", max)
        shares = [_late_shares(r.summary or {}) for r in series.replicates]
        rows.append((f"{series.label}, longest, s", *(f"{s:.1f}" for s in _few(longest))))
        known = [share for share in shares if share]
        if known:
            means = [estimate(list(column)).mean for column in zip(*known, strict=True)]
            rows.append((f"{series.label}, too long, % of rounds", *map(percent, _few(means))))
    return _orbit_table(setting, rows, "Time on board per orbit")


def charge_table(setting: Setting) -> Html:
    """Build a table of the lowest charge of every orbit."""
    rows: list[tuple[str, ...]] = []
    for series in begun(setting):
        lowest = _extremes(series, "charge_lowest", min)
        rows.append((series.label, *(percent(100.0 * share) for share in _few(lowest))))
    return _orbit_table(setting, rows, "Lowest charge after an evaluated round, % of the battery")


def _orbit_table(setting: Setting, rows: list[tuple[str, ...]], caption: str) -> Html:
    first = next(r for s in begun(setting) for r in s.replicates if r.records)
    orbits = len(first.records[0]["onboard_s"])
    shown = min(orbits, MAX_TABLE_ORBITS)
    if shown < orbits:
        caption += f", first {shown} of {orbits} orbits"
    return table([caption, *(f"orbit {o}" for o in range(shown))], rows, caption)


def _few(values: Sequence[Any]) -> list[Any]:
    return list(values[:MAX_TABLE_ORBITS])


def _late_shares(summary: dict[str, Any]) -> list[float | None]:
    told = summary.get("onboard")
    if told is None:
        return []
    return [
        100.0 * late / busy if busy else None
        for late, busy in zip(told["late_rounds"], told["busy_rounds"], strict=True)
    ]


def _has(series: Series, key: str) -> bool:
    return any(key in record for r in series.replicates for record in r.records[:1])


def _over_orbits(
    series: Series, key: str, choose: Callable[[list[float]], float], scale: float
) -> Curve:
    """The worst orbit in every recorded round, mean over seeds."""
    rounds = rounds_of(series.replicates)
    values = np.full((len(series.replicates), len(rounds)), np.nan)
    for row, replicate in zip(values, series.replicates, strict=True):
        places = np.searchsorted(rounds, [record["round"] for record in replicate.records])
        row[places] = [scale * choose(record[key]) for record in replicate.records]
    return curve(rounds, values)


def _extremes(series: Series, key: str, choose: Callable[[Sequence[float]], float]) -> list[float]:
    """The worst record of every orbit, over all seeds; nothing if it was not recorded."""
    rows = [record[key] for r in series.replicates for record in r.records if key in record]
    return [choose(column) for column in zip(*rows, strict=True)]
