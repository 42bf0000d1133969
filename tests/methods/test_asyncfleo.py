"""AsyncFLEO: epochs by hand, its identities, groups, selection and discount."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import fedorbit.methods.asyncfleo as module
from fedorbit.hardware import Hardware
from fedorbit.methods import State
from fedorbit.methods.asyncfleo import AsyncFLEO, discounted, groups, selected
from fedorbit.methods.fedavg import FedAvg
from fedorbit.simulation.world import World
from fedorbit.testing import fleet_of, play, small_world
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

LATE = {
    "samples": [1, 3],
    "batch": 3,
    "orbit_of": [0, 1],
    "visible": [[1, 1], [1, 0], [1, 1], [1, 1], [1, 1]],
}
"""Two orbits; the first model of the second arrives an epoch late."""


@pytest.mark.parametrize(
    ("group_gap", "gamma", "mean"),
    [
        (0.0, (1 * 1 + 3 * 1 / 2) / 4, (1 * 0.1225 + 3 * -0.3) / 4),  # groups of their own
        (1.0, 1 / 4, 0.1225),  # one group: the stale model is left out
    ],
)
def test_a_stale_model_by_hand(group_gap: float, gamma: float, mean: float) -> None:
    with quadratic_fleet([1, 1], [[1], [-3]], **LATE) as fleet:
        method = AsyncFLEO(group_gap=group_gap)
        state = play_on(fleet, method, 2)
        assert state["version"] == 1
        assert state["global"][0] == pytest.approx(0.25 * 0.1)  # a quarter of u_0 = 0.1
        assert state["received_version"].tolist() == [1, 0]
        state = method.round(state, fleet.at(2))
        # Of version 1, u_0 = 0.025 + 0.1 (1 - 0.025); of version 0, u_1 = -0.3.
        assert state["version"] == 2
        assert state["global"][0] == pytest.approx((1 - gamma) * 0.025 + gamma * mean)
        assert state["distance"].tolist() == pytest.approx([0.1, 0.3])
        noted = fleet.notes.record()["noted"]
        assert noted["gamma"]["last"] == pytest.approx(gamma)
        assert noted["staleness"]["max"] == (1 if group_gap == 0.0 else 0)
        assert noted["buffer"] == {"count": 2, "mean": 1.5, "max": 2.0, "last": 2.0}
        state = method.round(state, fleet.at(3))
        assert state["version"] == 3  # what was left out is not kept
        assert fleet.notes.record()["noted"]["staleness"]["last"] == 0


@pytest.mark.parametrize("satellites", [1, 3])
@pytest.mark.parametrize("group_gap", [0.0, 0.25, 1.0])
def test_if_all_are_in_and_fresh_it_is_fedavg_a_round_later(
    satellites: int, group_gap: float
) -> None:
    world = small_world(np.ones((5, 3), dtype=bool), satellites_per_plane=satellites)
    method = AsyncFLEO(quota=1.0, group_gap=group_gap)
    ours, theirs = play(method, world), play(FedAvg(), world)
    assert [int(state["version"]) for state in ours] == [0, 0, 1, 2, 3, 4]
    for t in range(1, 5):
        np.testing.assert_allclose(ours[t + 1]["global"], theirs[t]["global"], atol=1e-6)
    assert not np.array_equal(ours[-1]["global"], ours[-2]["global"])


def test_without_a_model_nothing_changes() -> None:
    """Time is up in every round, but no orbit is in view when it has trained."""
    seen = np.array([[1], [0], [0], [1]], dtype=bool)
    states = play(AsyncFLEO(epoch_s=1.0), small_world(seen))
    assert [int(state["version"]) for state in states] == [0, 0, 0, 0, 1]
    np.testing.assert_array_equal(states[3]["global"], states[0]["global"])


@pytest.mark.parametrize(
    ("parameters", "versions"),
    [
        ({"quota": 1.0, "epoch_s": 2.0}, [0, 0, 1, 1, 2]),  # every other round
        ({"quota": 1.0, "epoch_s": 3.0}, [0, 0, 0, 1, 1]),
        ({"quota": 0.5, "epoch_s": 3.0}, [0, 1, 2, 3, 4]),  # one of two
    ],
)
def test_time_or_number_ends_an_epoch(parameters: dict[str, float], versions: list[int]) -> None:
    """Of two orbits only the first is in view after round 0; rounds last a second."""
    seen = [[1, 1], [1, 0], [1, 0], [1, 0], [1, 0]]
    with quadratic_fleet([1, 1], [[1], [-1]], orbit_of=[0, 1], visible=seen) as fleet:
        method = AsyncFLEO(**parameters)
        state, found = method.start(fleet), []
        for t in range(5):
            state = method.round(state, fleet.at(t))
            found.append(int(state["version"]))
    assert found == versions


# --- Groups, selection, discount -----------------------------------------------------------------


def test_groups_are_cut_at_wide_gaps() -> None:
    d = np.array([0.3, 1.0, 0.2, -1.0, 0.9, 0.55])
    assert groups(d, 0.25).tolist() == [0, 2, 0, -1, 2, 1]
    assert groups(d, 0.4).tolist() == [0, 1, 0, -1, 1, 0]  # between 0.55 and 0.9
    assert groups(d, 1.0).tolist() == [0, 0, 0, -1, 0, 0]
    assert groups(d, 0.0).tolist() == [1, 4, 0, -1, 3, 2]
    assert groups(np.full(3, 0.5), 0.0).tolist() == [0, 0, 0]
    assert groups(np.full(2, -1.0), 0.5).tolist() == [-1, -1]


def test_a_group_with_a_fresh_model_leaves_its_stale_ones_out() -> None:
    versions = np.array([4, 3, -1, 2, 3, 1])
    assert selected(versions, 4, np.array([0, 0, 0, 0, 1, 1])).tolist() == [0, 4, 5]
    assert selected(versions, 4, np.zeros(6, dtype=int)).tolist() == [0]  # one group
    assert selected(versions, 4, np.arange(6)).tolist() == [0, 1, 3, 4, 5]  # each its own
    assert selected(versions, 9, np.array([0, 0, 0, 0, 1, 1])).tolist() == [0, 1, 3, 4, 5]


def test_the_discount_falls_with_staleness() -> None:
    n = np.array([3, 5])
    shares = [discounted(n, np.array([9 - s, 9]), 9) / n.sum() for s in range(10)]
    assert shares[0] == 1.0
    assert all(0.0 < later < earlier for earlier, later in pairwise(shares))
    assert discounted(n, np.array([0, 0]), 0) == 8  # version 0 counts


def test_gamma_is_a_share_in_whole_runs() -> None:
    """Also where a satellite is lost while its model waits at the servers."""
    events = [{"round": 2, "kind": "leave", "satellite": 0}]
    for quota in (0.2, 0.5, 1.0):
        world = small_world(events=events, links="causal")
        method = AsyncFLEO(quota=quota, epoch_s=900.0, group_gap=0.0)
        with fleet_of(world) as fleet:
            state = method.start(fleet)
            for t in range(6):
                state = method.round(state, fleet.at(t))
            noted = fleet.notes.record()["noted"]["gamma"]
        assert 0.0 < noted["mean"] <= noted["max"] <= 1.0


# --- Propagation ----------------------------------------------------------------------------------


def test_a_version_goes_both_ways_around_the_orbit() -> None:
    """Satellite 1 of five is in view: 2 and 0 have it from there, and 3 and 4 from these."""
    contacts = np.zeros((3, 5, 1))
    contacts[:, 1] = 1
    with quadratic_fleet([1] * 5, [[1]] * 5, contacts=contacts) as fleet:
        method = AsyncFLEO(quota=1.0)
        state = method.round(method.start(fleet), fleet.at(0))
        assert state["has"].tolist() == [0] * 5
        # 1 to 0 and 2, 0 to 4, 2 to 3; 3 and 4 to each other, which is dropped.
        assert fleet.ledger.isl_bytes == 6 * 4
        assert fleet.ledger.from_ground_bytes == 4
        state = method.round(state, fleet.at(1))
        assert state["version"] == 1
        assert fleet.ledger.to_ground_bytes == 5 * 4
        assert fleet.ledger.isl_bytes == 6 * 4 + 4 * 4 + 6 * 4  # and models to the one in view


def test_arrivals_in_another_order_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world, arrivals = small_world(links="causal"), module.arrivals
    method = AsyncFLEO(epoch_s=600.0)
    true = play(method, world)
    monkeypatch.setattr(module, "arrivals", lambda now: reversed(list(arrivals(now))))
    other = play(method, world)
    assert true[-1]["version"] > 1
    for name in true[-1]:
        np.testing.assert_array_equal(true[-1][name], other[-1][name], err_msg=name)


def test_two_platforms_at_one_place_are_one() -> None:
    def played(servers: int) -> State:
        seen = np.array([[1, 0, 0], [1, 0, 1], [0, 1, 1], [1, 1, 0]])
        contacts = np.repeat(seen[:, :, None], servers, axis=2)
        with quadratic_fleet([1] * 3, [[1], [2], [-1]], contacts=contacts) as fleet:
            return play_on(fleet, AsyncFLEO(), 4)

    one, two = played(1), played(2)
    assert one["version"] > 0
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)


@pytest.mark.parametrize("links", [{"links": "causal"}, {"links": "physical", "isl": "none"}])
def test_a_second_platform_delays_no_arrival(
    links: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of w at satellites, and of what they train at the servers, which only collect here."""
    monkeypatch.setattr(AsyncFLEO, "is_due", lambda *_: False)
    rng, earlier = np.random.default_rng(0), Counter[str]()
    for _ in range(5):
        rows = [
            (k, server, begin_s, begin_s + 60.0)
            for server in (6, 7)
            for k in range(6)
            for begin_s in rng.uniform(0.0, 1700.0, 2).tolist()
        ]
        one, two = (first_slots(planned(*some, **links)) for some in (rows[:12], rows))
        for name, slots in two.items():
            assert (slots <= one[name]).all()
            earlier[name] += int((slots < one[name]).sum())
    assert min(earlier.values()) > 0


def first_slots(world: World) -> dict[str, Any]:
    """Slots in which satellites first have a version, and servers first have their models."""
    states = play(AsyncFLEO(), world)
    return {
        name: np.argmax([*(state[name] > -1 for state in states), np.ones(6, dtype=bool)], axis=0)
        for name in ("has", "buffer_version")
    }


def test_a_busy_satellite_continues_with_the_newest_version() -> None:
    """Satellite 0 is quick, 1 takes three rounds: it trains versions 0 and 3, none in between."""
    world = small_world(np.ones((7, 2), dtype=bool), satellites_per_plane=1, links="causal")
    sizes = np.array([len(part) for part in world.partition.train])
    speeds = sizes / np.array([100.0, 800.0])
    hardware = Hardware(speeds, 300.0, deadline=False, isl_mbps=None)
    states = play(AsyncFLEO(quota=0.5), replace(world, hardware=hardware))
    assert [state["trained"].tolist() for state in states[1:]] == [
        [0, 0], [1, 0], [2, 0], [3, 3], [4, 3], [5, 3], [6, 6],
    ]  # fmt: skip
