"""Shells and planes of made satellites, where the truth is known, and of real ones."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedorbit.errors import ElementSetError
from fedorbit.orbits.constellation import Constellation, from_element_sets
from fedorbit.orbits.elements import read_element_sets
from fedorbit.orbits.planes import Elements, Grouping, group_by_plane
from tests.orbits.element_files import made_satellite, tle_text

TOLERANCES = (3.0, 50.0)


@dataclass(frozen=True)
class Made:
    """One satellite with the plane that it was made for; None for one that drifts."""

    inclination_deg: float
    altitude_km: float
    raan_deg: float
    plane: tuple[int, int] | None


def grouped(satellites: list[Made]) -> Grouping:
    elements = Elements(
        np.array([s.inclination_deg for s in satellites]),
        np.array([s.altitude_km for s in satellites]),
        np.array([s.raan_deg for s in satellites]) % 360.0,
    )
    return group_by_plane(elements, *TOLERANCES)


def truth(satellites: list[Made]) -> set[frozenset[int]]:
    planes: dict[tuple[int, int], set[int]] = {}
    for number, satellite in enumerate(satellites):
        if satellite.plane is not None:
            planes.setdefault(satellite.plane, set()).add(number)
    return {frozenset(plane) for plane in planes.values()}


def found(grouping: Grouping) -> set[frozenset[int]]:
    return {frozenset(plane.tolist()) for shell in grouping.shells for plane in shell}


def drifting(grouping: Grouping) -> set[int]:
    return {int(number) for group in grouping.drifting for number in group}


def shell(
    number: int,
    planes: int,
    per_plane: int,
    *,
    inclination_deg: float = 53.0,
    altitude_km: float = 550.0,
    spread_deg: float = 360.0,
    first_deg: float = 0.0,
    random: np.random.Generator | None = None,
    lost: float = 0.0,
) -> list[Made]:
    """Make a shell; with a generator, nodes and heights have noise and satellites are missing."""
    spacing_deg = spread_deg / planes
    made = []
    for plane in range(planes):
        for slot in range(per_plane):
            noise = random.normal(size=3) if random else np.zeros(3)
            if random and slot >= 3 and random.random() < lost:
                continue
            made.append(
                Made(
                    inclination_deg + 0.005 * noise[0],
                    altitude_km + 0.3 * noise[1],
                    first_deg
                    + plane * spacing_deg
                    + float(np.clip(0.02 * noise[2], -0.06, 0.06)) * min(spacing_deg, 12.0),
                    (number, plane),
                )
            )
    return made


@given(
    planes=st.integers(6, 90),
    per_plane=st.integers(12, 24),
    spread_deg=st.sampled_from([360.0, 190.0]),
    inclination_deg=st.sampled_from([43.0, 53.0, 70.0, 97.6]),
    seed=st.integers(0, 2**32 - 1),
    lost=st.floats(0.0, 0.4),
)
def test_planes_of_a_shell_with_losses_and_drifting_satellites(
    planes: int, per_plane: int, spread_deg: float, inclination_deg: float, seed: int, lost: float
) -> None:
    random = np.random.default_rng(seed)
    first_deg = random.uniform(0.0, 360.0)
    made = shell(
        0,
        planes,
        per_plane,
        inclination_deg=inclination_deg,
        spread_deg=spread_deg,
        first_deg=first_deg,
        random=random,
        lost=lost,
    )
    spacing_deg = spread_deg / planes
    # Between planes: one in every third gap, at the shell's height.
    for gap in range(0, planes - 1, 3):
        node_deg = first_deg + (gap + random.uniform(0.4, 0.6)) * spacing_deg
        made.append(Made(inclination_deg, 550.0, node_deg, None))
    # On the way up, at any height and node; where they are many, some pass for a shell.
    for height_km in random.uniform(250.0, 480.0, len(made) // 10):
        made.append(Made(inclination_deg, float(height_km), random.uniform(0.0, 360.0), None))
    random.shuffle(made)
    grouping = grouped(made)
    assert truth(made) <= found(grouping)
    assert truth(made) in [found(Grouping((shell,), ())) for shell in grouping.shells]
    between = {i for i, s in enumerate(made) if s.plane is None and s.altitude_km == 550.0}
    assert between <= drifting(grouping)


@given(seed=st.integers(0, 2**32 - 1), apart_km=st.floats(5.0, 40.0), shift=st.floats(0.0, 1.0))
def test_two_shells_in_the_same_planes_are_two(seed: int, apart_km: float, shift: float) -> None:
    random = np.random.default_rng(seed)
    upper_km = 550.0 + apart_km
    made = shell(0, 36, 20, random=random)
    made += shell(1, 36, 12, altitude_km=upper_km, first_deg=10.0 * shift, random=random)
    grouping = grouped(made)
    assert found(grouping) == truth(made)
    assert [len(planes) for planes in grouping.shells] == [36, 36]
    assert not grouping.drifting


@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 200),
    widths=st.tuples(
        st.sampled_from([0.0, 0.5, 30.0]),
        st.sampled_from([0.0, 5.0, 300.0]),
        st.sampled_from([0.0, 8.0, 360.0]),
    ),
    inclination_deg=st.sampled_from([0.0, 1.0, 53.0, 90.0, 150.0]),
    turn_deg=st.floats(0.0, 360.0),
)
def test_whatever_a_file_holds(
    seed: int,
    count: int,
    widths: tuple[float, float, float],
    inclination_deg: float,
    turn_deg: float,
) -> None:
    random = np.random.default_rng(seed)
    offsets = random.uniform(0.0, 1.0, (count, 3)) * widths
    elements = Elements(inclination_deg + offsets[:, 0], 500.0 + offsets[:, 1], offsets[:, 2])
    grouping = group_by_plane(elements, *TOLERANCES)
    planes = [plane for found_shell in grouping.shells for plane in found_shell]
    # Every satellite is in one place, and nothing is wider or higher than allowed.
    everyone = np.concatenate([*planes, *grouping.drifting])
    assert sorted(everyone.tolist()) == list(range(count))
    assert all(len(plane) for plane in [*planes, *grouping.drifting])
    for found_shell in grouping.shells:
        members = np.concatenate(found_shell)
        assert np.ptp(elements.altitude_km[members]) <= TOLERANCES[1]
        assert np.ptp(elements.inclination_deg[members]) <= TOLERANCES[0]
    for plane in planes:
        assert elements.width_deg(plane) <= TOLERANCES[0]
    # Neither the order of the file nor the direction of the x axis matters.
    order = random.permutation(count)
    shuffled = Elements(
        elements.inclination_deg[order], elements.altitude_km[order], elements.raan_deg[order]
    )
    again = group_by_plane(shuffled, *TOLERANCES)
    assert found(grouping) == {frozenset(order[list(p)].tolist()) for p in found(again)}
    turned = replace(elements, raan_deg=(elements.raan_deg + turn_deg) % 360.0)
    assert found(group_by_plane(turned, *TOLERANCES)) == found(grouping)


def test_planes_at_heights_of_their_own_are_one_shell() -> None:
    # As OneWeb flies: neighbouring planes 4 km apart in height, so that nothing meets at the poles.
    made = [
        Made(87.9, 1200.0 + 4.0 * (5 * plane % 12), 15.0 * plane, (0, plane))
        for plane in range(12)
        for _ in range(49)
    ]
    grouping = grouped(made)
    assert found(grouping) == truth(made)
    assert len(grouping.shells) == 1


def test_spares_below_their_planes_are_part_of_them() -> None:
    made = shell(0, 6, 11, inclination_deg=86.4, altitude_km=785.0, spread_deg=190.0)
    made += [Made(86.45, 755.0, 190.0 / 6.0 * plane + 0.05, (0, plane)) for plane in (0, 2, 5)]
    grouping = grouped(made)
    assert found(grouping) == truth(made)


def test_planes_narrower_than_the_tolerance_with_half_of_them_missing() -> None:
    # Planes 2.5 degrees apart: the gap that divides them shows only in the shell as a whole.
    made = shell(0, 144, 10)
    kept = np.random.default_rng(4).permutation(144)[:72]
    made = [s for s in made if s.plane is not None and s.plane[1] in kept]
    grouping = grouped(made)
    assert found(grouping) == truth(made)
    assert len(found(grouping)) == 72


def test_a_loose_plane_stays_whole() -> None:
    # Nodes over 2.4 degrees, gaps of 0.6: wide for a plane, with nothing near.
    made = [Made(97.4, 500.0, 20.0 + 0.6 * k, (0, 0)) for k in range(5)]
    made += [Made(97.4, 500.0, 80.0 + 0.6 * k, (0, 1)) for k in range(5)]
    assert found(grouped(made)) == truth(made)


# --- As constellations ---------------------------------------------------------------------------


def fleet(folder: Path) -> Path:
    """Write 3 planes of 20, and one satellite between two of them."""
    made = [
        (f"SAT {plane}-{slot}", made_satellite(20 * plane + slot + 1, 40.0 * plane, 18.0 * slot))
        for plane in range(3)
        for slot in range(20)
    ]
    file = folder / "fleet.tle"
    file.write_text(tle_text([*made, ("BETWEEN", made_satellite(99, 20.0))]))
    return file


def test_what_becomes_of_drifting_satellites(tmp_path: Path) -> None:
    sets = read_element_sets(fleet(tmp_path))
    left_out = from_element_sets(sets)
    assert left_out.satellites_per_orbit.tolist() == [20, 20, 20]
    assert left_out.left_out == ("BETWEEN",)
    [only] = left_out.shells
    assert (only.orbits, only.satellites) == (3, 60)
    kept = from_element_sets(sets, drifting="keep")
    assert kept.satellites_per_orbit.tolist() == [20, 20, 20, 1]
    assert kept.satellite_names == (*left_out.satellite_names, "BETWEEN")
    assert kept.left_out == ()
    with pytest.raises(ElementSetError, match=r"^1 of 61 satellites drift .*\(BETWEEN\).*\"keep\""):
        from_element_sets(sets, drifting="refuse")


def test_a_file_without_any_shell_is_refused_with_the_remedy(tmp_path: Path) -> None:
    made = [
        (f"LONE {k}", made_satellite(k + 1, 7.0 * k, revolutions_per_day=15.5 - 0.15 * k))
        for k in range(60)
    ]
    file = tmp_path / "lone.tle"
    file.write_text(tle_text(made))
    sets = read_element_sets(file)
    with pytest.raises(ElementSetError, match=r"none of the 60 satellites .* \"keep\""):
        from_element_sets(sets)
    assert from_element_sets(sets, drifting="keep").orbits == 60


# --- As operators fly them -----------------------------------------------------------------------


def real(file: Path) -> Constellation:
    return from_element_sets(read_element_sets(file))


def test_starlink_of_january_2025(real_elements: Callable[[str], Path]) -> None:
    constellation = real(real_elements("starlink-2025-01-23.tle"))
    shells = {
        (round(s.inclination_deg, 1), round(s.altitude_km)): (s.orbits, s.satellites)
        for s in constellation.shells
    }
    # The filed shells at 53.05, 53.2, 70 and 97.6 degrees; heights are above 6371 km, not 6378.
    assert shells[53.1, 554] == (72, 917)
    assert shells[53.2, 547] == (72, 1436)
    assert shells[97.7, 570] == (5, 228)
    assert shells[70.0, 579] == (21, 386)
    # Second generation: 28 planes.
    assert shells[43.0, 566] == (28, 1334)
    assert len(constellation.left_out) == 886
    assert constellation.satellites_per_orbit.max() < 80
    # Planes of the two first shells are where the operator has put them, 5 degrees apart.
    first = 0
    for shell_found in constellation.shells:
        if shell_found.orbits == 72:
            nodes_deg = plane_nodes_deg(constellation, first, first + 72)
            np.testing.assert_allclose(np.diff(nodes_deg), 5.0, atol=0.6)
        first += shell_found.orbits


def plane_nodes_deg(constellation: Constellation, first: int, last: int) -> list[float]:
    """Return the median node of each orbit, from positions a quarter of an orbit apart."""
    begin_km, later_km = constellation.motion.r_eci_km(np.array([0.0, 1430.0]))
    axis = np.cross(begin_km, later_km)
    node_deg = np.degrees(np.arctan2(axis[:, 0], -axis[:, 1])) % 360.0
    nodes_deg = []
    for orbit in range(first, last):
        mine_deg = node_deg[constellation.orbit_of_satellite == orbit]
        steps_deg = (mine_deg - mine_deg[0] + 180.0) % 360.0 - 180.0
        nodes_deg.append(float(mine_deg[0] + np.median(steps_deg)) % 360.0)
    return sorted(nodes_deg)


def test_oneweb_of_january_2025(real_elements: Callable[[str], Path]) -> None:
    constellation = real(real_elements("oneweb-2025-01-23.tle"))
    assert sorted(constellation.satellites_per_orbit.tolist()) == [
        48, 50, 50, 51, 51, 51, 52, 52, 53, 55, 55, 58,
    ]  # fmt: skip
    # The others are on their way up, or at the end of their life.
    assert len(constellation.left_out) == 25
    assert len(constellation.shells) == 1
