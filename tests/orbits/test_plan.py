"""The contact plan: V from contacts equals V sampled, and what else derives from it."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedorbit.activity import Activity
from fedorbit.build import build_activity, build_constellation, build_places, build_plan
from fedorbit.config import load_config
from fedorbit.config.files import preset_names
from fedorbit.orbits.constellation import Constellation, walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.places import Place, PlaceArrays
from fedorbit.orbits.plan import KINDS, ContactPlan, Window, merged, plan_of, plan_of_slots
from fedorbit.orbits.visibility import round_times_s
from tests.orbits.sampling import sampled, sampled_orbits

LONDON = Place("London", 51.0, -0.1, 10.0)


def computed(
    constellation: Constellation, places: list[Place], rounds: int, round_s: float
) -> ContactPlan:
    found = find_contacts(constellation, places, rounds, round_s)
    return plan_of(found, constellation.satellites, places, rounds * round_s)


def written(*rows: tuple[int, int, float, float]) -> ContactPlan:
    """A plan of four satellites and two servers, from rows of nodes, begin and end."""
    first, second, begin_s, end_s = (np.array(column) for column in zip(*rows, strict=True))
    return merged(
        ContactPlan(
            satellites=4,
            servers=2,
            horizon_s=1000.0,
            first=first.astype(np.int32),
            second=second.astype(np.int32),
            begin_s=begin_s.astype(float),
            end_s=end_s.astype(float),
            kind=np.where(second < 4, KINDS.index("isl"), 0).astype(np.uint8),
            range_km=np.arange(1.0, len(rows) + 1),
        )
    )


PLAN = written(
    (0, 4, 100.0, 250.0),
    (2, 5, 100.0, 130.0),
    (1, 4, 100.0, 130.0),
    (0, 1, 0.0, 1000.0),  # between satellites: no server sees anything by it
    (0, 4, 600.0, 700.0),
    (3, 5, 650.0, 1000.0),
)


@pytest.mark.parametrize("preset", preset_names())
def test_presets_are_in_view_when_their_elevations_say(preset: str) -> None:
    config = load_config(preset)
    constellation, places = build_constellation(config), build_places(config)
    times_s = round_times_s(config.schedule.rounds, config.schedule.round_s)
    visible = build_plan(config, constellation).visible(times_s)
    np.testing.assert_array_equal(visible, sampled(constellation, places, times_s))
    assert visible.any()


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Constellation, list[Place], int, float]:
    """Constellations, places and rounds that are easy to get wrong: edges, zeniths, short steps."""
    angle_deg = st.sampled_from([0.0, 30.0, 53.0, 90.0]) | st.floats(0.0, 180.0)
    constellation = walker(
        draw(st.integers(1, 3)),
        draw(st.integers(1, 3)),
        0.0,
        draw(st.sampled_from([200.0, 550.0, 2000.0, 35793.0]) | st.floats(150.0, 3000.0)),
        draw(angle_deg),
        argument_of_latitude_deg=draw(angle_deg),
    )
    places = [
        Place(
            "p",
            draw(st.sampled_from([0.0, 30.0, 90.0]) | st.floats(-90.0, 90.0)),
            draw(st.sampled_from([0.0, 90.0]) | st.floats(-180.0, 180.0)),
            draw(st.sampled_from([0.0, 10.0, 89.999999]) | st.floats(0.0, 89.0)),
            draw(st.sampled_from([0.0, 20.0])),
        )
        for _ in range(draw(st.integers(1, 3)))
    ]
    round_s = draw(st.sampled_from([1.0, 30.0, 31.0, 300.0, 5400.0]) | st.floats(0.5, 2000.0))
    return constellation, places, draw(st.integers(1, 60)), round_s


@settings(max_examples=150, deadline=None)
@given(worlds())
def test_visibility_from_contacts_equals_sampled_visibility(
    world: tuple[Constellation, list[Place], int, float],
) -> None:
    constellation, places, rounds, round_s = world
    plan, times_s = computed(*world), round_times_s(rounds, round_s)
    expected = sampled(constellation, places, times_s)
    np.testing.assert_array_equal(plan.visible(times_s), expected)
    some = np.arange(constellation.satellites)[::-2]  # in any order
    seen = plan.satellites_in_view(times_s, some)
    np.testing.assert_array_equal(seen, expected.any(axis=2)[:, some])
    np.testing.assert_array_equal(
        plan.orbits_in_view(times_s, constellation.orbit_of_satellite),
        sampled_orbits(constellation, places, times_s),
    )
    assert (plan.begin_s < plan.end_s).all()


def test_a_satellite_that_touches_the_mask_at_a_round_is_decided_as_by_sampling() -> None:
    """The mask is the very elevation at a round's begin, or its neighbour among the numbers."""
    constellation = walker(3, 4, 1, 550.0, 53.0)
    times_s = round_times_s(60, 100.0)
    arrays = PlaceArrays.of([LONDON], constellation.geoid)
    sines = arrays.sin_elevation(constellation.r_ecef_km(times_s))[:, :, 0]
    decided = []
    for t, satellite in np.argwhere(sines > 0.1):
        exact_deg = np.degrees(np.arcsin(sines[t, satellite]))
        for mask_deg in (exact_deg, np.nextafter(exact_deg, 0.0), np.nextafter(exact_deg, 90.0)):
            place = replace(LONDON, min_elevation_deg=float(mask_deg))
            visible = computed(constellation, [place], 60, 100.0).visible(times_s)
            np.testing.assert_array_equal(visible, sampled(constellation, [place], times_s))
            decided.append(bool(visible[t, satellite, 0]))
    assert min(sum(decided), len(decided) - sum(decided)) > 10, "both sides must have been tried"


def test_an_orbit_is_visible_when_any_satellite_is_for_any_station() -> None:
    constellation = walker(3, 4, 1, 1200.0, 70.0)
    stations = [LONDON, Place("south", -40.0, 170.0, 25.0)]
    times_s, orbit_of = round_times_s(50, 120.0), constellation.orbit_of_satellite
    together = computed(constellation, stations, 50, 120.0).orbits_in_view(times_s, orbit_of)
    alone = [
        computed(constellation, [s], 50, 120.0).orbits_in_view(times_s, orbit_of) for s in stations
    ]
    np.testing.assert_array_equal(together, alone[0] | alone[1])
    assert alone[0].any() and alone[1].any() and not together.all()


def test_only_active_satellites_make_an_orbit_visible() -> None:
    constellation = walker(3, 4, 1, 1200.0, 70.0)
    times_s = round_times_s(60, 600.0)
    there = np.ones((60, 12), dtype=bool)
    there[17:, 0] = there[30:, 4:8] = there[:41, 9] = False
    activity = Activity(np.array([0, 17, 30, 41]), there[[0, 17, 30, 41]])
    whole = computed(constellation, [LONDON], 60, 600.0)
    active = whole.restricted(activity, 600.0)
    visible = active.orbits_in_view(times_s, constellation.orbit_of_satellite)
    expected = sampled_orbits(constellation, [LONDON], times_s, activity)
    np.testing.assert_array_equal(visible, expected)
    everything = whole.orbits_in_view(times_s, constellation.orbit_of_satellite)
    assert (everything & ~expected).any(axis=0).all(), "every orbit must have lost a contact"


def test_events_of_a_configuration_cut_contacts_as_they_cut_sampled_visibility() -> None:
    events = [
        {"round": 100, "kind": "leave", "orbit": 1},
        {"round": 250, "kind": "join", "orbit": 1},
        {"round": 40, "kind": "join", "satellite": 16},
    ]
    config = load_config("paper").model_copy(update={"events": ()})
    config = type(config).model_validate({**config.model_dump(), "events": events})
    constellation = build_constellation(config)
    activity = build_activity(config, constellation)
    plan = build_plan(config, constellation).restricted(activity, 300.0)
    times_s = round_times_s(400, 300.0)
    np.testing.assert_array_equal(
        plan.orbits_in_view(times_s, constellation.orbit_of_satellite),
        sampled_orbits(constellation, build_places(config), times_s, activity),
    )
    mine = plan.first == 16
    assert mine.any() and (plan.begin_s[mine] >= 40 * 300.0).all()


def test_a_contact_is_cut_where_its_satellite_is_away_and_nowhere_else() -> None:
    flags = np.ones((3, 4), dtype=bool)
    flags[1, 0] = False
    active = PLAN.restricted(Activity(np.array([0, 2, 9]), flags), 100.0)
    rows = list(zip(active.first, active.second, active.begin_s, active.end_s, strict=True))
    assert rows == [
        (0, 1, 0.0, 200.0),
        (0, 4, 100.0, 200.0),
        (1, 4, 100.0, 130.0),
        (2, 5, 100.0, 130.0),
        (3, 5, 650.0, 1000.0),  # not affected by the event of another
        (0, 1, 900.0, 1000.0),
    ]
    assert PLAN.restricted(Activity.always(4), 100.0) is PLAN


def test_a_contact_covers_its_begin_and_not_its_end() -> None:
    visible = PLAN.visible(np.array([0.0, 100.0, 130.0, 249.0, 250.0, 600.0, 999.0]))
    assert visible.shape == (7, 4, 2)
    assert visible[:, 0, 0].tolist() == [False, True, True, True, False, True, False]
    assert visible[:, 1, 0].tolist() == [False, True, False, False, False, False, False]
    assert visible[:, 3, 1].tolist() == [False] * 6 + [True]
    assert not visible[:, 0, 1].any() and not visible[:, 1, 1].any()


def test_contacts_of_a_period_come_by_time_and_satellite() -> None:
    assert PLAN.during(100.0, 200.0) == [
        (0, 4, 100.0, 200.0),  # ends later
        (1, 4, 100.0, 130.0),
        (2, 5, 100.0, 130.0),
    ]
    assert PLAN.during(200.0, 660.0) == [
        (0, 4, 200.0, 250.0),  # has begun before
        (0, 4, 600.0, 660.0),
        (3, 5, 650.0, 660.0),
    ]
    assert PLAN.during(250.0, 600.0) == []


def test_the_next_window_of_two_nodes() -> None:
    assert PLAN.window(0, 4, 0.0) == PLAN.window(4, 0, 0.0) == Window(100.0, 250.0)
    assert PLAN.window(0, 4, 120.0) == Window(120.0, 250.0)
    assert PLAN.window(0, 4, 250.0) == Window(600.0, 700.0)
    assert PLAN.window(0, 4, 700.0) is None
    assert PLAN.window(1, 0, 999.0) == Window(999.0, 1000.0)
    assert PLAN.window(2, 4, 0.0) is None


def test_a_window_may_have_to_be_long_enough() -> None:
    assert PLAN.window(0, 4, 0.0, 150.0) == Window(100.0, 250.0)
    assert PLAN.window(0, 4, 150.0, 100.0) == Window(150.0, 250.0)
    assert PLAN.window(0, 4, 151.0, 100.0) == Window(600.0, 700.0)  # 99 s are left of the first
    assert PLAN.window(0, 4, 0.0, 151.0) is None


def test_contacts_that_fill_slots() -> None:
    in_contact = np.random.default_rng(0).random((12, 3, 2)) < 0.5
    plan = plan_of_slots(in_contact, 100.0)
    np.testing.assert_array_equal(plan.visible(np.arange(12) * 100.0), in_contact)
    assert merged(plan).begin_s.tolist() == plan.begin_s.tolist()  # in order, and none touch
    flags = np.zeros((4, 1, 1), dtype=bool)
    flags[1:3] = True
    assert plan_of_slots(flags, 100.0).during(0.0, 400.0) == [(0, 1, 100.0, 300.0)]


def test_passes_count_contacts_with_servers() -> None:
    orbit_of = np.array([0, 0, 1, 1])
    assert PLAN.passes(orbit_of, 1000.0).tolist() == [3, 2]
    assert PLAN.passes(orbit_of, 600.0).tolist() == [2, 1]


def test_overlapping_and_touching_contacts_are_one() -> None:
    plan = written(
        (0, 4, 0.0, 10.0), (0, 4, 5.0, 7.0), (0, 4, 10.0, 20.0), (0, 4, 20.5, 30.0), (0, 5, 1.0, 2.0)
    )  # fmt: skip
    rows = zip(plan.first, plan.second, plan.begin_s, plan.end_s, plan.range_km, strict=True)
    assert list(rows) == [(0, 4, 0.0, 20.0, 1.0), (0, 5, 1.0, 2.0, 5.0), (0, 4, 20.5, 30.0, 4.0)]


def test_ranges_are_the_shortest_of_the_contact() -> None:
    constellation = walker(3, 4, 1, 800.0, 60.0)
    plan = computed(constellation, [LONDON], 1, 43200.0)
    r_km, _ = constellation.geoid.place(LONDON.latitude_deg, LONDON.longitude_deg)
    assert len(plan) > 20
    for i in range(len(plan)):
        times_s = np.linspace(plan.begin_s[i], plan.end_s[i], 2001)
        satellite = np.full(len(times_s), plan.first[i])
        ranges_km = np.linalg.norm(constellation.r_ecef_km_at(satellite, times_s) - r_km, axis=1)
        assert plan.range_km[i] == pytest.approx(ranges_km.min(), abs=0.05)


def test_kinds_follow_the_roles_of_servers() -> None:
    hap = Place("HAP", 40.0, -90.0, 0.0, 20.0, "platform")
    plan = computed(walker(3, 4, 1, 800.0, 60.0), [LONDON, hap], 1, 43200.0)
    assert {(int(s), KINDS[k]) for s, k in zip(plan.server, plan.kind, strict=True)} == {
        (0, "ground"),
        (1, "platform"),
    }
