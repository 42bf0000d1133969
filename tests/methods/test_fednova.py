"""FedNova: worked by hand, its identities, and what it is for."""

from typing import Any

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fednova import FedNova, normalised_mean
from fedorbit.methods.steps import effective_steps
from fedorbit.testing import fleet_of, play, small_world
from tests.methods.quadratic import play_on, quadratic_fleet


def test_one_round_worked_by_hand() -> None:
    """One and two steps: a = 1 and 2.9, d = -1 and 0.9655, A = 1.95."""
    worked = {"momentum": 0.9, "rate": 0.1, "orbit_of": [0, 1]}
    with quadratic_fleet([1, 1], [[1], [-1]], samples=[1, 2], **worked) as fleet:
        now = fleet.at(0)
        state = FedNova().start(fleet)
        # Equal weights, as in the worked case, although the second satellite has two samples.
        y = [np.array([0.1], np.float32), np.array([-0.28], np.float32)]
        steps = [effective_steps(1, 0.9), effective_steps(2, 0.9)]
        w, a = normalised_mean(state["global"], y, steps, np.array([1, 1]))
        assert a == pytest.approx(1.95)
        assert w[0] == pytest.approx(0.1 * 1.95 * (1 - 2.8 / 2.9) / 2, rel=1e-5)  # 0.00336
        # By samples, 1 to 2: A = (1 + 5.8) / 3, mean of d = (-1 + 2 x 0.9655) / 3.
        w = FedNova().round(state, now)["global"][0]
        assert w == pytest.approx(-0.1 * (6.8 / 3) * (-1 + 2 * 2.8 / 2.9) / 3, rel=1e-5)
        assert FedAvg().round(state, now)["global"][0] == pytest.approx((0.1 - 0.56) / 3, rel=1e-5)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_it_removes_the_objective_inconsistency(momentum: float) -> None:
    """Unequal steps, equal weights: FedAvg's fixed point leans to the busier satellite."""
    # Three satellites of one sample and one of three: three steps at a share of one half.
    h, m, samples = [1, 1, 1, 1], [[1], [1], [1], [-1]], [1, 1, 1, 3]
    with quadratic_fleet(h, m, samples=samples, rate=0.01, momentum=momentum) as fleet:
        consistent = play_on(fleet, FedNova(), 400)["global"][0]
        leaning = play_on(fleet, FedAvg(), 400)["global"][0]
    assert consistent == pytest.approx(0.0, abs=0.02)  # the optimum of the mean by samples
    assert leaning < -0.4  # that of weights 1 : 1 : 1 : 9


def test_two_tiers_are_the_flat_sum_over_satellites() -> None:
    h, m, samples = [1, 2, 3, 4], [[1], [-1], [2], [0]], [1, 4, 2, 3]
    found = []
    for orbit_of in ([0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]):
        with quadratic_fleet(
            h, m, samples=samples, orbit_of=orbit_of, momentum=0.9, rate=0.03, epochs=2
        ) as fleet:
            found.append(play_on(fleet, FedNova(), 1)["global"][0])
    assert found == pytest.approx([found[0]] * 3, rel=1e-5)


def test_equal_steps_are_fedavg() -> None:
    with quadratic_fleet([1, 3], [[1], [-1]], samples=[4, 4], momentum=0.9, rate=0.02) as fleet:
        ours, theirs = (play_on(fleet, method, 3)["global"] for method in (FedNova(), FedAvg()))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_one_satellite_is_fedavg() -> None:
    world = small_world(np.ones((3, 1), dtype=bool), satellites_per_plane=1)
    ours, theirs = (play(method, world)[-1]["global"] for method in (FedNova(), FedAvg()))
    np.testing.assert_allclose(ours, theirs, atol=1e-6)


def test_several_intra_orbit_rounds_add_their_steps_up() -> None:
    """One satellite: every round is plain SGD, so the global model is where it ends."""
    with quadratic_fleet([1], [[1]], momentum=0.9, intra_rounds=3) as fleet:
        assert play_on(fleet, FedNova(), 1)["global"][0] == pytest.approx(1 - 0.9**3, rel=1e-5)


def test_the_momentum_of_orbits_is_part_of_the_normaliser() -> None:
    """Slopes of -1 and 1, the second orbit in view from the second round on.

    0.1 after the first. Then the first orbit moves by 0.1 + 0.5 * 0.1 in 1.5 steps, the second by
    -0.1 in one: they cancel.
    """
    views: dict[str, Any] = {"orbit_of": [0, 1], "visible": [[1, 0], [1, 1]], "rounds": 2}
    for method, expected in ((FedNova(), 0.1), (FedAvg(), 0.125)):
        with quadratic_fleet([1e-6] * 2, [[1e6], [-1e6]], orbit_momentum=0.5, **views) as fleet:
            w = play_on(fleet, method, 2)["global"][0]
        assert w == pytest.approx(expected, abs=1e-6)


def test_a_pull_is_part_of_the_normaliser() -> None:
    """One and three steps toward 1 and -1, pulled back by mu = 2 at rate 0.1, no momentum.

    y = 0.1, and 0 -> -0.1 -> -0.1 + 0.1 (-0.9 + 0.2) = -0.17 -> -0.17 - 0.1 (0.83 - 0.34) = -0.219;
    a = 1, and 1 + 0.8 + 0.64 = 2.44. By samples, 1 to 3, A = (1 + 7.32) / 4 = 2.08.
    """
    with quadratic_fleet([1, 1], [[1], [-1]], samples=[1, 3], rate=0.1) as fleet:
        w = play_on(fleet, FedNova(mu=2.0), 1)["global"][0]
    assert w == pytest.approx(2.08 * (0.1 / 1 - 3 * 0.219 / 2.44) / 4, rel=1e-5)


def test_a_pull_that_overshoots_is_refused() -> None:
    with (
        quadratic_fleet([1], [[1]], samples=[2], rate=1.0) as fleet,
        pytest.raises(ModelError, match="too strong for 2 steps"),
    ):
        play_on(fleet, FedNova(mu=3.0), 1)


def test_the_steps_travel_with_the_model() -> None:
    world = small_world(np.ones((2, 2), dtype=bool))
    spent = []
    for method in (FedAvg(), FedNova()):
        with fleet_of(world) as fleet:
            state = method.start(fleet)
            for t in range(2):
                state = method.round(state, fleet.at(t))
            spent.append(fleet.ledger)
    assert spent[1].to_ground_bytes == spent[0].to_ground_bytes + 4 * 2 * 2
    assert spent[1].from_ground_bytes == spent[0].from_ground_bytes
    assert spent[1].isl_bytes == spent[0].isl_bytes


def test_satellites_without_steps_have_no_share() -> None:
    start = np.zeros(1, np.float32)
    models = [np.array([1.0], np.float32), np.array([9.0], np.float32)]
    mean, a = normalised_mean(start, models, [2.0, 0.0], np.array([1, 5]))
    assert (mean[0], a) == (1.0, 2.0)
    mean, a = normalised_mean(start, models, [0.0, 0.0], np.array([1, 5]))
    assert (mean[0], a) == (0.0, 0.0)
