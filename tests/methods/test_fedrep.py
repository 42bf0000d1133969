"""FedRep: worked by hand, its identities, and what it is for."""

import numpy as np
import pytest

from fedorbit.methods.fedrep import FedRep
from fedorbit.testing import fleet_of, members, play, small_world
from tests.methods.quadratic import play_on, quadratic_fleet


def test_one_round_worked_by_hand() -> None:
    """Two values: the first is the body, the second the head. Three epochs: two and one."""
    m = [[1.0, 4.0], [-1.0, -4.0], [3.0, 8.0]]
    with quadratic_fleet([1, 1, 1], m, orbit_of=[0, 0, 1], epochs=3) as fleet:
        state = play_on(fleet, FedRep(), 1)
    reach = 1 - 0.9**2  # of a head in two steps toward its optimum, the mean of its satellites
    np.testing.assert_allclose(state["model"][:, 1], [0.0, 8 * reach], atol=1e-6)
    # Bodies after one step: 0 and 0.3; the ground's mean by samples.
    np.testing.assert_allclose(state["model"][:, 0], [0.1, 0.1], rtol=1e-5)
    np.testing.assert_allclose(state["global"], [0.1, 0.0], rtol=1e-5)  # its head is w(0)'s


@pytest.mark.parametrize(("epochs", "split"), [(1, (1, 1)), (2, (1, 1)), (5, (3, 2)), (9, (6, 3))])
def test_epochs_are_split(epochs: int, split: tuple[int, int]) -> None:
    assert FedRep().split(epochs) == split
    assert FedRep(body_epochs=0).split(epochs) == (epochs, 0)
    assert FedRep(body_epochs=50).split(epochs) == (1, max(epochs - 1, 1))


@pytest.mark.parametrize("head", ["last", "classifier"])
def test_heads_never_leave_their_orbit(head: str) -> None:
    world, method = small_world(), FedRep(head=head)
    b = method.body_size(world.spec.layout)
    state = play(method, world)[-1]
    np.testing.assert_array_equal(state["global"][b:], world.initial_model[b:])
    heads = state["model"][:, b:]
    assert not np.array_equal(heads[0], heads[1])
    in_view = [0, 2]  # in the last round; the other keeps what it has
    np.testing.assert_array_equal(state["model"][in_view, :b], np.tile(state["global"][:b], (2, 1)))
    assert not np.array_equal(state["model"][1, :b], state["global"][:b])


def test_the_heads_of_lenet() -> None:
    layout = small_world().spec.layout
    last, classifier = FedRep().body_size(layout), FedRep(head="classifier").body_size(layout)
    assert layout.size - last == 84 * 4 + 4
    assert layout.size - classifier == 84 * 4 + 4 + 120 * 84 + 84


def test_without_body_epochs_the_body_stands_still() -> None:
    """Only the heads are trained, one per orbit, on the random body of w(0)."""
    world, method = small_world(), FedRep(body_epochs=0)
    b = method.body_size(world.spec.layout)
    state = play(method, world)[-1]
    # To rounding: the ground takes means of equal bodies.
    np.testing.assert_allclose(state["global"], world.initial_model, atol=1e-6)
    np.testing.assert_allclose(state["model"][:, :b], [world.initial_model[:b]] * 3, atol=1e-6)
    assert (state["model"][:, b:] != world.initial_model[b:]).any(axis=1).all()


def test_only_bodies_travel_to_the_ground_and_back() -> None:
    world, method = small_world(np.ones((2, 2), dtype=bool)), FedRep()
    b, size = method.body_size(world.spec.layout), world.spec.layout.size
    with fleet_of(world) as fleet:
        state = method.start(fleet)
        for t in range(2):
            state = method.round(state, fleet.at(t))
    assert fleet.ledger.to_ground_bytes == 4 * b * 2 * 2
    assert fleet.ledger.from_ground_bytes == 4 * b * 2 * 2  # after each round
    # Each half travels once between the two satellites of an orbit.
    others = len(members(world, 0)) - 1
    assert fleet.ledger.isl_bytes == 2 * 2 * (2 * others * 4 * size)


def test_a_common_body_serves_opposite_heads() -> None:
    """Orbits that agree on the body and not on the head: both are right, where a mean is not."""
    m = [[2.0, 1.0], [2.0, -1.0]]
    with quadratic_fleet([1, 1], m, orbit_of=[0, 1], epochs=3) as fleet:
        state = play_on(fleet, FedRep(), 60)
    np.testing.assert_allclose(state["model"], m, atol=0.02)


def test_each_phase_moves_its_half_alone() -> None:
    world, method = small_world(np.ones((1, 1), dtype=bool)), FedRep(body_epochs=0)
    b = method.body_size(world.spec.layout)
    with fleet_of(world) as fleet:
        pair = method.round(method.start(fleet), fleet.at(0))["model"][0]
    np.testing.assert_array_equal(pair[:b], world.initial_model[:b])  # bits, decay included
    assert not np.array_equal(pair[b:], world.initial_model[b:])


def test_an_orbit_alone_in_view_receives_the_body_all_the_same() -> None:
    world, method = small_world(np.ones((3, 1), dtype=bool)), FedRep()
    with fleet_of(world) as fleet:
        state = method.start(fleet)
        for t in range(3):
            state = method.round(state, fleet.at(t))
    assert fleet.ledger.from_ground_bytes == 3 * 4 * method.body_size(world.spec.layout)
