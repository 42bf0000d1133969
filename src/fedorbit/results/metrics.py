"""Metrics that a table may show of a method's run, and how each is printed.

Study tables and the report take their numbers from here. Methods compete in `accuracy` and
`spread`. The other metrics describe cost and course of training, and none of them is marked as the
best: a method that learns little reaches most of it early, and one that sends nothing sends least.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fedorbit.results.estimates import COMPETING, Estimate
from fedorbit.results.numbers import NOT_KNOWN, amount, with_deviation
from fedorbit.results.reading import MethodResults
from fedorbit.simulation.records import LAST_ROUNDS, Record, mean

DEFAULT = COMPETING
REACHED = 0.8
"""Share of the final accuracy at which the hours are counted."""
HOURS_AT = "hours_at_N"
"""Stands for `hours_at_75` and the like, with an accuracy from 1 to 99 %."""


@dataclass(frozen=True)
class Metric:
    """One kind of number."""

    head: str
    """Its name in a table."""
    of: Callable[[MethodResults], float | None]
    """Its value in a run that is finished; None where the run has none."""
    explained: str = ""
    """A sentence for the note below a table."""
    unit: str | None = None
    """Unit of an amount, printed with an SI prefix; None for plain numbers with one decimal."""
    needs_records: bool = False
    is_count: bool = False
    """True if a run without a note counts as 0, where another run of the method has one."""

    def printed(self, value: Estimate) -> str:
        """Write mean ± standard deviation over the seeds."""
        if self.unit is None:
            return with_deviation(value)
        told = amount(value.mean, self.unit)
        return told if value.std is None else f"{told} ± {amount(value.std, self.unit)}"


def hours_to(records: Sequence[Record], accuracy: float | None, share: float) -> float | None:
    """Return the simulated hours until a share of an accuracy is reached and held; None if never.

    They are counted to the end of the first evaluated round for which both the round's accuracy
    and the mean over it and the evaluated rounds that follow, ten in all, are at least that share.
    Where fewer are left it is the mean of the last ten. For a run's headline accuracy, which is
    that mean, such a round always exists.
    """
    if accuracy is None:
        return None
    last = max(len(records) - LAST_ROUNDS, 0)
    for place, record in enumerate(records):
        first = min(place, last)
        following = mean([r["accuracy"] for r in records[first : first + LAST_ROUNDS]])
        both = (record["accuracy"], following)
        if all(value is not None and value >= share * accuracy for value in both):
            return float(record["hours"])
    return None


def _figure(key: str) -> Callable[[MethodResults], float | None]:
    return lambda results: results.figures.get(key)


def _noted(name: str, key: str) -> Callable[[MethodResults], float | None]:
    return lambda results: results.noted.get(name, {}).get(key)


def _hours_to_reached(results: MethodResults) -> float | None:
    return hours_to(results.records, results.figures["accuracy"], REACHED)


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", _figure("accuracy")),
    "spread": Metric("spread", _figure("spread")),
    "hours_to_80": Metric(
        f"hours to {100 * REACHED:.0f} % of final",
        _hours_to_reached,
        f"Hours to {100 * REACHED:.0f} % of final: simulated hours until the accuracy reaches that "
        f"share of its final value, and holds it in the mean of {LAST_ROUNDS} evaluated rounds.",
        needs_records=True,
    ),
    "balanced_accuracy": Metric(
        "balanced accuracy",
        _figure("balanced_accuracy"),
        "Balanced accuracy: mean over the classes of an orbit's test samples, then over orbits, at "
        "the last evaluation.",
    ),
    "macro_f1": Metric(
        "macro F1",
        _figure("macro_f1"),
        "Macro F1: mean F1 score over classes, then over orbits, at the last evaluation, in %.",
    ),
    "samples": Metric(
        "samples", _figure("samples_trained"), "Samples: trained, once per gradient.", unit=""
    ),
    "to_ground": Metric("to ground", _figure("to_ground_bytes"), unit="B"),
    "from_ground": Metric("from ground", _figure("from_ground_bytes"), unit="B"),
    "isl": Metric(
        "inter-satellite",
        _figure("isl_bytes"),
        "Inter-satellite: bytes of all hops between satellites.",
        unit="B",
    ),
    "staleness": Metric(
        "staleness",
        _noted("staleness", "mean"),
        "Staleness: versions that an update is behind as it is aggregated, mean over all updates; "
        f"{NOT_KNOWN} where none was noted.",
    ),
    "idle_visits": Metric(
        "idle visits",
        _noted("idle_visit", "count"),
        "Idle visits: contacts of a satellite with the ground in which nothing was exchanged; "
        f"{NOT_KNOWN} where none was noted.",
        unit="",
        is_count=True,
    ),
}


def accuracy_of(name: str) -> float | None:
    """Return the accuracy of a metric such as `hours_at_75`; None for any other."""
    found = re.fullmatch(r"hours_at_([1-9]\d?)", name)
    return float(found[1]) if found else None


def find_metric(name: str) -> Metric:
    """Return the metric of a name, such as `accuracy` or `hours_at_75`; KeyError if unknown."""
    accuracy = accuracy_of(name)
    if accuracy is None:
        return METRICS[name]
    return Metric(
        f"hours at {accuracy:.0f} %",
        lambda results: hours_to(results.records, accuracy, 1.0),
        f"Hours at {accuracy:.0f} %: simulated hours until this accuracy is reached, and held in "
        f"the mean of {LAST_ROUNDS} evaluated rounds; {NOT_KNOWN} if it never is, the number of "
        "runs where only some reach it.",
        needs_records=True,
    )


def values_over_seeds(metric: Metric, runs: Sequence[MethodResults]) -> list[float | None]:
    """Return a metric of every seed of a method."""
    found = [metric.of(results) for results in runs]
    if metric.is_count and any(value is not None for value in found):
        return [0.0 if value is None else value for value in found]
    return found
