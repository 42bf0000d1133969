"""Rendezvous: visits worked by hand, where models go, what is lost, limits that are other methods."""

from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy.spatial.distance import cosine

from fedorbit.fleet.network import Mail
from fedorbit.learning.parameters import Parameter
from fedorbit.methods.local import Local
from fedorbit.methods.rendezvous import Rendezvous, similarities
from fedorbit.testing import fleet_of, play, small_world, snapshots
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

ALWAYS = np.ones((4, 3), dtype=bool)


def test_three_visits_worked_by_hand() -> None:
    """One orbit of two satellites with optima at 1 and -2, one step of rate 0.1, momentum 0.5."""
    method = Rendezvous(epochs=1, every=1, momentum=0.5)
    with quadratic_fleet([1, 1], [[1.0], [-2.0]], rate=0.1) as fleet:
        state = play_on(fleet, method, 1)
        # x = 0.1, which is u as well, left at satellite 0 with m = 1; then on to satellite 1.
        assert state["left"][:, 0] == pytest.approx([0.1, 0.0])
        assert (state["at"].tolist(), state["here"].tolist()) == ([1], [False])
        assert method.models(state)[0, 0] == pytest.approx(0.1)
        state = method.round(state, fleet.at(1))
        # Nothing was left there. y = 0.1 - 0.21 = -0.11, u = 0.05 - 0.21 = -0.16, x = -0.06.
        assert state["left"][:, 0] == pytest.approx([0.1, -0.06])
        assert (state["momentum"][0, 0], state["trained"][0]) == (pytest.approx(-0.16), 2)
        state = method.round(state, fleet.at(2))
        # Back at 0: c = 2 / (2 + 1), x = 0.1 - 2/3 0.16, m = 1 + 2/3; then one step, m one more.
        x = 0.1 - 0.16 * 2 / 3
        u = -0.08 + 0.1 * (1 - x)
        assert state["left"][0, 0] == pytest.approx(x + u)
        assert state["left_trained"].tolist() == pytest.approx([1 + 2 / 3 + 1, 2])
        # The first satellite has received what was left at the second.
        assert method.models(state)[0, 0] == pytest.approx((x + u - 0.06) / 2)


def test_models_of_the_same_age_take_their_mean_and_a_newcomer_takes_what_it_finds() -> None:
    method = Rendezvous(epochs=1, every=1, momentum=0.0)
    for mine, theirs, expected in ((4, 4, 2.0), (0, 4, 3.0), (4, 0, 1.0), (6, 2, 1.5)):
        with quadratic_fleet([0], [[0.0]]) as fleet:
            state = method.start(fleet)
            state["model"][0], state["trained"][0] = 1.0, mine
            state["left"][0], state["left_trained"][0] = 3.0, theirs
            state = method.round(state, fleet.at(0))
        assert state["model"][0, 0] == pytest.approx(expected)
        m = (mine**2 + theirs**2) / (mine + theirs)  # m_k + c (m - m_k)
        assert state["trained"][0] == pytest.approx(m + 1)


def test_without_meetings_it_is_one_model_trained_at_one_satellite_after_the_other() -> None:
    """Which never returns to the mean: as incremental gradient descent by hand."""
    method = Rendezvous(epochs=1, every=1, momentum=0.0, meet=False)
    with quadratic_fleet([1, 1], [[1.0], [-1.0]], rate=0.5) as fleet:
        state = play_on(fleet, method, 4)
    w, found = 0.0, []
    for optimum in (1, -1, 1, -1):
        w += 0.5 * (optimum - w)
        found.append(w)
    assert state["left"][:, 0] == pytest.approx(found[2:])


def test_of_one_satellite_it_is_local() -> None:
    """It meets what it has left there itself; momentum is that of an orbit."""
    with quadratic_fleet([2], [[3.0]], rate=0.1, orbit_momentum=0.5) as fleet:
        local = play_on(fleet, Local(effort="base"), 5)
        ours = play_on(fleet, Rendezvous(epochs=1, every=1, momentum=0.5), 5)
    assert local["own"][0, 0] > 0.5
    np.testing.assert_allclose(ours["orbit"], local["own"], rtol=1e-6)


def test_a_visit_makes_up_for_the_slots_since_the_last_one() -> None:
    """Every second slot, two steps at once from 0 toward 1: 1 - 0.9^2, then 1 - 0.9^4."""
    method = Rendezvous(epochs=1, every=2, momentum=0.0)
    with quadratic_fleet([1], [[1.0]], rate=0.1) as fleet:
        for rounds, steps in ((1, 2), (2, 2), (3, 4), (4, 4)):
            x = play_on(fleet, method, rounds)["model"][0, 0]
            assert x == pytest.approx(1 - 0.9**steps, rel=1e-5)
        assert play_on(fleet, method, 4)["trained"] == 2 + 2


def test_similarity_is_the_cosine_of_class_shares() -> None:
    one, others = np.array([3, 0, 1]), np.array([[0, 5, 2], [3, 0, 1], [9, 1, 0]])
    shares = [(n + 0.5) / (n.sum() + 1.5) for n in (one, *others)]
    expected = [1.0 - cosine(shares[0], other) for other in shares[1:]]
    np.testing.assert_allclose(similarities(one, others), expected)
    assert similarities(np.array([10**6, 0]), np.array([[0, 10**6]]))[0] < 1e-5


def test_every_model_goes_to_every_satellite() -> None:
    """Of three models and six satellites with links to each other, no two are at the same one."""
    method = Rendezvous(epochs=1, every=1)
    with quadratic_fleet([1] * 6, [[0.0]] * 6, orbit_of=[0, 0, 1, 1, 2, 2]) as fleet:
        state, visits = method.start(fleet), []
        for t in range(12):
            visits.append(state["at"].tolist())
            state = method.round(state, fleet.at(t))
    assert all(len(set(at)) == 3 for at in visits)
    assert all(set(model) == set(range(6)) for model in zip(*visits, strict=True))


def test_models_prefer_the_classes_of_their_orbit() -> None:
    """Two orbits of disjoint classes, where all have links: each model stays with its orbit."""
    orbits, counts = {"orbit_of": [0, 0, 1, 1]}, [[99, 0], [99, 0], [0, 99], [0, 99]]
    for similarity in (True, False):
        method = Rendezvous(epochs=1, every=1, similarity=similarity)
        with quadratic_fleet([1] * 4, [[0.0]] * 4, class_counts=counts, **orbits) as fleet:
            state, strangers = method.start(fleet), 0
            for t in range(6):
                strangers += int((state["at"] // 2 != [0, 1]).sum())
                state = method.round(state, fleet.at(t))
        assert (strangers == 0) == similarity


def test_a_model_waits_for_links_and_takes_the_earliest_route() -> None:
    """Satellite 0 sees 2 in slot 1, and 2 sees 5 in slot 3; no other link.

    At 2 there is another model, so that the one at 0 goes to 5 by way of 2, and the other to 0.
    """
    links = {"links": "physical", "isl": "line-of-sight"}
    world = planned((0, 2, 350.0, 400.0), (2, 5, 950.0, 1000.0), **links)
    method = Rendezvous(epochs=1, every=1)
    with fleet_of(world) as fleet:
        state = method.round(method.start(fleet), fleet.at(0))
        assert (state["at"].tolist(), state["here"].tolist()) == ([5, 0, 4], [False, False, True])
        for t in range(1, 4):
            state = method.round(state, fleet.at(t))
    assert (state["visited"][0, 5], state["visited"][1, 0]) == (3, 1)  # slots


def test_a_model_stays_where_the_way_is_long() -> None:
    """Two satellites that see a station in one slot only: it leaves ten slots before."""
    method, contacts = Rendezvous(epochs=1, every=1), np.zeros((20, 2, 1))
    contacts[15] = 1  # both see the station
    settings: dict[str, Any] = {"links": "physical", "routed": True}
    with quadratic_fleet([1, 1], [[1.0], [3.0]], contacts=contacts, **settings) as fleet:
        state, left_in = method.start(fleet), None
        for t in range(15):
            state = method.round(state, fleet.at(t))
            left_in = t if left_in is None and not state["here"].all() else left_in
    assert left_in == 15 - 10


def test_a_long_way_counts_less_and_a_visit_long_ago_more() -> None:
    """Satellite 2 is 2 slots away from satellite 0, and satellite 5 4 slots."""
    world = planned(
        (0, 2, 700.0, 800.0), (0, 5, 1300.0, 1400.0), links="physical", isl="line-of-sight"
    )
    method = Rendezvous(epochs=1, every=1, similarity=False)
    # 99 counts as 6, one tour: 6 / 4 beats 2 / 2 and not 5 / 2. Parts of a slot do not count:
    # 2 / 2 = 4 / 4, where 2 / 2.33 would be less than 4 / 4.33.
    ages = ((4, 4, 2), (2, 5, 5), (3, 5, 2), (2, 99, 5), (5, 99, 2), (2, 4, 2))
    for age_2, age_5, expected in ages:
        with fleet_of(world) as fleet:
            state, now = method.start(fleet), fleet.at(0)
            state["at"][1:] = 3, 4
            state["visited"][0, [2, 5]] = -age_2, -age_5
            method._send(0, state, now)
        assert state["at"][0] == expected


def test_a_visit_makes_up_for_ten_slots_at_most() -> None:
    method = Rendezvous(epochs=1, every=1, momentum=0.0)
    with quadratic_fleet([1], [[1.0]], rate=0.1) as fleet:
        for slots, steps in ((7, 7), (10, 10), (25, 10)):
            state = method.start(fleet)
            state["last"][0] = 30 - slots
            assert method._train(state, fleet.at(30)) == [0]
            assert state["model"][0, 0] == pytest.approx(1 - 0.9**steps, rel=1e-5)
            assert state["trained"][0] == steps


def test_models_of_an_orbit_draw_batches_of_their_own() -> None:
    """The same model at the same satellite and slot; only its number differs."""
    method = Rendezvous(epochs=1, every=1, per_orbit=2, meet=False)
    with fleet_of(small_world(ALWAYS)) as fleet:
        trained = []
        for number in (0, 1):
            state = method.start(fleet)
            state["here"][:], state["here"][number], state["at"][number] = False, True, 0
            method._train(state, fleet.at(0))
            trained.append(state["model"][number])
    assert not np.array_equal(*trained)


def test_statistics_of_a_normalised_model_are_those_that_were_trained() -> None:
    """Momentum is for what is learned, not for running means and variances of activations."""
    method = Rendezvous(epochs=1, every=1, momentum=0.9)
    with quadratic_fleet([1], [[1.0, 1.0]], rate=0.1) as fleet:
        fleet.layout = replace(fleet.layout, buffers=(Parameter("variance", (1,), 0),))
        state = play_on(fleet, method, 2)
    # Both values are 0.1 after the first visit; momentum then adds 0.9 x 0.1 to the second alone.
    assert state["model"][0] == pytest.approx([0.1 + 0.09, 0.1 + 0.09 + 0.09])


def test_an_older_copy_that_arrives_late_does_not_replace_a_newer_one() -> None:
    """Satellite 1 sends to satellite 0, the first of its orbit: in slot 0, then in slot 1."""
    method = Rendezvous(epochs=1, every=1)
    with fleet_of(small_world(ALWAYS)) as fleet:
        state, size = method.start(fleet), fleet.initial_model().size
        mails = [Mail(1, 0, np.full(size, float(t), np.float32), t, 2, {}, size) for t in (1, 0)]
        now = fleet.at(2)
        with mock.patch.object(type(now), "inbox", lambda _, k: mails if k == 0 else []):
            method._receive(state, now)
    assert (set(state["known"][1]), state["known_slot"][1], state["known_by"][1]) == ({1.0}, 1, 0)


def test_a_model_that_was_never_trained_is_no_part_of_what_an_orbit_uses() -> None:
    """One model starts at a satellite without samples, where it stays for a slot."""
    method = Rendezvous(epochs=1, every=1, per_orbit=2)
    with quadratic_fleet([1] * 3, [[1.0]] * 3, samples=[1, 0, 1], rate=0.5) as fleet:
        state = play_on(fleet, method, 12)
    assert state["known_by"].tolist() == [-1, -1, 0]
    assert method.models(state)[0, 0] > 0.95


def test_an_orbit_that_no_model_visits_starts_its_own_anew() -> None:
    """After more than a tour of six slots, unless its model is there."""
    method, world = Rendezvous(epochs=1, every=1), small_world(np.ones((9, 3), dtype=bool))
    for at, visited, expected in ((4, 0, 0), (4, 1, 4), (1, 0, 1)):
        with fleet_of(world) as fleet:
            state = method.start(fleet)
            state["at"][:], state["visited"][:], state["visited"][:, :2] = [at, 2, 3], 6, visited
            method._replace(state, fleet.at(7))
        assert state["at"].tolist() == [expected, 2, 3]


def test_a_model_is_lost_with_its_satellite_and_its_orbit_starts_another() -> None:
    """From what was left at the first free satellite, without momentum, and at once."""
    method = Rendezvous(epochs=1, every=1)
    world = small_world(ALWAYS, events=[{"round": 2, "kind": "leave", "satellite": 1}])
    with fleet_of(world) as fleet:
        state = method.start(fleet)
        state["at"][0], state["here"][0], state["model"][0], state["momentum"][0] = (
            1,
            True,
            7.0,
            1.0,
        )
        state["left"][0], state["left_trained"][0] = 3.0, 5.0
        after = {name: array.copy() for name, array in state.items()}
        method._replace(after, fleet.at(2))
        assert (after["at"][0], after["here"][0], after["trained"][0]) == (0, True, 5.0)
        assert set(after["model"][0]) == {3.0}
        assert not after["momentum"][0].any()
        assert after["last"][0] == 1
        method._replace(state, fleet.at(1))  # not lost yet
        assert set(state["model"][0]) == {7.0}


def test_a_lost_model_starts_anew_where_no_other_one_is() -> None:
    """Two models of an orbit of three satellites: the first is lost with 2, the other one is at 0."""
    method = Rendezvous(epochs=1, every=1, per_orbit=2)
    events = [{"round": 2, "kind": "leave", "satellite": 2}]
    with fleet_of(small_world(ALWAYS, satellites_per_plane=3, events=events)) as fleet:
        state = method.start(fleet)
        state["at"][:2] = 2, 0
        method._replace(state, fleet.at(2))
    assert state["at"][:2].tolist() == [1, 0]


def test_a_model_elsewhere_outlives_its_orbit() -> None:
    """All of orbit 0 is lost: one of its models is with it, and one at satellite 3 of another."""
    method = Rendezvous(epochs=1, every=1, per_orbit=2)
    events = [{"round": 2, "kind": "leave", "satellite": k} for k in (0, 1)]
    with fleet_of(small_world(ALWAYS, events=events)) as fleet:
        state = method.start(fleet)
        state["at"][:2] = 1, 3
        state = method.round(state, fleet.at(2))
        assert state["at"][0] == -1 and not state["here"][0]
        assert state["at"][1] in range(2, 6) and state["visited"][1, 3] == 2


def test_what_was_sent_before_a_loss_is_not_taken_for_the_model_that_replaced_it() -> None:
    """A model is under way to satellite 5, which is lost and back before it arrives in slot 4."""
    events = [
        {"round": 1, "kind": "leave", "satellite": 5},
        {"round": 2, "kind": "join", "satellite": 5},
    ]
    world = planned((0, 5, 1250.0, 1300.0), links="physical", isl="line-of-sight", events=events)
    method = Rendezvous(epochs=1, every=1)
    with fleet_of(world) as fleet:
        state = method.start(fleet)
        for t in range(4):
            state = method.round(state, fleet.at(t))
            if t == 0:
                assert state["at"][0] == 5
        newest = state["model"][0].copy()
        method._receive(state, fleet.at(4))
        assert (state["at"][0], state["here"][0]) == (5, True)
        np.testing.assert_array_equal(state["model"][0], newest)


def test_satellites_without_samples_are_passed_by() -> None:
    method = Rendezvous(epochs=1, every=1)
    with quadratic_fleet([1] * 3, [[0.0]] * 3, samples=[1, 0, 1]) as fleet:
        state = play_on(fleet, method, 6)
    assert state["visited"][0, 1] < 0 < min(state["visited"][0, [0, 2]])


def test_a_move_costs_model_and_momentum_and_a_copy_to_the_first_of_the_orbit() -> None:
    world = small_world(ALWAYS)
    steps = snapshots(Rendezvous(epochs=1, every=1), world)
    ledger, model = steps[-1].world["ledger"], 4 * world.spec.layout.size
    # Four slots; models train in each at where the one before has sent them, first at home.
    visits = [step.state["at"] for step in steps[:4]]
    copies = sum(int((at % 2 == 1).sum()) for at in visits)  # firsts of orbits have even numbers
    assert ledger["isl_bytes"] + ledger["unlinked_bytes"] == (4 * 3 * 2 + copies) * model
    assert copies > 0
    assert ledger["to_ground_bytes"] == ledger["from_ground_bytes"] == 0


def test_what_a_lost_first_satellite_knew_is_lost_with_it() -> None:
    """The next one of the orbit has what was left there, and no more than was sent to itself."""
    event = {"round": 6, "kind": "leave", "satellite": 0}
    world = small_world(np.ones((8, 3), dtype=bool), satellites_per_plane=3, events=[event])
    before, after = (snapshots(Rendezvous(epochs=1, every=1), world)[t].state for t in (6, 7))
    assert set(before["known_by"][1:3]) == {0}
    assert after["left_trained"][1] > 0
    np.testing.assert_allclose(after["orbit"][0], after["left"][1], rtol=1e-6)


def test_two_models_of_an_orbit_start_at_two_satellites() -> None:
    world = small_world(ALWAYS)
    state = play(Rendezvous(epochs=1, per_orbit=2), world)[0]
    assert len(state["model"]) == 6
    with fleet_of(world) as fleet:
        assert Rendezvous(per_orbit=2).start(fleet)["at"].tolist() == [0, 1, 2, 3, 4, 5]
