"""Means over seeds against NumPy, and which of several is best."""

import numpy as np
import pytest

from fedorbit.results.estimates import best, estimate


def test_an_estimate_takes_what_is_known() -> None:
    assert estimate([3.0, None, 5.0]).mean == 4.0
    assert estimate([3.0, None, 5.0]).std == pytest.approx(np.sqrt(2.0))
    assert (estimate([3.0]).std, estimate([3.0]).n) == (None, 1)
    assert (estimate([None]).mean, estimate([]).n) == (None, 0)


def test_the_best_has_the_highest_accuracy_or_the_lowest_spread() -> None:
    means = {"a": 71.0, "b": 75.0, "c": None}
    assert best(means, "accuracy") == {"b"}
    assert best(means, "spread") == {"a"}


def test_what_prints_alike_is_equally_good() -> None:
    assert best({"a": 75.01, "b": 74.96, "c": 74.94}, "accuracy") == {"a", "b"}


def test_nothing_is_best_without_a_competitor() -> None:
    assert best({"a": 75.0}, "accuracy") == set()
    assert best({"a": None, "b": None}, "accuracy") == set()
