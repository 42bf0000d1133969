"""FedLEO with sink scheduling: by hand, its identities, and which satellite is the sink."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedorbit.hardware import Hardware
from fedorbit.methods import State
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedleo_sink import FedLEOSink
from fedorbit.methods.sinks import choose_sink, ready, uploads
from fedorbit.simulation.world import World
from fedorbit.testing import fleet_of, play, small_world
from fedorbit.testing.worlds import with_inverted_images
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

Row = tuple[int, int, float, float]


def sink_of(method: FedLEOSink, *orbit: Any) -> int:
    """Return the sink that a method chooses."""
    return choose_sink(*orbit, method.sink, method.period_s)


def versions(states: list[State]) -> list[int]:
    return [int(state["version"]) for state in states]


def with_model_s(world: World, seconds: float) -> dict[str, float]:
    mbps = 32 * len(world.initial_model) / 1e6 / seconds
    return {"to_ground_mbps": mbps, "from_ground_mbps": mbps}


def test_two_rounds_by_hand() -> None:
    """Steps of 0.1 (m - w): 0.1 and 0.2 in one orbit, -0.3 in the other; weights 1, 3 and 4."""
    settings = {"samples": [1, 3, 4], "batch": 4, "orbit_of": [0, 0, 1]}
    with quadratic_fleet([1, 1, 1], [[1], [2], [-3]], **settings) as fleet:
        method = FedLEOSink()
        state = method.round(method.start(fleet), fleet.at(0))
        assert state["sink"].tolist() == [0, 2]
        assert (state["version"], state["global"][0]) == (0, 0.0)  # all train
        state = method.round(state, fleet.at(1))
        first = (1 * 0.1 + 3 * 0.2 - 4 * 0.3) / 8
        assert state["version"] == 1
        assert state["global"][0] == pytest.approx(first)
        np.testing.assert_allclose(state["received"], [[first], [first]], rtol=1e-6)
        state = method.round(state, fleet.at(2))
        mean = (1 * 1 + 3 * 2 - 4 * 3) / 8
        assert state["global"][0] == pytest.approx(first + 0.1 * (mean - first))
        size_bytes, ledger = 4, fleet.ledger
        # In each round one model per orbit goes up and one down, and one each way in the first.
        assert ledger.to_ground_bytes == 2 * 2 * size_bytes
        assert ledger.from_ground_bytes == 3 * 2 * size_bytes
        assert ledger.isl_bytes == (3 + 2) * size_bytes


@pytest.mark.parametrize("sink", ["earliest", "longest", "first"])
@pytest.mark.parametrize("satellites", [1, 3])
def test_always_in_view_it_is_fedavg_a_round_later(sink: str, satellites: int) -> None:
    world = small_world(np.ones((5, 3), dtype=bool), satellites_per_plane=satellites)
    ours, theirs = play(FedLEOSink(sink=sink), world), play(FedAvg(), world)
    assert versions(ours) == [0, 0, 1, 2, 3, 4]
    for t in range(1, 5):
        np.testing.assert_allclose(ours[t + 1]["global"], theirs[t]["global"], atol=1e-6)
    assert not np.array_equal(ours[-1]["global"], ours[-2]["global"])


ROWS: tuple[Row, ...] = (
    (0, 6, 0.0, 100.0),  # receives w
    (0, 6, 1000.0, 1200.0),
    (1, 6, 600.0, 700.0),
    (1, 6, 900.0, 1400.0),
)
"""Contacts of the first orbit; training lasts until 300 s."""


def chosen(model_s: float, rows: tuple[Row, ...] = ROWS, **parameters: Any) -> int:
    world = planned(*rows)
    world = planned(*rows, rates=with_model_s(world, model_s))
    with fleet_of(world) as fleet:
        return sink_of(FedLEOSink(**parameters), fleet.at(0), 0, [0, 1], [0, 1])


def test_a_window_that_is_a_second_too_short_is_skipped() -> None:
    assert chosen(100.0) == 1  # 600 to 700
    assert chosen(101.0) == 1  # 900 to 1,400: ends at 1,001
    assert chosen(101.0, ROWS[:3]) == 0  # 1,000 to 1,200


def test_ties_go_to_the_longer_window_and_then_to_the_lower_number() -> None:
    rows = ((0, 6, 0.0, 100.0), (0, 6, 600.0, 700.0), (1, 7, 600.0, 701.0))
    assert chosen(50.0, rows) == 1
    assert chosen(50.0, (*rows[:2], (1, 7, 600.0, 700.0))) == 0


def test_other_rules() -> None:
    assert chosen(50.0) == 1
    assert chosen(50.0, sink="first") == 0
    assert chosen(50.0, sink="longest") == 1
    rows = (*ROWS[:3], (0, 6, 1000.0, 1600.0))
    assert chosen(50.0, rows, sink="longest") == 0
    assert chosen(50.0, rows, sink="longest", period_s=500.0) == 1  # 300 to 800 s
    assert chosen(50.0, rows, sink="longest", period_s=10.0) == 1  # none: the first after it
    assert chosen(50.0, ROWS[:1]) == 0  # no window: the satellite that has w


@pytest.mark.parametrize("seed", range(20))
def test_no_other_satellite_could_upload_earlier(seed: int) -> None:
    """Against a search of all windows; with assumed links all satellites are ready at 300 s."""
    rng, begin_s, model_s = np.random.default_rng(seed), 0.0, 60.0
    rows: list[Row] = []
    while (begin_s := begin_s + rng.uniform(10.0, 300.0)) < 1500.0:
        length_s = rng.uniform(1.0, 200.0)
        rows.append((int(rng.integers(2)), int(rng.integers(6, 8)), begin_s, begin_s + length_s))
    world = planned(*rows)
    world = planned(*rows, rates=with_model_s(world, model_s))
    with fleet_of(world) as fleet:
        now, plan = fleet.at(0), world.active_plan
        assert set(ready(now, 0, [0, 1], [0, 1]).values()) == {300.0}
        ends_s = {
            k: min((u.end_s for s in now.servers for u in uploads(now, k, s, 300.0)), default=1e9)
            for k in (0, 1)
        }
        sink = sink_of(FedLEOSink(), now, 0, [0, 1], [0, 1])
    starts_s = np.maximum(plan.begin_s, 300.0)
    fits = plan.end_s - starts_s >= model_s
    assert ends_s[sink] == min(ends_s.values())
    assert ends_s[sink] == pytest.approx(min(starts_s[fits] + model_s, default=1e9))


def test_an_epoch_never_ends_later_than_with_the_receiver_as_sink() -> None:
    rng, earlier = np.random.default_rng(0), 0
    for _ in range(12):
        rows = [
            (k, 6, begin_s, begin_s + 250.0)
            for k in range(6)
            for begin_s in rng.uniform(0.0, 1600.0, 3).tolist()
        ]
        world = planned(*rows)
        earliest, first = (versions(play(FedLEOSink(sink=s), world)) for s in ("earliest", "first"))
        # Epochs after the first begin at other times: the first is what can be compared.
        ends = [found.index(1) if 1 in found else 99 for found in (earliest, first)]
        assert ends[0] <= ends[1]
        earlier += ends[0] < ends[1]
    assert earlier > 0


def test_the_sink_does_not_depend_on_what_is_learned() -> None:
    world = small_world(links="causal")
    changed = with_inverted_images(world, range(6))
    ours, theirs = play(FedLEOSink(), world), play(FedLEOSink(), changed)
    assert not np.array_equal(ours[-1]["global"], theirs[-1]["global"])
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(one["sink"], other["sink"])


def test_the_sink_waits_for_training_on_board() -> None:
    """Satellite 1 trains for two slots, so that its window in the second comes too early."""
    rows = ((0, 6, 0.0, 100.0), (1, 6, 400.0, 500.0), (0, 6, 900.0, 950.0))
    speeds = [len(part) for part in planned(*rows).partition.train]
    assert chosen(10.0, rows) == 1
    slow = planned(*rows, onboard={"samples_per_s": speeds[1] / 500.0})
    with fleet_of(slow) as fleet:
        now = fleet.at(0)
        assert now.training_s(1) == pytest.approx(500.0)
        assert set(ready(now, 0, [0, 1], [1]).values()) == {600.0}
        assert sink_of(FedLEOSink(), now, 0, [0, 1], [1]) == 0


def test_over_real_links_it_matters_where_models_meet() -> None:
    """Neighbours meet at 400 s; before, satellite 0 has contacts but not both models."""
    rows = ((0, 6, 0.0, 100.0), (0, 1, 50.0, 90.0), (0, 1, 400.0, 420.0))
    late = ((0, 6, 350.0, 390.0), (1, 6, 700.0, 800.0), (0, 6, 900.0, 950.0))
    world = planned(*rows, *late, links="physical", isl="line-of-sight")
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        assert ready(now, 0, [0, 1], [0, 1]) == {0: 400.0, 1: 400.0}
        assert sink_of(FedLEOSink(), now, 0, [0, 1], [0, 1]) == 1


def test_an_epoch_that_waits_for_rounds_takes_the_mean_of_those_that_are_in() -> None:
    seen = np.array([[1, 0], [1, 0], [1, 1], [1, 1], [1, 1]])
    settings = {"orbit_of": [0, 1], "samples": [1, 3], "batch": 3, "visible": seen}
    with quadratic_fleet([1, 1], [[1], [-1]], **settings) as fleet:
        patient = play_on(fleet, FedLEOSink(), 4)
    assert patient["version"] == 1
    assert patient["global"][0] == pytest.approx((1 * 0.1 - 3 * 0.1) / 4)
    with quadratic_fleet([1, 1], [[1], [-1]], **settings) as fleet:
        hasty = play_on(fleet, FedLEOSink(wait=1), 4)
    # Orbit 0 alone in round 1: 0.1, and in round 2: 0.19. Both together in round 3.
    assert hasty["version"] == 3
    both = 0.19 + (1 * 0.081 - 3 * 0.119) / 4
    assert hasty["global"][0] == pytest.approx(both)


def test_an_orbit_that_loses_its_sink_begins_anew() -> None:
    """Satellite 0 is lost with the models of the others; they train again and are in at last."""
    always = np.ones((6, 1), dtype=bool)
    leave = {"round": 1, "kind": "leave", "satellite": 0}
    world = small_world(always, satellites_per_plane=3, links="causal", events=[leave])
    states = play(FedLEOSink(), world)
    assert states[1]["sink"].tolist() == [0]
    assert versions(states) == [0, 0, 0, 1, 2, 3, 4]
    assert states[2]["crew"].tolist() == [False, True, True]


def test_what_a_sink_has_gathered_is_dropped_with_the_attempt() -> None:
    """Satellite 2 takes three rounds and is lost after two: the others train again without it."""
    leave = {"round": 2, "kind": "leave", "satellite": 2}
    always = np.ones((6, 1), dtype=bool)
    world = small_world(always, satellites_per_plane=3, links="causal", events=[leave])
    sizes = np.array([len(part) for part in world.partition.train])
    hardware = Hardware(sizes / [100.0, 100.0, 800.0], 300.0, deadline=False, isl_mbps=None)
    states = play(FedLEOSink(), replace(world, hardware=hardware))
    assert [int(state["samples"][0]) for state in states[:4]] == [0, 0, sizes[:2].sum(), 0]
    assert versions(states) == [0, 0, 0, 0, 1, 2, 3]
    assert states[3]["crew"].tolist() == [True, True, False]
    assert states[3]["mass"] == 0


def test_an_orbit_without_samples_has_the_newest_model() -> None:
    settings = {"samples": [1, 0], "orbit_of": [0, 1]}
    with quadratic_fleet([1, 1], [[1], [-1]], **settings) as fleet:
        state = play_on(fleet, FedLEOSink(), 3)
    assert state["version"] == 2
    np.testing.assert_array_equal(state["received"], [state["global"]] * 2)
