"""FedHAP: chains by hand, and its identities."""

from typing import Any

import numpy as np
import pytest

import fedorbit.methods.fedhap as module
from fedorbit.config import Config
from fedorbit.errors import ConfigError
from fedorbit.fleet import Ledger, Now
from fedorbit.methods import State, make_method
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedhap import FedHAP
from fedorbit.methods.forwarding import forward
from fedorbit.simulation.world import build_world
from fedorbit.testing import fleet_of, play, small_world
from tests.fleet.plans import planned
from tests.methods.quadratic import play_on, quadratic_fleet

SAMPLES, MEANS = [1, 2, 3, 4], [[1.0], [-2.0], [3.0], [-4.0]]
MEAN = float(np.average(np.array(MEANS)[:, 0], weights=SAMPLES))
ORBIT = {"samples": SAMPLES, "batch": 4}
"""Four satellites in one orbit, each with one step of 0.1 (m - w) per epoch."""


def seen(*satellites: int, slots: int = 8, servers: int = 1, of: int = 4) -> np.ndarray:
    """Contacts of some satellites, all the time."""
    contacts = np.zeros((slots, of, servers))
    contacts[:, list(satellites)] = 1
    return contacts


def played(rounds: int, contacts: np.ndarray, **settings: Any) -> tuple[State, Ledger]:
    with quadratic_fleet([1, 1, 1, 1], MEANS, **ORBIT, contacts=contacts) as fleet:
        return play_on(fleet, FedHAP(**settings), rounds), fleet.ledger


def test_a_chain_around_the_orbit_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Satellite 1 alone is in view: w goes 1, 2, 3, 0, and so does p, which then goes up by 1."""
    state, ledger = played(1, seen(1))
    assert state["next"].tolist() == [-1, 2, 3, 0]
    assert (ledger.from_ground_bytes, ledger.isl_bytes, ledger.to_ground_bytes) == (4, 3 * 4, 0)
    partial = {}

    def noted(now: Now, source: int, target: int, vector: np.ndarray, **about: Any) -> bool:
        if "samples" in about:
            partial[source, target] = (about["samples"], pytest.approx(vector[0]))
        return forward(now, source, target, vector, **about)

    monkeypatch.setattr(module, "forward", noted)
    state, ledger = played(2, seen(1))
    assert partial == {(1, 2): (2, -0.2), (2, 3): (5, 0.1), (3, 0): (9, (0.5 - 1.6) / 9)}
    assert state["version"] == 1
    assert state["global"][0] == pytest.approx((0.5 - 1.6 + 0.1) / 10)
    assert ledger.to_ground_bytes == 4
    assert ledger.isl_bytes == (3 + 3 + 1) * 4 + 3 * 4  # and w of the next epoch
    np.testing.assert_array_equal(state["received"], [state["global"]])
    state, _ = played(3, seen(1))
    assert state["global"][0] == pytest.approx(0.1 * MEAN + 0.1 * (MEAN - 0.1 * MEAN))


@pytest.mark.parametrize("heads", [(0,), (3,), (0, 2), (1, 2), (1, 2, 3), (0, 1, 2, 3)])
def test_there_are_as_many_chains_as_satellites_in_view(heads: tuple[int, ...]) -> None:
    """Whatever their order and number, the model is the mean by samples."""
    state, ledger = played(2, seen(*heads))
    assert state["global"][0] == pytest.approx(0.1 * MEAN, rel=1e-6)
    assert ledger.to_ground_bytes == 4 * len(heads)
    assert ledger.from_ground_bytes == 2 * 4 * len(heads)


@pytest.mark.parametrize("satellites", [1, 3])
@pytest.mark.parametrize("links", ["ideal", "causal"])
def test_always_in_view_it_is_fedavg_a_round_later(satellites: int, links: str) -> None:
    always = np.ones((5, 3), dtype=bool)
    world = small_world(always, satellites_per_plane=satellites, links=links)
    ours, theirs = play(FedHAP(), world), play(FedAvg(), world)
    assert [int(state["version"]) for state in ours] == [0, 0, 1, 2, 3, 4]
    for t in range(1, 5):
        np.testing.assert_allclose(ours[t + 1]["global"], theirs[t]["global"], atol=1e-6)
        np.testing.assert_array_equal(ours[t + 1]["received"], [ours[t + 1]["global"]] * 3)
    assert not np.array_equal(ours[-1]["global"], ours[-2]["global"])


@pytest.mark.parametrize("heads", [(1,), (0, 2)])
def test_two_platforms_at_one_place_are_one(heads: tuple[int, ...]) -> None:
    (one, spent), (two, spent_by_two) = (played(5, seen(*heads, servers=n)) for n in (1, 2))
    assert one.keys() == two.keys()
    for name in one:
        np.testing.assert_array_equal(one[name], two[name], err_msg=name)
    assert spent.totals() == spent_by_two.totals()


def test_chains_end_at_any_platform() -> None:
    """Satellite 0 is seen by the first, satellite 2 by the second: the same as one with both."""
    apart = seen(0, 2, servers=2)
    apart[:, 0, 1] = apart[:, 2, 0] = 0
    (one, spent), (two, spent_by_two) = played(4, seen(0, 2)), played(4, apart)
    np.testing.assert_array_equal(one["global"], two["global"])
    assert spent.totals() == spent_by_two.totals()


def test_duplicates_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    once, _ = played(4, seen(0, 2))
    send = module.to_servers

    def twice(*message: Any, **about: Any) -> bool:
        return send(*message, **about) and send(*message, **about)

    monkeypatch.setattr(module, "to_servers", twice)
    again, ledger = played(4, seen(0, 2))
    for name in once:
        np.testing.assert_array_equal(once[name], again[name], err_msg=name)
    assert ledger.to_ground_bytes == 3 * 2 * 2 * 4


def test_an_orbit_waits_for_its_first_contact_and_the_epoch_with_it() -> None:
    contacts = seen(0, slots=6)
    contacts[:, 2] = [[0], [0], [1], [0], [1], [1]]  # of the other orbit, satellites 2 and 3
    settings = {**ORBIT, "orbit_of": [0, 0, 1, 1], "contacts": contacts}
    with quadratic_fleet([1] * 4, MEANS, **settings) as fleet:
        method = FedHAP()
        states = [method.start(fleet)]
        for t in range(6):
            states.append(method.round(states[-1], fleet.at(t)))
    assert [int(state["version"]) for state in states] == [0, 0, 0, 0, 0, 1, 2]
    assert states[5]["global"][0] == pytest.approx(0.1 * MEAN)
    with quadratic_fleet([1] * 4, MEANS, **settings) as fleet:
        state = play_on(fleet, FedHAP(wait=2), 3)
    assert state["version"] == 1  # of the first orbit alone
    assert state["global"][0] == pytest.approx(0.1 * (1 * 1 - 2 * 2) / 3)


@pytest.mark.parametrize("wait", [0, "some", 2.5, True])
def test_what_cannot_be_waited_for_is_refused(wait: Any) -> None:
    with pytest.raises(ConfigError, match=r'wait: must be "all" or a whole number.*, got'):
        make_method("fedhap", {"wait": wait})


def test_a_satellite_that_is_lost_breaks_the_chain_and_its_orbit_begins_anew() -> None:
    always = np.ones((6, 1), dtype=bool)
    leave = {"round": 1, "kind": "leave", "satellite": 1}
    world = small_world(always, satellites_per_plane=3, links="causal", events=[leave])
    states = play(FedHAP(), world)
    assert [int(state["version"]) for state in states] == [0, 0, 0, 1, 2, 3, 4]
    assert states[2]["attempt"] == states[1]["attempt"] + 2
    assert states[2]["crew"].tolist() == [True, False, True]


def test_over_real_links_a_chain_takes_the_time_of_its_hops() -> None:
    """Satellites 0 and 1 meet at 350 s: w, and p that waits for the training of satellite 1."""
    rows = ((0, 6, 0.0, 100.0), (0, 1, 350.0, 400.0), (1, 6, 1300.0, 1350.0))
    world = planned(*rows, links="physical", isl="line-of-sight")
    sizes = [len(part) for part in world.partition.train]
    with fleet_of(world) as fleet:
        method = FedHAP(wait=1)
        states = [method.start(fleet)]
        for t in range(6):
            states.append(method.round(states[-1], fleet.at(t)))
    took = [state["has"][:2].tolist() for state in states]
    assert took[1:3] == [[1, 0], [1, 1]]  # w in slots 0 and 1
    both = sizes[0] + sizes[1]
    assert [int(state["partial_samples"][1]) for state in states[:5]] == [
        0,
        0,
        sizes[0],
        both,
        both,
    ]
    assert [int(state["version"]) for state in states] == [0, 0, 0, 0, 0, 1, 1]
    assert fleet.ledger.isl_bytes == 2 * 4 * fleet.layout.size


def test_a_chain_ends_at_a_satellite_that_is_in_already() -> None:
    """Satellite 1 is seen by a HAP before w reaches it from 0; p of 0 goes up through it.

    A model takes 60 s down and 80 s up, so that contacts of 70 s are for w alone.
    """
    rows = (
        (0, 6, 0.0, 70.0), (1, 6, 350.0, 420.0), (1, 6, 650.0, 750.0),
        (0, 1, 950.0, 990.0), (1, 6, 1300.0, 1400.0),
    )  # fmt: skip
    megabits = 32 * len(planned(*rows).initial_model) / 1e6
    rates = {"from_ground_mbps": megabits / 60.0, "to_ground_mbps": megabits / 80.0}
    states = play(FedHAP(), planned(*rows, links="physical", isl="line-of-sight", rates=rates))
    assert states[1]["next"][0] == 1
    assert [state["is_in"][:2].tolist() for state in states[2:6]] == [
        [False, False], [False, True], [False, True], [True, True],
    ]  # fmt: skip


def test_where_no_way_is_left_to_a_neighbour_it_begins_a_chain_of_its_own() -> None:
    """Satellite 1 has w of 0, which trains until they have parted for good; both go up alone."""
    rows = ((0, 6, 0.0, 50.0), (0, 1, 60.0, 100.0), (1, 6, 1000.0, 1050.0), (0, 6, 1300.0, 1350.0))
    how = {"links": "physical", "isl": "line-of-sight"}
    sizes = [len(part) for part in planned(*rows, **how).partition.train]
    slow = planned(*rows, onboard={"samples_per_s": sizes[0] / 500.0}, **how)
    states = play(FedHAP(), slow)
    assert states[1]["next"][0] == 1
    assert [state["is_in"][:2].tolist() for state in states[3:]] == [
        [False, False], [False, True], [True, True], [True, True],
    ]  # fmt: skip


def test_without_links_between_satellites_it_is_a_star() -> None:
    """Every satellite is its own chain; no model goes by a server to a neighbour."""
    world = small_world(np.ones((3, 2), dtype=bool), links="physical", isl="none")
    with fleet_of(world) as fleet:
        method = FedHAP()
        state = method.round(method.round(method.start(fleet), fleet.at(0)), fleet.at(1))
        assert state["version"] == 1
        assert (state["next"] == -1).all()
        model_bytes = 4 * fleet.layout.size
        assert fleet.ledger.to_ground_bytes == 4 * model_bytes
        assert fleet.ledger.from_ground_bytes == 2 * 4 * model_bytes


def test_a_platform_at_the_height_and_with_the_mask_of_a_station_is_one() -> None:
    def world(role: str) -> Any:
        station = {"name": "s", "latitude_deg": 51.0, "longitude_deg": 0.0, "role": role}
        return build_world(
            Config.model_validate(
                {
                    "constellation": {"planes": 3, "satellites_per_plane": 2},
                    "stations": [station],
                    "schedule": {"rounds": 30},
                    "data": {"synthetic": {"classes": 4, "samples": 60, "size": 16}},
                    "training": {"epochs": 1},
                    "run": {"rounds": 30, "links": "causal"},
                }
            )
        )

    ground, platform = (play(FedHAP(wait=4), world(role)) for role in ("ground", "platform"))
    assert ground[-1]["version"] > 0
    for name in ground[-1]:
        np.testing.assert_array_equal(ground[-1][name], platform[-1][name], err_msg=name)
