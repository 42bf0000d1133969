"""Seconds of contact per round, and which rounds serve, worked out by hand."""

import numpy as np
import pytest

from fedorbit.activity import Activity
from fedorbit.hardware import transfer_s
from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.places import Place, PlaceArrays
from fedorbit.orbits.plan import ContactPlan, plan_of
from fedorbit.orbits.service import LinkRates, Service, contact_seconds
from fedorbit.orbits.visibility import Schedule, round_times_s
from tests.orbits.sampling import sampled_orbits

ORBIT_OF = np.array([0, 0, 1, 2])


def contacts_of(*rows: tuple[int, float, float]) -> ContactPlan:
    """A plan of four satellites and one station, from rows of satellite, begin and end."""
    satellite, begin_s, end_s = (np.array(column) for column in zip(*rows, strict=True))
    return ContactPlan(
        satellites=4,
        servers=1,
        horizon_s=400.0,
        first=satellite.astype(np.int32),
        second=np.full(len(rows), 4, dtype=np.int32),
        begin_s=begin_s.astype(float),
        end_s=end_s.astype(float),
        kind=np.zeros(len(rows), dtype=np.uint8),
        range_km=np.full(len(rows), 1000.0),
    )


CONTACTS = contacts_of(
    (0, 50.0, 150.0),  # rounds 0 and 1, 50 s each
    (1, 120.0, 130.0),  # within the first: counts once
    (0, 140.0, 170.0),  # goes on where the first ends: 20 s more
    (1, 250.0, 290.0),  # round 2
    (2, 0.0, 400.0),  # always
)


def test_seconds_are_the_union_of_contacts_cut_at_rounds() -> None:
    seconds = contact_seconds(CONTACTS, ORBIT_OF, rounds=4, round_s=100.0)
    np.testing.assert_allclose(seconds[:, 0], [50, 70, 40, 0])
    np.testing.assert_allclose(seconds[:, 1], 100)
    np.testing.assert_allclose(seconds[:, 2], 0)


def test_satellites_that_are_away_have_no_contact() -> None:
    # Satellite 0 is lost in round 1, satellite 2 joins in round 3.
    activity = Activity(
        np.array([0, 1, 3]),
        np.array([[1, 1, 0, 1], [0, 1, 0, 1], [0, 1, 1, 1]], dtype=bool),
    )
    seconds = contact_seconds(CONTACTS.restricted(activity, 100.0), ORBIT_OF, 4, 100.0)
    np.testing.assert_allclose(seconds[:, 0], [50, 10, 40, 0])
    np.testing.assert_allclose(seconds[:, 1], [0, 0, 0, 100])


def test_no_contact_at_all() -> None:
    none = contacts_of((0, 500.0, 600.0))  # beyond the horizon
    np.testing.assert_array_equal(contact_seconds(none, ORBIT_OF, 4, 100.0), 0)


def test_an_exchange_is_one_model_up_and_one_down() -> None:
    # 250 kB are 2 Mbit: 2 s at 1 Mbit/s, 0.2 s at 10.
    assert LinkRates(1.0, 10.0).exchange_s(250_000) == pytest.approx(2.2)
    assert LinkRates(1.0, None).exchange_s(250_000) == pytest.approx(2.0)
    assert LinkRates().exchange_s(250_000) == 0.0
    assert transfer_s(125_000, 0.5) == pytest.approx(2.0)


def test_a_round_serves_when_in_view_for_long_enough() -> None:
    visible = np.array([[1, 0, 1], [1, 1, 1], [0, 1, 1], [0, 1, 0]], dtype=bool)
    in_view = Schedule(round_times_s(4, 100.0), visible)
    seconds = contact_seconds(CONTACTS, ORBIT_OF, 4, 100.0)
    service = Service(in_view, seconds, exchange_s=60.0)
    # Orbit 0: 50 s are too short, 70 s suffice; orbit 2 is in view for no second.
    expected = np.array([[0, 0, 0], [1, 1, 0], [0, 1, 0], [0, 1, 0]], dtype=bool)
    np.testing.assert_array_equal(service.schedule.visible, expected)
    assert service.schedule.tau_max == 4
    assert service.never_served == [2]
    assert service.longest_contact_s == pytest.approx(100.0)
    np.testing.assert_array_equal(Service(in_view, seconds, 0.0).schedule.visible, visible)


def test_seconds_of_a_real_constellation_equal_a_fine_count() -> None:
    """Counted on a grid of one second, with another code: elevations of all satellites."""
    constellation = walker(2, 3, 1, 550.0, 53.0, argument_of_latitude_deg=80.6)
    stations = (Place("a", 51.0, -0.1), Place("b", 40.0, 20.0, 25.0))
    rounds, round_s = 40, 300.0
    found = find_contacts(constellation, stations, rounds, round_s)
    plan = plan_of(found, 6, stations, rounds * round_s)
    seconds = contact_seconds(plan, constellation.orbit_of_satellite, rounds, round_s)
    times_s = np.arange(rounds * round_s) + 0.5
    arrays = PlaceArrays.of(stations, constellation.geoid)
    sines = arrays.sin_elevation(constellation.r_ecef_km(times_s))
    up = (sines >= arrays.sin_min_elevation).any(axis=2).reshape(len(times_s), 2, 3).any(axis=2)
    counted = up.reshape(rounds, int(round_s), 2).sum(axis=1)
    np.testing.assert_allclose(seconds, counted, atol=2.0)  # at most a border or two per round
    assert counted.any()
    # Whoever is sampled in view has some contact in that round.
    visible = sampled_orbits(constellation, stations, round_times_s(rounds, round_s))
    assert (seconds[visible] > 0).all()
