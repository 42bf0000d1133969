import numpy as np
import pytest

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.earth import latitude_longitude_deg
from fedorbit.orbits.places import Place, PlaceArrays
from fedorbit.orbits.visibility import round_times_s
from tests.orbits.sampling import sampled_orbits

LONDON = Place("London", 51.0, -0.1, 10.0)


def margins(constellation, station: Place, times_s: np.ndarray) -> np.ndarray:
    arrays = PlaceArrays.of([station], constellation.geoid)
    return arrays.sin_elevation(constellation.r_ecef_km(times_s))[..., 0] - np.sin(
        np.radians(station.min_elevation_deg)
    )


def dense_contacts(constellation, station, horizon_s, step_s=1.0):
    """Rise and set from a grid so fine that nothing needs refinement to within one step."""
    times_s = np.arange(0.0, horizon_s, step_s)
    above = margins(constellation, station, times_s) >= 0.0
    found = []
    for satellite in range(constellation.satellites):
        edges = np.diff(np.concatenate(([0], above[:, satellite].astype(int), [0])))
        rises, sets = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1
        found += [(satellite, times_s[r], times_s[s]) for r, s in zip(rises, sets, strict=True)]
    return sorted(found, key=lambda contact: contact[1])


def test_contacts_agree_with_a_one_second_grid() -> None:
    constellation = walker(5, 4, 0, 550.0, 53.0, argument_of_latitude_deg=80.6)
    horizon_s = 86400.0
    contacts = find_contacts(constellation, [LONDON], 1, horizon_s)
    expected = dense_contacts(constellation, LONDON, horizon_s)
    found = sorted(
        zip(contacts.satellite, contacts.rise_s, contacts.set_s, strict=True), key=lambda c: c[1]
    )
    # A pass below one second could fall through the expected grid, never through ours.
    assert len(found) == len(expected) > 100
    for (satellite, rise_s, set_s), (true_satellite, grid_rise_s, grid_set_s) in zip(
        found, expected, strict=True
    ):
        assert satellite == true_satellite
        assert grid_rise_s - 1.0 <= rise_s <= grid_rise_s
        assert grid_set_s <= set_s <= grid_set_s + 1.0


def test_events_lie_where_the_elevation_says() -> None:
    constellation = walker(3, 5, 1, 800.0, 60.0)
    contacts = find_contacts(constellation, [LONDON], 1, 43200.0)
    arrays = PlaceArrays.of([LONDON], constellation.geoid)

    def elevation_deg(times_s: np.ndarray) -> np.ndarray:
        r_km = constellation.r_ecef_km_at(contacts.satellite, times_s)
        return np.degrees(np.arcsin(arrays.sin_elevation_at(contacts.station, r_km)))

    whole = ~(contacts.cut_at_start | contacts.cut_at_end)
    assert whole.sum() > 20
    # At 0.1 degrees per second near the minimum, 1e-3 degrees are 10 ms.
    np.testing.assert_allclose(elevation_deg(contacts.rise_s)[whole], 10.0, atol=1e-3)
    np.testing.assert_allclose(elevation_deg(contacts.set_s)[whole], 10.0, atol=1e-3)
    np.testing.assert_allclose(elevation_deg(contacts.culmination_s), contacts.max_elevation_deg)
    for shift_s in (-0.5, 0.5):
        nearby = elevation_deg(contacts.culmination_s + shift_s)
        assert (nearby[whole] <= contacts.max_elevation_deg[whole]).all()
    assert (contacts.rise_s <= contacts.culmination_s).all()
    assert (contacts.culmination_s <= contacts.set_s).all()
    assert (np.diff(contacts.rise_s) >= 0).all()
    np.testing.assert_array_equal(contacts.orbit, contacts.satellite // 5)


def test_a_pass_between_two_grid_points_is_found() -> None:
    # A minimum elevation of 85 degrees leaves passes of seconds; the grid has steps of 30 s.
    station = Place("narrow", 30.0, 10.0, 85.0)
    constellation = walker(6, 10, 1, 500.0, 45.0)
    horizon_s = 86400.0
    contacts = find_contacts(constellation, [station], 1, horizon_s)
    expected = dense_contacts(constellation, station, horizon_s)
    assert len(expected) > 3
    assert (contacts.duration_s < 30.0).all()
    # The expected grid loses passes below a second; every one it has must be ours.
    for satellite, rise_s, _ in expected:
        mine = contacts.rise_s[contacts.satellite == satellite]
        assert ((rise_s - 1.0 <= mine) & (mine <= rise_s)).sum() == 1
    assert len(contacts) == len(expected) + (contacts.duration_s < 1.0).sum()


def test_a_pass_in_the_middle_between_grid_points_is_found_at_the_lowest_height() -> None:
    # Below the satellite at 3015 s, half a step from the grid: at both neighbours the sine of the
    # elevation is already 0.14 below that of the minimum, so a near miss must reach that far.
    constellation = walker(1, 1, 0, 200.0, 53.0)
    [latitude_deg], [longitude_deg] = latitude_longitude_deg(
        constellation.r_ecef_km(np.array([3015.0]))[:, 0]
    )
    station = Place("below", float(latitude_deg), float(longitude_deg), 89.0)
    neighbours = margins(constellation, station, np.array([3000.0, 3030.0]))
    assert (neighbours < -0.1).all()
    contacts = find_contacts(constellation, [station], 1, 6000.0)
    np.testing.assert_allclose(contacts.culmination_s, [3015.0], atol=0.01)
    assert contacts.duration_s[0] < 2.0


def test_contacts_cut_by_the_horizon_say_so() -> None:
    constellation = walker(5, 4, 0, 550.0, 53.0, argument_of_latitude_deg=80.6)
    contacts = find_contacts(constellation, [LONDON], 1, 120.0)
    # Satellite 0 of orbit 4 is up from before the start until 217 s (grid test above).
    assert contacts.satellite.tolist() == [16]
    assert contacts.rise_s.tolist() == [0.0]
    assert contacts.set_s.tolist() == [120.0]
    assert contacts.cut_at_start.all() and contacts.cut_at_end.all()


def test_no_contact_at_all() -> None:
    equatorial = walker(1, 3, 0, 500.0, 0.0)
    contacts = find_contacts(equatorial, [Place("pole", 90.0, 0.0, 5.0)], 1, 7200.0)
    assert len(contacts) == 0
    assert contacts.duration_s.sum() == 0.0


def test_always_in_contact() -> None:
    # One satellite at geostationary height over an equatorial station never sets.
    constellation = walker(1, 1, 0, 35793.0, 0.0)
    contacts = find_contacts(constellation, [Place("below", 0.0, 0.0, 5.0)], 1, 86400.0)
    assert contacts.rise_s.tolist() == [0.0]
    assert contacts.set_s.tolist() == [86400.0]


def test_many_stations_at_once_equal_one_at_a_time() -> None:
    constellation = walker(4, 4, 1, 600.0, 70.0)
    stations = [LONDON, Place("b", -20.0, 100.0, 5.0), Place("c", 70.0, 20.0, 30.0)]
    together = find_contacts(constellation, stations, 1, 20000.0)
    for index, station in enumerate(stations):
        alone = find_contacts(constellation, [station], 1, 20000.0)
        mine = together.station == index
        np.testing.assert_array_equal(together.satellite[mine], alone.satellite)
        np.testing.assert_allclose(together.rise_s[mine], alone.rise_s, atol=1e-6)
        np.testing.assert_allclose(together.max_elevation_deg[mine], alone.max_elevation_deg)


def test_sampled_visibility_and_contacts_tell_the_same() -> None:
    constellation = walker(5, 4, 0, 550.0, 53.0, argument_of_latitude_deg=80.6)
    times_s = round_times_s(400, 300.0)
    contacts = find_contacts(constellation, [LONDON], 400, 300.0)
    inside = (contacts.rise_s[None] <= times_s[:, None]) & (times_s[:, None] < contacts.set_s)
    from_contacts = np.stack(
        [inside[:, contacts.orbit == orbit].any(axis=1) for orbit in range(5)], axis=1
    )
    expected = sampled_orbits(constellation, [LONDON], times_s)
    np.testing.assert_array_equal(from_contacts, expected)


@pytest.mark.parametrize("grid_step_s", [10.0, 30.0, 60.0])
def test_the_grid_step_does_not_matter(grid_step_s: float) -> None:
    constellation = walker(2, 3, 0, 550.0, 53.0)
    reference = find_contacts(constellation, [LONDON], 1, 50000.0)
    other = find_contacts(constellation, [LONDON], 1, 50000.0, grid_step_s)
    np.testing.assert_array_equal(other.satellite, reference.satellite)
    np.testing.assert_allclose(other.rise_s, reference.rise_s, atol=1e-3)
    np.testing.assert_allclose(other.culmination_s, reference.culmination_s, atol=1e-2)
