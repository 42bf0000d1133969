"""Visibility between satellites of an orbit, against closed forms and by hand."""

import numpy as np
import pytest

from fedorbit.build import build_constellation
from fedorbit.config import load_config
from fedorbit.orbits.constellation import walker
from fedorbit.orbits.rings import Ring, ring_sentence, rings
from fedorbit.orbits.sight import longest_sight_deg, ring_satellites


@pytest.mark.parametrize("inclination_deg", [0.0, 53.0, 90.0, 180.0])
@pytest.mark.parametrize("altitude_km", [330.0, 550.0, 780.0, 1200.0, 2000.0])
def test_the_fewest_of_a_ring_see_each_other_and_one_less_does_not(
    altitude_km: float, inclination_deg: float
) -> None:
    needed = ring_satellites(altitude_km)
    for count, verdict in ((needed, "always"), (needed - 1, "never")):
        for ring in rings(walker(3, count, 0, altitude_km, inclination_deg), 80.0):
            assert (ring.satellites, ring.needed, ring.verdict) == (count, needed, verdict)
            assert ring.altitude_km == pytest.approx(altitude_km)
            assert ring.spacing_deg == pytest.approx(360.0 / count)
            chord_km = 2.0 * (6371.0 + altitude_km) * np.sin(np.pi / count)
            assert ring.hop_km == pytest.approx(chord_km)
            assert ring.sight_deg == longest_sight_deg(ring.altitude_km)


def test_neighbours_are_found_along_the_orbit_and_not_by_number() -> None:
    """The spares of real planes have numbers that say nothing about where they are."""
    real = build_constellation(load_config("iridium-next-tle"))
    found = rings(real, 80.0)
    assert [ring.satellites for ring in found] == real.satellites_per_orbit.tolist()
    assert [ring.verdict for ring in found] == ["at times", *["always"] * 6]
    # Eleven slots are 32.7 degrees apart; a spare between two makes none wider.
    assert all(ring.spacing_deg == pytest.approx(32.7, abs=1.0) for ring in found[1:])


def test_one_satellite_is_alone_and_two_are_opposite() -> None:
    [alone, *_] = rings(walker(2, 1, 0, 550.0, 53.0), 80.0)
    assert (alone.verdict, alone.hop_km, alone.spacing_deg, alone.seen) == ("alone", 0.0, 0.0, 0.0)
    [two, *_] = rings(walker(2, 2, 0, 550.0, 53.0), 80.0)
    assert two.verdict == "never" and two.spacing_deg == pytest.approx(180.0)


def test_below_the_grazing_height_no_ring_closes() -> None:
    [ring, *_] = rings(walker(2, 40, 0, 550.0, 53.0), 600.0)
    assert (ring.verdict, ring.needed, ring.sight_deg) == ("never", None, 0.0)
    sentence = ring_sentence([ring], 5000.0, "°")
    assert sentence == "Satellites of an orbit never see each other: 40 at 550 km are 9° apart."


def ring(**changes: float) -> Ring:
    values = {
        "satellites": 4, "altitude_km": 550.0, "spacing_deg": 90.0, "hop_km": 9788.0,
        "sight_deg": 42.47, "needed": 9, "seen": 0.0,
    }  # fmt: skip
    return Ring(**{**values, **changes})


EIGHT = ring(satellites=8, altitude_km=2000.0, spacing_deg=45.0, hop_km=6407.0, sight_deg=79.2,
             needed=5, seen=1.0)  # fmt: skip


def test_sentences() -> None:
    assert ring_sentence([ring(), ring()], 5000.0, "°") == (
        "Satellites of an orbit never see each other: 4 at 550 km are 90° apart, "
        "a permanent ring needs 9 (42.5°)."
    )
    assert ring_sentence([EIGHT], 5000.0, " deg") == (
        "Neighbours in an orbit always see each other: 8 at 2,000 km are 45 deg and 6,407 km "
        "apart, a permanent ring needs 5 (79.2 deg); links reach 5,000 km (network.max_range_km)."
    )
    assert "links reach" not in ring_sentence([EIGHT], None, "°")
    half = ring_sentence([ring(seen=0.25, spacing_deg=43.0, hop_km=4000.0)], 5000.0, "°")
    assert half.startswith("Neighbours in an orbit see each other 25 % of the time: 4 at 550 km")
    assert ring_sentence([ring(satellites=1)], 5000.0, "°") is None
    mixed = ring_sentence([ring(), EIGHT, ring(satellites=1), EIGHT], 5000.0, "°")
    assert mixed == (
        "Neighbours see each other always in 2, never in 1 of 3 orbits with several satellites; "
        "--json has each."
    )
    uneven = ring_sentence([ring(), ring(satellites=3, spacing_deg=120.0)], 5000.0, "°")
    assert "3 to 4 at 550 km are up to 120° apart" in uneven
