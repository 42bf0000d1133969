"""Links of satellites with few terminals: who links with whom, and for how long."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedorbit.orbits.constellation import Constellation, walker
from fedorbit.orbits.crosslinks import Links, find_links
from fedorbit.orbits.search import TimeGrid
from fedorbit.orbits.sight import LinkSettings, Sight
from fedorbit.orbits.terminals import _grant, assign
from tests.orbits.test_crosslinks import PAPER, degrees_at, iridium

SHELL = walker(8, 12, 3, 550.0, 53.0)


def linked_at(links: Links, time_s: float) -> set[tuple[int, int]]:
    there = (links.begin_s <= time_s) & (time_s < links.end_s)
    return set(zip(links.first[there].tolist(), links.second[there].tolist(), strict=True))


def possible_at(
    constellation: Constellation, rules: LinkSettings, time_s: float
) -> dict[tuple[int, int], float]:
    """Pairs that could link, and their ranges, from all pairs."""
    sight = Sight(constellation, rules)
    first, second = np.triu_indices(constellation.satellites, 1)
    states = sight.states(np.array([time_s]))[0]
    good = (sight.margin(states[first], states[second]) >= 0.0) & sight.allowed(first, second)
    ranges_km = np.linalg.norm(states[first, :3] - states[second, :3], axis=-1)
    pairs = zip(first[good].tolist(), second[good].tolist(), strict=True)
    return dict(zip(pairs, ranges_km[good].tolist(), strict=True))


@pytest.mark.parametrize("terminals", [1, 2, 3, 4])
@pytest.mark.parametrize("constellation", [SHELL, iridium(20)], ids=["walker", "iridium"])
def test_no_satellite_has_more_links_than_terminals(
    constellation: Constellation, terminals: int
) -> None:
    links = find_links(constellation, LinkSettings(terminals=terminals), 10, 300.0)
    times_s = np.arange(0.0, 3000.0, 7.0)
    degree = degrees_at(links, constellation.satellites, times_s)
    assert degree.max() == terminals
    # In the plane a satellite has at most one link ahead and one behind.
    same = (
        constellation.orbit_of_satellite[links.first]
        == (constellation.orbit_of_satellite[links.second])
    )
    in_plane = Links(*(getattr(links, name)[same] for name in Links.__dataclass_fields__))
    assert degrees_at(in_plane, constellation.satellites, times_s).max() <= min(2, terminals)


@pytest.mark.parametrize("terminals", [1, 2, 4])
def test_links_are_kept_while_possible_and_free_terminals_do_not_wait(terminals: int) -> None:
    rules = LinkSettings(terminals=terminals)
    links = find_links(SHELL, rules, 30, 30.0)
    before: set[tuple[int, int]] = set()
    orbit = SHELL.orbit_of_satellite
    for k in range(30):
        possible = possible_at(SHELL, rules, 30.0 * k)
        linked = linked_at(links, 30.0 * k)
        assert linked <= set(possible)
        assert {pair for pair in before if pair in possible} <= linked
        degree = np.bincount(np.array(sorted(linked)).ravel(), minlength=SHELL.satellites)
        waiting = {
            (a, b)
            for a, b in set(possible) - linked
            if degree[a] < terminals and degree[b] < terminals and orbit[a] != orbit[b]
        }
        assert waiting == set()
        before = linked


def test_the_first_links_are_the_ring_and_the_nearest_across_planes() -> None:
    # A slant of the phases: no two ranges are equal but those of symmetry.
    rules = LinkSettings(terminals=3)
    links = find_links(SHELL, rules, 1, 30.0)
    possible = possible_at(SHELL, rules, 0.0)
    ring = {(a, b) for a, b in possible if a // 12 == b // 12 and (b - a) in (1, 11)}
    expected, left = set(ring), np.ones(SHELL.satellites, dtype=int)
    for (a, b), _ in sorted(possible.items(), key=lambda item: (round(1000 * item[1]), item[0])):
        if a // 12 != b // 12 and left[a] and left[b]:
            left[[a, b]] -= 1
            expected.add((a, b))
    assert len(ring) == 96
    assert linked_at(links, 0.0) == expected


def test_assigned_links_end_where_geometry_ends_them() -> None:
    links = find_links(PAPER, LinkSettings(terminals=1), 60, 300.0)
    free = find_links(PAPER, LinkSettings(), 60, 300.0)
    assert 50 < len(links) < len(free)
    for k in range(len(links)):
        pair = (free.first == links.first[k]) & (free.second == links.second[k])
        holds = pair & (free.begin_s <= links.begin_s[k]) & (links.begin_s[k] < free.end_s)
        [window] = np.flatnonzero(holds)
        assert links.end_s[k] == pytest.approx(free.end_s[window], abs=1e-3)
    # A link begins at the grid point at which it is assigned.
    np.testing.assert_array_equal(links.begin_s % 30.0, 0.0)


def test_enough_terminals_give_what_geometry_gives_on_the_grid() -> None:
    links = find_links(PAPER, LinkSettings(terminals=2), 60, 300.0)
    free = find_links(PAPER, LinkSettings(), 60, 300.0)
    assert len(links) == len(free)
    for time_s in np.arange(0.0, 18000.0, 30.0):
        assert linked_at(links, time_s) == linked_at(free, time_s)
    np.testing.assert_allclose(np.sort(links.end_s), np.sort(free.end_s), atol=1e-3)


def test_acquisition_takes_a_terminal_before_the_link_can_be_used() -> None:
    at_once = find_links(SHELL, LinkSettings(terminals=3), 20, 300.0)
    later = find_links(SHELL, LinkSettings(terminals=3, acquisition_s=45.0), 20, 300.0)
    assert degrees_at(later, SHELL.satellites, np.arange(0.0, 6000.0, 5.0)).max() == 3
    # The ring has been possible for long.
    for links in (at_once, later):
        ring = (links.first // 12 == links.second // 12) & (links.begin_s == 0.0)
        assert ring.sum() == 96
    begun = later.begin_s[later.begin_s > 0.0]
    assert len(begun) > 20
    np.testing.assert_array_equal((begun - 45.0) % 30.0, 0.0)


def test_an_interruption_between_grid_points_frees_no_terminal() -> None:
    constellation = walker(6, 5, 2.9, 550.0, 80.0)
    rules = LinkSettings(terminals=20, max_rate_deg_s=4.0)
    links = find_links(constellation, rules, 5, 300.0)
    given_ = assign(Sight(constellation, rules), 20, TimeGrid.of(5, 300.0, 30.0), 0)
    assert len(links) > len(given_.first)
    free = find_links(constellation, LinkSettings(max_rate_deg_s=4.0), 5, 300.0)
    # A window without a grid point is never assigned.
    counts = [
        int((np.ceil(found.begin_s / 30.0) * 30.0 < found.end_s).sum()) for found in (links, free)
    ]
    assert counts[0] == counts[1] > len(given_.first)


@st.composite
def wishes(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    width = draw(st.sampled_from([2, 4]))
    row = st.lists(st.integers(0, 8), min_size=width, max_size=width, unique=True)
    rows = draw(st.lists(row, max_size=30))
    left = draw(st.lists(st.integers(0, 3), min_size=9, max_size=9))
    return np.array(rows, dtype=np.int64).reshape(-1, width), np.array(left)


@given(wishes())
@settings(max_examples=200, deadline=None)
def test_many_grants_at_a_time_are_those_of_one_by_one(wish: tuple[np.ndarray, np.ndarray]) -> None:
    uses, left = wish
    expected, remaining = [], left.copy()
    for k, row in enumerate(uses):
        if (remaining[row] > 0).all():
            remaining[row] -= 1
            expected.append(k)
    granted = _grant(uses, left)
    assert granted.tolist() == expected
    np.testing.assert_array_equal(left, remaining)
