"""FedSat and FedAsync, visit by visit, on satellites whose training can be worked by hand."""

from collections.abc import Sequence

import numpy as np
import pytest

from fedorbit.fleet import Fleet
from fedorbit.methods import State
from fedorbit.methods.fedsat import FedAsync, FedSat, Visiting
from fedorbit.orbits.plan import plan_of_slots
from fedorbit.testing import EVENTS, assert_same, fleet_of, play, small_world
from fedorbit.testing.worlds import PATTERN
from tests.methods.quadratic import play_on, quadratic_fleet

H, M, N = np.array([1.0, 0.5, 2.0]), np.array([[3.0, 1.0], [-1.0, 2.0], [0.5, -4.0]]), [1, 2, 3]
"""Three satellites, each in an orbit of its own; they share 6 samples."""


def trained(k: int, w: np.ndarray, rate: float = 0.1) -> np.ndarray:
    """Return what satellite k makes of a model: one step per sample, toward its minimum."""
    return M[k] + (w - M[k]) * (1.0 - rate * H[k]) ** N[k]


def three(visible: Sequence[Sequence[int]], **changes: object):
    return quadratic_fleet(
        H, M, samples=N, orbit_of=[0, 1, 2], visible=visible, **{"rounds": len(visible), **changes}
    )


def noted(fleet: Fleet) -> dict[str, dict[str, float]]:
    return fleet.notes.record()["noted"]


def test_a_cycle_of_visits_one_by_one_is_a_weighted_mean() -> None:
    turns = np.tile(np.eye(3, dtype=int), (3, 1))
    with three(turns) as fleet:
        state = play_on(fleet, FedSat(), 6)
        w0 = np.zeros(2)
        first = [trained(k, w0) for k in range(3)]
        np.testing.assert_allclose(state["global"], np.average(first, axis=0, weights=N), rtol=1e-6)
        assert state["version"] == 3
        # In the second cycle each has left with what there was at its visit, w0 without a share.
        partial = [np.average(first[: k + 1], axis=0, weights=N[: k + 1]) for k in range(3)]
        second = [trained(k, partial[k]) for k in range(3)]
        for t in range(6, 9):
            state = FedSat().round(state, fleet.at(t))
        expected = np.average(second, axis=0, weights=N)
        np.testing.assert_allclose(state["global"], expected, rtol=1e-5)
        # Behind by the other two in the second cycle; in the first by those before in it.
        assert noted(fleet)["staleness"] == {"count": 6, "mean": 1.5, "max": 2.0, "last": 2.0}
        assert noted(fleet)["version"]["last"] == 6


def test_with_all_in_view_in_all_rounds_it_is_fedavg_over_satellites() -> None:
    with three(np.ones((4, 3))) as fleet:
        method, w = FedSat(), np.zeros(2)
        state = method.round(method.start(fleet), fleet.at(0))
        np.testing.assert_array_equal(state["global"], w)
        for t in range(1, 4):
            state = method.round(state, fleet.at(t))
            w = np.average([trained(k, w) for k in range(3)], axis=0, weights=N)
            np.testing.assert_allclose(state["global"], w, rtol=1e-5)
            assert np.ptp(state["received"], axis=0).max() == 0
        assert "idle_visit" not in noted(fleet)


@pytest.mark.parametrize("method", [FedSat(), FedSat(update="delta"), FedAsync(share=1.0)])
def test_one_satellite_trains_for_itself(method: Visiting) -> None:
    with quadratic_fleet([0.5], [[2.0, -1.0]], samples=[2], rounds=5) as fleet:
        state = play_on(fleet, method, 5)
        done = 1.0 - 0.95 ** (2 * 4)
        np.testing.assert_allclose(state["global"], [2.0 * done, -done], rtol=1e-5)
        np.testing.assert_array_equal(state["received"][0], state["global"])


def test_what_happens_at_the_same_time_has_no_order() -> None:
    order = [2, 0, 1]
    visible = np.array([[1, 1, 1], [1, 0, 1], [1, 1, 0], [1, 1, 1]])
    with three(visible) as fleet:
        state = play_on(fleet, FedSat(), 4)
    with quadratic_fleet(
        H[order],
        M[order],
        samples=[N[k] for k in order],
        orbit_of=[0, 1, 2],
        visible=visible[:, order],
        rounds=4,
    ) as fleet:
        other = play_on(fleet, FedSat(), 4)
    np.testing.assert_allclose(other["global"], state["global"], rtol=1e-6)
    np.testing.assert_allclose(other["received"], state["received"][order], rtol=1e-6)


def test_within_a_round_an_early_visitor_leaves_without_a_late_one() -> None:
    quarters = np.zeros((8, 2, 1), dtype=bool)
    quarters[[0, 4], 0] = quarters[[2, 6], 1] = True  # satellite 1 comes half a round later
    plan = plan_of_slots(quarters, 0.25)
    with quadratic_fleet(
        H[:2], M[:2], samples=N[:2], orbit_of=[0, 1], rounds=2, contacts=plan
    ) as fleet:
        state = play_on(fleet, FedSat(), 2)
    first = [trained(k, np.zeros(2)) for k in range(2)]
    both = np.average(first, axis=0, weights=N[:2])
    np.testing.assert_allclose(state["received"], [first[0], both], rtol=1e-6)


def test_a_difference_is_added_by_its_share_of_all_samples() -> None:
    turns = np.tile(np.eye(3, dtype=int), (2, 1))
    with three(turns) as fleet:
        state = play_on(fleet, FedSat(update="delta"), 6)
        first = [trained(k, np.zeros(2)) for k in range(3)]
        expected = np.average(first, axis=0, weights=N)
        np.testing.assert_allclose(state["global"], expected, rtol=1e-6)
        assert "last" not in state
        early = play_on(fleet, FedSat(update="delta"), 4)
    np.testing.assert_allclose(early["global"], first[0] / 6, rtol=1e-6)


def test_a_pull_holds_training_near_what_was_received() -> None:
    with quadratic_fleet([1.0], [[2.0]], samples=[2], rounds=2) as fleet:
        state = play_on(fleet, FedSat(pull=1.0), 2)
    y = 0.1 * 2.0  # the anchor is 0
    y -= 0.1 * ((y - 2.0) + y)
    np.testing.assert_allclose(state["global"], [y], rtol=1e-6)


def test_the_share_of_an_update_falls_with_the_time_it_took() -> None:
    """Satellite 0 is back after 2 s, one after 3 s: 0.98 s and 1.98 s after 1.02 periods."""
    visible = [[1, 1, 1], [0, 0, 0], [1, 0, 0], [0, 1, 0]]
    method = FedAsync(share=0.5, decay=2.0, slack=0.02, period_s=1.0)
    with three(visible) as fleet:
        w = play_on(fleet, method, 4)["global"]
    shares = [0.5 / (1 + 2 * 0.98), 0.5 / (1 + 2 * 1.98)]
    expected = np.zeros(2)
    for k in range(2):
        expected = (1 - shares[k]) * expected + shares[k] * trained(k, np.zeros(2))
    np.testing.assert_allclose(w, expected, rtol=1e-5)
    with three(visible) as fleet:  # in time: all of a'
        w = play_on(fleet, FedAsync(share=0.5, period_s=2.0), 3)["global"]
    np.testing.assert_allclose(w, 0.5 * trained(0, np.zeros(2)), rtol=1e-6)


# --- The schedule -------------------------------------------------------------------------------

VISITS = np.array([1, 0, 1, 1, 1, 0, 1, 1, 1, 0, 1], dtype=int)[:, None]
"""Of one satellite: visits of one round and of three."""


def versions(method: Visiting, visits: np.ndarray = VISITS, **changes: object) -> list[int]:
    """Return how many updates have been aggregated after each round."""
    with quadratic_fleet([1.0], [[2.0]], visible=visits, rounds=len(visits), **changes) as fleet:
        state, found = method.start(fleet), []
        for t in range(len(visits)):
            state = method.round(state, fleet.at(t))
            found.append(int(state["version"]))
    return found


def test_a_scheduled_satellite_trains_within_its_next_visit_if_that_is_long_enough() -> None:
    assert versions(FedSat()) == [0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7]
    # Nothing in round 0. Received in 2 and sent in 3, received in 6 and sent in 7. The last visit
    # is too short: a model is taken along, as without a schedule.
    assert versions(FedSat(schedule=True)) == [0, 0, 0, 1, 1, 1, 1, 2, 3, 3, 4]


def test_seconds_of_training_decide_which_visit_is_long_enough() -> None:
    # Two seconds fit into a visit of three rounds, received in the first and sent in the last.
    assert versions(FedSat(schedule=True), samples_per_s=0.5) == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 3]
    # With 2.5 s nothing fits: received in 0 and sent in 3, in view; sent in 6, and in 10.
    alike = [versions(FedSat(schedule=on), samples_per_s=0.4) for on in (False, True)]
    assert alike == [[0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3]] * 2


@pytest.mark.parametrize("update", ["replace", "delta"])
@pytest.mark.parametrize("events", [(), EVENTS])
def test_a_schedule_without_visits_that_are_long_enough_changes_nothing(
    update: str, events: Sequence[dict]
) -> None:
    visible, onboard = np.tile(PATTERN, (2, 1)), {"samples_per_s": 0.008}
    world = small_world(visible, links="causal", onboard=onboard, events=events)
    longest_s = [300.0 * length for length in (2, 1, 2)]  # of an orbit's visits
    with fleet_of(world) as fleet:
        now, orbit_of = fleet.at(0), fleet.orbit_of_satellite
        assert all(now.training_s(k) > longest_s[orbit_of[k]] for k in range(6))
    played = [play(FedSat(update=update, schedule=on), world) for on in (False, True)]
    for one, other in zip(*played, strict=True):
        assert_same(one, other)
    assert played[0][-1]["version"] > 0


# --- Visits and events --------------------------------------------------------------------------


def test_visits_without_an_exchange_are_noted() -> None:
    """Training takes 2.5 s: the visits of rounds 2 and 6 find the satellite at work."""
    visits = np.array([1, 0, 1, 0, 1, 0, 1, 0], dtype=int)[:, None]
    with quadratic_fleet([1.0], [[2.0]], visible=visits, rounds=8, samples_per_s=0.4) as fleet:
        play_on(fleet, FedSat(), 8)
        assert noted(fleet)["idle_visit"]["count"] == 2


def test_what_a_lost_satellite_has_contributed_stays() -> None:
    world = small_world(
        np.ones((5, 3), dtype=bool), events=[{"round": 3, "kind": "leave", "orbit": 1}]
    )
    states = play(FedSat(), world)
    lost = np.flatnonzero(world.partition.orbit_of_satellite == 1)
    assert states[-1]["weight"].tolist() == [len(part) for part in world.partition.train]
    np.testing.assert_array_equal(states[-1]["last"][lost], states[3]["last"][lost])
    assert_is_mean_of_contributions(states[-1])


def assert_is_mean_of_contributions(state: State) -> None:
    mean = np.average(state["last"].astype(np.float64), axis=0, weights=state["weight"])
    np.testing.assert_allclose(state["global"], mean, atol=1e-6)


def test_a_launched_orbit_has_the_model_of_that_moment() -> None:
    world = small_world(
        np.ones((5, 3), dtype=bool), events=[{"round": 4, "kind": "join", "orbit": 2}]
    )
    states = play(FedSat(), world)
    before = states[4]
    np.testing.assert_array_equal(before["received"][2], world.initial_model)
    assert states[5]["received_version"][2] >= before["version"] > 0


def test_visits_are_predicted_without_knowledge_of_events() -> None:
    visible = np.array([[1, 0, 1], [0, 1, 0], [1, 0, 0]])
    with three(visible) as fleet:
        np.testing.assert_array_equal(fleet.at(0).visits_ahead(), visible)
        np.testing.assert_array_equal(fleet.at(1).visits_ahead(1), visible[1:2])
        np.testing.assert_array_equal(fleet.at(1).visits_ahead(9), visible[1:])
    world = small_world(events=EVENTS)
    with fleet_of(world) as fleet, fleet_of(small_world()) as other:
        active = fleet.at(0).satellites
        assert len(active) < fleet.satellites  # some are launched later
        ahead, whole = (f.at(0).visits_ahead() for f in (fleet, other))
        np.testing.assert_array_equal(ahead[:, active], whole[:, active])
        assert not np.delete(ahead, active, axis=1).any()


def test_predicted_visits_are_the_contacts_that_overlap_rounds() -> None:
    quarters = np.zeros((12, 1, 2), dtype=bool)
    quarters[3, 0, 0] = quarters[[7, 8], 0, 1] = True
    with quadratic_fleet([1.0], [[0.0]], rounds=3, contacts=plan_of_slots(quarters, 0.25)) as fleet:
        ahead = fleet.at(0).visits_ahead()[:, 0]
        assert ahead.tolist() == [bool(fleet.at(t).contacts()) for t in range(3)] == [1, 1, 1]
        assert fleet.at(0).training_s(0) == 0.0
    with quadratic_fleet([1.0], [[0.0]], samples=[3], epochs=2, samples_per_s=2.0) as fleet:
        assert (fleet.at(0).training_s(0), fleet.at(0).training_s(0, epochs=1)) == (3.0, 1.5)
