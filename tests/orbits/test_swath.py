import numpy as np
import pytest

from fedorbit.orbits.constellation import walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.earth import unit_vectors
from fedorbit.orbits.swath import count_passes
from fedorbit.orbits.visibility import GroundStation


def passes_on_a_fine_grid(
    constellation, latitude_deg, longitude_deg, horizon_s: float, swath_rad: float
) -> np.ndarray:
    """Count runs of one-second samples within the swath: slow, plain, and independent."""
    places = unit_vectors(latitude_deg, longitude_deg)
    r_km = constellation.r_ecef_km(np.arange(0.0, horizon_s, 1.0))
    directions = r_km / np.linalg.norm(r_km, axis=-1, keepdims=True)
    counts = np.zeros((len(places), constellation.satellites), dtype=int)
    for place, direction in enumerate(places):
        inside = (directions @ direction >= np.cos(swath_rad)).astype(int)
        counts[place] = (np.diff(inside, axis=0, prepend=0) == 1).sum(axis=0)
    return counts


@pytest.mark.parametrize("half_width_km", [30.0, 145.0, 700.0])
def test_passes_agree_with_a_one_second_grid(half_width_km: float) -> None:
    rng = np.random.default_rng(1)
    constellation = walker(3, 2, 1, 550.0, 53.0, argument_of_latitude_deg=10.0)
    latitude_deg, longitude_deg = rng.uniform(-60, 60, 60), rng.uniform(-180, 180, 60)
    horizon_s = 86400.0
    ours = count_passes(
        constellation, latitude_deg, longitude_deg, horizon_s, swath_half_width_km=half_width_km
    )
    expected = passes_on_a_fine_grid(
        constellation, latitude_deg, longitude_deg, horizon_s, half_width_km / 6371.0
    )
    assert expected.sum() > 20
    # A pass counts at its closest approach, so one that the horizon cuts may differ by one.
    differs = np.abs(ours - expected)
    assert differs.max() <= 1
    assert differs.sum() <= 0.02 * expected.sum() + 2


def test_an_elevation_swath_counts_the_contacts_of_a_station() -> None:
    constellation = walker(4, 3, 0, 700.0, 60.0)
    passes = count_passes(
        constellation, np.array([48.0]), np.array([11.0]), 86400.0, min_elevation_deg=20.0
    )
    contacts = find_contacts(constellation, [GroundStation("s", 48.0, 11.0, 20.0)], 86400.0)
    whole = contacts.satellite[~(contacts.cut_at_start | contacts.cut_at_end)]
    expected = np.bincount(whole, minlength=12)
    assert expected.sum() > 20
    assert (np.abs(passes[0] - expected) <= 1).all()
    assert abs(int(passes.sum()) - int(expected.sum())) <= 2


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
