"""Rendezvous: slots worked by hand, matchings, limits that reduce it to simpler methods."""

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from fedorbit.methods.local import Local
from fedorbit.methods.rendezvous import Rendezvous, similarity
from fedorbit.testing import fleet_of, play, small_world, snapshots
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

ALWAYS = np.ones((4, 3), dtype=bool)


def test_two_slots_worked_by_hand() -> None:
    """Optima at 1 and -2, one step of rate 0.1 a slot, momentum 0.5, a meeting in each slot."""
    with quadratic_fleet([1, 1], [[1.0], [-2.0]], orbit_of=[0, 1], rate=0.1) as fleet:
        method = Rendezvous(epochs=1, momentum=0.5, every=1, mates=100)
        state = play_on(fleet, method, 1)
        # w = 0.1 and -0.2, both of m = 1 and one class: the mean, -0.05. u is what training did.
        np.testing.assert_allclose(state["model"][:, 0], [-0.05, -0.05], rtol=1e-6)
        np.testing.assert_allclose(state["momentum"][:, 0], [0.1, -0.2], rtol=1e-6)
        assert state["trained"].tolist() == [1, 1]
        state = method.round(state, fleet.at(1))
        # y = -0.05 + 0.1 * 1.05 = 0.055, w = 0.055 + 0.5 * 0.1; y = -0.05 - 0.1 * 1.95, w = y - 0.1.
        one, other = 0.055 + 0.05, -0.245 - 0.1
        np.testing.assert_allclose(state["momentum"][:, 0], [one + 0.05, other + 0.05], rtol=1e-5)
        np.testing.assert_allclose(state["model"][:, 0], [(one + other) / 2] * 2, rtol=1e-5)
        assert state["met"].tolist() == [[-1, 1], [1, -1]]


def test_what_has_trained_longer_counts_more() -> None:
    """m = 3 and 1: the first moves a quarter of the way, the second three quarters."""
    with quadratic_fleet([1, 1], [[0.0], [0.0]], orbit_of=[0, 1]) as fleet:
        method = Rendezvous(epochs=1, momentum=0.0, every=1, mates=100)
        state = method.start(fleet)
        state["model"][:, 0], state["trained"][:] = [1.0 / 0.9, 5.0 / 0.9], [2, 0]
        after = method.round(state, fleet.at(0))  # training shrinks both to 1 and 5
        np.testing.assert_allclose(after["model"][:, 0], [2.0, 2.0], rtol=1e-5)
        np.testing.assert_allclose(after["trained"], [3 - 0.25 * 2, 1 + 0.75 * 2])


def test_a_newcomer_of_other_classes_does_not_pass_for_trained() -> None:
    """m moves with w: with a similarity of 1/2 the newcomer is half of what it meets."""
    world = small_world(ALWAYS)
    method = Rendezvous(epochs=1, every=1, mates=100)
    with fleet_of(world) as fleet:
        state, now = method.start(fleet), fleet.at(0)
        state["trained"][:] = [10, 0, 10, 10, 10, 10]
        alike = similarity(*now.class_counts[[0, 1]])
        after = method.round(state, now)
        share = alike * 11 / (11 + 1)
        assert after["trained"][1] == pytest.approx(1 + share * 10)


def test_similarity_is_the_cosine_of_class_shares() -> None:
    one, other = np.array([3, 0, 1]), np.array([0, 5, 2])
    shares = [(n + 0.5) / (n.sum() + 1.5) for n in (one, other)]
    assert similarity(one, other) == pytest.approx(1.0 - cosine(*shares))
    assert similarity(one, one) == pytest.approx(1.0)
    assert similarity(np.array([10**6, 0]), np.array([0, 10**6])) < 1e-5


def test_an_orbit_takes_the_mean_of_its_satellites_and_uses_it() -> None:
    """Optima at 1 and 3, no meetings: w = 0.1 and 0.3; 0.19 and 0.57 in slot 1, then their mean."""
    with quadratic_fleet([1, 1], [[1.0], [3.0]], rate=0.1) as fleet:
        method = Rendezvous(epochs=1, momentum=0.0, every=0, mates=2)
        state = play_on(fleet, method, 1)
        np.testing.assert_allclose(state["model"][:, 0], [0.1, 0.3], rtol=1e-6)
        np.testing.assert_allclose(method.models(state), [[0.1]], rtol=1e-6)  # knows no other yet
        state = method.round(state, fleet.at(1))
        np.testing.assert_allclose(state["model"][:, 0], [0.38, 0.38], rtol=1e-6)
        # The first has taken in the other's 0.57, and keeps it.
        np.testing.assert_allclose(method.models(state), [[(0.38 + 0.57) / 2]], rtol=1e-6)
        assert state["from"].tolist() == [-1, 1]


def test_a_satellite_without_mates_is_its_orbit() -> None:
    with quadratic_fleet([1, 1], [[1.0], [3.0]], orbit_of=[0, 1], rate=0.1) as fleet:
        method = Rendezvous(epochs=1, momentum=0.0, every=0)
        np.testing.assert_allclose(method.models(play_on(fleet, method, 1)), [[0.1], [0.3]])


def test_alone_and_with_means_in_every_slot_it_is_local() -> None:
    """With as many samples on each satellite, where the mean by samples is the plain one."""
    settings = {"rate": 0.1, "orbit_of": [0, 0, 1, 1]}
    with quadratic_fleet([1, 2, 1, 3], [[1.0], [3.0], [-1.0], [2.0]], **settings) as fleet:
        ours = play_on(fleet, Rendezvous(epochs=1, momentum=0.0, every=0, mates=1), 5)
        local = play_on(fleet, Local(effort="base"), 5)
        np.testing.assert_allclose(ours["model"], local["own"][[0, 0, 1, 1]], rtol=1e-5)


def test_meetings_leave_the_mean_over_satellites_as_it_is() -> None:
    """Of equals; so they agree in the long run, on the mean."""
    with quadratic_fleet([0] * 4, [[0.0]] * 4, orbit_of=[0, 1, 2, 3]) as fleet:
        method = Rendezvous(epochs=1, momentum=0.0, every=1, mates=100)
        state = method.start(fleet)
        state["model"][:, 0] = [1.0, 2.0, 3.0, 6.0]
        for t in range(3):
            state = method.round(state, fleet.at(t))
            assert state["model"].mean() == pytest.approx(3.0)
        np.testing.assert_allclose(state["model"][:, 0], 3.0, rtol=1e-6)


def test_those_meet_first_that_met_longest_ago() -> None:
    method = Rendezvous(epochs=1, every=1, mates=100)
    with quadratic_fleet([1] * 4, [[0.0]] * 4, orbit_of=[0, 1, 2, 3]) as fleet:
        met = np.full((4, 4), -1)
        pairs = []
        for t in range(4):
            found = method._pairs(met, fleet.at(t))
            pairs.append([(i, j) for i, j, _ in found])
            for i, j, _ in found:
                met[i, j] = met[j, i] = t
        # A tournament: each meets each of the others once, and then the first again.
        assert pairs == [[(0, 1), (2, 3)], [(0, 2), (1, 3)], [(0, 3), (1, 2)], [(0, 1), (2, 3)]]


def test_only_those_meet_that_have_a_link() -> None:
    """Satellites 0 and 2 see each other in slot 1, 3 and 4 always, 1 and 5 a station in slot 2."""
    world = planned(
        (0, 2, 350.0, 400.0), (3, 4, 0.0, 1800.0), (1, 6, 600.0, 700.0), (5, 6, 620.0, 640.0)
    )
    method = Rendezvous(epochs=1, every=1, mates=100)
    met = np.full((6, 6), -1)
    with fleet_of(world) as fleet:
        assert fleet.at(0).links() == [(0, 1), (2, 3), (3, 4), (4, 5)]  # mates' links are assumed
        assert fleet.at(1).links() == [(0, 1), (0, 2), (2, 3), (3, 4), (4, 5)]
        met[[0, 2, 4], [1, 3, 5]] = 0
        assert method._pairs(met, fleet.at(1)) == [(0, 2, []), (3, 4, [])]
        assert (1, 5, [6]) in method._pairs(met, fleet.at(2))
    slow = planned((0, 2, 350.0, 400.0), rates={"isl_mbps": 0.001}, links="physical", isl="none")
    with fleet_of(slow) as fleet:
        assert fleet.at(1).links() == []  # too short for a model


def test_a_meeting_costs_one_model_each_way() -> None:
    world = small_world(ALWAYS)
    last = snapshots(Rendezvous(epochs=1, every=1, mates=100), world)[-1]
    ledger, model = last.world["ledger"], 4 * world.spec.layout.size
    # Three pairs in each of four slots; those of different orbits have no link in this world.
    assert ledger["isl_bytes"] + ledger["unlinked_bytes"] == 4 * 3 * 2 * model
    assert ledger["unlinked_bytes"] > 0
    assert ledger["to_ground_bytes"] == ledger["from_ground_bytes"] == 0


def test_without_meetings_nothing_leaves_an_orbit() -> None:
    one, other = (small_world(ALWAYS, samples=90, seed=0) for _ in range(2))
    method = Rendezvous(epochs=1, every=0, mates=1)
    before = play(method, one)[-1]["orbit"]
    mine = np.flatnonzero(other.partition.orbit_of_satellite == 0)
    for k in mine:
        other.data.images[other.partition.train[k]] = 0
    after = play(method, other)[-1]["orbit"]
    assert not np.array_equal(before[0], after[0])
    np.testing.assert_array_equal(before[1:], after[1:])
