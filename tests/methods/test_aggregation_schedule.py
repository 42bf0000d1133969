"""The search for a schedule: played side by side as one by one, and the best is the best."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from fedorbit.methods import aggregation_schedule
from fedorbit.methods.aggregation_schedule import (
    DISCOUNTS,
    EMPTY,
    NEVER,
    OLDEST,
    SAMPLES,
    STALENESS,
    UPDATES,
    WEIGHT,
    Outlook,
    random_schedules,
    with_updates,
)
from fedorbit.methods.aggregation_utility import mass_utility

SLOTS, K = 9, 5
SAMPLES_OF = np.array([3, 1, 4, 0, 5])
OUTLOOK = Outlook(
    visits=np.random.default_rng(1).random((SLOTS, K)) < 0.35,
    samples=SAMPLES_OF,
    training_slots=np.array([1, 2, 1, 1, 3]),
    version=4,
    base=np.array([4, 2, 3, -1, -1]),
    ready=np.array([NEVER, 0, 2, NEVER, NEVER]),
    contents=with_updates(EMPTY, np.array([2]), np.array([7]), 0.5, np.array([True])),
    alpha=0.5,
)
ALL = np.array(list(product([False, True], repeat=SLOTS)))


def mass(contents: np.ndarray) -> np.ndarray:
    return mass_utility(contents, 13, 0.5)


def value_of(schedule: np.ndarray, outlook: Outlook = OUTLOOK) -> float:
    """Play one schedule with plain numbers, and return what it is worth."""
    held, ready, version = outlook.base.tolist(), outlook.ready.tolist(), outlook.version
    weight, total = float(outlook.contents[WEIGHT]), 0.0
    for slot, here in enumerate(outlook.visits):
        visitors = [k for k in np.flatnonzero(here) if SAMPLES_OF[k]]
        for k in visitors:
            if ready[k] <= slot:
                weight += SAMPLES_OF[k] * (1 + version - held[k]) ** -0.5
                ready[k] = NEVER
        if schedule[slot] and weight:
            total, weight, version = total + (weight / 13) ** 0.5, 0.0, version + 1
        for k in visitors:
            if ready[k] == NEVER and held[k] < version:
                held[k], ready[k] = version, slot + outlook.training_slots[k]
    return total


def test_all_schedules_at_once_have_the_values_of_each_alone() -> None:
    expected = [value_of(schedule) for schedule in ALL]
    np.testing.assert_allclose(OUTLOOK.value(ALL, mass), expected, rtol=1e-12)
    best = OUTLOOK.best(ALL, mass)
    assert value_of(best) == pytest.approx(max(expected))
    assert len(np.unique(np.round(expected, 9))) > 50


def test_playing_in_parts_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = OUTLOOK.value(ALL, mass)
    monkeypatch.setattr(aggregation_schedule, "MOST_ENTRIES", 17 * K)
    np.testing.assert_array_equal(OUTLOOK.value(ALL, mass), whole)


def test_what_is_known_of_a_buffer() -> None:
    arrived = np.array([[True, True, False], [False, False, False]])
    ages, samples = np.array([[3, 0, -1], [-1, -1, -1]]), np.array([10, 4, 8])
    before = np.array([[1.0, 2.0, 1.0, 5.0, 5.0, 2.0], EMPTY])
    after = with_updates(before, ages, samples, 0.5, arrived)
    expected = np.empty(6)
    expected[[UPDATES, SAMPLES, DISCOUNTS]] = 1 + 2, 2 + 14, 1 + 0.5 + 1
    expected[[STALENESS, OLDEST, WEIGHT]] = 5 + 3, 5, 2 + 5 + 4
    np.testing.assert_allclose(after, [expected, EMPTY])
    np.testing.assert_array_equal(before[0], [1.0, 2.0, 1.0, 5.0, 5.0, 2.0])


def test_a_concave_utility_prefers_several_aggregations() -> None:
    """Four satellites bring fresh updates in turn: with p = 1 all splits are worth the same."""
    visits = np.eye(4, dtype=bool)
    turns = replace(
        OUTLOOK,
        visits=visits,
        samples=np.ones(4, dtype=np.int64),
        training_slots=np.ones(4, dtype=np.int64),
        base=np.full(4, 4),
        ready=np.zeros(4, dtype=np.int64),
        contents=EMPTY,
        alpha=0.0,
    )
    once, thrice = np.array([[0, 0, 0, 1], [0, 1, 1, 1]], dtype=bool)
    linear, concave = (
        turns.value(np.array([once, thrice]), lambda c, p=p: mass_utility(c, 4, p))
        for p in (1.0, 0.5)
    )
    np.testing.assert_allclose(linear, [1.0, 1.0])
    np.testing.assert_allclose(concave, [1.0, 0.5**0.5 + 2 * 0.25**0.5])


def test_random_schedules_aggregate_where_satellites_visit() -> None:
    visits = np.zeros((20, 3), dtype=bool)
    slots = [1, 2, 5, 8, 13, 19]
    visits[slots, [0, 1, 2, 0, 1, 2]] = True
    drawn = random_schedules(visits, 400, 2, 4, np.random.default_rng(0))
    assert drawn.shape == (400, 20)
    assert not np.delete(drawn, slots, axis=1).any()
    numbers = np.bincount(drawn.sum(axis=1), minlength=7)
    assert numbers[[0, 1, 5, 6]].sum() == 0
    assert numbers[2:5].min() > 100  # about 133 each
    assert drawn[:, slots].mean(axis=0).min() > 0.4  # a half each
    many = random_schedules(visits, 5, 9, 12, np.random.default_rng(0))
    assert (many.sum(axis=1) == 6).all()
    assert not random_schedules(visits[:1], 5, 1, 2, np.random.default_rng(0)).any()
