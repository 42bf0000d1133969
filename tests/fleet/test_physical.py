"""Physical links: single messages, relayed contacts, and aggregations that take time; by hand.

Six satellites in three orbits (0 and 1, 2 and 3, 4 and 5), the ground at node 6, slots of 300 s.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet import Fleet, Now
from fedorbit.learning.engine import Program
from fedorbit.learning.parameters import Vector
from fedorbit.methods.ditto import Ditto
from fedorbit.methods.effort import Work
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.local import Local
from fedorbit.methods.steps import train_orbit
from fedorbit.simulation.world import World
from fedorbit.testing import fleet_of, play, reloaded, small_world
from fedorbit.testing.playing import Snapshot
from tests.fleet.plans import planned

SIGHT: dict[str, Any] = {"links": "physical", "isl": "line-of-sight"}
NONE: dict[str, Any] = {"links": "physical", "isl": "none"}
Rows = tuple[tuple[int, int, float, float], ...]


def models_of(fleet: Fleet) -> tuple[float, float, float, float]:
    """Models to the ground, from it, between satellites, and without a link."""
    ledger, size = fleet.ledger, 4 * fleet.layout.size
    kinds = ("to_ground", "from_ground", "isl", "unlinked")
    to, down, isl, unlinked = (getattr(ledger, f"{kind}_bytes") / size for kind in kinds)
    return to, down, isl, unlinked


def program(now: Now, orbit: int, intra_rounds: int = 1) -> Program[Vector]:
    return train_orbit(now, orbit, now.fleet.initial_model(), Work(1, intra_rounds))


def ends(world: World, orbit: int = 0, **how: Any) -> int | None:
    """Return the slot that hands over what an orbit begins in slot 0, with a resume in each."""
    intra_rounds = how.pop("intra_rounds", 1)
    with fleet_of(world) as fleet:
        for t in range(6):
            now = fleet.at(t)
            programs = {orbit: program(now, orbit, intra_rounds)} if t == 0 else {}
            if now.orbits.run(programs, **how):
                return t
            saved = reloaded(Snapshot(t + 1, {}, *fleet.saved()))
            fleet.restore(saved.world, saved.arrays)
    return None


# --- Single messages ------------------------------------------------------------------------------


def test_satellites_of_an_orbit_have_the_links_of_the_plan() -> None:
    rows: Rows = ((0, 1, 50.0, 100.0), (1, 2, 350.0, 400.0))
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        assert [fleet.at(t).neighbours(1) for t in range(3)] == [[0], [2], []]
        model = fleet.initial_model()
        assert fleet.at(0).send(0, 1, model) == 0
        assert fleet.at(0).send(0, 2, model, route=[1], wait=True) == 1
        with pytest.raises(LinkError, match="node 0 cannot send to node 1 in round 1: they have"):
            fleet.at(1).send(0, 1, model)
        assert fleet.at(1).send(0, 1, model, wait=True) is None
        assert fleet.at(0).window(0, 1) == (50.0, 100.0)


def test_without_links_satellites_reach_the_ground_alone() -> None:
    rows: Rows = ((0, 1, 50.0, 100.0), (0, 6, 0.0, 100.0), (1, 6, 350.0, 400.0))
    with fleet_of(planned(*rows, **NONE)) as fleet:
        assert fleet.at(0).neighbours(0) == []
        model = fleet.initial_model()
        assert fleet.at(0).send(0, 1, model, wait=True) is None
        assert fleet.at(0).send(0, 1, model, route=[6], wait=True) == 1


def test_messages_between_satellites_take_time_where_links_have_a_rate() -> None:
    parameters = len(small_world().initial_model)
    rates = {"isl_mbps": 8 * 4 * parameters / 1e6 / 60}  # a model takes a minute
    with fleet_of(planned((0, 1, 0.0, 90.0), (0, 1, 600.0, 700.0), rates=rates, **SIGHT)) as fleet:
        now, model = fleet.at(0), fleet.initial_model()
        assert now.transfer_s(0, 1) == pytest.approx(60)
        assert now.send(0, 1, model, wait=True) == 0
        assert now.send(0, 1, model, wait=True) == 2  # 30 s of the first contact are left


# --- Contact with the ground ----------------------------------------------------------------------


def test_contacts_may_be_relayed_there_and_back_within_a_slot() -> None:
    """The ground sees satellite 2 in slots 0 and 1; satellites 0 and 4 see satellite 2."""
    rows: Rows = (
        (2, 6, 0.0, 100.0),
        (0, 2, 20.0, 60.0),
        (2, 4, 120.0, 160.0),  # a message gets there, and not back
        (2, 6, 400.0, 500.0),
        (0, 2, 310.0, 350.0),  # too early: the ground is heard later
    )
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        assert [fleet.at(t).orbits.visible for t in range(3)] == [[0, 1], [1], []]
        assert fleet.at(3).orbits.dark_rounds().tolist() == [2, 1, 3]
    with fleet_of(planned(*rows, **NONE)) as fleet:
        assert [fleet.at(t).orbits.visible for t in range(3)] == [[1], [1], []]


def test_relays_need_the_time_for_a_model() -> None:
    parameters = len(small_world().initial_model)
    rates = {"isl_mbps": 8 * 4 * parameters / 1e6 / 30}
    rows: Rows = ((2, 6, 0.0, 100.0), (0, 2, 20.0, 60.0))  # 40 s, and two hops of 30 s
    assert not planned(*rows, rates=rates, **SIGHT).schedule.visible[0, 0]
    longer = (rows[0], (0, 2, 20.0, 81.0))
    assert planned(*longer, rates=rates, **SIGHT).schedule.visible[0, 0]


def test_every_hop_of_an_upload_and_a_download_is_counted() -> None:
    rows: Rows = ((2, 6, 0.0, 100.0), (0, 2, 20.0, 60.0), (0, 1, 700.0, 800.0))
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        fleet.at(0).orbits.upload(0, fleet.initial_model())
        assert models_of(fleet) == (1, 0, 1, 0)
        fleet.at(0).orbits.download(0, fleet.initial_model())  # to both of its satellites
        assert models_of(fleet) == (1, 1, 3, 0)
        with pytest.raises(LinkError, match="orbit 0 cannot upload its model in round 1"):
            fleet.at(1).orbits.upload(0, fleet.initial_model())


# --- Aggregations ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "mode", "slot"),
    [
        (((0, 1, 0.0, 60.0),), SIGHT, 0),
        (((0, 1, 50.0, 60.0),), SIGHT, 0),
        (((0, 1, 650.0, 660.0),), SIGHT, 2),
        (((0, 1, 600.0, 660.0),), SIGHT, 2),  # a contact covers its begin
        (((0, 1, 50.0, 60.0),), NONE, None),
        (((2, 3, 50.0, 60.0),), SIGHT, None),
        # By other planes: 0 to 1 over satellite 2 at 112 s, and back at 700 s.
        (((0, 2, 100.0, 110.0), (1, 2, 112.0, 115.0), (0, 2, 700.0, 710.0)), SIGHT, 2),
        # Through the ground: 0 to 1 at 310 s, and 1 to 0 at 900 s.
        (((0, 6, 0.0, 10.0), (1, 6, 310.0, 320.0), (0, 6, 900.0, 910.0)), NONE, 3),
        (((0, 6, 0.0, 10.0), (1, 6, 310.0, 320.0)), NONE, None),
    ],
)
def test_an_aggregation_ends_with_its_last_message(
    rows: Rows, mode: dict[str, Any], slot: int | None
) -> None:
    assert ends(planned(*rows, **mode)) == slot


def test_intra_orbit_rounds_follow_each_other() -> None:
    # The second contact is used by the second exchange alone, in both directions at once.
    rows: Rows = ((0, 6, 0.0, 10.0), (1, 6, 310.0, 320.0), (0, 6, 900.0, 910.0),
                  (1, 6, 1200.0, 1210.0), (0, 6, 1500.0, 1510.0))  # fmt: skip
    world = planned(*rows, **NONE)
    # First exchange: 1 has all at 310, 0 at 900. Second: 0 sends at 900, 1 has all at 1200.
    # Satellite 1 trains again at 310 s, and its result is on the ground before 900 s.
    assert ends(world) == 3
    assert ends(world, intra_rounds=2) == 4


def test_hops_and_training_take_their_time() -> None:
    parameters = len(small_world().initial_model)
    rates = {"isl_mbps": 8 * 4 * parameters / 1e6 / 30}
    rows: Rows = ((0, 1, 280.0, 290.0), (0, 1, 590.0, 625.0), (0, 1, 900.0, 1000.0))
    assert ends(planned(*rows, **SIGHT)) == 0
    assert ends(planned(*rows, rates=rates, **SIGHT)) == 2  # from 590 to 620 s
    slow = {"samples_per_s": 0.02}
    world = planned(*rows, **SIGHT, onboard=slow)
    longest_s = max(len(world.partition.train[k]) for k in (0, 1)) / 0.02
    assert 625 < longest_s < 1000
    assert ends(world) == 3


def test_a_download_spreads_from_the_satellite_in_contact() -> None:
    rows: Rows = ((0, 1, 100.0, 110.0), (0, 6, 200.0, 250.0), (0, 1, 400.0, 410.0))
    world = planned(*rows, **SIGHT)
    assert ends(world) == 0  # at 100 s, before the contact with the ground
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        now.orbits.download(0, fleet.initial_model())  # 0 has it at 200 s, 1 at 400 s
        assert now.orbits.run({0: program(now, 0)}) == {}
        assert list(fleet.at(1).orbits.run({})) == [0]


def test_an_orbit_is_busy_until_its_result_is_handed_over() -> None:
    rows: Rows = ((0, 6, 0.0, 10.0), (0, 1, 350.0, 360.0), (0, 6, 300.0, 340.0),
                  (1, 6, 900.0, 950.0))  # fmt: skip
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        now = fleet.at(0)
        assert now.orbits.visible == [0]
        assert now.orbits.run({0: program(now, 0)}, upload=True) == {}
        assert now.orbits.visible == now.orbits.reachable == []
        assert now.orbits.in_contact == [0]
        # It ends at 350 s, after the contact of slot 1: so it waits for slot 3.
        for t in (1, 2):
            assert fleet.at(t).orbits.run({0: program(fleet.at(t), 0)}, upload=True) == {}
        assert fleet.ledger.epochs == [1, 0, 0]
        now = fleet.at(3)
        assert fleet.visible[1, 0]
        [(orbit, model)] = now.orbits.run({}, upload=True).items()
        assert now.orbits.visible == [orbit] == [0]
        now.orbits.upload(0, model)


def test_an_orbit_exchanges_what_it_holds_while_it_aggregates() -> None:
    """Satellite 0 meets the ground in all slots, and its mate in slot 3."""
    rows: Rows = ((0, 6, 0.0, 1800.0), (0, 1, 950.0, 960.0))
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        assert now.orbits.run({0: program(now, 0)}) == {}
        now.orbits.upload(0, w)
        now.orbits.download(0, w)
        assert models_of(fleet)[:2] == (1, 1)
        assert [fleet.at(t).orbits.in_contact for t in (1, 2)] == [[0], [0]]
        assert list(fleet.at(3).orbits.run({})) == [0]


def test_a_result_that_comes_after_the_contact_waits_for_the_next() -> None:
    rows: Rows = ((0, 6, 300.0, 340.0), (0, 1, 350.0, 360.0), (1, 6, 900.0, 950.0))
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        assert fleet.at(0).orbits.run({0: program(fleet.at(0), 0)}) == {}
        now = fleet.at(1)
        assert now.orbits.in_contact == [0]  # with the model that it had
        assert list(now.orbits.run({})) == [0]  # at 350 s
        assert now.orbits.in_contact == []
        with pytest.raises(LinkError, match="orbit 0 cannot upload its model in round 1"):
            now.orbits.upload(0, fleet.initial_model())
        assert fleet.at(3).orbits.in_contact == [0]


def test_results_are_returned_for_their_purpose() -> None:
    with fleet_of(planned((0, 1, 350.0, 360.0), (2, 3, 350.0, 360.0), **SIGHT)) as fleet:
        now = fleet.at(0)
        assert now.orbits.run({0: program(now, 0)}) == {}
        assert now.orbits.run({1: program(now, 1)}, purpose=1) == {}
        now = fleet.at(2)
        assert [list(now.orbits.run({}, purpose=purpose)) for purpose in (1, 0)] == [[1], [0]]


def test_what_is_trained_does_not_depend_on_links() -> None:
    with fleet_of(planned((0, 1, 350.0, 360.0), **SIGHT)) as fleet:
        fleet.at(0).orbits.run({0: program(fleet.at(0), 0)})
        late = fleet.at(2).orbits.run({})[0]
    with fleet_of(small_world()) as fleet:
        np.testing.assert_array_equal(late, fleet.at(0).orbits.run({0: program(fleet.at(0), 0)})[0])


def test_a_satellite_that_joins_holds_nothing_before_it_has_received_it() -> None:
    """Satellite 1 joins in slot 2 and meets the ground; its mate reaches neither of them."""
    join = [{"round": 2, "kind": "join", "satellite": 1}]
    rows: Rows = ((1, 6, 700.0, 800.0), (2, 6, 0.0, 100.0))
    with fleet_of(planned(*rows, **SIGHT, events=join)) as fleet:
        method, state = FedOrbit(), FedOrbit().start(fleet)
        for t in range(4):
            assert 0 not in fleet.at(t).orbits.in_contact
            state = method.round(state, fleet.at(t))
        assert (state["uploaded"][0] == fleet.initial_model()).all()
    rows += ((0, 1, 710.0, 720.0),)
    with fleet_of(planned(*rows, **SIGHT, events=join)) as fleet:
        fleet.at(2)  # it receives the model at 710 s, and can send it until 800 s
        assert models_of(fleet)[2] == 1
        assert fleet.at(2).orbits.in_contact == [0]


def test_a_result_is_lost_with_all_satellites_that_hold_it() -> None:
    """Satellite 0 trains alone and is lost in slot 3, before a contact; its mate trains on."""
    events = [
        {"round": 2, "kind": "join", "satellite": 1},
        {"round": 3, "kind": "leave", "satellite": 0},
    ]
    rows: Rows = ((0, 6, 0.0, 10.0), (0, 1, 650.0, 660.0), (1, 6, 900.0, 1800.0))
    world = planned(*rows, **SIGHT, events=events, onboard={"samples_per_s": 0.1})
    with fleet_of(world) as fleet:
        state, busy = FedAvg().start(fleet), []
        for t in range(6):
            state = FedAvg().round(state, fleet.at(t))
            assert fleet.onboard is not None and fleet.aggregations is not None
            fleet.onboard.begin(t + 1)
            busy.append(fleet.aggregations.is_busy(0))
        assert busy[:3] == [True] * 3
        assert not all(busy[3:])
        assert models_of(fleet)[0] > 0


def test_controls_travel_with_the_models_of_those_that_train() -> None:
    """An orbit of two, one of which has no samples: only the other has a model and a control."""
    world = planned((4, 5, 0.0, 1800.0), (4, 6, 0.0, 1800.0), **SIGHT)
    empty = world.partition.train[5][:0]
    train = (*world.partition.train[:5], empty)
    world = replace(world, partition=replace(world.partition, train=train))
    with fleet_of(world) as fleet:
        now, w = fleet.at(0), fleet.initial_model()

        def exchanged() -> Program[Vector]:
            model = yield from train_orbit(now, 2, w, Work(1, 1))
            now.orbits.exchange(2)
            return model

        assert list(now.orbits.run({2: exchanged()})) == [2]
        assert models_of(fleet)[2] == 2  # both from satellite 4 to its mate


def test_a_lost_satellite_takes_the_aggregation_with_it() -> None:
    rows: Rows = ((0, 1, 650.0, 660.0), (0, 6, 0.0, 1800.0))
    lost = {"round": 1, "kind": "leave", "satellite": 1}
    with fleet_of(planned(*rows, **SIGHT, events=[lost])) as fleet:
        assert fleet.at(0).orbits.run({0: program(fleet.at(0), 0)}) == {}
        assert fleet.at(0).orbits.visible == []
        now = fleet.at(1)
        assert now.orbits.visible == [0]
        assert list(now.orbits.run({0: program(now, 0)})) == [0]  # alone, and so at once


def test_an_exchange_counts_every_hop_of_its_routes() -> None:
    # 0 and 1 exchange through the ground, by satellite 2: two hops between satellites each.
    rows: Rows = ((0, 2, 0.0, 900.0), (1, 6, 0.0, 900.0), (2, 6, 0.0, 900.0))
    with fleet_of(planned(*rows, **SIGHT)) as fleet:
        assert list(fleet.at(0).orbits.run({0: program(fleet.at(0), 0)})) == [0]
        assert models_of(fleet) == (2, 2, 2, 0)


def test_a_message_passes_once_over_hops_that_its_routes_share() -> None:
    # Satellite 0 has all links to its three mates over satellite 1.
    rows: Rows = ((0, 1, 0.0, 900.0), (1, 2, 0.0, 900.0), (1, 3, 0.0, 900.0))
    world = planned(*rows, **SIGHT)
    with fleet_of(world) as fleet:
        routes = fleet.aggregations.routes if fleet.aggregations else None
        assert routes is not None
        assert routes.carry([0], 10.0, [1, 2, 3], 4 * fleet.layout.size).tolist() == [10.0] * 3
        assert models_of(fleet) == (0, 0, 3, 0)
        assert routes.carry([0], 10.0, [4], 1).tolist() == [np.inf]
        assert models_of(fleet) == (0, 0, 3, 0)


def test_two_programs_of_an_orbit_are_one_cycle() -> None:
    visible = np.ones((6, 3), dtype=bool)
    world = small_world(visible, **NONE)
    with fleet_of(world, needs=Ditto().needs) as fleet:
        state = Ditto().start(fleet)
        first = Ditto().round(state, fleet.at(0))
        np.testing.assert_array_equal(first["personal"], state["personal"])
        second = Ditto().round(first, fleet.at(1))
        assert (second["personal"] != state["personal"]).any(axis=1).all()


def test_an_orbit_cannot_aggregate_beside_its_links() -> None:
    with fleet_of(planned((0, 1, 0.0, 900.0), **SIGHT)) as fleet:
        now = fleet.at(0)
        with pytest.raises(LinkError, match=r"orbit 0 cannot aggregate within round 0: .* run its"):
            now.run({0: program(now, 0)})
        with pytest.raises(LinkError, match="orbit 0 cannot aggregate"):
            now.orbits.exchange(0)


def test_results_that_a_checkpoint_cannot_keep_are_refused() -> None:
    def strange() -> Iterator[Any]:
        yield []
        return {"model": 1}

    with (
        fleet_of(planned((0, 1, 0.0, 900.0), **SIGHT)) as fleet,
        pytest.raises(ModelError, match=r"returned \{'model': 1\}: what is under way must be"),
    ):
        fleet.at(0).orbits.run({0: strange()})  # type: ignore[dict-item]


# --- Assumed links --------------------------------------------------------------------------------


def test_assumed_links_are_causal_ones_and_counted_where_they_do_not_exist() -> None:
    with pytest.warns(UserWarning, match="satellites of 3 of 3 orbits do not always see each othe"):
        physical = small_world(links="physical")
    causal = small_world(links="causal")
    for one, other in zip(play(FedAvg(), physical), play(FedAvg(), causal), strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    for world, unlinked in ((physical, True), (causal, False)):
        with fleet_of(world) as fleet:
            Local().round(Local().start(fleet), fleet.at(0))
            assert (models_of(fleet)[3] > 0) == unlinked
            assert (models_of(fleet)[2] > 0) == (not unlinked)
            before = models_of(fleet)[2:]
            fleet.at(1).send(0, 1, fleet.initial_model())
            after = models_of(fleet)[2:]
            assert (after[0] - before[0], after[1] - before[1]) == (not unlinked, unlinked)
