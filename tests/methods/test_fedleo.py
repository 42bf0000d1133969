"""FedLEO: rounds worked by hand, its limits, delays over routes, and offloading."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.errors import ConfigError
from fedorbit.fleet.moves import Move, moved_parts
from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.ray.engine import RayEngine
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedleo import FedLEO
from fedorbit.methods.offloading import Offloading, of_each_class
from fedorbit.methods.peers import Rings
from fedorbit.simulation.loop import fleet_for
from fedorbit.simulation.world import World
from fedorbit.stopping import StopRequested
from fedorbit.testing import assert_same, fleet_of, play, small_world, snapshots
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet
from tests.simulation.test_runs import StopAfter, newest_checkpoint, small, timeless

SIGHT: dict[str, Any] = {"links": "physical", "isl": "line-of-sight"}


def test_two_rounds_worked_by_hand() -> None:
    """Orbits of optima 1, 3 (one and three samples) and -1 (two); one step at rate 0.1."""
    settings = {"orbit_of": [0, 0, 1], "samples": [1, 3, 2], "batch": 3, "rate": 0.1}
    with quadratic_fleet([1] * 3, [[1.0], [3.0], [-1.0]], **settings) as fleet:
        w = 0.1 * (1 * 1 + 3 * 3 + 2 * -1) / 6
        state = play_on(fleet, FedLEO(), 1)
        np.testing.assert_allclose(FedLEO().models(state), [[w], [w]], rtol=1e-6)
        w = 0.9 * w + 0.1 * 8 / 6
        state = FedLEO().round(state, fleet.at(1))
        np.testing.assert_allclose(FedLEO().models(state), [[w], [w]], rtol=1e-6)
        orbits = FedLEO(scope="orbit").models(play_on(fleet, FedLEO(scope="orbit"), 1))
        np.testing.assert_allclose(orbits, [[0.1 * 10 / 4], [-0.1]], rtol=1e-6)


def test_with_ideal_links_it_is_fedavg_with_all_in_view() -> None:
    """In view or not, to the bit."""
    ours = snapshots(FedLEO(), small_world())
    theirs = play(FedAvg(), small_world(np.ones((6, 3), dtype=bool)))
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one.state["model"], np.tile(other["global"], (3, 1)))


def test_traffic_is_that_of_ring_all_reduces() -> None:
    """Two orbits of four: rings of four in each, and four rings of two across."""
    world = small_world(np.zeros((1, 2), dtype=bool), satellites_per_plane=4)
    ledger, size = snapshots(FedLEO(), world)[-1].world["ledger"], world.spec.layout.size
    assert size % 4 == 0
    # By each satellite 2 (N - 1) sends of P/N; across planes there are no links here.
    assert ledger["isl_bytes"] == 8 * 2 * 3 * (4 * size // 4)
    assert ledger["unlinked_bytes"] == 8 * 2 * 1 * (4 * size // 2)
    assert ledger["to_ground_bytes"] == ledger["from_ground_bytes"] == 0
    assert Rings(3).bytes(10) == 4 * 2 * 4  # pieces of at most four values


def test_a_single_orbit_is_fedavg_in_it() -> None:
    world = small_world(np.ones((4, 1), dtype=bool))
    theirs = play(FedAvg(), world)
    for scope in ("orbit", "all"):
        for one, other in zip(play(FedLEO(scope=scope), world), theirs, strict=True):
            np.testing.assert_array_equal(one["model"][0], other["global"])


# --- Routes ---------------------------------------------------------------------------------------


def versions(world: World) -> list[list[int]]:
    """Number of the round whose model each unit has, after every slot."""
    return [snapshot.state["version"].tolist() for snapshot in snapshots(FedLEO(), world)[1:]]


def test_a_round_ends_when_all_have_all_results() -> None:
    """A chain of six satellites; its last link exists from 650 s on, in the third slot."""
    chain = [(k, k + 1, 0.0, 1800.0) for k in range(4)]
    found = versions(planned(*chain, (4, 5, 650.0, 1800.0), **SIGHT))
    assert found == [[0] * 6] * 3 + [[2] * 6, [3] * 6, [4] * 6]  # the second ends at once


def test_satellites_have_the_mean_before_the_last_of_them_has() -> None:
    """Satellite 5 hears the others in slot 1 and is heard itself; 0 is the last, in slot 2."""
    chain = [(k, k + 1, 0.0, 1800.0) for k in range(1, 4)]
    world = planned(*chain, (0, 1, 0.0, 10.0), (4, 5, 300.0, 310.0), (0, 1, 600.0, 610.0), **SIGHT)
    found = versions(world)
    assert found[0] == [0] * 6
    assert found[1] == [0, 1, 1, 1, 1, 1]
    assert found[2] == [1] * 6  # and the second has begun, which never ends
    assert found[5] == [1] * 6
    played = snapshots(FedLEO(), world)
    models = FedLEO().models(played[2].state)
    np.testing.assert_array_equal(models[0], models[2])  # orbit 0 by satellite 1
    assert not np.array_equal(models[0], world.initial_model)


def test_training_on_board_delays_a_round() -> None:
    """All are linked at all times; the slowest satellite trains for longer than a slot."""
    chain = [(k, k + 1, 0.0, 1800.0) for k in range(5)]
    slow = planned(*chain, onboard={"samples_per_s": 0.03}, **SIGHT)
    longest_s = max(len(part) for part in slow.partition.train) / 0.03
    assert 600 < longest_s < 900
    assert [max(found) for found in versions(slow)] == [0, 0, 0, 1, 1, 1]


def test_orbits_are_averaged_over_the_ground_where_nothing_else_links_them() -> None:
    """Orbits in view: 0; none; 0 and 1; none; 1 and 2; 0 and 2. So 0 is the last to hear of 2."""
    assert versions(small_world(links="causal")) == [[0] * 3] * 4 + [[0, 1, 1], [1, 1, 1]]


def test_a_loss_that_keeps_others_from_results_begins_a_round_anew() -> None:
    """Satellite 5 leaves before its only link; the others continue without it.

    The round that was given up leads to no version.
    """
    chain = [(k, k + 1, 0.0, 1800.0) for k in range(4)]
    leaving = [{"round": 2, "kind": "leave", "satellite": 5}]
    found = versions(planned(*chain, (4, 5, 900.0, 1800.0), events=leaving, **SIGHT))
    assert found[1] == [0] * 6
    assert found[2][:5] == [1] * 5
    assert found[5] == [4] * 5 + [0]


def test_a_satellite_that_comes_back_trains_when_it_has_the_newest_model() -> None:
    chain = [(k, k + 1, 0.0, 1800.0) for k in range(5)]
    away = [
        {"round": 1, "kind": "leave", "satellite": 5},
        {"round": 3, "kind": "join", "satellite": 5},
    ]
    world = planned(*chain, events=away, **SIGHT)
    played = snapshots(FedLEO(), world)
    assert [s.state["version"][5] for s in played[1:]] == [1, 1, 1, 4, 5, 6]
    assert [s.state["samples"][5] > 0 for s in played[1:]] == [
        True,
        False,
        False,
        False,
        True,
        True,
    ]


# --- Offloading -----------------------------------------------------------------------------------


def terms(speeds: list[float], **changes: Any) -> Offloading:
    settings = {"epochs": 2, "link": 100.0, "rounds": 10, "waiting_s": 0.0, **changes}
    return Offloading(speeds=np.array(speeds), **settings)


def all_others(satellites: int) -> list[list[int]]:
    return [[b for b in range(satellites) if b != a] for a in range(satellites)]


def test_equal_satellites_offload_nothing() -> None:
    counts = np.full((4, 3), 10)
    assert terms([2.0] * 4).plan(counts, all_others(4)) == []


def test_a_slow_satellite_gives_to_a_fast_one_until_both_end_together() -> None:
    """60 samples at 1/s and 30 at 2/s: with 30 and 60 both train for 30 s."""
    [move] = terms([1.0, 2.0]).plan(np.array([[40, 20], [30, 0]]), all_others(2))
    assert (move.source, move.target, move.samples.tolist()) == (0, 1, [20, 10])
    assert terms([1.0, 2.0]).plan(np.array([[40, 20], [30, 0]]), [[], []]) == []


@pytest.mark.parametrize("kappa", [0.0, 50.0, 3000.0, 40000.0])
@pytest.mark.parametrize("speeds", [(1.0, 2.0), (0.5, 8.0), (3.0, 3.1)])
def test_the_amount_is_the_one_of_the_optimality_conditions(
    speeds: tuple[float, float], kappa: float
) -> None:
    """If b is the faster, both end together, or b takes more for the sake of kappa."""
    own, other, link, passes = 600, 300, 100.0, 20
    balance = (own * speeds[1] - other * speeds[0]) / sum(speeds)
    slope = 1 / link + passes / speeds[1]
    more = np.sqrt(kappa * other / slope) - other
    expected = np.clip(max(balance, more), 0, own)
    found = terms(list(speeds), kappa=kappa).amount(0, 1, np.array([own, other]))
    assert abs(found - expected) <= 1.0
    assert terms(list(speeds), kappa=1e12).amount(0, 1, np.array([own, other])) == own


def test_a_slow_link_keeps_samples_where_they_are() -> None:
    assert terms([1.0, 2.0], link=0.04).amount(0, 1, np.array([60, 30])) == 0


def test_the_fast_and_different_neighbour_is_chosen() -> None:
    counts = np.array([[60, 0], [30, 0], [0, 30], [20, 0]])
    assert terms([1.0, 2, 2, 2]).plan(counts, all_others(4))[0].target == 3
    assert terms([1.0, 2, 2, 2], pi=100.0).plan(counts, all_others(4))[0].target == 2
    assert terms([1.0, 2, 2, 1], literal=True).gain(0, 3, counts, np.array([9.0, 1, 1, 4])) == -5.0


def test_samples_are_conserved_and_the_delay_never_grows() -> None:
    rng = np.random.default_rng(5)
    for kappa in (0.0, 10.0):
        counts = rng.integers(0, 60, (12, 4))
        terms_ = terms(rng.uniform(0.5, 8.0, 12).tolist(), kappa=kappa, pi=0.01)
        neighbours = [[(k - 1) % 12, (k + 1) % 12] for k in range(12)]
        moves = terms_.plan(counts, neighbours)
        assert moves
        delays = [terms_.total_s(counts.sum(axis=1), 0.0)]
        held = counts.copy()
        for number, move in enumerate(moves, start=1):
            assert move.target in neighbours[move.source]
            assert (move.samples <= held[move.source]).all()
            held[move.source] -= move.samples
            held[move.target] += move.samples
            delays.append(terms_.total_s(held.sum(axis=1), flows_s(moves[:number], terms_.link)))
        assert np.diff(delays).max() <= 1e-9
        assert delays[-1] < delays[0]
        np.testing.assert_array_equal(held.sum(axis=0), counts.sum(axis=0))


def flows_s(moves: list[Move], link: float) -> float:
    """The longest flow, by merging sets of satellites."""
    flows: list[tuple[set[int], float]] = []
    for move in moves:
        ends = {move.source, move.target}
        joined = [flow for flow in flows if flow[0] & ends]
        flows = [flow for flow in flows if not flow[0] & ends]
        satellites = ends.union(*(flow[0] for flow in joined))
        flows.append((satellites, sum(flow[1] for flow in joined) + move.total / link))
    return max(seconds for _, seconds in flows)


def test_class_shares_are_kept() -> None:
    assert of_each_class(np.array([50, 30, 20]), 10).tolist() == [5, 3, 2]
    assert of_each_class(np.array([5, 3, 1]), 4).tolist() == [2, 1, 1]
    assert of_each_class(np.array([5, 3, 1]), 9).tolist() == [5, 3, 1]
    assert of_each_class(np.array([0, 0]), 0).tolist() == [0, 0]


def test_samples_that_move_are_drawn_and_keep_their_class() -> None:
    labels = np.arange(12) % 3
    parts = (np.arange(6), np.arange(6, 12), np.arange(0))
    moves = [Move(0, 1, np.array([1, 0, 2])), Move(1, 2, np.array([3, 1, 0]))]
    moved = moved_parts(parts, labels, moves, seed=1)
    np.testing.assert_array_equal(np.sort(np.concatenate(moved)), np.arange(12))
    counts = [np.bincount(labels[part], minlength=3).tolist() for part in moved]
    assert counts == [[1, 2, 0], [0, 1, 4], [3, 1, 0]]
    others = [moved_parts(parts, labels, moves, seed)[0].tolist() for seed in range(8)]
    assert len(set(map(tuple, others))) > 1


SPEEDS = {"samples_per_s": 5.0, "speed_spread": 0.6}


def test_training_uses_what_was_offloaded() -> None:
    world = small_world(np.ones((2, 3), dtype=bool), onboard=SPEEDS)
    with fleet_of(world) as plain:
        assert FedLEO(offload=False).offloading(plain) == ()
        moves = FedLEO().offloading(plain)
    engine = LocalEngine(world.trainer(), world.data, 0, 1)
    try:
        fleet = fleet_for(FedLEO(), world, engine)
        before, after = plain.at(0).class_counts, fleet.at(0).class_counts
        assert fleet.ledger.isl_bytes == sum(m.total for m in moves) * 16 * 16 * 3
        np.testing.assert_array_equal(before.sum(axis=0), after.sum(axis=0))
        for move in moves:
            assert plain.orbit_of_satellite[move.source] == plain.orbit_of_satellite[move.target]
        assert not np.array_equal(before, after)
        now, w = fleet.at(0), world.initial_model
        trained = now.train([now.job(k, w) for k in range(6)])
        assert [result.steps for result in trained] == [-(-int(n) // 16) for n in after.sum(axis=1)]
        assert fleet_for(FedAvg(), world, engine).moves == ()
    finally:
        engine.close()


def test_a_run_with_offloading_is_recorded_resumes_and_leaves_others_alone(tmp_path: Path) -> None:
    def settings(*methods: str) -> Any:
        return small(onboard=SPEEDS, run={"method": list(methods)})

    both = fo.run(settings("fedleo", "fedavg"), tmp_path / "both")
    [alone] = fo.run(settings("fedavg"), tmp_path / "alone").runs
    fedleo, fedavg = both.runs
    assert timeless(fedavg.records) == timeless(alone.records)
    assert "offloaded" not in fedavg.summary
    moves = fedleo.summary["offloaded"]
    assert moves
    assert all(set(move) == {"from", "to", "samples"} for move in moves)
    assert fedleo.summary["similarity"] == fedavg.summary["similarity"]
    assert fedleo.summary["to_ground_bytes"] == 0
    images = sum(move["samples"] for move in moves) * 16 * 16 * 3
    plain = small(
        onboard=SPEEDS, run={"method": ["fedleo"]}, methods={"fedleo": {"offload": False}}
    )
    [without] = fo.run(plain, tmp_path / "without").runs
    for one, other in zip(fedleo.records, without.records, strict=True):
        assert one["isl_bytes"] - other["isl_bytes"] == images
    assert max(fedleo.records[0]["onboard_s"]) < max(without.records[0]["onboard_s"])
    with pytest.raises(StopRequested):
        fo.run(settings("fedleo", "fedavg"), tmp_path / "stop", progress=StopAfter("fedleo", 4))
    resumed = fo.resume(tmp_path / "stop").runs
    for one, other in zip(resumed, both.runs, strict=True):
        assert timeless(one.records) == timeless(other.records)
        ends = newest_checkpoint(one.folder).state, newest_checkpoint(other.folder).state
        assert_same(*ends)


def test_without_speeds_nothing_is_offloaded() -> None:
    with fleet_of(small_world()) as fleet:
        assert FedLEO(kappa=100.0).offloading(fleet) == ()


def test_a_cluster_refuses_samples_that_move() -> None:
    world = small_world()
    with pytest.raises(ConfigError, match=r"cannot run on Ray, .* set engine\.kind = \"local\""):
        RayEngine.with_parts(RayEngine.__new__(RayEngine), world.data)
