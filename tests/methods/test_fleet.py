"""What a fleet tells of a round, when satellites leave and join."""

import numpy as np
import pytest

from fedorbit.errors import LinkError
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
            by_orbit = expected.reshape(3, 2, 4).sum(axis=1)
            np.testing.assert_array_equal(fleet.class_counts(t), expected)
            np.testing.assert_array_equal(fleet.samples(t), expected.sum(axis=1))
            np.testing.assert_array_equal(fleet.orbit_class_counts(t), by_orbit)
            np.testing.assert_array_equal(fleet.orbit_samples(t), by_orbit.sum(axis=1))
            assert fleet.present(t) == sorted({k // 2 for k in there[t]})
            for orbit in range(3):
                mine = [k for k in there[t] if k // 2 == orbit and counts[k].sum()]
                assert fleet.trainers(orbit, t) == mine
        assert [fleet.launched(t) for t in range(6)] == [[], [], [], [], [2], []]
        assert fleet.visible(4) == [2]  # orbit 1 would be in view, were it there
        assert fleet.reachable(3) == [0]


def test_dark_rounds_count_from_the_last_contact_or_from_launch() -> None:
    # Orbit 1 was in view in round 2 and is away from 3 to 4; orbit 2 is launched in round 4.
    with fleet_of(small_world(events=EVENTS)) as fleet:
        assert [fleet.dark_rounds(t).tolist() for t in range(7)] == [
            [0, 0, 0], [0, 1, 0], [1, 2, 0], [0, 0, 0], [1, 1, 0], [2, 2, 0], [0, 3, 0],
        ]  # fmt: skip
    with fleet_of(small_world()) as fleet:
        tau = [0, 0, 0]
        for t in range(6):
            assert fleet.dark_rounds(t).tolist() == tau
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
            FedAvg().round(FedAvg().start(fleet), 0, fleet)
            # N satellites of an orbit send N - 1 models out and N - 1 back.
            assert fleet.ledger.isl_bytes == 2 * (satellites - 3) * 4 * fleet.layout.size


def test_who_is_away_cannot_exchange_models_even_over_ideal_links() -> None:
    with fleet_of(small_world(events=EVENTS)) as fleet:
        model = fleet.initial_model()
        fleet.upload(2, 1, model)
        with pytest.raises(LinkError, match=r"orbit 1 cannot upload its model in round 3: none of"):
            fleet.upload(3, 1, model)
        with pytest.raises(LinkError, match=r"orbit 2 cannot receive a model in round 0: none of"):
            fleet.download(0, 2, model)


def test_centralised_has_the_samples_of_those_who_are_there() -> None:
    world = small_world(events=EVENTS)
    sizes = [len(part) for part in world.partition.train]
    with fleet_of(world) as fleet:
        state = Centralised().start(fleet)
        state = Centralised().round(state, 1, fleet)
        assert fleet.ledger.samples_trained == sum(sizes[:4])
        Centralised().round(state, 3, fleet)
        assert fleet.ledger.samples_trained == sum(sizes[:4]) + sizes[1]
        [job] = fleet.pooled_jobs(3, fleet.initial_model(), epochs=1, rate=0.01)
    np.testing.assert_array_equal(world.data.samples_of(job.satellite), world.partition.train[1])
