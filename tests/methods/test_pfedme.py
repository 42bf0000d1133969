"""pFedMe: worked by hand, its identities, and what it is for."""

import numpy as np
import pytest

from fedorbit.methods import make_method
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.pfedme import PFedMe
from fedorbit.testing import SCARCE_POWER, fleet_of, play, small_world
from tests.methods.quadratic import play_on, quadratic_fleet


def pfedme(lambda_: float = 5.0, **more: float) -> PFedMe:
    method = make_method("pfedme", {"lambda": lambda_, **more})
    assert isinstance(method, PFedMe)
    return method


def test_one_round_worked_by_hand() -> None:
    """Many inner steps find theta = (m + 5 w) / 6; then w follows by a half."""
    method = pfedme(inner_steps=100, inner_rate=0.1, outer_rate=0.1)
    with quadratic_fleet([1, 1], [[1], [-2]], samples=[1, 2]) as fleet:
        state = play_on(fleet, method, 1)
    # Satellite 0: one batch. Satellite 1: two batches, w = -1/6 after the first.
    first = -2 / 6
    w_1 = 0.5 * first
    second = (-2 + 5 * w_1) / 6
    theta = (1 / 6 + 2 * second) / 3
    w = (0.5 / 6 + 2 * (w_1 + 0.5 * (second - w_1))) / 3
    assert state["personal"][0, 0] == pytest.approx(theta, rel=1e-5)
    assert state["global"][0] == pytest.approx(w, rel=1e-5)


def test_one_inner_step_that_is_followed_is_fedavg() -> None:
    """K = 1 and kappa = 1: theta = w_k is SGD at the inner rate."""
    method = pfedme(inner_steps=1, inner_rate=0.05, outer_rate=1.0)  # kappa = min(1, 5)
    settings = {"samples": [2, 3], "epochs": 2, "rate": 0.05, "weight_decay": 0.01}
    with quadratic_fleet([1, 3], [[1], [-2]], **settings) as fleet:
        ours, theirs = play_on(fleet, method, 3), play_on(fleet, FedAvg(), 3)
    np.testing.assert_allclose(ours["global"], theirs["global"], rtol=1e-5)
    assert ours["global"][0] != 0.0


def test_the_rates_default_to_the_effective_one_of_fedavg() -> None:
    with quadratic_fleet([1], [[1]], rate=0.01, momentum=0.9) as fleet:
        implied = play_on(fleet, pfedme(), 2)
        named = play_on(fleet, pfedme(inner_rate=0.1, outer_rate=0.1), 2)
    np.testing.assert_allclose(implied["global"], named["global"], rtol=1e-6)


@pytest.mark.parametrize("parameters", [{"lambda": 0.0}, {"beta": 0.0}, {"outer_rate": 0.0}])
def test_a_global_model_that_never_moves(parameters: dict[str, float]) -> None:
    world = small_world()
    state = play(make_method("pfedme", parameters), world)[-1]
    np.testing.assert_allclose(state["global"], world.initial_model, atol=1e-6)
    assert not np.array_equal(state["personal"][0], world.initial_model)


def test_a_stronger_pull_keeps_personal_models_closer() -> None:
    distances = []
    for strength in (1.0, 5.0, 15.0):
        method = pfedme(strength, inner_steps=50, inner_rate=0.05, outer_rate=0.01)
        with quadratic_fleet([1, 1], [[1], [-1]], orbit_of=[0, 1]) as fleet:
            state = play_on(fleet, method, 30)
            distances.append(abs(state["personal"][:, 0] - state["global"][0]).mean())
    assert distances[0] > distances[1] > distances[2] > 0


def test_personal_models_fit_their_own_orbit() -> None:
    """Opposite optima: the global model stays between them, personal ones part."""
    method = pfedme(1.0, inner_steps=20, inner_rate=0.1, outer_rate=0.1)
    with quadratic_fleet([1, 1], [[1], [-1]], orbit_of=[0, 1]) as fleet:
        state = play_on(fleet, method, 50)
    assert state["global"][0] == pytest.approx(0.0, abs=1e-6)
    assert state["personal"][:, 0] == pytest.approx([0.5, -0.5], abs=0.06)  # (m + w) / 2


def test_only_w_travels_and_every_inner_step_is_counted() -> None:
    world = small_world(np.ones((2, 2), dtype=bool))
    spent = []
    for method in (FedAvg(), pfedme(inner_steps=3)):
        with fleet_of(world) as fleet:
            state = method.start(fleet)
            for t in range(2):
                state = method.round(state, fleet.at(t))
            spent.append(fleet.ledger)
    theirs, ours = spent
    assert ours.to_ground_bytes == theirs.to_ground_bytes
    assert ours.isl_bytes == 2 * theirs.isl_bytes  # theta and w
    assert ours.samples_trained == 3 * theirs.samples_trained


def test_orbits_out_of_view_keep_their_model() -> None:
    world = small_world(np.array([[1, 0, 0]], dtype=bool))
    state = play(pfedme(), world)[-1]
    for name in ("received", "personal"):
        np.testing.assert_array_equal(state[name][1:], np.tile(world.initial_model, (2, 1)))


def test_an_orbit_that_cannot_train_keeps_its_personal_model() -> None:
    empty = {**SCARCE_POWER["energy"], "initial_charge": 0.0, "solar_w": 0.0}
    world = small_world(np.ones((1, 2), dtype=bool), onboard={**SCARCE_POWER, "energy": empty})
    method = pfedme()
    with fleet_of(world, needs=method.needs) as fleet:
        state = method.start(fleet)
        state["personal"] = state["personal"] + np.float32(1.0)
        after = method.round(state, fleet.at(0))
    np.testing.assert_array_equal(after["personal"], state["personal"])
    np.testing.assert_array_equal(after["global"], state["global"])
