"""FedAvgM, FedAdam and FedYogi: worked by hand, against torch.optim, and their identities."""

import numpy as np
import pytest
import torch

from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedopt import FedAdam, FedAvgM, FedYogi
from fedorbit.testing import fleet_of, play, small_world
from tests.methods.models import TINY_NORM
from tests.methods.quadratic import play_on, quadratic_fleet

WORLD = {"h": [1], "m": [[1.0, -2.0]], "rate": 0.1, "momentum": 0.0}
"""One satellite and one step per round: d = 0.1 ([1, -2] - w)."""


def global_models(method, rounds: int) -> list[np.ndarray]:
    with quadratic_fleet(**WORLD) as fleet:
        state, found = method.start(fleet), []
        for t in range(rounds):
            state = method.round(state, fleet.at(t))
            found.append(state["global"].astype(np.float64))
    return found


def test_fedavgm_worked_by_hand() -> None:
    first, second = global_models(FedAvgM(beta=0.5, server_rate=2.0), 2)
    np.testing.assert_allclose(first, [0.2, -0.4], rtol=1e-6)  # d = m = [0.1, -0.2]
    # d = 0.1 ([1, -2] - [0.2, -0.4]) = [0.08, -0.16]; m = 0.05 + 0.08, -0.1 - 0.16
    np.testing.assert_allclose(second, [0.2 + 2 * 0.13, -0.4 - 2 * 0.26], rtol=1e-6)


def test_fedadam_and_fedyogi_worked_by_hand() -> None:
    settings = {"beta1": 0.5, "beta2": 0.75, "tau": 0.1, "server_rate": 0.3}
    [adam] = global_models(FedAdam(**settings), 1)
    # m = [0.05, -0.1]; v = 0.75 x 0.01 + 0.25 x [0.01, 0.04] = [0.01, 0.0175]
    np.testing.assert_allclose(
        adam, [0.3 * 0.05 / 0.2, -0.3 * 0.1 / (np.sqrt(0.0175) + 0.1)], rtol=1e-5
    )
    with quadratic_fleet(**WORLD) as fleet:
        state = FedYogi(**settings).start(fleet)
        state["v"][:] = [0.5, 0.0025]
        w = FedYogi(**settings).round(state, fleet.at(0))["global"]
    # v falls by 0.25 x 0.01 where it was above d^2, and grows by 0.25 x 0.04 where it was below.
    v = np.array([0.5 - 0.0025, 0.0025 + 0.01])
    np.testing.assert_allclose(w, 0.3 * np.array([0.05, -0.1]) / (np.sqrt(v) + 0.1), rtol=1e-5)


def test_fedavgm_is_torchs_sgd_of_the_pseudo_gradient() -> None:
    w = torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([w], lr=0.7, momentum=0.9)
    for found in global_models(FedAvgM(beta=0.9, server_rate=0.7), 6):
        w.grad = -0.1 * (torch.tensor([1.0, -2.0]) - w.detach())
        optimiser.step()
        np.testing.assert_allclose(found, w.detach().numpy(), rtol=1e-5)


def test_without_momentum_fedavgm_is_fedavg_to_the_bit() -> None:
    world = small_world()
    ours, theirs = (play(m, world)[-1] for m in (FedAvgM(beta=0.0, server_rate=1.0), FedAvg()))
    np.testing.assert_array_equal(ours["global"], theirs["global"])
    np.testing.assert_array_equal(ours["received"], theirs["received"])


@pytest.mark.parametrize(
    "method", [FedAvgM(), FedAdam(server_rate=0.05), FedYogi(server_rate=0.05)]
)
def test_they_find_the_optimum(method: FedAvg) -> None:
    h, m = [1, 1], [[1.0], [3.0]]
    with quadratic_fleet(h, m, rate=0.05, momentum=0.0) as fleet:
        w = play_on(fleet, method, 300)["global"][0]
    assert w == pytest.approx(2.0, abs=0.1)


def test_a_round_without_uploads_is_no_step() -> None:
    with quadratic_fleet(**WORLD, visible=[[1], [0]], rounds=2) as fleet:
        state = FedAvgM().round(FedAvgM().start(fleet), fleet.at(0))
        after = FedAvgM().round(state, fleet.at(1))
    np.testing.assert_array_equal(after["global"], state["global"])
    np.testing.assert_array_equal(after["m"], state["m"])


@pytest.mark.parametrize("method", [FedAvgM(), FedAdam(), FedYogi()])
def test_statistics_are_those_of_the_mean(method: FedAvg) -> None:
    """A moment would take variances below zero."""
    world = small_world(np.ones((1, 3), dtype=bool), model=TINY_NORM)
    with fleet_of(world) as fleet:
        where = fleet.layout.statistics
        found, mean = (m.round(m.start(fleet), fleet.at(0))["global"] for m in (method, FedAvg()))
    assert where.stop > 0
    np.testing.assert_array_equal(found[where], mean[where])
    assert not np.array_equal(found, mean) or isinstance(method, FedAvgM)
