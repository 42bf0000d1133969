"""Per-FedAvg: worked by hand, its identities, and what it is for."""

import numpy as np
import pytest

from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.per_fedavg import PerFedAvg
from fedorbit.testing import fleet_of, play, small_world
from tests.methods.quadratic import play_on, quadratic_fleet


@pytest.mark.parametrize(("variant", "gradient"), [("fo", -0.9), ("hf", -0.81)])
def test_one_round_worked_by_hand(variant: str, gradient: float) -> None:
    """At w = 0, m = 1, alpha = 0.1: the look-ahead point is 0.1, its gradient -0.9."""
    with quadratic_fleet([1], [[1]], rate=0.05) as fleet:
        state = play_on(fleet, PerFedAvg(alpha=0.1, variant=variant), 1)
    w = -0.05 * gradient
    assert state["global"][0] == pytest.approx(w, rel=1e-4)
    assert state["adapted"][0, 0] == pytest.approx(w + 0.1 * (1 - w), rel=1e-4)


def test_an_orbit_adapts_by_the_mean_of_its_satellites() -> None:
    with quadratic_fleet([1, 1], [[1], [-2]], samples=[1, 3], batch=8) as fleet:
        state = play_on(fleet, PerFedAvg(alpha=0.1), 1)
    w = state["global"][0]
    assert state["adapted"][0, 0] == pytest.approx(w - 0.1 * (w - (1 - 2 * 3) / 4), rel=1e-5)


@pytest.mark.parametrize("variant", ["fo", "hf"])
def test_alpha_0_is_fedavg(variant: str) -> None:
    world = small_world()
    ours, theirs = play(PerFedAvg(alpha=0.0, variant=variant), world), play(FedAvg(), world)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one["global"], other["global"])
        np.testing.assert_array_equal(one["adapted"], other["received"])


def test_it_finds_the_start_from_which_one_step_is_best() -> None:
    """Curvatures 9 and 1: the optimum weights (1 - alpha h)^2 h, far from FedAvg's."""
    alpha, h, m = 0.1, np.array([9.0, 1.0]), np.array([1.0, -1.0])
    expected = {
        "hf": (1 - alpha * h) ** 2 * h,  # the true gradient of f(w - alpha grad f(w))
        "fo": (1 - alpha * h) * h,
    }
    for variant, weights in expected.items():
        optimum = (weights * m).sum() / weights.sum()
        with quadratic_fleet(h.tolist(), m[:, None].tolist(), orbit_of=[0, 1], rate=0.05) as fleet:
            found = play_on(fleet, PerFedAvg(alpha=alpha, variant=variant), 400)["global"][0]
        assert found == pytest.approx(optimum, abs=2e-3)


def test_more_steps_and_epochs_adapt_further() -> None:
    moved = []
    for more in ({}, {"adapt_steps": 3}, {"adapt_epochs": 2}):
        with quadratic_fleet([1], [[1]], samples=[4], rate=1e-6) as fleet:
            moved.append(play_on(fleet, PerFedAvg(alpha=0.1, **more), 1)["adapted"][0, 0])
    assert moved == pytest.approx([1 - 0.9, 1 - 0.9**3, 1 - 0.9**8], abs=1e-4)


@pytest.mark.parametrize("steps", [1, 3])
def test_momentum_of_orbits_does_not_make_the_adaptation_longer(steps: int) -> None:
    """Every adaptation begins anew at the model that was received."""
    with quadratic_fleet([1], [[1]], rate=0.01, orbit_momentum=0.8) as fleet:
        state = play_on(fleet, PerFedAvg(alpha=0.1, adapt_steps=steps), 20)
    left = 1 - state["global"][0]
    assert state["adapted"][0, 0] == pytest.approx(1 - left * 0.9**steps, rel=1e-4)


def test_orbits_adapt_what_they_receive_and_nothing_else() -> None:
    """With ideal links all receive a new model; with causal ones those in view alone."""
    for links, orbits in (("ideal", [0, 1, 2]), ("causal", [0])):
        world = small_world(np.array([[1, 0, 0]], dtype=bool), links=links)
        state = play(PerFedAvg(), world)[-1]
        moved = (state["adapted"] != world.initial_model).any(axis=1)
        assert np.flatnonzero(moved).tolist() == orbits
        assert (state["adapted"][orbits] != state["received"][orbits]).any(axis=1).all()


def test_samples_of_the_adaptation_are_counted() -> None:
    world, steps = small_world(np.ones((1, 1), dtype=bool), satellites_per_plane=2), 2
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        PerFedAvg(adapt_steps=steps).round(PerFedAvg().start(fleet), now)
        batches = np.minimum(now.samples, world.config.training.batch)
        expected = 2 * now.samples.sum() + steps * batches.sum()
        assert fleet.ledger.samples_trained == expected
        # One exchange after training, one for each step of the adaptation.
        assert fleet.ledger.isl_bytes == (1 + steps) * 2 * 4 * world.spec.layout.size
