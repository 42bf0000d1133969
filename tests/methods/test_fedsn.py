"""FedSN: sub-networks, the buffer and its schedule, by hand and against FedAvg."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from fedorbit.errors import ConfigError, ModelError
from fedorbit.fleet import Fleet
from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.learning.rules import PLAIN, Sgd
from fedorbit.learning.subnetworks import subnetwork_mask, subnetwork_size
from fedorbit.methods import State, make_method, weighted_mean
from fedorbit.methods.fedsn import FedSN
from fedorbit.methods.visits import SENT
from fedorbit.methods.widths import fitting_widths
from fedorbit.simulation.world import World
from fedorbit.testing import fleet_of, small_world, snapshots
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

ALWAYS = np.ones((4, 3), dtype=bool)


def played(method: FedSN, world: World) -> list[State]:
    return [snapshot.state for snapshot in snapshots(method, world)]


def trained(world: World, k: int, start: np.ndarray, t: int, rule: Any = PLAIN) -> np.ndarray:
    """Return the model after a satellite's training that begins in slot t."""
    training = world.config.training
    rate = training.rate * training.rate_decay**t
    job = LocalJob(k, start, training.epochs, rate, (t, 0, 0), rule)
    return world.trainer().train(job, batch_order(world.data, job, world.config.seed)).model


# --- Whole models -------------------------------------------------------------------------------


def test_whole_models_a_full_quota_and_no_hurry_are_synchronous_fedavg() -> None:
    world = small_world(ALWAYS, links="causal")
    states, w = played(FedSN(quota=1.0, patience_s=1e9), world), world.initial_model
    n = np.array([len(part) for part in world.partition.train])
    for t in range(3):  # downloaded and begun in slot t, uploaded in the next
        w = weighted_mean([trained(world, k, w, t) for k in range(6)], n, otherwise=w)
        np.testing.assert_allclose(states[t + 2]["global"], w, atol=3e-7)
        assert states[t + 2]["version"] == t + 1


def test_a_synchronous_round_waits_for_the_last() -> None:
    """Satellite 1 comes back in slot 3. Meanwhile satellite 0 waits with its update in B."""
    seen = [[1, 1], [1, 0], [1, 0], [1, 1]]
    world = {"samples": [1, 3], "orbit_of": [0, 1], "visible": seen, "rate": 0.1}
    with quadratic_fleet([1.0, 1.0], [[4.0, 0.0], [0.0, 8.0]], **world) as fleet:
        method, held = FedSN(quota=1.0, patience_s=1e9), []
        state = method.start(fleet)
        for t in range(4):
            state = method.round(state, fleet.at(t))
            held.append((int(state["version"]), state["buffer_samples"].tolist()))
    assert held == [(0, [0, 0]), (0, [1, 0]), (0, [1, 0]), (1, [0, 0])]
    # From 0: one step of 0.1 toward (4, 0), and three steps toward (0, 8): 8 (1 - 0.9^3) = 2.168.
    np.testing.assert_allclose(state["global"], [0.25 * 0.4, 0.75 * 2.168], rtol=1e-6)


def test_without_a_quota_every_update_is_aggregated_at_once() -> None:
    seen = [[1, 1], [1, 0], [0, 1], [1, 0], [0, 0]]
    world = {"samples": [1, 1], "orbit_of": [0, 1], "visible": seen, "rate": 0.5}
    with quadratic_fleet([1.0, 1.0], [[4.0], [8.0]], **world) as fleet:
        method, seen_w = FedSN(quota=0.0), []
        state = method.start(fleet)
        for t in range(5):
            state = method.round(state, fleet.at(t))
            assert not state["buffer_samples"].any()
            seen_w.append(float(state["global"][0]))
    # Slot 1: satellite 0 from 0 to 2. Slot 2: satellite 1, also from 0, to 4: it replaces w.
    # Slot 3: satellite 0 began in slot 1 from 2 and is at 3.
    assert seen_w == [0.0, 2.0, 4.0, 3.0, 3.0]
    assert state["version"] == 3


def test_stale_updates_have_less_weight() -> None:
    """Satellite 1 began with version 0 and meets satellite 0, which began with version 1."""
    seen = [[1, 1], [1, 0], [0, 0], [1, 1], [0, 0]]
    world = {"samples": [1, 1], "orbit_of": [0, 1], "visible": seen, "rate": 0.5}
    with quadratic_fleet([1.0, 1.0], [[4.0], [8.0]], **world) as fleet:
        state = play_on(fleet, FedSN(quota=0.0, alpha=1.0), 4)
    # Slot 1: w = 2. Slot 3: 3 of satellite 0 counts once, 4 of satellite 1 half.
    np.testing.assert_allclose(state["global"], [(3.0 + 0.5 * 4.0) / 1.5])


def test_a_later_update_replaces_the_earlier() -> None:
    """Satellite 0 uploads in slot 1, comes back in slot 3 and trains again from the same w."""
    seen = [[1, 1, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0], [1, 0, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]
    world = {"orbit_of": [0, 1, 2], "visible": seen, "rate": 0.5}
    with quadratic_fleet([1.0] * 3, [[4.0], [8.0], [0.0]], **world) as fleet:
        method = FedSN(quota=1.0, patience_s=1e9)
        state = method.start(fleet)
        downloads = []
        for t in range(7):
            state = method.round(state, fleet.at(t))
            downloads.append(int(state["downloads"][0]))
            if t == 4:
                assert state["buffer_samples"].tolist() == [1, 0, 0]
                assert state["visit"][0] == SENT
        # Not in slot 1, in which it uploaded, nor in slots 4 and 5 of the same contact.
        assert downloads == [1, 1, 1, 2, 2, 2, 2]
        assert state["version"] == 1
        np.testing.assert_allclose(state["global"], [(2.0 + 4.0 + 0.0) / 3])


# --- The schedule -------------------------------------------------------------------------------


def aggregations(seen: Sequence[Sequence[int]], **fields: Any) -> list[int]:
    """Slots in which B is aggregated; one satellite per orbit, rounds of one second."""
    orbits = len(seen[0])
    where = {"orbit_of": list(range(orbits)), "visible": seen, "rate": 0.5}
    with quadratic_fleet([1.0] * orbits, [[1.0]] * orbits, **where) as fleet:
        method = FedSN(**fields)
        state, slots = method.start(fleet), []
        for t in range(len(seen)):
            before = int(state["version"])
            state = method.round(state, fleet.at(t))
            slots += [t] if state["version"] > before else []
    return slots


def test_patience_ends_with_the_predicted_arrival() -> None:
    # Satellite 0 is back in slot 1; satellite 1, which left with a model, in slot 5.
    seen = [[1, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 1], [0, 0]]
    assert aggregations(seen, quota=1.0, patience_s=4.0) == [5]
    assert aggregations(seen, quota=1.0, patience_s=3.9)[0] == 1
    assert aggregations(seen, quota=0.5, patience_s=4.0)[0] == 1
    # Satellite 1 has no model yet: one contact to get it, in slot 3, and one to bring it back.
    seen = [[1, 0], [1, 0], [0, 0], [0, 1], [0, 0], [0, 1], [0, 0]]
    assert aggregations(seen, quota=1.0, patience_s=4.0) == [5]
    assert aggregations(seen, quota=1.0, patience_s=3.9)[0] == 1
    # There will be no further update: nothing to wait for.
    seen = [[1, 0], [1, 0], [0, 1], [0, 0], [0, 0]]
    assert aggregations(seen, quota=1.0, patience_s=1e9) == [1]


def test_predictions_count_the_time_of_training() -> None:
    """A pass of satellite 2 takes 500 s: what it gets in slot 0 it brings in slot 3, not in 1."""
    rows = [(0, 6, 0.0, 500.0), (2, 6, 0.0, 100.0), (2, 6, 400.0, 500.0), (2, 6, 1000.0, 1100.0)]
    world = planned(*rows)
    n = len(world.partition.train[2])
    world = planned(*rows, onboard={"samples_per_s": n / 500.0})
    with fleet_of(world) as fleet:
        method = FedSN(quota=1.0, capability=[1.0])
        state = method.round(method.start(fleet), fleet.at(0))
        assert state["ready"][2] == 2
        assert method._arrival_s(state, fleet.at(0), 2) == 1000.0
        assert method._arrival_s(state, fleet.at(0), 3) == np.inf


# --- Sub-networks -------------------------------------------------------------------------------


def test_a_round_of_sub_networks_by_hand() -> None:
    world = small_world(np.ones((2, 3), dtype=bool), links="causal")
    method = FedSN(capability=[0.25, 0.5, 1.0], window="static", quota=1.0)
    state, w = played(method, world)[2], world.initial_model
    layout, n = world.spec.layout, np.array([len(part) for part in world.partition.train])
    masks = [subnetwork_mask(layout, r) for r in (0.25, 0.5, 1.0)] * 2
    total, mass = np.zeros((2, layout.size))
    for k, mask in enumerate(masks):
        start = np.where(mask, w, np.float32(0))
        total += n[k] * mask * trained(world, k, start, 0, Sgd(part=mask)).astype(float)
        mass += n[k] * mask
    np.testing.assert_allclose(state["global"], total / mass, atol=1e-7)
    assert set(mass) == {n.sum(), n[[1, 2, 4, 5]].sum(), n[[2, 5]].sum()}


@pytest.mark.parametrize("inference", ["whole", "own"])
def test_entries_that_none_kept_stay_and_messages_carry_what_is_kept(inference: str) -> None:
    world = small_world(np.ones((2, 3), dtype=bool), links="causal")
    method = FedSN(capability=[0.25], window="static", inference=inference)
    last = snapshots(method, world)[2]
    mask, w = subnetwork_mask(world.spec.layout, 0.25), world.initial_model
    np.testing.assert_array_equal(last.state["global"][~mask], w[~mask])
    assert (last.state["global"][mask] != w[mask]).mean() > 0.9
    size, whole = 4 * subnetwork_size(world.spec.layout, 0.25), 4 * len(w)
    assert last.world["ledger"]["to_ground_bytes"] == 6 * size
    assert last.world["ledger"]["from_ground_bytes"] == 12 * (size if inference == "own" else whole)
    served = last.state["received"]
    expected = np.where(mask, last.state["global"], 0 if inference == "own" else w)
    np.testing.assert_array_equal(served, np.tile(expected, (3, 1)))


def test_shifted_blocks_differ_by_satellite_and_download_and_reach_every_weight() -> None:
    with fleet_of(small_world()) as fleet:
        method, now = FedSN(capability=[0.5]), fleet.at(0)
        state = method.start(fleet)
        masks = [method._mask(state, now, k, number) for k in range(6) for number in range(12)]
        assert len({mask.tobytes() for mask in masks}) > 60
        kept = np.mean(masks, axis=0)
        assert kept.min() > 0
        fc2 = next(p.place for p in fleet.layout.parameters if p.name == "fc2.weight")
        assert kept[fc2].mean() == pytest.approx(0.25, abs=0.01)  # r^2
        np.testing.assert_array_equal(method._mask(state, now, 3, 5), masks[3 * 12 + 5])


def test_an_orbit_uses_the_sub_network_of_its_widest_satellite() -> None:
    world = small_world(ALWAYS, links="causal")
    method = FedSN(capability=[0.25, 0.75], inference="own", quota=1.0)
    with fleet_of(world) as fleet:
        last = played(method, world)[2]  # all have version 1, their second download
        for orbit in range(3):
            widest = method._mask(last, fleet.at(0), 2 * orbit + 1, 2)
            expected = np.where(widest, last["global"], 0)
            np.testing.assert_array_equal(last["received"][orbit], expected)


# --- Widths -------------------------------------------------------------------------------------


def widths(world: World, memory_mb: Sequence[float] = (), whole_down: bool = False) -> list[float]:
    with fleet_of(world) as fleet:
        return fitting_widths(fleet, list(memory_mb), whole_down).tolist()


def test_what_nothing_limits_is_whole() -> None:
    assert widths(small_world()) == [1.0] * 6
    assert widths(small_world(onboard={"samples_per_s": 1000.0}), [1e6]) == [1.0] * 6


def test_memory_limits_the_width() -> None:
    """Images of 16 x 16 pixels: layers output 12 x 12 x 6 + 2 x 2 x 16 + 120 + 84 + 4 values."""
    world = small_world()
    whole = 4 * (3 * len(world.initial_model) + 16 * (864 + 64 + 120 + 84 + 4)) / 1e6
    half = 3 * subnetwork_size(world.spec.layout, 0.5) + 16 * (432 + 32 + 60 + 42 + 4)
    half_mb = 4 * half / 1e6
    memory = [whole + 1e-9, whole - 1e-6, half_mb + 1e-9, half_mb - 1e-6, 1e-6]
    assert widths(world, memory) == [1.0, 0.75, 0.5, 0.25, 0.25, 1.0]  # in order, again


def test_time_between_contacts_limits_the_width() -> None:
    """Gaps of satellite 0 are 200, 300 and 900 s; satellite 1 has one contact, and no gap."""
    rows = [(0, 6, 0.0, 100.0), (0, 6, 300.0, 350.0), (0, 7, 320.0, 400.0), (0, 6, 700.0, 800.0)]
    rows += [(0, 7, 1700.0, 1750.0), (1, 6, 0.0, 100.0)]
    world = planned(*rows)
    n, layout = len(world.partition.train[0]), world.spec.layout
    for share, width in ((1.0, 1.0), (0.999, 0.75), (0.3, 0.5), (0.0001, 0.25)):
        speed = share * n / 300.0  # a whole pass takes 300 s / share
        found = widths(planned(*rows, onboard={"samples_per_s": speed}))
        assert found[:2] == [width, 1.0]
    assert subnetwork_size(layout, 0.5) / layout.size < 0.3 < subnetwork_size(layout, 0.75)


def test_contacts_limit_the_width() -> None:
    """The median contact lasts for 100 s; a model takes 80 s, up and down."""
    rows = [(0, 6, 0.0, 90.0), (0, 6, 300.0, 400.0), (0, 6, 700.0, 900.0)]
    mbps = 32 * len(planned(*rows).initial_model) / 1e6 / 80.0
    world = planned(*rows, rates={"to_ground_mbps": mbps, "from_ground_mbps": mbps})
    assert widths(world)[0] == 0.75
    assert widths(world, whole_down=True)[0] == 0.25


def test_other_models_are_trained_whole_or_not_at_all() -> None:
    with quadratic_fleet([1.0], [[1.0]]) as fleet:
        assert play_on(fleet, FedSN(), 3)["version"] == 2
    with quadratic_fleet([1.0], [[1.0]]) as fleet, pytest.raises(ModelError, match="LeNet alone"):
        play_on(fleet, FedSN(capability=[0.5]), 3)


def test_time_on_board_is_that_of_the_sub_network() -> None:
    world = small_world(np.ones((2, 3), dtype=bool), onboard={"samples_per_s": 1.0})

    def ends_s(fleet: Fleet, method: FedSN) -> float:
        method.round(method.start(fleet), fleet.at(0))
        return max(job["end_s"] for job in fleet.saved()[0]["jobs"])

    with fleet_of(world) as fleet:
        whole_s = ends_s(fleet, FedSN(capability=[1.0]))
    with fleet_of(world) as fleet:
        part_s = ends_s(fleet, FedSN(capability=[0.25]))
    share = subnetwork_size(world.spec.layout, 0.25) / len(world.initial_model)
    assert part_s == pytest.approx(share * whole_s)


def test_widths_that_are_none_are_refused() -> None:
    assert make_method("fedsn", {"capability": [1, 0.5]}) == FedSN(capability=[1.0, 0.5])
    with pytest.raises(ConfigError, match=r"methods\.fedsn.*capability"):
        make_method("fedsn", {"capability": [0.0]})


def test_a_width_beyond_the_model_is_refused_with_its_limit() -> None:
    with pytest.raises(ConfigError, match=r"capability\.1 must be at most 1.0, got 2.0"):
        make_method("fedsn", {"capability": [0.5, 2.0]})
