"""The orbit tier of a round, when satellites leave and join."""

import numpy as np
import pytest

from fedorbit.errors import LinkError
from fedorbit.fleet import Fleet
from fedorbit.methods.centralised import Centralised
from fedorbit.methods.fedavg import FedAvg
from fedorbit.testing import EVENTS, PATTERN, fleet_of, small_world


def test_counts_are_those_of_who_is_there() -> None:
    world = small_world(events=EVENTS)
    counts = np.array(
        [np.bincount(world.data.labels[part], minlength=4) for part in world.partition.train]
    )
    there = {0: [0, 1, 2, 3], 1: [0, 1, 2, 3], 2: [1, 2, 3], 3: [1], 4: [1, 4, 5]}
    there[5] = [1, 2, 3, 4, 5]
    with fleet_of(world) as fleet:
        for t in (5, 0, 3, 4, 1, 2):  # in any order: nothing but t counts
            expected = np.zeros_like(counts)
            expected[there[t]] = counts[there[t]]
            by_orbit, now = expected.reshape(3, 2, 4).sum(axis=1), fleet.at(t)
            assert now.satellites == there[t]
            np.testing.assert_array_equal(now.class_counts, expected)
            np.testing.assert_array_equal(now.samples, expected.sum(axis=1))
            np.testing.assert_array_equal(now.orbits.class_counts, by_orbit)
            np.testing.assert_array_equal(now.orbits.samples, by_orbit.sum(axis=1))
            assert now.orbits.active == sorted({k // 2 for k in there[t]})
            for orbit in range(3):
                mine = [k for k in there[t] if k // 2 == orbit and counts[k].sum()]
                assert now.orbits.trainers(orbit) == mine
                assert now.orbits.satellites(orbit) == [k for k in there[t] if k // 2 == orbit]
        assert [fleet.at(t).orbits.launched for t in range(6)] == [[], [], [], [], [2], []]
        assert fleet.at(4).orbits.visible == [2]  # orbit 1 would be in view, were it there
        assert fleet.at(3).orbits.reachable == [0]


def dark_rounds(fleet: Fleet) -> list[list[int]]:
    """Before each of the six rounds, and after the last."""
    last = fleet.at(5).orbits.dark_rounds(after=1)
    return [*(fleet.at(t).orbits.dark_rounds().tolist() for t in range(6)), last.tolist()]


def test_dark_rounds_count_from_the_last_contact_or_from_launch() -> None:
    # Orbit 1 was in view in round 2 and is away from 3 to 4; orbit 2 is launched in round 4.
    with fleet_of(small_world(events=EVENTS)) as fleet:
        assert dark_rounds(fleet) == [
            [0, 0, 0], [0, 1, 0], [1, 2, 0], [0, 0, 0], [1, 1, 0], [2, 2, 0], [0, 3, 0],
        ]  # fmt: skip
    with fleet_of(small_world()) as fleet:
        tau, told = [0, 0, 0], dark_rounds(fleet)
        for t in range(6):
            assert told[t] == tau
            tau = [0 if PATTERN[t, o] else tau[o] + 1 for o in range(3)]


def test_rounds_away_are_no_gap() -> None:
    visible = np.array([[1, 0], [0, 1], [0, 0], [1, 0], [1, 0], [1, 0]], dtype=bool)
    assert small_world(visible).tau_max == 4  # orbit 1, from round 2 on
    left = {"round": 3, "kind": "leave", "orbit": 1}
    assert small_world(visible, events=[left]).tau_max == 2  # orbit 0, rounds 1 and 2


def test_only_present_satellites_exchange_models() -> None:
    lost = {"round": 0, "kind": "leave", "satellite": 1}
    always = np.ones((1, 3), dtype=bool)
    for events, satellites in (([], 9), ([lost], 8)):
        world = small_world(always, satellites_per_plane=3, samples=400, events=events)
        with fleet_of(world) as fleet:
            FedAvg().round(FedAvg().start(fleet), fleet.at(0))
            # N satellites of an orbit send N - 1 models out and N - 1 back.
            assert fleet.ledger.isl_bytes == 2 * (satellites - 3) * 4 * fleet.layout.size


def test_who_is_away_cannot_exchange_models_even_over_ideal_links() -> None:
    with fleet_of(small_world(events=EVENTS)) as fleet:
        model = fleet.initial_model()
        fleet.at(2).orbits.upload(1, model)
        with pytest.raises(LinkError, match=r"orbit 1 cannot upload its model in round 3: none of"):
            fleet.at(3).orbits.upload(1, model)
        with pytest.raises(LinkError, match=r"orbit 2 cannot receive a model in round 0: none of"):
            fleet.at(0).orbits.download(2, model)


def test_centralised_has_the_samples_of_those_who_are_there() -> None:
    world = small_world(events=EVENTS)
    sizes = [len(part) for part in world.partition.train]
    with fleet_of(world) as fleet:
        state = Centralised().start(fleet)
        state = Centralised().round(state, fleet.at(1))
        assert fleet.ledger.samples_trained == sum(sizes[:4])
        Centralised().round(state, fleet.at(3))
        assert fleet.ledger.samples_trained == sum(sizes[:4]) + sizes[1]
        [job] = fleet.at(3).pooled_jobs(fleet.initial_model(), epochs=1)
    np.testing.assert_array_equal(world.data.samples_of(job.satellite), world.partition.train[1])
