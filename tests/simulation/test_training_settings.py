"""Views, log-priors, momentum of orbits and running means, as settings of a whole run."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.config import Config
from fedorbit.errors import ConfigError
from fedorbit.fleet import Move
from fedorbit.fleet.momentum import OrbitMomentum
from fedorbit.learning.calibration import log_prior
from fedorbit.methods.steps import train_orbit
from fedorbit.simulation.evaluation import evaluator_of
from fedorbit.simulation.running_mean import RunningMean
from fedorbit.testing import fleet_of, small_world
from tests.simulation.test_runs import StopAfter, small, timeless

EACH: dict[str, dict[str, Any]] = {
    "orientations": {"augment": ["orientations"]},
    "shifts": {"augment": ["shifts"], "shift": 2},
    "calibrate": {"calibrate": True},
    "orbit_momentum": {"orbit_momentum": 0.5},
    "running_mean": {"running_mean": 0.9},
}
ALL = {
    "augment": ["orientations", "shifts"],
    "shift": 2,
    "calibrate": True,
    "orbit_momentum": 0.5,
    "running_mean": 0.9,
}


def with_settings(methods: list[str], **training: Any) -> Config:
    return small(training={"epochs": 1, **training}, run={"rounds": 8, "method": methods})


def accuracies(result: fo.RunResult) -> list[list[Any]]:
    return [[record["orbit_loss"] for record in run.records] for run in result.runs]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> fo.RunResult:
    methods = ["local", "fedavg", "ditto", "fedorbit"]
    return fo.run(with_settings(methods), tmp_path_factory.mktemp("runs") / "plain")


@pytest.mark.parametrize("settings", EACH.values(), ids=EACH)
def test_each_is_a_switch_of_every_method(
    plain: fo.RunResult, settings: dict[str, Any], tmp_path: Path
) -> None:
    methods = [run.method for run in plain.runs]
    changed = fo.run(with_settings(methods, **settings), tmp_path / "changed")
    for before, after in zip(accuracies(plain), accuracies(changed), strict=True):
        assert before != after


def test_a_run_with_all_of_them_resumes_to_the_same_bits(tmp_path: Path) -> None:
    config = with_settings(["fedorbit"], **ALL)
    whole = fo.run(config, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        fo.run(config, tmp_path / "stopped", progress=StopAfter("fedorbit", 4))
    resumed = fo.resume(tmp_path / "stopped")
    assert timeless(resumed.runs[0].records) == timeless(whole.runs[0].records)


def test_workers_change_nothing(tmp_path: Path) -> None:
    runs = [
        fo.run(
            small(
                training={"epochs": 1, **ALL},
                run={"rounds": 4, "method": ["ditto"]},
                engine={"workers": workers},
            ),
            tmp_path / str(workers),
        )
        for workers in (1, 3)
    ]
    one, three = (timeless(run.runs[0].records) for run in runs)
    assert one == three


def test_the_momentum_of_an_orbit_worked_by_hand() -> None:
    """u = 0.5 u + (y - x): 4, then 0.5 * 4 + 2 = 4; another purpose begins at zero."""
    x, y, z = (np.array(each, np.float32) for each in ([0, 0], [4, 0], [6, 1]))
    momentum = OrbitMomentum(0.5)
    np.testing.assert_array_equal(momentum.moved(0, 0, x, y), y)
    np.testing.assert_array_equal(momentum.moved(0, 0, y, z), [8, 1])
    np.testing.assert_array_equal(momentum.moved(0, 1, y, z), [6, 1])
    np.testing.assert_array_equal(momentum.moved(1, 0, y, z), [6, 1])
    later = OrbitMomentum(0.5)
    later.restore({**momentum.saved(), "mail:0": x})
    np.testing.assert_array_equal(later.moved(0, 0, x, y), momentum.moved(0, 0, x, y))
    assert OrbitMomentum(0.0).moved(0, 0, x, y) is y


def test_intra_orbit_rounds_go_on_with_the_momentum() -> None:
    """Two rounds of one exchange move as one round of two, but for the batches' keys."""
    world = small_world(training={"orbit_momentum": 0.9})
    still = small_world()
    with fleet_of(world) as fleet, fleet_of(still) as plain_fleet:
        start = fleet.initial_model()
        first = fleet.at(0).orbits.run({0: train_orbit(fleet.at(0), 0, start)})[0]
        expected = plain_fleet.at(0).orbits.run({0: train_orbit(plain_fleet.at(0), 0, start)})[0]
        np.testing.assert_array_equal(first, expected)  # it begins without
        second = fleet.at(1).orbits.run({0: train_orbit(fleet.at(1), 0, first)})[0]
        moved = plain_fleet.at(1).orbits.run({0: train_orbit(plain_fleet.at(1), 0, first)})[0]
        velocity = np.float32(0.9) * (first - start) + (moved - first)
        np.testing.assert_allclose(second, first + velocity, atol=1e-7)


def test_the_running_mean_worked_by_hand() -> None:
    """Plain means first: 8, (8 + 4) / 2, then 0.5 * 6 + 0.5 * 0 as 1/3 would be less than 0.5."""
    means = RunningMean(0.5, {})
    rows = [np.array([[value]], np.float32) for value in (8, 4, 0)]
    assert [float(means.after(t, row)[0, 0]) for t, row in enumerate(rows)] == [8, 6, 3]
    restored = RunningMean(0.5, means.saved())
    assert float(restored.after(3, rows[0])[0, 0]) == 5.5
    assert RunningMean(0.0, {}).after(0, rows[0]) is rows[0]


def test_an_orbit_is_evaluated_with_its_own_log_prior() -> None:
    world = small_world(training={"calibrate": True})
    asked: list[Any] = []

    class Engine:
        def evaluate(self, models: Any, samples: Any, offsets: Any = None) -> Any:
            asked.extend(offsets)
            return [(0, 0.0)] * len(models)

    counts = world.partition.train_counts(world.data.labels, world.spec.classes)
    evaluator_of(world, Engine(), "everyone")(world.initial_model[None], [0, 1, 2])
    for orbit in range(3):
        mine = counts[world.partition.orbit_of_satellite == orbit].sum(axis=0)
        np.testing.assert_array_equal(asked[orbit], log_prior(mine))
    asked.clear()
    satellites = len(counts)
    models = np.tile(world.initial_model, (satellites, 1))
    evaluator_of(world, Engine(), "satellite")(models, range(satellites))
    np.testing.assert_array_equal(asked, log_prior(counts))


def test_samples_that_move_take_their_log_prior_along() -> None:
    world = small_world(training={"calibrate": True})
    counts = world.partition.train_counts(world.data.labels, world.spec.classes)
    moved = world.with_moves([Move(0, 1, counts[0])])
    assert moved.data.log_priors is not None
    np.testing.assert_array_equal(moved.data.log_priors[0], log_prior(0 * counts[0]))
    np.testing.assert_array_equal(moved.data.log_priors[1], log_prior(counts[0] + counts[1]))


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ('augment=["colours"]', r"training\.augment.*colours"),
        ("augment=orientations", r"training\.augment must be a list"),
        ("shift=0", r"training\.shift must be .*got 0"),
        ("orbit_momentum=1.0", r"training\.orbit_momentum must be .* 1, got 1"),
        ("running_mean=-0.1", r"training\.running_mean must be at least 0 and below 1, got -0\.1"),
    ],
)
def test_other_values_are_refused(setting: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        fo.load_config("paper", [f"training.{setting}"])
