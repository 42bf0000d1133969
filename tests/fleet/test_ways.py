"""Earliest routes as a method sees them: assumed links, servers, and messages that take them."""

import numpy as np
import pytest

from fedorbit.config import Config
from fedorbit.fleet import Contact, Ledger
from fedorbit.fleet.routes import Routes
from fedorbit.fleet.topology import Topology
from fedorbit.orbits.routing import HopTimes
from fedorbit.testing import fleet_of
from tests.fleet.plans import planned


def test_with_assumed_links_the_first_mate_in_view_is_the_way_to_the_ground() -> None:
    """Satellites 0 and 1 form an orbit; 1 meets the ground at node 6 in the third slot."""
    world = planned((1, 6, 700.0, 800.0), links="causal")
    with fleet_of(world) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        ways = now.ways(0)
        assert ways.arrival_s[[0, 1, 6]].tolist() == [0.0, 0.0, 700.0]
        assert ways.arrival_s[2] == np.inf
        assert ways.through(6) == [1]
        assert ways.through(1) == []
        assert now.send(0, 6, w, route=ways.through(6), wait=True) == 2
        assert now.ways([0, 1]).source(6) == 1
        assert now.ways(0, start_s=750.0).arrival_s[6] == 750.0
        assert now.ways([0, 1], np.array([0.0, 790.0])).arrival_s[6] == 700.0


def test_satellites_that_left_are_on_no_way() -> None:
    events = [{"round": 1, "kind": "leave", "satellite": 1}]
    rows = ((1, 6, 700.0, 800.0), (0, 6, 900.0, 950.0))
    with fleet_of(planned(*rows, links="causal", events=events)) as fleet:
        assert fleet.at(0).ways(0).arrival_s[6] == 900.0


def test_a_way_leads_through_two_servers_that_are_linked() -> None:
    """Satellites 0 and 2 of different orbits meet different servers, one after the other."""
    rows = ((0, 6, 0.0, 100.0), (2, 7, 400.0, 500.0))
    with fleet_of(planned(*rows, links="causal")) as fleet:
        now = fleet.at(0)
        assert fleet.topology.ground == [6, 7]
        assert now.ways(0).through(2) == [6, 7]
        assert now.send(0, 2, fleet.initial_model(), route=[6, 7], wait=True) == 1
        assert (fleet.ledger.to_ground_bytes, fleet.ledger.isl_bytes) == (4 * fleet.layout.size, 0)


def test_servers_that_do_not_see_each_other_have_no_link() -> None:
    world = planned((0, 6, 0.0, 100.0), (2, 7, 400.0, 500.0))
    orbits = world.partition.orbit_of_satellite
    topology = Topology(world.active_plan, orbits, world.activity, 6, 300.0, server_groups=[0, 1])
    assert not topology.linked(0, 6, 7)
    assert topology.linked(0, 7, 7)
    assert topology.ground == [6]
    assert topology.window(0, 6, 7, 0.0) is None
    routes = Routes(topology, HopTimes(), Ledger())
    assert routes.ways(0, 0.0).arrival_s[[2, 6, 7]].tolist() == [np.inf, 0.0, np.inf]


def test_servers_in_sight_need_routes() -> None:
    with pytest.raises(ValueError, match=r'network\.servers = "line-of-sight" needs'):
        Config.model_validate({"network": {"servers": "line-of-sight"}})
    settings = {"isl": "none", "servers": "line-of-sight"}
    config = Config.model_validate({"network": settings, "run": {"links": "physical"}})
    assert config.is_routed


def test_a_way_to_a_server_leads_through_the_one_that_is_met_first() -> None:
    with fleet_of(planned((0, 6, 0.0, 100.0), (0, 7, 900.0, 950.0), links="causal")) as fleet:
        now = fleet.at(0)
        ways = now.ways(0)
        assert ways.arrival_s[[6, 7]].tolist() == [0.0, 0.0]
        assert (ways.through(6), ways.through(7)) == ([], [6])
        assert now.ways(1).through(7) == [0, 6]
        assert now.send(0, 7, fleet.initial_model(), route=ways.through(7), wait=True) == 0


def test_windows_after_a_moment() -> None:
    rows = ((0, 6, 100.0, 200.0), (0, 6, 700.0, 800.0))
    events = [{"round": 3, "kind": "leave", "satellite": 1}]
    with fleet_of(planned(*rows, links="causal", events=events)) as fleet:
        now = fleet.at(0)
        assert now.window(0, 6, 50.0, after_s=150.0) == (150.0, 200.0)
        assert now.window(0, 6, 50.0, after_s=151.0) == (700.0, 800.0)
        assert now.window(0, 6, after_s=800.0) is None
        assert fleet.at(1).window(0, 6, after_s=0.0) == (700.0, 800.0)
        assert now.window(0, 1, 100.0, after_s=800.0) == (800.0, 900.0)  # until 1 leaves
        assert now.window(0, 1, 101.0, after_s=800.0) is None
        assert now.window(0, 1, after_s=900.0) is None


def test_predicted_training_is_what_training_takes() -> None:
    world = planned((0, 6, 0.0, 100.0), onboard={"samples_per_s": 0.05, "speed_spread": 0.5})
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        now.begin([now.job(k, fleet.initial_model(), epochs=2) for k in (0, 1)])
        ends_s = {done.satellite: done.end_s for done in fleet.at(5).finished()}
        assert ends_s
        assert ends_s == {k: now.training_s(k, epochs=2) for k in ends_s}
        assert now.training_s(0, epochs=2) == 2 * now.training_s(0)
    with fleet_of(planned((0, 6, 0.0, 100.0))) as fleet:
        assert fleet.at(0).training_s(0) == 0.0


def test_a_path_names_servers_that_pass_a_message_on() -> None:
    """Satellite 0 meets server 6, satellite 2 later server 7; the servers are linked."""
    rows = ((0, 6, 0.0, 100.0), (2, 7, 400.0, 500.0))
    with fleet_of(planned(*rows, links="causal")) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        assert now.ways(0).path(7) == [0, 6, 7]
        assert now.ways(6).path(2) == [6, 7, 2]
        assert now.ways([1, 6]).path(7) == [6, 7]
        assert now.ways(0).path(0) == [0]
        assert now.ways(0).path(4) == []
        assert now.send(6, 2, w, route=now.ways(6).through(2), wait=True) == 1


def test_servers_without_a_link_to_the_first_take_no_part() -> None:
    """They relay, and nothing else: contacts and visits are those of the first."""
    world = planned((0, 6, 0.0, 100.0), (2, 7, 400.0, 500.0))
    orbits = world.partition.orbit_of_satellite
    apart, joined = (
        Topology(world.active_plan, orbits, world.activity, 6, 300.0, server_groups=groups)
        for groups in ([0, 1], [0, 0])
    )
    first, second = Contact(0, 6, 0.0, 100.0), Contact(2, 7, 400.0, 500.0)
    assert [apart.next_contact(0, k) for k in (0, 2)] == [first, None]
    assert [joined.next_contact(0, k) for k in (0, 2)] == [first, second]
    assert ([len(apart.contacts(t)) for t in (0, 1)], len(joined.contacts(1))) == ([1, 0], 1)
    assert apart.visits_ahead(0, None)[:, 2].any() != joined.visits_ahead(0, None)[:, 2].any()


def test_a_message_has_not_arrived_before_its_contacts_have_begun() -> None:
    rows = ((0, 2, 50.0, 100.0), (2, 6, 170.0, 200.0), (4, 6, 400.0, 500.0))
    with fleet_of(planned(*rows, links="causal")) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        assert now.send(0, 6, w, route=[2]) == 0
        assert now.send(4, 6, w, wait=True) == 1
        assert [mail.arrival_s for mail in fleet.at(1).inbox(6)] == [170.0, 400.0]
