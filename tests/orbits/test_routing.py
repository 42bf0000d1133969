"""Store and forward against brute force on small plans, shortest paths, and reference numbers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.crosslinks import find_links
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import KINDS, ContactPlan, merged, plan_of, with_links
from fedorbit.orbits.routing import (
    ContactGraph,
    Delays,
    Hop,
    HopTimes,
    Spread,
    delays,
    mean_delays,
    round_trips,
)
from fedorbit.orbits.sight import LinkSettings

LONDON = Place("London", 51.0, -0.1, 10.0)
SATELLITES, SERVERS, HORIZON = 4, 2, 20
NODES = SATELLITES + SERVERS


def written(
    rows: list[tuple[int, int, float, float]], satellites: int = SATELLITES, servers: int = SERVERS
) -> ContactPlan:
    """A plan from rows of nodes, begin and end."""
    first, second, begin_s, end_s = np.array(rows, dtype=float).reshape(-1, 4).T
    kind = np.where(second < satellites, KINDS.index("isl"), 0)
    return merged(
        ContactPlan(
            satellites=satellites,
            servers=servers,
            horizon_s=float(HORIZON),
            first=first.astype(np.int32),
            second=second.astype(np.int32),
            begin_s=begin_s,
            end_s=end_s,
            kind=kind.astype(np.uint8),
            range_km=np.full(len(first), np.nan),
        )
    )


@st.composite
def plans(draw: st.DrawFn) -> ContactPlan:
    row = st.tuples(
        st.integers(0, NODES - 1),
        st.integers(0, NODES - 1),
        st.integers(0, HORIZON - 1),
        st.integers(1, 8),
    )
    rows = draw(st.lists(row, max_size=14))
    return written(
        [
            (min(a, b), max(a, b), begin, begin + length)
            for a, b, begin, length in rows
            if min(a, b) < SATELLITES and a != b
        ]
    )


APART = range(SERVERS)
"""Servers without a link to each other."""

seconds = st.sampled_from([0, 0, 1, 2, 3])
hop_times = st.builds(HopTimes, seconds, seconds, seconds)


def hop_s(times: HopTimes, source: int, target: int) -> float:
    if target >= SATELLITES:
        return times.to_server_s
    return times.to_satellite_s if source >= SATELLITES else times.between_satellites_s


def brute_force(
    plan: ContactPlan, times: HopTimes, backhaul: bool, source: int, start: int
) -> list[float]:
    """Play all moments, one after the other, with what each node holds: whole seconds only."""
    arrival = [np.inf] * NODES
    arrival[source] = start
    for now in range(start, HORIZON + 10):
        while True:
            before = list(arrival)
            if backhaul and min(arrival[SATELLITES:]) <= now:
                arrival[SATELLITES:] = [min(arrival[SATELLITES:])] * SERVERS
            for a, b, begin, end in zip(
                plan.first, plan.second, plan.begin_s, plan.end_s, strict=True
            ):
                for u, v in ((a, b), (b, a)):
                    took = hop_s(times, u, v)
                    fits = now + took <= end if took else now < end
                    if arrival[u] <= now and begin <= now and fits:
                        arrival[v] = min(arrival[v], now + took)
            if arrival == before:
                break
    if backhaul:
        arrival[SATELLITES:] = [min(arrival[SATELLITES:])] * SERVERS
    return arrival


def assert_a_way(
    hops: list[Hop], plan: ContactPlan, times: HopTimes, backhaul: bool, start_s: float
) -> None:
    """Every hop is within a contact, and begins where and after the one before has ended."""
    held_s, at = start_s, hops[0].first
    for hop in hops:
        assert hop.first == at or (backhaul and min(hop.first, at) >= SATELLITES)
        assert hop.depart_s >= held_s
        assert hop.arrive_s == hop.depart_s + hop_s(times, hop.first, hop.second)
        a, b = min(hop.first, hop.second), max(hop.first, hop.second)
        mine = (plan.first == a) & (plan.second == b)
        mine &= (plan.begin_s <= hop.depart_s) & (hop.depart_s < plan.end_s)
        assert (mine & (hop.arrive_s <= plan.end_s)).any()
        held_s, at = hop.arrive_s, hop.second


def same_place(backhaul: bool, a: int, b: int) -> bool:
    return a == b or (backhaul and min(a, b) >= SATELLITES)


cases = {"plan": plans(), "times": hop_times, "backhaul": st.booleans(), "node": st.integers(0, 5)}


@given(**cases, start=st.integers(0, 12))
@settings(max_examples=300, deadline=None)
def test_earliest_arrivals_are_those_of_brute_force(
    plan: ContactPlan, times: HopTimes, backhaul: bool, node: int, start: int
) -> None:
    expected = brute_force(plan, times, backhaul, node, start)
    graph = ContactGraph(plan, times, None if backhaul else APART)
    found = graph.earliest_arrival(node, float(start))
    assert found.arrival_s.tolist() == expected
    for target in range(NODES):
        hops = found.route(target)
        if np.isinf(expected[target]) or same_place(backhaul, node, target):
            assert hops == []
        else:
            assert_a_way(hops, plan, times, backhaul, float(start))
            assert same_place(backhaul, hops[0].first, node)
            assert same_place(backhaul, hops[-1].second, target)
            assert hops[-1].arrive_s == expected[target]
            assert len({hop.second for hop in hops}) == len(hops)


@given(**cases, deadline=st.integers(0, HORIZON + 5))
@settings(max_examples=100, deadline=None)
def test_latest_departures_are_in_time_and_a_moment_later_is_not(
    plan: ContactPlan, times: HopTimes, backhaul: bool, node: int, deadline: int
) -> None:
    graph = ContactGraph(plan, times, None if backhaul else APART)
    found = graph.latest_departure(node, float(deadline))
    for source in range(NODES):
        latest_s = float(found.departure_s[source])
        in_time = [
            start
            for start in range(HORIZON + 10)
            if brute_force(plan, times, backhaul, source, start)[node] <= deadline
        ]
        if same_place(backhaul, source, node):
            assert latest_s == deadline and found.route(source) == []
            continue
        assert max(in_time, default=-np.inf) == (
            np.floor(latest_s) if np.isfinite(latest_s) and latest_s >= 0.0 else -np.inf
        )
        if np.isfinite(latest_s):
            assert graph.earliest_arrival(source, latest_s).arrival_s[node] <= deadline
            assert graph.earliest_arrival(source, latest_s + 1e-6).arrival_s[node] > deadline
            hops = found.route(source)
            assert_a_way(hops, plan, times, backhaul, latest_s)
            assert hops[0].depart_s == latest_s and hops[-1].arrive_s <= deadline
        else:
            assert found.route(source) == []


@given(plan=plans(), times=hop_times, backhaul=st.booleans())
@settings(max_examples=100, deadline=None)
def test_many_searches_at_once_are_those_of_one_at_a_time(
    plan: ContactPlan, times: HopTimes, backhaul: bool
) -> None:
    graph = ContactGraph(plan, times, None if backhaul else APART)
    starts_s = np.array([7.0, 0.0, 2.5, 19.0])  # in no order
    sources = [3, 0, 5]
    found = graph.arrivals(starts_s, sources)
    for k, start_s in enumerate(starts_s):
        for column, source in enumerate(sources):
            alone = graph.earliest_arrival(source, float(start_s)).arrival_s
            np.testing.assert_array_equal(found[k, column], alone)


def test_several_sources_are_as_good_as_the_best_of_them() -> None:
    graph = ContactGraph(written([(0, 1, 3.0, 4.0), (1, 2, 1.0, 2.0), (2, 4, 5.0, 6.0)]))
    together = graph.earliest_arrival([0, 1], 0.0).arrival_s
    alone = [graph.earliest_arrival(k, 0.0).arrival_s for k in (0, 1)]
    np.testing.assert_array_equal(together, np.minimum(*alone))
    assert together.tolist() == [0.0, 0.0, 1.0, np.inf, 5.0, 5.0]
    assert graph.latest_departure([4, 2], 9.0).departure_s[1] == np.nextafter(2.0, 0.0)


def test_a_contact_covers_its_begin_and_not_its_end() -> None:
    graph = ContactGraph(written([(0, 1, 2.0, 5.0)]))
    assert graph.earliest_arrival(0, 2.0).arrival_s[1] == 2.0
    assert graph.earliest_arrival(0, np.nextafter(5.0, 0.0)).arrival_s[1] < 5.0
    assert graph.earliest_arrival(0, 5.0).arrival_s[1] == np.inf
    slow = ContactGraph(written([(0, 1, 2.0, 5.0)]), HopTimes(between_satellites_s=3.0))
    assert slow.earliest_arrival(0, 2.0).route(1) == [Hop(0, 1, 2.0, 5.0)]
    assert slow.earliest_arrival(0, 2.1).arrival_s[1] == np.inf


def test_of_equally_early_ways_the_one_with_fewer_hops_is_taken() -> None:
    rows = [(0, 1, 0.0, 9.0), (1, 2, 0.0, 9.0), (2, 3, 0.0, 9.0), (0, 3, 0.0, 9.0)]
    assert ContactGraph(written(rows)).earliest_arrival(0, 1.0).route(3) == [Hop(0, 3, 1.0, 1.0)]


def test_servers_without_a_backhaul_are_apart() -> None:
    plan = written([(0, 4, 1.0, 2.0), (1, 5, 3.0, 4.0)])
    joined = ContactGraph(plan).earliest_arrival(0, 0.0)
    assert joined.arrival_s.tolist() == [0.0, 3.0, np.inf, np.inf, 1.0, 1.0]
    assert joined.route(1) == [Hop(0, 4, 1.0, 1.0), Hop(5, 1, 3.0, 3.0)]
    apart = ContactGraph(plan, server_groups=range(plan.servers)).earliest_arrival(0, 0.0)
    assert apart.arrival_s.tolist() == [0.0, np.inf, np.inf, np.inf, 1.0, np.inf]


def test_hop_times_are_bits_over_rates() -> None:
    times = HopTimes.of(1_000_000, 8.0, None, 16.0)
    assert times == HopTimes(1.0, 0.0, 0.5)


@pytest.mark.parametrize("seed", range(5))
def test_permanent_contacts_give_the_shortest_paths_of_a_graph(seed: int) -> None:
    random = np.random.default_rng(seed)
    satellites, servers = 40, 3
    count = satellites + servers
    linked = np.triu(random.random((count, count)) < 0.06, 1)
    linked[satellites:] = False
    rows = [(a, b, 0.0, 1e6) for a, b in np.argwhere(linked)]
    times = HopTimes(7.0, 3.0, 2.0)
    weights = np.where(linked | linked.T, 2.0, 0.0)
    weights[:, satellites:] *= 3.5
    weights[satellites:, :] *= 1.5
    expected = dijkstra(csr_array(weights))
    plan = written(rows, satellites, servers)
    graph = ContactGraph(plan, times, range(plan.servers))
    sources = list(range(count))
    forward = np.array([graph.earliest_arrival(k, 10.0).arrival_s for k in sources]) - 10.0
    np.testing.assert_array_equal(forward, expected)
    np.testing.assert_array_equal(graph.arrivals(np.array([10.0]), sources)[0] - 10.0, expected)
    backward = np.array([500.0 - graph.latest_departure(k, 500.0).departure_s for k in sources])
    np.testing.assert_array_equal(backward.T, expected)
    assert np.isfinite(expected).mean() > 0.5


def test_a_plan_without_contacts_leads_nowhere() -> None:
    plan = written([])
    graph = ContactGraph(plan)
    assert graph.earliest_arrival(1, 2.0).arrival_s.tolist() == [np.inf, 2.0, *[np.inf] * 4]
    found = delays(graph, np.array([0.0, 1.0]), np.array([0, 0, 1, 2]))
    spread = found.summary()["satellite_to_server"]
    assert spread.unreached == 1.0 and np.isnan(spread.mean_s)
    assert found.all_to_all_s.tolist() == [[np.inf, 0.0, 0.0]] * 2


def test_delays_of_a_written_plan() -> None:
    # Satellites 0 and 1 are an orbit, 2 and 3 another; 4 and 5 are servers.
    plan = written(
        [
            (0, 4, 2.0, 4.0),
            (1, 2, 3.0, 5.0),
            (2, 5, 6.0, 8.0),
            (0, 1, 9.0, 10.0),
            (3, 4, 12.0, 13.0),
        ]
    )
    found = delays(ContactGraph(plan), np.array([0.0, 3.0]), np.array([0, 0, 1, 1]))
    np.testing.assert_array_equal(found.satellite_to_server_s, [[2, 6, 6, 12], [0, 3, 3, 9]])
    np.testing.assert_array_equal(found.orbit_to_server_s, [[2, 6], [0, 3]])
    np.testing.assert_array_equal(found.slowest_to_server_s, [[6, 12], [3, 9]])
    np.testing.assert_array_equal(found.server_to_satellite_s, [[2, 9, 6, 12], [0, 6, 3, 9]])
    # 0 to 1, 1 to 0, 2 to 3, and 3 to 2, which comes too late for any contact of 2.
    np.testing.assert_array_equal(found.to_mates_s, [[9, 9, 12, np.inf], [6, 6, 9, np.inf]])
    np.testing.assert_array_equal(found.all_to_all_s, [[9, np.inf], [6, np.inf]])
    assert Spread.of(found.to_mates_s).unreached == 0.25


def test_batches_of_starts_give_what_all_give(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = written([(0, 4, 2.0, 4.0), (1, 2, 3.0, 5.0), (2, 5, 6.0, 8.0), (0, 1, 9.0, 10.0)])
    orbit, starts_s = np.array([0, 0, 1, 1]), np.arange(7.0)
    whole = delays(ContactGraph(plan), starts_s, orbit)
    monkeypatch.setattr("fedorbit.orbits.routing.BATCH_VALUES", 50)
    parts = delays(ContactGraph(plan), starts_s, orbit)
    for name, values in vars(whole).items():
        np.testing.assert_array_equal(getattr(parts, name), values)


def test_mean_delays_are_those_of_single_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = written([(0, 1, 2, 4), (1, 4, 6, 9), (2, 4, 3, 5), (2, 5, 12, 14), (0, 2, 9, 10)])
    graph, starts_s = ContactGraph(plan), np.arange(0.0, 12.0, 2.0)
    monkeypatch.setattr("fedorbit.orbits.routing.BATCH_VALUES", 50)  # two starts at a time
    mean_s, unreached = mean_delays(graph, starts_s)
    for node in range(NODES):
        arrival_s = np.array([graph.earliest_arrival(node, t).arrival_s for t in starts_s])
        delay_s = np.where(np.isfinite(arrival_s), arrival_s - starts_s[:, None], np.nan)
        for target in range(NODES):
            known = delay_s[~np.isnan(delay_s[:, target]), target]
            expected = known.mean() if len(known) else np.nan
            np.testing.assert_allclose(mean_s[node, target], expected, equal_nan=True)
            assert unreached[node, target] == pytest.approx(1.0 - len(known) / len(starts_s))


class Heard:
    """Progress that keeps what it was given."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self.advances = 0

    def start(self, label: str, total: int, unit: str) -> None:
        self.total = total

    def advance(self, n: int) -> None:
        self.done += n
        self.advances += 1

    def finish(self) -> None:
        pass


def test_delays_report_progress_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = written([(0, 1, 2, 4), (1, 4, 6, 9)])
    monkeypatch.setattr("fedorbit.orbits.routing.BATCH_STEPS", 4 * 4 * 3)  # three starts at a time
    heard = Heard()
    delays(ContactGraph(plan), np.arange(8.0), np.array([0, 0, 1, 1]), heard)
    assert (heard.total, heard.done, heard.advances) == (8, 8, 3)


def reference(planes: int, per_plane: int, links: LinkSettings | None, **shape: float) -> Delays:
    """Delays from 400 rounds' begins; the plan is twice as long, so that none is cut."""
    constellation = walker(planes, per_plane, **shape)
    places, count = [LONDON], planes * per_plane
    plan = plan_of(find_contacts(constellation, places, 800, 300.0), count, places, 240000.0)
    if links is not None:
        plan = with_links(plan, find_links(constellation, links, 800, 300.0))
    starts_s = np.arange(400) * 300.0
    return delays(ContactGraph(plan), starts_s, constellation.orbit_of_satellite)


def assert_minutes(
    found: Delays, expected: dict[str, tuple[float, ...]], tolerance_min: float
) -> None:
    for name, numbers in expected.items():
        spread = found.summary()[name]
        minutes = np.array([spread.mean_s, spread.median_s, spread.p90_s, spread.max_s]) / 60.0
        np.testing.assert_allclose(minutes, numbers, rtol=0.0, atol=tolerance_min, err_msg=name)
        assert spread.unreached == 0.0


PAPER = {
    "phasing": 0,
    "altitude_km": 550.0,
    "inclination_deg": 53.0,
    "argument_of_latitude_deg": 80.6,
}
# The reference was sampled every 10 s: an event counts up to 0.17 min late, a short one not at all.
SAMPLING_MIN = 0.17


def test_the_papers_constellation_by_direct_contacts() -> None:
    found = reference(5, 4, None, **PAPER)
    direct = {
        "orbit_to_server": (306, 217, 790, 933),
        "satellite_to_server": (366, 289, 862, 1029),
        "server_to_satellite": (366, 289, 862, 1029),
        "slowest_to_server": (426, 361, 934, 1029),
        "to_mates": (446, 385, 958, 1102),
        "all_to_all": (548, 508, 1078, 1102),
    }
    assert_minutes(found, direct, 0.5 + SAMPLING_MIN)
    assert (found.orbit_to_server_s < 300.0).mean() == pytest.approx(0.178, abs=0.002)
    per_orbit_min = found.orbit_to_server_s.mean(axis=0) / 60.0
    np.testing.assert_allclose(per_orbit_min, [223, 260, 334, 397, 318], atol=0.5 + SAMPLING_MIN)


def test_the_papers_constellation_with_links() -> None:
    found = reference(5, 4, LinkSettings(), **PAPER)
    linked = {
        "orbit_to_server": (2.6, 1.5, 6.7, 18),
        "satellite_to_server": (13.0, 9.8, 30.5, 50),
        "server_to_satellite": (13.0, 9.8, 30.5, 50),
        "slowest_to_server": (26.4, 26.3, 37.6, 50),
        "to_mates": (10.4, 8.5, 24, 35),
        "all_to_all": (23.2, 23.2, 32.7, 35),
    }
    assert_minutes(found, linked, 0.05 + SAMPLING_MIN)
    assert (found.orbit_to_server_s < 300.0).mean() == pytest.approx(0.846, abs=0.006)
    per_orbit_min = found.orbit_to_server_s.mean(axis=0) / 60.0
    np.testing.assert_allclose(per_orbit_min, [2.5, 2.5, 2.6, 2.6, 2.5], atol=0.05 + SAMPLING_MIN)


def test_eight_a_plane_at_2000_km() -> None:
    shape = {"phasing": 1, "altitude_km": 2000.0, "inclination_deg": 80.0}
    direct = reference(5, 8, None, **shape).summary()
    for name, mean_min, max_min in (
        ("orbit_to_server", 61.6, 427),
        ("satellite_to_server", 126, 588),
        ("to_mates", 196, 683),
    ):
        assert direct[name].mean_s / 60.0 == pytest.approx(mean_min, abs=0.5)
        assert direct[name].max_s / 60.0 == pytest.approx(max_min, abs=0.6)


def test_eight_a_plane_at_2000_km_reach_each_other_at_once_without_a_range_limit() -> None:
    shape = {"phasing": 1, "altitude_km": 2000.0, "inclination_deg": 80.0}
    found = reference(5, 8, LinkSettings(max_range_km=None), **shape)
    for values in vars(found).values():
        assert (values == 0.0).all()


def test_eight_a_plane_at_2000_km_with_links_of_5000_km() -> None:
    shape = {"phasing": 1, "altitude_km": 2000.0, "inclination_deg": 80.0}
    found = reference(5, 8, LinkSettings(), **shape)
    assert (found.orbit_to_server_s == 0.0).all()
    for values, mean_min, max_min in (
        (found.satellite_to_server_s, 6.7, 15),
        (found.to_mates_s, 7.6, 18),
        (found.all_to_all_s, 14.3, 18),
    ):
        assert values.mean() / 60.0 == pytest.approx(mean_min, abs=0.05 + SAMPLING_MIN)
        assert values.max() / 60.0 == pytest.approx(max_min, abs=0.5)


# --- Rounds -------------------------------------------------------------------------------------


@given(plans(), hop_times, st.sampled_from([2, 5, 20]))
@settings(max_examples=60, deadline=None)
def test_round_trips_are_two_ways_one_after_the_other(
    plan: ContactPlan, times: HopTimes, round_s: int
) -> None:
    orbits, rounds = np.array([0, 0, 1, 1]), HORIZON // round_s
    found = round_trips(plan, times, orbits, rounds, float(round_s))
    graph = ContactGraph(plan, times)
    for t in range(rounds):
        down_s = graph.earliest_arrival(SATELLITES, t * round_s).arrival_s
        back_s = [
            graph.earliest_arrival(k, down_s[k]).arrival_s[SATELLITES]
            for k in range(SATELLITES)
            if np.isfinite(down_s[k])
        ]
        there = [k for k in range(SATELLITES) if np.isfinite(down_s[k])]
        heard = {k for k, s in zip(there, back_s, strict=True) if s < (t + 1) * round_s}
        assert found[t].tolist() == [bool(heard & {0, 1}), bool(heard & {2, 3})]


def test_round_trips_over_contacts_with_servers_are_the_contacts() -> None:
    plan = written([(0, 4, 3.0, 5.0), (2, 5, 5.0, 6.0)])
    found = round_trips(plan, HopTimes(), np.array([0, 0, 1, 1]), 4, 2.0)
    expected = [[False, False], [True, False], [True, True], [False, False]]
    assert found.tolist() == expected


@settings(max_examples=50, deadline=None)
@given(**cases, others=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 12)), max_size=3))
def test_sources_may_have_a_message_at_different_moments(
    plan: ContactPlan,
    times: HopTimes,
    backhaul: bool,
    node: int,
    others: list[tuple[int, int]],
) -> None:
    starts = [(node, 4), *others]
    graph = ContactGraph(plan, times, None if backhaul else APART)
    single = [graph.earliest_arrival(source, float(start)).arrival_s for source, start in starts]
    together = graph.earliest_arrival(
        [source for source, _ in starts], [float(start) for _, start in starts]
    )
    np.testing.assert_array_equal(together.arrival_s, np.min(single, axis=0))


def test_servers_of_a_group_share_what_they_receive() -> None:
    """Satellite 0 meets server 4, satellite 1 later server 5: the message needs their link."""
    plan = written([(0, 4, 1.0, 2.0), (1, 5, 3.0, 4.0)])
    linked = ContactGraph(plan, server_groups=[7, 7]).earliest_arrival(0, 0.0)
    assert linked.arrival_s[1] == 3.0
    apart = ContactGraph(plan, server_groups=[7, 3]).earliest_arrival(0, 0.0)
    assert apart.arrival_s[[1, 5]].tolist() == [np.inf, np.inf]
    assert apart.arrival_s[4] == 1.0
