"""Links between satellites against dense sampling, closed forms, skyfield and reference numbers."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from skyfield.api import EarthSatellite, load

import fedorbit
from fedorbit.errors import ConfigError
from fedorbit.orbits import crosslinks
from fedorbit.orbits.constellation import Constellation, from_element_sets, walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.crosslinks import Links, find_links
from fedorbit.orbits.elements import read_element_sets
from fedorbit.orbits.nearby import nearby_pairs
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import KINDS, plan_of, with_links
from fedorbit.orbits.sight import (
    LinkSettings,
    Sight,
    longest_sight_deg,
    ring_hop_km,
    ring_satellites,
)

IRIDIUM = Path(fedorbit.__file__).parent / "presets/elements/iridium-next-2021-01-30.tle"
NOON = datetime(2021, 1, 30, 16, tzinfo=UTC)
PAPER = walker(5, 4, 0, 550.0, 53.0, argument_of_latitude_deg=80.6)
WIDE = LinkSettings(max_range_km=None)
END_TOLERANCE_S = 0.01
RATE_HALF_S = 0.05


def iridium(count: int, step: int = 1) -> Constellation:
    sets = sorted(read_element_sets(IRIDIUM), key=lambda e: e.name)[: count * step : step]
    return from_element_sets(sets, start=NOON)


def mixed_shells() -> Constellation:
    """Two shells that fly through each other's lines of sight, at different heights and tilts."""
    low, high = walker(2, 4, 1, 500.0, 53.0), walker(2, 3, 0, 1400.0, 97.0, raan_offset_deg=20.0)
    columns = ("radius_km", "inclination_rad", "raan_rad", "argument_of_latitude_rad")
    motion = replace(
        low.motion,
        **{
            name: np.concatenate((getattr(low.motion, name), getattr(high.motion, name)))
            for name in columns
        },
    )
    return Constellation(
        motion,
        low.geoid,
        np.concatenate((low.orbit_of_satellite, 2 + high.orbit_of_satellite)),
        (*low.satellite_names, *high.satellite_names),
        None,
    )


# The oracle: the same conditions in another form, evaluated for one pair at many moments.


def lowest_km(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Distance of a segment from the origin, by the angles of the triangle."""
    along = q - p
    height = np.linalg.norm(np.cross(p, q), axis=-1) / np.linalg.norm(along, axis=-1)
    ends = np.minimum(np.linalg.norm(p, axis=-1), np.linalg.norm(q, axis=-1))
    acute = ((p * along).sum(-1) < 0.0) & ((q * along).sum(-1) > 0.0)
    return np.where(acute, height, ends)


def local_directions(p: np.ndarray, normal: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Direction of q in the frame of p: outwards, across the orbit, and along it."""
    up = p / np.linalg.norm(p, axis=-1, keepdims=True)
    across = normal - (normal * up).sum(-1, keepdims=True) * up
    across /= np.linalg.norm(across, axis=-1, keepdims=True)
    axes = np.stack((up, across, np.cross(across, up)), axis=-2)
    sight = (q - p) / np.linalg.norm(q - p, axis=-1, keepdims=True)
    return np.einsum("...ij,...j->...i", axes, sight)


def rate_deg_s(p: np.ndarray, q: np.ndarray) -> np.ndarray:
    """Turn of the line of sight to q in the frame of p, from positions at three moments."""
    normal = np.cross(p[0], p[2])
    before, after = (local_directions(p[k], normal, q[k]) for k in (0, 2))
    turned = np.linalg.norm(after - before, axis=-1)
    return np.degrees(2.0 * np.arcsin(turned / 2.0)) / (2.0 * RATE_HALF_S)


class Oracle:
    """Margins of pairs in the conditions of links, from positions at given moments."""

    def __init__(self, constellation: Constellation, rules: LinkSettings) -> None:
        self.motion, self.rules = constellation.motion, rules
        geoid = constellation.geoid
        a = geoid.equatorial_radius_km + rules.grazing_km
        b = geoid.equatorial_radius_km * (1 - geoid.flattening) + rules.grazing_km
        self.axes_km = np.array([a, a, b])

    def inside(self, p: np.ndarray, q: np.ndarray) -> np.ndarray:
        """Positions `[3 moments, n, 3]`; at least 0 is inside."""
        parts = [lowest_km(p[1] / self.axes_km, q[1] / self.axes_km) - 1.0]
        if self.rules.max_range_km is not None:
            parts.append(1.0 - np.linalg.norm(p[1] - q[1], axis=-1) / self.rules.max_range_km)
        if self.rules.max_rate_deg_s is not None:
            limit = self.rules.max_rate_deg_s
            parts += [1.0 - rate_deg_s(p, q) / limit, 1.0 - rate_deg_s(q, p) / limit]
        return np.min(parts, axis=0)

    def positions(self, times_s: np.ndarray) -> np.ndarray:
        return np.stack([self.motion.r_eci_km(times_s + k * RATE_HALF_S) for k in (-1, 0, 1)])

    def at(self, i: int, j: int, time_s: float) -> float:
        times_s = time_s + RATE_HALF_S * np.array([-1.0, 0.0, 1.0])
        p, q = (self.motion.r_eci_km_at(np.full(3, s), times_s)[:, None] for s in (i, j))
        return float(self.inside(p, q)[0])


def dense_windows(
    oracle: Oracle, times_s: np.ndarray, positions: np.ndarray, i: int, j: int
) -> list[tuple[float, float]]:
    """Windows on a grid of a second, their ends by Brent's method."""
    up = oracle.inside(positions[:, :, i], positions[:, :, j]) >= 0.0
    edges = np.diff(np.concatenate(([0], up.astype(int), [0])))

    def crossing(k: int) -> float:
        if k in (0, len(times_s)):
            return float(times_s[min(k, len(times_s) - 1)])
        return brentq(lambda t: oracle.at(i, j, t), times_s[k - 1], times_s[k], xtol=1e-6)

    begins, ends = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    return [(crossing(b), crossing(e)) for b, e in zip(begins, ends, strict=True)]


def assert_as_dense(
    constellation: Constellation, rules: LinkSettings, rounds: int, round_s: float
) -> Links:
    """Every window of a second and more is found, to a hundredth of a second, and no other."""
    links = find_links(constellation, rules, rounds, round_s)
    orbit = constellation.orbit_of_satellite
    oracle = Oracle(constellation, rules)
    times_s = np.append(np.arange(0.0, rounds * round_s, 1.0), rounds * round_s)
    positions = oracle.positions(times_s)
    compared = 0
    for i in range(constellation.satellites):
        for j in range(i + 1, constellation.satellites):
            if not (rules.in_plane if orbit[i] == orbit[j] else rules.cross_plane):
                expected = []
            else:
                expected = dense_windows(oracle, times_s, positions, i, j)
            mine = np.flatnonzero((links.first == i) & (links.second == j))
            found = np.stack((links.begin_s[mine], links.end_s[mine]), axis=1)
            # A second can hide a window or a gap from the dense grid, never from the search.
            found = found[np.diff(found, axis=1)[:, 0] > 1.0] if len(found) else found
            expected = [w for w in expected if w[1] - w[0] > 1.0]
            assert len(found) == len(expected), (i, j, found, expected)
            if expected:
                np.testing.assert_allclose(found, expected, rtol=0.0, atol=END_TOLERANCE_S)
            compared += len(expected)
    assert compared > 5
    assert (links.first < links.second).all()
    keys = list(zip(links.begin_s, links.first, links.second, strict=True))
    assert keys == sorted(keys)
    return links


@pytest.mark.parametrize(
    ("constellation", "rules"),
    [
        (PAPER, LinkSettings()),
        (PAPER, LinkSettings(max_range_km=None, grazing_km=0.0)),
        (mixed_shells(), WIDE),
        (mixed_shells(), LinkSettings(in_plane=False, max_range_km=3000.0)),
        (walker(4, 3, 1, 800.0, 86.0, 180.0), LinkSettings(max_rate_deg_s=0.1)),
        (iridium(8), LinkSettings()),
        (iridium(7, 10), LinkSettings(max_range_km=None, max_rate_deg_s=0.05)),
    ],
    ids=["paper", "paper-wide", "shells-wide", "shells", "rate", "iridium", "iridium-rate"],
)
def test_windows_are_those_of_a_one_second_grid(
    constellation: Constellation, rules: LinkSettings
) -> None:
    assert_as_dense(constellation, rules, 20, 300.0)


def test_a_window_between_two_grid_points_is_found() -> None:
    # Planes cross at up to 15 km/s: pairs are within 100 km for seconds, on a grid of 30 s.
    constellation = walker(6, 5, 2.9, 550.0, 80.0)
    links = assert_as_dense(constellation, LinkSettings(max_range_km=100.0), 20, 300.0)
    assert len(links) > 30
    assert (links.duration_s < 30.0).all()


def test_an_interruption_between_two_grid_points_is_found() -> None:
    # Pairs that pass at 84 km turn by several degrees per second, for seconds.
    constellation = walker(6, 5, 2.9, 550.0, 80.0)
    links = assert_as_dense(constellation, LinkSettings(max_rate_deg_s=4.0), 5, 300.0)
    pair = links.first.astype(np.int64) * 30 + links.second
    order = np.lexsort((links.begin_s, pair))
    gaps_s = (links.begin_s[order][1:] - links.end_s[order][:-1])[np.diff(pair[order]) == 0]
    assert (gaps_s < 30.0).sum() > 3


@pytest.mark.parametrize("constellation", [PAPER, mixed_shells(), iridium(12, 6)])
@pytest.mark.parametrize("rules", [LinkSettings(), WIDE])
def test_round_begins_are_linked_exactly_where_the_margin_says(
    constellation: Constellation, rules: LinkSettings
) -> None:
    links = find_links(constellation, rules, 300, 47.0)
    times_s = np.arange(300) * 47.0
    sight = Sight(constellation, rules)
    states = sight.states(times_s)
    first, second = np.triu_indices(constellation.satellites, 1)
    possible = sight.margin(states[:, first], states[:, second]) >= 0.0
    linked = np.zeros_like(possible)
    column = {pair: k for k, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True))}
    for k in range(len(links)):
        low, high = np.searchsorted(times_s, (links.begin_s[k], links.end_s[k]))
        linked[low:high, column[int(links.first[k]), int(links.second[k])]] = True
    np.testing.assert_array_equal(linked, possible)
    assert possible.any() and not possible.all()


def test_the_grid_step_does_not_matter() -> None:
    reference = find_links(PAPER, LinkSettings(), 1, 50000.0)
    for step_s in (10.0, 60.0):
        other = find_links(PAPER, LinkSettings(), 1, 50000.0, step_s)
        pairs = [
            set(zip(x.first, x.second, np.rint(x.begin_s), strict=True)) for x in (reference, other)
        ]
        assert pairs[0] == pairs[1] and len(reference) > 500
        for name in ("begin_s", "end_s", "range_km"):
            mine, theirs = (np.sort(getattr(x, name)) for x in (reference, other))
            np.testing.assert_allclose(mine, theirs, atol=1e-3)


def test_the_shortest_range_is_that_of_a_fine_grid() -> None:
    constellation = walker(6, 5, 2.9, 550.0, 80.0)
    links = find_links(constellation, LinkSettings(), 10, 300.0)
    assert len(links) > 50
    assert links.range_km.min() < 100.0
    for k in range(len(links)):
        times_s = np.linspace(links.begin_s[k], links.end_s[k], 10001)
        one, other = (
            constellation.motion.r_eci_km_at(np.full(len(times_s), satellite), times_s)
            for satellite in (links.first[k], links.second[k])
        )
        sampled_km = np.linalg.norm(one - other, axis=-1).min()
        assert links.range_km[k] <= sampled_km + 1e-6
        assert links.range_km[k] == pytest.approx(sampled_km, abs=0.01)


def test_a_ring_is_one_window_over_the_horizon() -> None:
    ring = walker(2, 9, 0, 550.0, 53.0)
    links = find_links(ring, LinkSettings(cross_plane=False), 40, 300.0)
    pairs = sorted(zip(links.first.tolist(), links.second.tolist(), strict=True))
    one = [(0, 1), (0, 8), *((k, k + 1) for k in range(1, 8))]
    assert pairs == sorted(one + [(a + 9, b + 9) for a, b in one])
    assert (links.begin_s == 0.0).all() and (links.end_s == 12000.0).all()
    assert links.cut_at_start.all() and links.cut_at_end.all()
    np.testing.assert_allclose(links.range_km, ring_hop_km(550.0, 9))
    assert (
        len(find_links(walker(2, 8, 0, 550.0, 53.0), replace(WIDE, cross_plane=False), 4, 300.0))
        == 0
    )


@pytest.mark.parametrize(
    ("altitude_km", "bare", "raised", "hop_km"),
    [
        (330.0, (36.1, 10), (31.4, 12), 3469),
        (550.0, (46.0, 8), (42.5, 9), 4734),
        (780.0, (54.0, 7), (51.1, 8), 5473),
        (1200.0, (65.4, 6), (63.1, 6), 7571),
        (2000.0, (80.9, 5), (79.2, 5), 9841),
    ],
)
def test_rings(
    altitude_km: float, bare: tuple[float, int], raised: tuple[float, int], hop_km: float
) -> None:
    for grazing_km, (sight_deg, satellites) in ((0.0, bare), (80.0, raised)):
        assert longest_sight_deg(altitude_km, grazing_km) == pytest.approx(sight_deg, abs=0.05)
        assert ring_satellites(altitude_km, grazing_km) == satellites
    assert ring_hop_km(altitude_km, ring_satellites(altitude_km)) == pytest.approx(hop_km, abs=0.5)


@pytest.mark.parametrize(("satellites", "linked"), [(8, False), (9, True)])
def test_the_least_ring_links_and_one_satellite_less_does_not(
    satellites: int, linked: bool
) -> None:
    ring = walker(1, satellites, 0, 550.0, 53.0)
    assert bool(len(find_links(ring, WIDE, 1, 300.0))) == linked


def test_satellites_opposite_each_other_are_never_linked_and_are_no_ring() -> None:
    assert ring_satellites(1e6) == 3
    assert longest_sight_deg(50.0) == 0.0
    assert len(find_links(walker(1, 2, 0, 20000.0, 53.0), WIDE, 1, 3000.0)) == 0


def test_one_satellite_has_no_links() -> None:
    assert len(find_links(walker(1, 1, 0, 550.0, 53.0), LinkSettings(), 2, 300.0)) == 0
    assert len(find_links(walker(1, 1, 0, 550.0, 53.0), LinkSettings(terminals=2), 2, 300.0)) == 0


def lowest_geodetic_km(p: np.ndarray, q: np.ndarray) -> float:
    """Least height over WGS84 on a segment, by Bowring's formula at many of its points."""
    a, f = 6378.137, 1 / 298.257223563
    b, e2 = a * (1 - f), f * (2 - f)
    share = np.linspace(0.0, 1.0, 20001)[:, None]
    x, y, z = (p + share * (q - p)).T
    axis = np.hypot(x, y)
    beta = np.arctan2(a * z, b * axis)
    latitude = np.arctan2(
        z + e2 / (1 - e2) * b * np.sin(beta) ** 3, axis - e2 * a * np.cos(beta) ** 3
    )
    normal = a / np.sqrt(1 - e2 * np.sin(latitude) ** 2)
    height = axis * np.cos(latitude) + z * np.sin(latitude) - a**2 / normal
    return float(height.min())


def test_the_line_of_sight_grazes_the_ellipsoid() -> None:
    constellation = iridium(12, 6)
    links = find_links(constellation, WIDE, 40, 300.0)
    ends_s = [(k, t) for k in np.flatnonzero(~links.cut_at_start) for t in [links.begin_s[k]]]
    ends_s += [(k, t) for k in np.flatnonzero(~links.cut_at_end) for t in [links.end_s[k]]]
    assert len(ends_s) > 40
    heights_km = []
    for k, time_s in ends_s:
        r = constellation.motion.r_eci_km(np.array([time_s]))[0]
        heights_km.append(lowest_geodetic_km(r[links.first[k]], r[links.second[k]]))
    # A sphere of the same equatorial radius would be up to 21 km off.
    np.testing.assert_allclose(heights_km, 80.0, atol=0.002)


def test_sgp4_ranges_agree_with_skyfield() -> None:
    sets = sorted(read_element_sets(IRIDIUM), key=lambda e: e.name)[:8]
    constellation = from_element_sets(sets, start=NOON)
    links = find_links(constellation, LinkSettings(max_range_km=3000.0), 40, 300.0)
    ts = load.timescale(builtin=True)
    lines = {
        line: IRIDIUM.read_text().splitlines()[k + 1 : k + 3]
        for k, line in enumerate(IRIDIUM.read_text().splitlines())
        if line.startswith("IRIDIUM")
    }
    theirs = {name.strip(): EarthSatellite(*text, name, ts) for name, text in lines.items()}
    names = constellation.satellite_names
    compared = 0
    for k in np.flatnonzero(~links.cut_at_start & ~links.cut_at_end):
        for time_s in (links.begin_s[k], links.end_s[k]):
            moment = ts.from_datetime(NOON + timedelta(seconds=float(time_s)))
            one, other = (
                theirs[names[s]].at(moment).position.km for s in (links.first[k], links.second[k])
            )
            assert np.linalg.norm(one - other) == pytest.approx(3000.0, abs=0.01)
            compared += 1
    assert compared > 10


@pytest.mark.parametrize("acquisition_s", [20.0, 60.0, 400.0])
def test_a_link_can_be_used_some_time_after_it_became_possible(acquisition_s: float) -> None:
    # The same satellites, seen from a moment 3,000 s earlier: what is possible before 0.
    mean_motion_deg_s = float(np.degrees(np.sqrt(3.986e5 / 6921.0**3)))
    earlier = walker(
        5, 4, 0, 550.0, 53.0, argument_of_latitude_deg=80.6 - 3000.0 * mean_motion_deg_s
    )
    possible = find_links(earlier, LinkSettings(), 30, 300.0)
    begin_s = np.maximum(possible.begin_s - 3000.0 + acquisition_s, 0.0)
    end_s = possible.end_s - 3000.0
    kept = begin_s < end_s
    links = find_links(PAPER, LinkSettings(acquisition_s=acquisition_s), 20, 300.0)
    assert len(links) == kept.sum() > 50
    order = np.lexsort((possible.second[kept], possible.first[kept], np.rint(begin_s[kept])))
    mine = np.lexsort((links.second, links.first, np.rint(links.begin_s)))
    np.testing.assert_array_equal(links.first[mine], possible.first[kept][order])
    np.testing.assert_allclose(links.begin_s[mine], begin_s[kept][order], atol=1e-3)
    np.testing.assert_allclose(links.end_s[mine], end_s[kept][order], atol=1e-3)


def test_links_become_contacts_of_a_plan() -> None:
    london = Place("London", 51.0, -0.1, 10.0)
    ground = plan_of(find_contacts(PAPER, [london], 40, 300.0), 20, [london], 12000.0)
    links = find_links(PAPER, LinkSettings(), 40, 300.0)
    plan = with_links(ground, links)
    assert len(plan) == len(ground) + len(links)
    isl = plan.kind == KINDS.index("isl")
    np.testing.assert_array_equal(plan.first[isl], links.first)
    np.testing.assert_array_equal(plan.second[isl], links.second)
    np.testing.assert_array_equal(plan.begin_s[isl], links.begin_s)
    np.testing.assert_array_equal(plan.end_s[isl], links.end_s)
    np.testing.assert_array_equal(plan.range_km[isl], links.range_km)
    np.testing.assert_array_equal(plan.with_servers.begin_s, ground.begin_s)
    assert plan.first.dtype == ground.first.dtype and plan.kind.dtype == ground.kind.dtype
    keys = list(zip(plan.begin_s, plan.first, plan.second, strict=True))
    assert keys == sorted(keys)


points = st.lists(st.tuples(*[st.floats(-5.0, 5.0)] * 3), max_size=40)


@given(points=points, distance=st.floats(0.05, 20.0))
@settings(max_examples=60, deadline=None)
def test_nearby_pairs_are_those_of_all_pairs(points: list, distance: float) -> None:
    r = np.array(points, dtype=float).reshape(-1, 3)
    found = [
        pair
        for block in nearby_pairs(r, distance)
        for pair in zip(*(x.tolist() for x in block), strict=True)
    ]
    d = r[:, None] - r
    close = np.einsum("abi,abi->ab", d, d) <= distance**2
    assert sorted(found) == [tuple(pair) for pair in np.argwhere(np.triu(close, 1)).tolist()]


def test_nearby_pairs_come_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    r = np.random.default_rng(3).uniform(-1.0, 1.0, (60, 3))
    whole = [np.stack(block, axis=1) for block in nearby_pairs(r, 0.7)]
    monkeypatch.setattr("fedorbit.orbits.nearby.BLOCK_PAIRS", 50)
    parts = [np.stack(block, axis=1) for block in nearby_pairs(r, 0.7)]
    assert len(whole) == 1 and len(parts) > 10
    np.testing.assert_array_equal(np.concatenate(parts), whole[0])


def test_pieces_of_the_search_give_what_the_whole_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = find_links(PAPER, LinkSettings(), 40, 300.0)
    monkeypatch.setattr("fedorbit.orbits.visibility.CHUNK_VALUES", 1)
    monkeypatch.setattr("fedorbit.orbits.crosslinks.BLOCK_VALUES", 100)
    parts = find_links(PAPER, LinkSettings(), 40, 300.0)
    assert len(whole) > 100
    for name in ("first", "second", "cut_at_start", "cut_at_end"):
        np.testing.assert_array_equal(getattr(parts, name), getattr(whole, name))
    for name in ("begin_s", "end_s", "range_km"):
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), atol=1e-6)


def test_the_papers_constellation() -> None:
    """Reference numbers; theirs came from samples every 10 s."""
    links = find_links(PAPER, LinkSettings(), 400, 300.0)
    assert len(links) == 3360
    assert len(set(zip(links.first.tolist(), links.second.tolist(), strict=True))) == 80
    assert (links.first // 4 != links.second // 4).all()
    whole = ~(links.cut_at_start | links.cut_at_end)
    assert links.duration_s[whole].min() >= 280.0 and links.duration_s.max() <= 770.0
    assert np.median(links.duration_s) == pytest.approx(505.0, abs=5.0)
    assert links.duration_s.sum() / 120000.0 == pytest.approx(15.1, abs=0.05)
    assert links.range_km.min() == pytest.approx(2578.0, abs=1.0)
    degree = degrees_at(links, 20, np.arange(0.0, 120000.0, 10.0))
    assert degree.max() == 2
    assert (degree == 0).all(axis=1).mean() == pytest.approx(0.148, abs=0.001)
    assert (degree == 0).mean() == pytest.approx(0.207, abs=0.001)
    wide = find_links(PAPER, WIDE, 400, 300.0)
    assert len(wide) == 3360
    assert np.median(wide.duration_s) == pytest.approx(510.0, abs=5.0)


def test_eight_a_plane_at_2000_km() -> None:
    constellation = walker(5, 8, 1, 2000.0, 80.0)
    near = find_links(constellation, LinkSettings(), 400, 300.0)
    assert len(near) == 8872
    assert len(set(zip(near.first.tolist(), near.second.tolist(), strict=True))) == 280
    assert (near.first // 8 != near.second // 8).all()
    assert np.median(near.duration_s) == pytest.approx(750.0, abs=5.0)
    far = find_links(constellation, WIDE, 400, 300.0)
    same = far.first // 8 == far.second // 8
    assert same.sum() == 40 and (far.duration_s[same] == 120000.0).all()
    cross = set(zip(far.first[~same].tolist(), far.second[~same].tolist(), strict=True))
    assert len(cross) == 480
    assert far.duration_s.sum() / 120000.0 == pytest.approx(303.0, abs=0.5)


def degrees_at(links: Links, satellites: int, times_s: np.ndarray) -> np.ndarray:
    """Links of each satellite at each time, `[time, satellite]`."""
    change = np.zeros((len(times_s) + 1, satellites), dtype=int)
    low, high = np.searchsorted(times_s, (links.begin_s, links.end_s))
    for node in (links.first, links.second):
        np.add.at(change, (low, node), 1)
        np.add.at(change, (high, node), -1)
    return change.cumsum(axis=0)[:-1]


@pytest.mark.parametrize("terminals", [None, 2])
def test_nothing_is_linked_that_the_rules_forbid(terminals: int | None) -> None:
    neither = LinkSettings(in_plane=False, cross_plane=False, terminals=terminals)
    assert len(find_links(PAPER, neither, 4, 300.0)) == 0
    # Below the grazing height no line is above it.
    low = walker(4, 9, 0, 70.0, 53.0)
    assert len(find_links(low, LinkSettings(terminals=terminals), 4, 300.0)) == 0


@pytest.mark.parametrize("terminals", [None, 1])
def test_satellites_at_one_place_are_linked(terminals: int | None) -> None:
    twins = walker(2, 3, 0, 550.0, 53.0, raan_spread_deg=0.0)
    rules = LinkSettings(terminals=terminals, max_rate_deg_s=1.0)
    links = find_links(twins, rules, 2, 300.0)
    assert links.first.tolist() == [0, 1, 2] and links.second.tolist() == [3, 4, 5]
    assert links.range_km.tolist() == [0.0] * 3 and (links.duration_s == 600.0).all()


def test_more_windows_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = walker(1, 12, 0, 550.0, 53.0)  # twelve permanent links
    monkeypatch.setattr(crosslinks, "MOST_WINDOWS", 12 * 4)
    assert len(find_links(ring, LinkSettings(), 4, 300.0)) == 12
    with pytest.raises(ConfigError, match="12 links between satellites at a time") as error:
        find_links(ring, LinkSettings(), 5, 300.0)
    assert "set network.terminals (4 is usual)" in str(error.value)
    # Terminals bound the number of links.
    assert len(find_links(ring, LinkSettings(terminals=2), 5, 300.0)) == 12
