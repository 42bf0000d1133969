"""Presets with links and platforms against reference numbers, which came from samples every 10 s."""

import numpy as np
import pytest

from fedorbit.build import build_constellation, build_places, build_plan, build_schedule
from fedorbit.config import Config, load_config
from fedorbit.orbits.linkage import Linkage, linkage
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.rings import Ring, rings
from fedorbit.orbits.routing import ContactGraph, Delays, delays
from fedorbit.orbits.visibility import Schedule

SAMPLING_MIN = 0.17
"""Largest delay of a sample every 10 s, in minutes."""
LONDON = 'stations=[{name="London", latitude_deg=51.0, longitude_deg=-0.1}]'
HAP = (
    'stations=[{{name="HAP", latitude_deg=51.0, longitude_deg=-0.1, altitude_km=20.0, '
    'role="platform", min_elevation_deg={mask}}}]'
)


def world(preset: str, *overrides: str) -> tuple[Config, ContactPlan, Schedule]:
    config = load_config(preset, overrides)
    constellation = build_constellation(config)
    plan = build_plan(config, constellation)
    return config, plan, build_schedule(config, constellation, plan)


def from_400_rounds(preset: str, *overrides: str, linked: bool) -> Delays:
    """Delays from 400 begins of rounds; the plan is twice as long, so that none is cut."""
    config, plan, _ = world(preset, *overrides, "schedule.rounds=800")
    graph = ContactGraph(plan if linked else plan.with_servers)
    orbit = build_constellation(config).orbit_of_satellite
    return delays(graph, np.arange(400) * 300.0, orbit)


def links_of(preset: str) -> tuple[list[Ring], Linkage]:
    config, plan, _ = world(preset)
    constellation = build_constellation(config)
    assert config.network is not None
    found = rings(constellation, config.network.grazing_km)
    return found, linkage(plan, constellation.orbit_of_satellite)


def minutes(values_s: np.ndarray) -> float:
    return float(values_s.mean()) / 60.0


# --- Platforms ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("overrides", "passes", "mean_min", "in_view", "idle", "direct_min", "linked_min", "linked_max"),
    [
        (["stations.0.min_elevation_deg=10"], 147, 7.0, [58, 41, 33, 21, 54], 193, 307, 2.7, 18),
        ([], 179, 10.9, [105, 69, 56, 69, 92], 23, 240, 0.5, 4),
        (["stations.0.min_elevation_deg=-3.2"], 194, 12.5, [129, 96, 69, 82, 111], 0, 211, 0.5, 4),
    ],
    ids=["10 deg", "as it is", "line above 10 km"],
)  # fmt: skip
def test_one_platform(
    overrides: list[str],
    passes: int,
    mean_min: float,
    in_view: list[int],
    idle: int,
    direct_min: float,
    linked_min: float,
    linked_max: float,
) -> None:
    _, plan, schedule = world("paper-hap", *overrides)
    direct = plan.with_servers
    assert len(direct) == passes
    assert minutes(direct.duration_s) == pytest.approx(mean_min, abs=0.05)
    assert schedule.visible_rounds.tolist() == in_view and schedule.idle_rounds == idle
    by_contacts = from_400_rounds("paper-hap", *overrides, linked=False).orbit_to_server_s
    assert minutes(by_contacts) == pytest.approx(direct_min, abs=0.5 + SAMPLING_MIN)
    by_links = from_400_rounds("paper-hap", *overrides, linked=True).orbit_to_server_s
    assert minutes(by_links) == pytest.approx(linked_min, abs=0.05 + SAMPLING_MIN)
    assert by_links.max() / 60.0 == pytest.approx(linked_max, abs=0.5)


def test_a_platform_at_the_horizon_does_not_replace_a_ring() -> None:
    overrides = ["stations.0.min_elevation_deg=-3.2"]
    found = from_400_rounds("paper-hap", *overrides, linked=False).all_to_all_s
    assert minutes(found) == pytest.approx(432, abs=0.5 + SAMPLING_MIN)


def test_two_platforms() -> None:
    config, plan, schedule = world("paper-two-haps")
    assert [place.role for place in build_places(config)] == ["platform", "platform"]
    assert schedule.visible_rounds.tolist() == [174, 125, 134, 159, 177]
    assert schedule.idle_rounds == 0
    assert set(plan.kind.tolist()) == {1, 2}  # platforms and links, nothing on the ground


def test_two_stations_on_the_ground() -> None:
    ground = [f"stations.{i}.{what}" for i in (0, 1) for what in ("altitude_km=0", "role=ground")]
    masks = [f"stations.{i}.min_elevation_deg=10" for i in (0, 1)]
    _, _, schedule = world("paper-two-haps", *ground, *masks)
    assert schedule.visible_rounds.tolist() == [94, 66, 68, 72, 105]
    assert schedule.idle_rounds == 84


# --- Five orbits of eight at 2,000 km -----------------------------------------------------------


@pytest.mark.parametrize(
    ("stations", "in_view"),
    [
        (LONDON, [284, 265, 208, 239, 286]),
        (HAP.format(mask=10), [281, 263, 205, 237, 279]),
        (HAP.format(mask=-3.2), [350, 340, 302, 316, 352]),
    ],
    ids=["ground", "platform, 10 deg", "platform, line above 10 km"],
)
def test_the_constellation_of_the_fl_papers(stations: str, in_view: list[int]) -> None:
    _, plan, schedule = world("kepler-leo-fl", stations, "schedule.rounds=400")
    assert schedule.visible_rounds.tolist() == in_view and schedule.idle_rounds == 0
    if stations == LONDON:
        assert len(plan) == 442
        assert minutes(plan.duration_s) == pytest.approx(17.2, abs=0.05)


def test_the_ring_of_the_fl_papers_is_beyond_5000_km() -> None:
    constellation = build_constellation(load_config("kepler-leo-fl"))
    for ring in rings(constellation, 80.0):
        assert ring.verdict == "always" and ring.needed == 5
        assert ring.hop_km == pytest.approx(6407.0, abs=0.5)


# --- Rings --------------------------------------------------------------------------------------


def test_the_papers_satellites_where_the_ring_closes() -> None:
    found, links = links_of("paper-ring")
    assert [ring.satellites for ring in found] == [10, 10]
    assert {ring.verdict for ring in found} == {"always"} and found[0].needed == 9
    assert found[0].hop_km == pytest.approx(4277.0, abs=0.5)
    assert links.in_plane.permanent == links.in_plane.windows == 20  # ten in each ring
    assert links.none == 0.0 and links.alone == 0.0
    assert links.cross_plane.nearest_km == pytest.approx(1303.0, abs=1.0)
    met = from_400_rounds("paper-ring", linked=True)
    assert (met.all_to_all_s == 0.0).all()
    # An orbit's satellites are as good as one: the first and the last arrive together.
    np.testing.assert_array_equal(met.orbit_to_server_s, met.slowest_to_server_s)


def test_a_walker_star() -> None:
    found, links = links_of("walker-star")
    assert len(found) == 6 and {ring.verdict for ring in found} == {"always"}
    assert found[0].needed == 8 and found[0].hop_km == pytest.approx(4029.0, abs=0.5)
    assert links.in_plane.permanent == 66  # a ring of eleven in each of six planes
    assert links.most == 4
    off_seam = [links.orbit_pairs[a, a + 1] for a in range(5)]
    assert off_seam == [1.0] * 5
    config, plan, _ = world("walker-star", "schedule.rounds=48")
    orbit = build_constellation(config).orbit_of_satellite
    met = delays(ContactGraph(plan), np.arange(24) * 300.0, orbit)
    for values_s in vars(met).values():
        assert (values_s == 0.0).all()


def test_what_the_comments_of_the_presets_compute() -> None:
    # Four satellites of a plane see each other from a height at which the line grazes 80 km.
    radius_km = (6371.0 + 80.0) / np.cos(np.pi / 4.0)
    assert radius_km - 6371.0 == pytest.approx(2752.0, abs=0.5)
    assert 2.0 * radius_km * np.sin(np.pi / 4.0) == pytest.approx(12902.0, abs=0.5)
    constellation = build_constellation(load_config("paper", ["constellation.altitude_km=2753"]))
    assert {ring.verdict for ring in rings(constellation, 80.0)} == {"always"}
    below = build_constellation(load_config("paper", ["constellation.altitude_km=2751"]))
    assert {ring.verdict for ring in rings(below, 80.0)} == {"never"}
    # With F = 0 satellites of the two planes of the ring meet on the equator.
    _, plan, _ = world("paper-ring", "constellation.phasing=0", "schedule.rounds=24")
    assert plan.between_satellites.range_km.min() < 1.0
