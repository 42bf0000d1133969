"""Evaluation of models: one for all orbits, one per orbit, or one per satellite."""

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.simulation.evaluation import Evaluator, clients, evaluator_of
from fedorbit.testing import EVENTS, fleet_of, small_world


class CountingEngine:
    """Finds the first entry of a model right so many times, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[float, int]] = []

    def evaluate(self, models, samples, offsets=None):
        self.asked += [(float(w[0]), len(s)) for w, s in zip(models, samples, strict=True)]
        return [(int(w[0]), 2.0 * len(s)) for w, s in zip(models, samples, strict=True)]


def samples_of(*lengths: int) -> list[np.ndarray]:
    return [np.arange(length) for length in lengths]


def models(*firsts: float) -> np.ndarray:
    return np.array([[first, 0.5] for first in firsts], dtype=np.float32)


def test_an_orbit_is_the_mean_of_its_satellites_weighted_by_test_samples() -> None:
    engine = CountingEngine()
    evaluator = Evaluator(engine, samples_of(4, 16, 10, 0), orbits=[0, 0, 1, 2])
    record = evaluator(models(1, 4, 5, 0), [0, 1, 2, 3])
    assert record["orbit_accuracy"] == [25.0, 50.0, None]  # (1 + 4) / 20, 5 / 10
    assert record["orbit_loss"] == [2.0, 2.0, None]
    assert (record["accuracy"], record["spread"]) == (37.5, 25.0)
    assert evaluator(models(1, 4, 5, 0), [1, 2])["orbit_accuracy"] == [25.0, 50.0, None]  # 4 / 16
    assert evaluator(models(1, 4, 5, 0), [3])["accuracy"] is None
    assert len(engine.asked) == 3  # nothing had changed


def test_only_what_changes_is_evaluated_again() -> None:
    engine = CountingEngine()
    evaluator = Evaluator(engine, samples_of(4, 16))
    evaluator(models(1, 2), [0, 1])
    record = evaluator(models(1, 8), [0, 1])
    assert engine.asked == [(1.0, 4), (2.0, 16), (8.0, 16)]
    assert record["orbit_accuracy"] == [25.0, 50.0]


def test_one_model_for_everyone_is_tested_everywhere() -> None:
    evaluator = Evaluator(CountingEngine(), samples_of(4, 8, 2))
    assert evaluator(models(2), [0, 1])["orbit_accuracy"] == [50.0, 25.0, None]
    with pytest.raises(ModelError, match=r"models\(\) has returned 2 rows; it must return 1, or"):
        evaluator(models(2, 2), [0, 1])


def test_clients_are_what_a_method_serves() -> None:
    world = small_world(events=EVENTS)
    with fleet_of(world) as fleet:
        assert clients(fleet.at(2), "satellite") == [1, 2, 3]
        assert clients(fleet.at(2), "orbit") == clients(fleet.at(2), "everyone") == [0, 1]


def test_the_same_model_everywhere_is_equally_good_whatever_is_served() -> None:
    world = small_world()
    w = world.initial_model
    with world.engine() as engine:
        served = {
            "everyone": evaluator_of(world, engine, "everyone")(w[None], [0, 1, 2]),
            "orbit": evaluator_of(world, engine, "orbit")(np.tile(w, (3, 1)), [0, 1, 2]),
            "satellite": evaluator_of(world, engine, "satellite")(np.tile(w, (6, 1)), range(6)),
        }
    assert served["everyone"] == served["orbit"]
    assert served["satellite"]["orbit_accuracy"] == served["orbit"]["orbit_accuracy"]
    assert served["satellite"]["orbit_loss"] == pytest.approx(served["orbit"]["orbit_loss"])
