"""Links, messages and what they cost, node by node."""

import numpy as np
import pytest

from fedorbit.activity import Activity
from fedorbit.config import Config
from fedorbit.errors import LinkError, ModelError
from fedorbit.fleet import Fleet
from fedorbit.fleet.topology import Topology
from fedorbit.orbits.plan import plan_of_slots
from fedorbit.simulation.world import build_world
from fedorbit.testing import EVENTS, PATTERN, fleet_of, reached, reloaded, small_world
from fedorbit.testing.playing import Snapshot
from tests.fleet.plans import planned

GROUND = 6  # after satellites 0 to 5, two in each of three orbits


def ones(fleet: Fleet, value: float = 1.0) -> np.ndarray:
    return np.full(fleet.layout.size, value, dtype=np.float32)


def test_nodes_and_links_are_those_of_the_plan() -> None:
    with fleet_of(small_world(links="causal", events=EVENTS)) as fleet:
        assert list(fleet.servers) == [GROUND]
        # PATTERN: orbit 0, none, orbits 0 and 1 (satellite 0 is lost), none, orbit 2, all active.
        seen = [fleet.at(t).satellites_of(GROUND) for t in range(6)]
        assert seen == [[0, 1], [], [1, 2, 3], [], [4, 5], [1, 4, 5]]
        assert [fleet.at(t).satellites_of() for t in range(6)] == seen
        assert fleet.at(2).servers_of(2) == [GROUND]
        assert fleet.at(2).servers_of(0) == []  # lost
        assert fleet.at(0).neighbours(0) == [1]
        assert fleet.at(2).neighbours(1) == []
        assert fleet.at(2).neighbours(0) == []


def test_no_link_begins_a_slot_early_through_rounding() -> None:
    """Six slots of 86400 / 333 s: the end of the fifth, summed, is after the sixth's begin."""
    slot_s, seen = 86400 / 333, np.zeros((10, 1, 1), dtype=bool)
    seen[6:8] = True
    orbit_of = np.zeros(1, dtype=np.int64)
    plan = plan_of_slots(seen, slot_s)
    topology = Topology(plan, orbit_of, Activity.always(1), slots=10, slot_s=slot_s)
    assert topology.linked_slots(0, 10, 0, 1) == [6, 7]


def test_windows_are_those_of_the_plan() -> None:
    world = planned((0, 6, 350.0, 700.0), (0, 6, 1000.0, 1100.0), (1, 7, 0.0, 300.0))
    with fleet_of(world) as fleet:
        windows = [fleet.at(t).window(0, 6) for t in range(5)]
        # Slot 2 begins at 600 s, within the first contact; slot 3 at 900 s, before the second.
        first, rest, second = (350.0, 700.0), (600.0, 700.0), (1000.0, 1100.0)
        assert windows == [first, first, rest, second, None]
        assert fleet.at(0).window(6, 0) == first
        assert fleet.at(2).window(0, 6, seconds=100.0) == rest
        assert fleet.at(2).window(0, 6, seconds=100.5) is None  # nor is the second long enough
        assert fleet.at(0).window(0, 6, seconds=350.0).end_s == 700.0
        assert fleet.at(0).window(0, 7) is None
        assert fleet.at(0).window(0, 2) is None  # of other orbits


def test_windows_of_lasting_links_end_with_events() -> None:
    """Satellite 0 is lost in round 2, orbit 1 leaves in round 3 and is back in round 5."""
    with fleet_of(planned((2, 6, 0.0, 1800.0), events=EVENTS)) as fleet:
        assert fleet.at(0).window(0, 1) == (0.0, 600.0)
        assert fleet.at(2).window(0, 1) is None
        assert fleet.at(1).window(2, 3) == (300.0, 900.0)
        assert fleet.at(1).window(2, 3, seconds=600.5) is None
        assert fleet.at(4).window(3, 2) == (1500.0, 1800.0)
        assert fleet.at(1).window(2, 3, seconds=0.0) == fleet.at(1).window(2, 6)  # also cut
        assert fleet.at(3).window(2, 6) == (1500.0, 1800.0)
        assert fleet.at(3).window(6, 7) == (900.0, 1800.0)  # on the ground


def test_contacts_of_a_slot_come_in_the_order_of_events() -> None:
    world = planned(
        (4, 7, 320.0, 400.0), (0, 6, 0.0, 330.0), (2, 6, 310.0, 900.0), (1, 7, 320.0, 650.0),
        (0, 2, 300.0, 600.0), events=[{"round": 2, "kind": "leave", "satellite": 1}],
    )  # fmt: skip
    with fleet_of(world) as fleet:
        assert fleet.at(1).contacts() == [
            (0, 6, 300.0, 330.0), (2, 6, 310.0, 600.0), (1, 7, 320.0, 600.0), (4, 7, 320.0, 400.0),
        ]  # fmt: skip
        assert fleet.at(1).contacts(7) == [(1, 7, 320.0, 600.0), (4, 7, 320.0, 400.0)]
        assert fleet.at(2).contacts() == [(2, 6, 600.0, 900.0)]  # satellite 1 has left
        assert fleet.at(4).contacts() == []
        with pytest.raises(LinkError, match="no server 2"):
            fleet.at(0).contacts(2)


def test_a_contact_within_a_slot_is_a_link_of_the_slot() -> None:
    """Methods that follow `contacts` may send in each of them; V is sampled as a slot begins."""
    with fleet_of(planned((0, 6, 350.0, 400.0), (1, 7, 200.0, 650.0))) as fleet:
        seen = [fleet.at(t).satellites_of() for t in range(4)]
        assert seen == [[], [1], [1], []]
        for t in (0, 1, 2, 3):
            linked = {(c.satellite, c.server) for c in fleet.at(t).contacts()}
            for pair in ((0, 6), (1, 7), (0, 7), (1, 6)):
                assert fleet.topology.linked(t, *pair) == (pair in linked)
        assert fleet.at(1).send(0, 6, ones(fleet)) == 1
        assert fleet.at(0).send(0, 6, ones(fleet), wait=True) == 1
        assert [fleet.at(t).next_server(0) for t in range(3)] == [6, 6, None]
        assert fleet.at(0).next_server(1) == 7


def test_satellites_of_other_orbits_are_linked_where_the_plan_says() -> None:
    with fleet_of(planned((0, 2, 350.0, 400.0), (3, 4, 0.0, 1800.0))) as fleet:
        assert [fleet.at(t).neighbours(0) for t in range(3)] == [[1], [1, 2], [1]]
        assert fleet.at(1).neighbours(2) == [0, 3]
        assert fleet.at(0).send(0, 2, ones(fleet), wait=True) == 1
        assert fleet.at(0).window(2, 0) == (350.0, 400.0)
        fleet.at(1)
        assert fleet.ledger.isl_bytes == 4 * fleet.layout.size


def test_the_next_server_is_the_first_in_contact() -> None:
    config = Config.model_validate(
        {
            "constellation": {"planes": 2, "satellites_per_plane": 3},
            "stations": [
                {"name": "a", "latitude_deg": 50.0, "longitude_deg": 0.0},
                {"name": "b", "latitude_deg": -30.0, "longitude_deg": 100.0},
            ],
            "schedule": {"rounds": 60},
            "run": {"rounds": 10},
            "data": {"synthetic": {"classes": 2, "samples": 40, "size": 16}},
        }
    )
    world = build_world(config)
    in_contact = world.active_plan.visible(world.schedule.times_s)
    assert in_contact.shape == (60, 6, 2)
    with fleet_of(world) as fleet:
        assert list(fleet.servers) == [6, 7]
        seen = [[fleet.at(t).satellites_of(server) for server in (6, 7)] for t in range(60)]
        expected = [[np.flatnonzero(column).tolist() for column in row.T] for row in in_contact]
        assert seen == expected
        plan = world.active_plan
        for satellite in range(6):
            first = np.flatnonzero(plan.first == satellite)[0]  # sorted by begin
            assert fleet.at(0).next_server(satellite) == plan.second[first]
            window = fleet.at(0).window(satellite, int(plan.second[first]))
            assert window == (plan.begin_s[first], plan.end_s[first])


def test_a_message_arrives_at_once_or_at_the_next_contact() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        model, bytes_each = ones(fleet), 4 * fleet.layout.size
        assert fleet.at(0).send(0, GROUND, model, base=np.array(3), kind="model") == 0
        assert fleet.at(0).send(2, GROUND, model, wait=True) == 2  # orbit 1 comes into view
        assert fleet.at(0).send(GROUND, 4, model, wait=True) == 4
        assert fleet.at(0).send(0, 1, model) == 0
        assert fleet.at(5).send(2, GROUND, model, wait=True) is None  # no contact any more
        model[:] = 0.0  # what was sent is sent
        [mail] = fleet.at(0).inbox(GROUND)
        assert (mail.source, mail.sent, mail.arrival) == (0, 0, 0)
        assert mail.about == {"base": 3, "kind": "model"}
        np.testing.assert_array_equal(mail.payload, 1.0)
        assert fleet.at(1).inbox(GROUND) == []
        assert [mail.source for mail in fleet.at(3).inbox(GROUND)] == [2]
        assert fleet.at(3).inbox(4) == []
        assert [mail.sent for mail in fleet.at(4).inbox(4)] == [0]
        assert fleet.at(4).inbox(4) == []  # taken
        ledger = fleet.ledger
        assert ledger.to_ground_bytes == 2 * bytes_each  # not the one that never arrives
        assert ledger.from_ground_bytes == ledger.isl_bytes == bytes_each
        assert ledger.unlinked_bytes == 0
        # Satellites 0 and 1 are orbit 0, 2 is of orbit 1, 4 of orbit 2; the station is next, 3.
        once = (1, bytes_each)
        assert ledger.transfers == {(0, 3): once, (1, 3): once, (3, 2): once, (0, 0): once}


def test_transfers_continue_from_a_checkpoint_or_stay_unknown() -> None:
    """A checkpoint of a version that did not count them cannot give the whole run's."""
    with fleet_of(small_world(links="causal")) as fleet:
        fleet.at(0).send(0, GROUND, ones(fleet))
        saved, arrays = fleet.saved()
        size_bytes = 4 * fleet.layout.size
        assert saved["ledger"]["transfers"] == [[0, 3, 1, size_bytes]]
        fleet.restore(saved, arrays)
        fleet.at(0).send(0, GROUND, ones(fleet))
        assert fleet.ledger.transfers == {(0, 3): (2, 2 * size_bytes)}
        del saved["ledger"]["transfers"]
        fleet.restore(saved, arrays)
        fleet.at(0).send(0, GROUND, ones(fleet))
        assert "transfers" not in fleet.saved()[0]["ledger"]


def test_hops_of_a_message_follow_each_other() -> None:
    """The second link has begun before the first: the relay sends when it has the message."""
    with fleet_of(planned((2, 4, 10.0, 900.0), (0, 2, 200.0, 900.0))) as fleet:
        assert fleet.at(0).send(0, 4, ones(fleet), route=[2]) == 0
        assert fleet.ledger.hops.recorded() == [[200, 0, 2], [200, 2, 4]]
        [mail] = fleet.at(0).inbox(4)
        assert mail.arrival_s == 200.0


def test_a_message_over_an_assumed_link_arrives_within_its_slot() -> None:
    """A contact between the two begins three slots later, which ideal links do not wait for."""
    with fleet_of(planned((0, 6, 1000.0, 1100.0), links="ideal")) as fleet:
        assert fleet.at(0).send(0, GROUND, ones(fleet)) == 0
        [mail] = fleet.at(0).inbox(GROUND)
        assert mail.arrival_s == 0.0


def test_hops_of_a_checkpoint_without_seconds_are_at_the_begin_of_their_slots() -> None:
    with fleet_of(planned((0, 4, 700.0, 900.0))) as fleet:
        fleet.at(0).send(0, 4, ones(fleet), wait=True)
        saved, arrays = fleet.saved()
        for letter in saved["mail"]:
            for hop in letter["hops"]:
                assert hop.pop("at_s") == 700.0
        fleet.restore(saved, arrays)
        fleet.at(2)
        assert fleet.ledger.hops.recorded() == [[600, 0, 4]]


def test_messages_are_read_in_the_order_of_their_arrival() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        for source in (4, 2, 0, 3):  # in view in rounds 4, 2, 0 and 2
            fleet.at(0).send(source, GROUND, ones(fleet), wait=True)
        assert [mail.source for mail in fleet.at(5).inbox(GROUND)] == [0, 2, 3, 4]


def test_what_has_no_link_is_refused_or_counted_apart() -> None:
    with fleet_of(small_world(links="causal", events=EVENTS)) as fleet:
        model = ones(fleet)
        with pytest.raises(
            LinkError, match=r"node 2 cannot send to node 6 in round 0: they have no"
        ):
            fleet.at(0).send(2, GROUND, model)
        with pytest.raises(LinkError, match=r"node 0 cannot send to node 2 in round 0"):
            fleet.at(0).send(0, 2, model)  # of another orbit
        with pytest.raises(LinkError, match=r"node 0 cannot send in round 2: it is not active"):
            fleet.at(2).send(0, GROUND, model)
        with pytest.raises(LinkError, match=r"no node 7: satellites are 0 to 5, servers 6 to 6"):
            fleet.at(0).send(0, 7, model)
        with pytest.raises(ModelError, match=r"base = nan cannot be noted"):
            fleet.at(0).send(0, GROUND, model, base=float("nan"))
        for array in (model.astype(np.float64), model[None]):
            with pytest.raises(ModelError, match=r"a message is one flat vector of float32"):
                fleet.at(0).send(0, GROUND, array)
        assert fleet.saved()[0]["mail"] == []
        assert sum(v for k, v in fleet.ledger.totals().items() if k != "epochs") == 0
        assert fleet.ledger.transfers == {}
    with fleet_of(small_world(links="ideal", events=EVENTS)) as fleet:
        assert fleet.at(0).send(2, GROUND, model) == 0
        assert fleet.ledger.unlinked_bytes == 4 * model.size
        assert fleet.ledger.to_ground_bytes == 0
        with pytest.raises(LinkError, match=r"node 0 cannot send in round 2: it is not active"):
            fleet.at(2).send(0, GROUND, model)
        with pytest.raises(LinkError, match=r"node 0 cannot receive in round 2: it is not active"):
            fleet.at(2).send(GROUND, 0, model)
        assert fleet.at(2).send(GROUND, 0, model, wait=True) is None  # it does not return


def test_a_satellite_reads_nothing_while_it_is_away() -> None:
    with fleet_of(small_world(links="causal", events=EVENTS)) as fleet:
        fleet.at(2).send(GROUND, 2, ones(fleet))
        assert fleet.at(3).inbox(2) == []  # orbit 1 has left
        assert len(fleet.at(5).inbox(2)) == 1  # and is back


def test_a_model_for_many_is_kept_once() -> None:
    with fleet_of(small_world(np.ones((2, 3), dtype=bool), links="causal")) as fleet:
        for satellite in range(6):
            fleet.at(0).send(GROUND, satellite, ones(fleet))
        fleet.at(0).send(GROUND, 0, ones(fleet, 2.0))
        values, arrays = fleet.saved()
        assert len(values["mail"]) == 7
        assert len(arrays) == 2
        first, second = fleet.at(0).inbox(0)
        assert (first.payload[0], second.payload[0]) == (1.0, 2.0)
        with pytest.raises(ValueError, match="read-only"):
            first.payload[0] = 3.0  # others would read it


def test_news_reach_what_a_path_leads_to() -> None:
    with fleet_of(small_world(links="causal")) as fleet:
        # Orbit 0 is in view in round 0 and meets orbit 1 at the ground in round 2, orbit 2 in 4.
        paths = reached(fleet, 0, begin=0)
        assert paths[0] == paths[1] == {0, 1, GROUND}
        assert paths[2] == paths[3] == {0, 1, 2, 3, GROUND}
        assert paths[4] == paths[5] == {*range(6), GROUND}
        # From round 3 on orbit 1 is in view in round 4, with orbit 2; orbit 0 in round 5.
        assert reached(fleet, 2, begin=3) == [{2, 3}, {2, 3, 4, 5, GROUND}, {*range(6), GROUND}]
        assert not PATTERN[3].any()


def test_bytes_are_counted_in_the_slot_in_which_they_move() -> None:
    world = small_world(links="causal")
    with fleet_of(world) as fleet:
        model, ledger = ones(fleet), fleet.ledger
        assert fleet.at(0).send(4, GROUND, model, wait=True) == 4
        assert fleet.at(3).inbox(GROUND) == []
        assert ledger.to_ground_bytes == 0  # it waits on board
        saved = reloaded(Snapshot(4, {}, *fleet.saved()))
    with fleet_of(world) as fleet:
        fleet.restore(saved.world, saved.arrays)
        for t in (4, 4, 5):
            fleet.at(t)
            assert fleet.ledger.to_ground_bytes == 4 * model.size  # once
        saved = reloaded(Snapshot(6, {}, *fleet.saved()))
        fleet.restore(saved.world, saved.arrays)
        assert len(fleet.at(5).inbox(GROUND)) == 1
        assert fleet.ledger.to_ground_bytes == 4 * model.size


def test_numbers_of_other_nodes_are_refused() -> None:
    with fleet_of(small_world()) as fleet:
        now = fleet.at(0)
        numbers = "satellites are 0 to 5, servers 6 to 6"
        for server in (0, 7, -1):
            with pytest.raises(LinkError, match=f"no server {server}: {numbers}"):
                now.satellites_of(server)
        for satellite in (6, -1):
            for ask in (now.servers_of, now.next_server, now.neighbours):
                with pytest.raises(LinkError, match=f"no satellite {satellite}: {numbers}"):
                    ask(satellite)
            with pytest.raises(LinkError, match=f"no satellite {satellite}: {numbers}"):
                now.job(satellite, ones(fleet))
        for node in (7, -1):
            with pytest.raises(LinkError, match=f"no node {node}: {numbers}"):
                now.window(0, node)
            with pytest.raises(LinkError, match=f"no node {node}: {numbers}"):
                now.inbox(node)
