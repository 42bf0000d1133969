import numpy as np
import pytest

from fedorbit.orbits import visibility
from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.earth import latitude_longitude_deg, unit_vectors
from fedorbit.orbits.places import Place
from fedorbit.orbits.swath import _begins, count_passes


def margins(constellation, places, times_s, swath_rad: float) -> np.ndarray:
    """Cosine of the distance minus that of the swath's edge, `[time, place, satellite]`."""
    r_km = constellation.r_ecef_km(times_s)
    directions = r_km / np.linalg.norm(r_km, axis=-1, keepdims=True)
    return np.einsum("pi,tsi->tps", places, directions) - np.cos(swath_rad)


def passes_on_a_fine_grid(
    constellation, latitude_deg, longitude_deg, horizon_s: float, swath_rad: float
) -> np.ndarray:
    """Count how often one-second samples enter the swath: slow, plain, and independent.

    Where a place comes within 1e-6 of the edge without a change, milliseconds are looked at.
    """
    places = unit_vectors(latitude_deg, longitude_deg)
    times_s = np.append(np.arange(0.0, horizon_s, 1.0), horizon_s)
    margin = margins(constellation, places, times_s, swath_rad)
    inside = margin >= 0.0
    counts = inside[0] + (inside[1:] & ~inside[:-1]).sum(axis=0)
    close = np.abs(margin) < 1e-6
    unchanged = (inside[1:] == inside[:-1]) & (close[1:] | close[:-1])
    for step, place, satellite in np.argwhere(unchanged):
        fine_s = np.linspace(times_s[step], times_s[step + 1], 1001)
        fine = margins(constellation, places[[place]], fine_s, swath_rad)[:, 0, satellite] >= 0.0
        counts[place, satellite] += (fine[1:] & ~fine[:-1]).sum()
    return counts


@pytest.mark.parametrize("half_width_km", [30.0, 145.0, 700.0, 2500.0])
@pytest.mark.parametrize("horizon_s", [86400.0, 43211.7])
def test_passes_are_those_of_a_one_second_grid(half_width_km: float, horizon_s: float) -> None:
    rng = np.random.default_rng(1)
    constellation = walker(3, 2, 1, 550.0, 53.0, argument_of_latitude_deg=10.0)
    latitude_deg, longitude_deg = rng.uniform(-60, 60, 60), rng.uniform(-180, 180, 60)
    ours = count_passes(
        constellation, latitude_deg, longitude_deg, horizon_s, swath_half_width_km=half_width_km
    )
    expected = passes_on_a_fine_grid(
        constellation, latitude_deg, longitude_deg, horizon_s, half_width_km / 6371.0
    )
    assert expected.sum() > 10
    np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("horizon_s", [3.0, 20.0, 35.0, 1000.0])
def test_short_horizons_that_cut_passes(horizon_s: float) -> None:
    # Places on and beside the ground track from before the start to beyond the end.
    constellation = walker(2, 1, 0, 550.0, 53.0)
    r_km = constellation.r_ecef_km(np.linspace(-60.0, horizon_s + 60.0, 200))[:, 0]
    latitude_deg, longitude_deg = latitude_longitude_deg(r_km)
    latitude_deg = latitude_deg + np.random.default_rng(4).uniform(-0.4, 0.4, len(latitude_deg))
    for half_width_km in (5.0, 30.0):
        ours = count_passes(
            constellation, latitude_deg, longitude_deg, horizon_s, swath_half_width_km=half_width_km
        )
        expected = passes_on_a_fine_grid(
            constellation, latitude_deg, longitude_deg, horizon_s, half_width_km / 6371.0
        )
        assert 0 < expected[:, 0].sum() < len(latitude_deg)
        np.testing.assert_array_equal(ours, expected)


def test_a_place_in_view_all_the_time_is_passed_once() -> None:
    geostationary = walker(1, 2, 0, 35793.0, 0.0)
    places = np.array([0.0, 10.0, 0.0]), np.array([0.0, 5.0, 180.0])
    passes = count_passes(geostationary, *places, 86400.0, min_elevation_deg=5.0)
    assert passes.tolist() == [[1, 0], [1, 0], [0, 1]]


def test_a_gap_between_grid_points_divides_two_passes() -> None:
    # Twelve hours beside a slow satellite on an inclined orbit: its figure of eight comes and goes.
    constellation = walker(1, 3, 0, 35793.0, 20.0)
    rng = np.random.default_rng(5)
    latitude_deg, longitude_deg = rng.uniform(-60, 60, 80), rng.uniform(-180, 180, 80)
    ours = count_passes(
        constellation, latitude_deg, longitude_deg, 90_000.0, swath_half_width_km=6000.0
    )
    expected = passes_on_a_fine_grid(
        constellation, latitude_deg, longitude_deg, 90_000.0, 6000.0 / 6371.0
    )
    assert (expected == 2).any() and (expected == 0).any()
    np.testing.assert_array_equal(ours, expected)


def test_margins_around_a_grid_point() -> None:
    # One place, five grid points: enters, grazes in between, is left for a moment, stays, is out.
    before = np.array([[-1.0, -0.2, 0.3, 0.3, -0.3]])
    here = np.array([[0.5, -0.01, 0.01, 0.2, -0.2]])
    after = np.array([[0.4, -0.12, 0.2, 0.3, -0.3]])
    nobody = np.zeros(5, dtype=bool)
    found = _begins(before, here, after, nobody, nobody)
    assert found.tolist() == [[True, False, False, False, False]]
    here[0, 1:3] = -0.0005, 0.0005  # the parabolas reach 0.0005 beyond 0
    found = _begins(before, here, after, nobody, nobody)
    assert found.tolist() == [[True, True, True, False, False]]
    # Both extrema lie after their grid points, beyond the end of the horizon.
    found = _begins(before, here, after, nobody, ~nobody)
    assert found.tolist() == [[True, False, False, False, False]]
    found = _begins(before, here, after, ~nobody, nobody)
    assert found.tolist() == [[True, True, True, True, False]]


def test_chunks_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(6)
    constellation = walker(3, 2, 0, 550.0, 53.0)
    latitude_deg, longitude_deg = rng.uniform(30, 50, 200), rng.uniform(0, 20, 200)
    counts = []
    for chunk_values in (visibility.CHUNK_VALUES, 3000):
        monkeypatch.setattr(visibility, "CHUNK_VALUES", chunk_values)
        counts.append(
            count_passes(
                constellation, latitude_deg, longitude_deg, 40_000.0, swath_half_width_km=300.0
            )
        )
    assert counts[0].sum() > 300
    np.testing.assert_array_equal(counts[0], counts[1])


def test_an_elevation_swath_counts_the_contacts_of_a_station() -> None:
    constellation = walker(4, 3, 0, 700.0, 60.0)
    passes = count_passes(
        constellation, np.array([48.0]), np.array([11.0]), 86400.0, min_elevation_deg=20.0
    )
    contacts = find_contacts(constellation, [Place("s", 48.0, 11.0, 20.0)], 1, 86400.0)
    expected = np.bincount(contacts.satellite, minlength=12)
    assert expected.sum() > 20
    np.testing.assert_array_equal(passes[0], expected)


def test_places_beyond_the_inclination_are_never_passed() -> None:
    constellation = walker(5, 4, 0, 550.0, 53.0)
    latitude_deg = np.array([70.0, -65.0, 40.0, 90.0])
    passes = count_passes(
        constellation, latitude_deg, np.zeros(4), 2 * 86400.0, swath_half_width_km=145.0
    )
    assert passes[[0, 1, 3]].sum() == 0
    assert passes[2].sum() > 0


def test_it_does_not_matter_which_other_places_are_asked_for() -> None:
    rng = np.random.default_rng(2)
    constellation = walker(5, 4, 0, 550.0, 53.0)
    latitude_deg, longitude_deg = rng.uniform(35, 55, 300), rng.uniform(-10, 30, 300)
    together = count_passes(
        constellation, latitude_deg, longitude_deg, 40_000.0, swath_half_width_km=145.0
    )
    alone = np.concatenate(
        [
            count_passes(
                constellation,
                latitude_deg[i : i + 1],
                longitude_deg[i : i + 1],
                40_000.0,
                swath_half_width_km=145.0,
            )
            for i in range(0, 300, 50)
        ]
    )
    np.testing.assert_array_equal(together[::50], alone)
