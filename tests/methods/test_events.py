"""Methods with orbits that leave and join."""

import numpy as np
import pytest

from fedorbit.methods import METHODS, make_method
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.testing import EVENTS, fleet_of, play, small_world

OF_ORBITS = sorted(METHODS.keys() - {"centralised", "fedbn"})  # LeNet has nothing for FedBN


@pytest.mark.parametrize("links", ["ideal", "causal"])
@pytest.mark.parametrize("name", OF_ORBITS)
def test_an_orbit_comes_back_with_what_it_had_on_board(name: str, links: str) -> None:
    method = make_method(name, {})
    states = play(method, small_world(links=links, events=EVENTS))
    # Orbit 1 is away in rounds 3 and 4; state t + 1 is the one after round t.
    for t in (3, 4):
        np.testing.assert_array_equal(
            method.models(states[t + 1])[1], method.models(states[3])[1], err_msg=f"round {t}"
        )


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "apfl", "ditto", "fedorbit"])
def test_an_orbit_is_launched_with_the_model_of_the_ground_station(name: str) -> None:
    method = make_method(name, {"dark_epochs": 0} if name == "fedorbit" else {})
    join = {"round": 3, "kind": "join", "orbit": 2}
    # Its first contact is in round 4; nobody is in view in round 3.
    states = play(method, small_world(links="causal", events=[join]))
    at_launch = states[3]["global"]
    assert not np.array_equal(at_launch, states[0]["global"])
    np.testing.assert_allclose(method.models(states[4])[2], at_launch, atol=1e-7)
    np.testing.assert_array_equal(method.models(states[3])[2], states[0]["global"])


def test_a_launched_orbit_of_ones_own_starts_where_all_started() -> None:
    join = {"round": 3, "kind": "join", "orbit": 2}
    states = play(make_method("local", {}), small_world(events=[join]))
    np.testing.assert_array_equal(states[4]["own"][2], states[0]["own"][2])


@pytest.mark.parametrize("links", ["ideal", "causal"])
def test_classes_of_a_departed_orbit_decay_with_its_staleness(links: str) -> None:
    """Orbit 1 uploads in round 0 and leaves; orbit 0 stays in view; orbit 2 is never seen."""
    rho, quality = 0.5, {0: 2, 1: 2, 2: 2}  # one epoch twice in view, two epochs once out of it
    visible = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]], dtype=bool)
    leave = {"round": 1, "kind": "leave", "orbit": 1}
    world = small_world(visible, links=links, events=[leave])
    layout, labels = world.spec.layout, world.data.labels
    parts = world.partition.train
    counts = {
        orbit: np.bincount(np.concatenate([labels[parts[2 * orbit + k]] for k in (0, 1)]), minlength=4)
        for orbit in range(3)
    }  # fmt: skip
    assert (counts[0] * counts[1] > 0).any(), "they must share a class, or nothing can decay"
    states = play(FedOrbit(rho=rho), world)
    last_news = states[1]["uploaded"][1]
    for t in (1, 2, 3):
        after = states[t + 1]
        np.testing.assert_array_equal(after["uploaded"][1], last_news)
        known = [0, 1, 2] if links == "ideal" else [0, 1]
        sigma = {0: 0, 1: t, 2: t + 1}
        upload = {o: after["uploaded"][o].astype(float) for o in known}
        for c, row in enumerate(layout.class_rows):
            weight = {o: counts[o][c] * rho ** sigma[o] for o in known}
            if total := sum(weight.values()):
                expected = sum(weight[o] * upload[o][row] for o in known) / total
                np.testing.assert_allclose(after["global"][row], expected, atol=1e-6)
            else:
                np.testing.assert_array_equal(after["global"][row], states[t]["global"][row])
        weight = {o: counts[o].sum() * rho ** sigma[o] for o in known}
        fc2 = layout.shared_classifier
        expected = sum(weight[o] * upload[o][fc2] for o in known) / sum(weight.values())
        np.testing.assert_allclose(after["global"][fc2], expected, atol=1e-6)
        # It makes no effort any more. A ground station without a link goes on with its last one.
        heard = [0, 2] if links == "ideal" else [0, 1]
        features = layout.features
        expected = sum(quality[o] * upload[o][features] for o in heard) / 4
        np.testing.assert_allclose(after["global"][features], expected, atol=1e-6)


def test_beta_is_that_of_the_orbits_that_are_there() -> None:
    world, method = small_world(events=EVENTS), FedOrbit()
    with fleet_of(world) as fleet:
        assert method.similarity(fleet.at(3)) == 1.0  # a single orbit is like itself
        assert 0.0 < method.similarity(fleet.at(5)) < 1.0
        assert method.similarity(fleet.at(0)) != method.similarity(fleet.at(5))


def test_who_was_away_for_long_is_dampened_as_after_the_longest_gap() -> None:
    assert FedOrbit().dampened(0.01, 500, 191) == FedOrbit().dampened(0.01, 191, 191)
