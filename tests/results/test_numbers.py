"""Printing of results."""

import pytest

from fedorbit.results.estimates import Estimate
from fedorbit.results.numbers import amount, averaged, percent, ratio, with_deviation


def test_percentages_and_ratios_have_a_sign_for_what_is_not_known() -> None:
    assert [percent(12.34), percent(None), percent(None, "-")] == ["12.3", "–", "-"]
    assert [ratio(1.5), ratio(1.5, "x", "-"), ratio(None, "x", "-")] == ["1.50 ×", "1.50 x", "-"]


def test_one_seed_has_no_deviation() -> None:
    assert with_deviation(Estimate(71.25, None, 1)) == "71.2"
    assert with_deviation(Estimate(71.0, 0.55, 3)) == "71.0 ± 0.6"


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (None, "–"), (0, "0 B"), (999, "999 B"), (1000, "1.00 kB"), (143_210_000, "143 MB"),
        (2.5e9, "2.50 GB"), (1e12, "1.00 TB"),
    ],
)  # fmt: skip
def test_amounts_have_three_digits_and_a_prefix(value: float | None, printed: str) -> None:
    assert amount(value, "B") == printed


@pytest.mark.parametrize(
    ("evaluated", "words"),
    [
        ([10, 40], "means of the last 10 evaluated rounds"),
        ([2, 2], "means of all 2 evaluated rounds"),
        ([2, 3], "means of all evaluated rounds"),
        ([1], "of the one evaluated round"),
        ([3, 12], "means of the last 10 evaluated rounds, or of all where there are fewer"),
    ],
)
def test_what_headline_figures_are_means_of(evaluated: list[int], words: str) -> None:
    assert averaged(evaluated) == words
