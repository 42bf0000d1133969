"""Metrics of tables beside accuracy: worked out by hand from records written by hand."""

from typing import Any

import pytest

from fedorbit.results.estimates import Estimate
from fedorbit.results.metrics import METRICS, find_metric, hours_to, values_over_seeds
from fedorbit.results.reading import MethodResults, add_hours
from fedorbit.simulation.records import LAST_ROUNDS, headline


def records(*accuracies: float | None, every: int = 1) -> list[dict[str, Any]]:
    """One record per hour, or every so many hours."""
    return [
        {
            "round": every * (n + 1) - 1,
            "hours": float(every * (n + 1)),
            "accuracy": accuracy,
            "spread": 10.0,
            "orbit_accuracy": [accuracy],
        }
        for n, accuracy in enumerate(accuracies)
    ]


def run(**summary: Any) -> MethodResults:
    return MethodResults([], {"accuracy": 50.0, "spread": 5.0, "rounds": 3, **summary})


def test_hours_until_most_of_the_accuracy_is_reached() -> None:
    # Final: 50 over the last ten. 80 % are 40; the third record has it, and so has what follows.
    found = records(10.0, 30.0, 40.0, *[50.0] * 10)
    assert headline(found)["accuracy"] == 50.0
    assert hours_to(found, 50.0, 0.8) == 3.0
    assert hours_to(records(10.0, 30.0, 40.0, *[50.0] * 10, every=5), 50.0, 0.8) == 15.0


def test_one_good_round_does_not_count() -> None:
    # Ten records from the first on: (60 + 9 x 10) / 10 = 15. From the 11th on the mean is 60.
    assert hours_to(records(60.0, *[10.0] * 9, *[60.0] * 10), 60.0, 0.8) == 11.0


def test_a_good_mean_ahead_does_not_count_before_it_is_reached() -> None:
    # From the first record on the ten have a mean of 54, but the first itself has 0.
    assert hours_to(records(0.0, *[60.0] * 12), 60.0, 0.8) == 2.0


@pytest.mark.parametrize("last", [[90.0, 0.0] * 5, [0.0, 90.0] * 5, [100.0] + [0.0] * 9, [7.0]])
def test_a_run_always_reaches_its_own_headline(last: list[float]) -> None:
    found = records(*last)
    hours = hours_to(found, headline(found)["accuracy"], 1.0)
    assert hours is not None and 1.0 <= hours <= len(last) <= LAST_ROUNDS


def test_hours_until_a_given_accuracy() -> None:
    found = MethodResults(records(10.0, 40.0, 74.9, 75.0, *[80.0] * 9), None)
    metric = find_metric("hours_at_75")
    assert metric.head == "hours at 75 %" and metric.needs_records
    assert metric.of(found) == 4.0
    assert find_metric("hours_at_81").of(found) is None  # never reached
    lucky = MethodResults(records(*[70.0] * 12, 76.0), None)
    assert metric.of(lucky) is None  # the last ten have a mean of 70.6
    assert find_metric("spread") is METRICS["spread"]
    for name in ("hours_at_0", "hours_at_100", "hours_at_7.5", "hours_at_", "hours_at_N", "speed"):
        with pytest.raises(KeyError):
            find_metric(name)


def test_rounds_without_an_accuracy_are_passed_over() -> None:
    assert hours_to(records(None, 50.0, None, 50.0), 50.0, 0.8) == 2.0
    assert hours_to(records(50.0), None, 0.8) is None
    assert hours_to([], 50.0, 0.8) is None


def test_hours_of_a_run_come_from_its_records() -> None:
    found = records(10.0, *[50.0] * 10)
    results = MethodResults(found, {**headline(found), "rounds": 11})
    assert METRICS["hours_to_80"].of(results) == 2.0


def test_records_without_hours_are_given_them() -> None:
    found = [{"round": 11}, {"round": 23, "hours": 9.0}]
    add_hours(found, 300.0)
    assert [record["hours"] for record in found] == [1.0, 9.0]


def test_costs_and_notes_are_those_of_the_summary() -> None:
    noted = {
        "staleness": {"count": 4, "mean": 2.5, "max": 6.0, "last": 1.0},
        "idle_visit": {"count": 7, "mean": 1.0, "max": 1.0, "last": 1.0},
    }
    results = run(
        noted=noted,
        balanced_accuracy=40.0,
        macro_f1=30.0,
        samples_trained=1,
        to_ground_bytes=2,
        from_ground_bytes=3,
        isl_bytes=4,
    )
    values = {name: metric.of(results) for name, metric in METRICS.items() if name != "hours_to_80"}
    assert values == {
        "accuracy": 50.0, "spread": 5.0, "samples": 1, "to_ground": 2, "from_ground": 3, "isl": 4,
        "staleness": 2.5, "idle_visits": 7, "balanced_accuracy": 40.0, "macro_f1": 30.0,
    }  # fmt: skip
    assert METRICS["staleness"].of(run()) is METRICS["idle_visits"].of(run()) is None


def test_notes_of_an_unfinished_run_are_those_of_its_records_so_far() -> None:
    [one, two] = records(1.0, 2.0)
    one["noted"] = {"staleness": {"count": 1, "mean": 4.0, "max": 4.0, "last": 4.0}}
    two["noted"] = {"staleness": {"count": 3, "mean": 0.0, "max": 0.0, "last": 0.0}}
    assert METRICS["staleness"].of(MethodResults([one, two], None)) == 1.0


def test_a_seed_without_idle_visits_has_none_where_another_has_some() -> None:
    some = run(noted={"idle_visit": {"count": 2, "mean": 1.0, "max": 1.0, "last": 1.0}})
    assert values_over_seeds(METRICS["idle_visits"], [some, run()]) == [2, 0.0]
    assert values_over_seeds(METRICS["idle_visits"], [run(), run()]) == [None, None]
    assert values_over_seeds(METRICS["staleness"], [run(noted={}), run()]) == [None, None]


def test_amounts_are_printed_with_a_prefix_and_others_with_one_decimal() -> None:
    assert METRICS["to_ground"].printed(Estimate(1.5e6, 2000.0, 3)) == "1.50 MB ± 2.00 kB"
    assert METRICS["samples"].printed(Estimate(5e6, None, 1)) == "5.00 M"
    assert METRICS["hours_to_80"].printed(Estimate(12.34, 1.0, 2)) == "12.3 ± 1.0"
