"""Visibility between neighbouring satellites of an orbit: rings of links that close or never do.

Neighbours are those that follow each other along the orbit. If they do not see each other, no two
satellites of the orbit do, since all others are farther apart. In circular orbits the answer never
changes; real satellites drift and their heights vary, so moments of one revolution are sampled.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import EARTH_MU_KM3_S2, EARTH_RADIUS_KM, Floats
from fedorbit.orbits.sight import Ints, LinkSettings, Sight, longest_sight_deg, ring_satellites

Flags = NDArray[np.bool_]

MOMENTS = 24
"""Number of moments of a revolution that are sampled."""
STEP_S = 60.0
"""Time between the two positions that give the direction of flight."""


@dataclass(frozen=True)
class Ring:
    """Neighbours of one orbit, over one revolution."""

    satellites: int
    altitude_km: float
    """Mean height above a sphere of 6371 km."""
    spacing_deg: float
    """Widest angle between neighbours at the Earth's centre; 0 for a satellite alone."""
    hop_km: float
    """Longest distance between neighbours; 0 for a satellite alone."""
    sight_deg: float
    """Widest angle at which satellites of this height see each other."""
    needed: int | None
    """Fewest evenly spaced satellites of a permanent ring; None below the grazing height."""
    seen: float
    """Share of neighbours and moments in sight, at any distance; 0 for a satellite alone."""

    @property
    def verdict(self) -> str:
        """Visibility of neighbours in a word or two: alone, always, at times or never."""
        if self.satellites == 1:
            return "alone"
        return "always" if self.seen == 1.0 else "never" if self.seen == 0.0 else "at times"


def rings(constellation: Constellation, grazing_km: float) -> list[Ring]:
    """Return the visibility between neighbours of every orbit, over one revolution."""
    sight = Sight(constellation, LinkSettings(grazing_km=grazing_km, max_range_km=None))
    start_km = constellation.motion.r_eci_km(np.zeros(1))[0]
    period_s = _period_s(float(np.median(np.linalg.norm(start_km, axis=-1))))
    times_s = np.linspace(0.0, period_s, MOMENTS, endpoint=False)
    r_km = constellation.motion.r_eci_km(times_s)
    order = _along_orbits(constellation)
    following = _following(constellation)
    here, there = r_km[:, order], r_km[:, order[following]]
    in_sight = sight.margin(here, there) >= 0.0
    hop_km = np.linalg.norm(there - here, axis=-1)
    lengths_km2 = np.linalg.norm(here, axis=-1) * np.linalg.norm(there, axis=-1)
    cosine = np.einsum("...i,...i->...", here, there) / lengths_km2
    spacing_deg = np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0)))
    altitude_km = np.linalg.norm(here, axis=-1) - EARTH_RADIUS_KM
    ends = np.cumsum(constellation.satellites_per_orbit)
    return [
        _ring(altitude_km[:, s], spacing_deg[:, s], hop_km[:, s], in_sight[:, s], grazing_km)
        for s in map(slice, (ends - constellation.satellites_per_orbit).tolist(), ends.tolist())
    ]


def unlinked_orbits(found: Sequence[Ring], max_range_km: float | None) -> list[int]:
    """Return the orbits of several satellites whose neighbours are not always in sight and range.

    `max_range_km`: None is no limit.
    """
    limit_km = np.inf if max_range_km is None else max_range_km
    return [
        orbit
        for orbit, ring in enumerate(found)
        if ring.satellites > 1 and (ring.verdict != "always" or ring.hop_km > limit_km)
    ]


def _ring(
    altitude_km: Floats, spacing_deg: Floats, hop_km: Floats, seen: Flags, grazing_km: float
) -> Ring:
    height_km, count = float(altitude_km.mean()), altitude_km.shape[1]
    sight_deg = longest_sight_deg(height_km, grazing_km)
    is_alone = count == 1
    return Ring(
        satellites=count,
        altitude_km=height_km,
        spacing_deg=0.0 if is_alone else float(spacing_deg.max()),
        hop_km=0.0 if is_alone else float(hop_km.max()),
        sight_deg=sight_deg,
        needed=ring_satellites(height_km, grazing_km) if sight_deg else None,
        seen=0.0 if is_alone else float(seen.mean()),
    )


def _period_s(radius_km: float) -> float:
    return float(2.0 * np.pi * np.sqrt(radius_km**3 / EARTH_MU_KM3_S2))


def _along_orbits(constellation: Constellation) -> Ints:
    """Return the satellites sorted by orbit, and within an orbit by their angle along it."""
    before, after = constellation.motion.r_eci_km(np.array([0.0, STEP_S]))
    orbit = constellation.orbit_of_satellite
    normals = np.zeros((constellation.orbits, 3))
    np.add.at(normals, orbit, np.cross(before, after))
    # Any direction in the plane will do to count angles from: that of an axis which is not normal.
    axis = np.where(np.abs(normals[:, :1]) < np.abs(normals[:, 2:]), [1.0, 0, 0], [0, 0, 1.0])
    first = np.cross(axis, normals)
    second = np.cross(normals, first)
    first /= np.linalg.norm(first, axis=-1)[:, None]
    second /= np.linalg.norm(second, axis=-1)[:, None]
    x, y = (np.einsum("si,si->s", before, side[orbit]) for side in (first, second))
    return np.lexsort((np.arctan2(y, x), orbit))


def _following(constellation: Constellation) -> Ints:
    """Return the position of each satellite's successor in its orbit, which is a closed ring."""
    counts = constellation.satellites_per_orbit
    following = np.arange(1, constellation.satellites + 1)
    following[np.cumsum(counts) - 1] = np.cumsum(counts) - counts
    return following


def ring_sentence(found: Sequence[Ring], max_range_km: float | None, degree: str) -> str | None:
    """Describe whether satellites of an orbit see each other; None if all are alone."""
    several = [ring for ring in found if ring.satellites > 1]
    if not several:
        return None
    verdicts = {ring.verdict for ring in several}
    if len(verdicts) > 1:
        counts = {v: sum(r.verdict == v for r in several) for v in ("always", "at times", "never")}
        parts = [f"{verdict} in {count}" for verdict, count in counts.items() if count]
        several_of = f"of {len(several)} orbits with several satellites"
        return f"Neighbours see each other {', '.join(parts)} {several_of}; --json has each."
    verdict = verdicts.pop()
    subject = {
        "never": "Satellites of an orbit never see each other",
        "always": "Neighbours in an orbit always see each other",
        "at times": "Neighbours in an orbit see each other "
        f"{100.0 * np.mean([r.seen for r in several]):.0f} % of the time",
    }[verdict]
    widest = max(several, key=lambda ring: ring.spacing_deg)
    is_even = widest.spacing_deg - min(r.spacing_deg for r in several) < 0.05
    apart = f"{'' if is_even else 'up to '}{widest.spacing_deg:.3g}{degree}"
    if verdict != "never":
        apart += f" and {max(r.hop_km for r in several):,.0f} km"
    sentence = (
        f"{subject}: {_span([r.satellites for r in several])} at "
        f"{_span([round(r.altitude_km) for r in several])} km are {apart} apart"
    )
    needed = [ring.needed for ring in several if ring.needed is not None]
    if needed:
        narrowest = min(r.sight_deg for r in several if r.needed is not None)
        sentence += f", a permanent ring needs {_span(needed)} ({narrowest:.1f}{degree})"
    longest_km = max(ring.hop_km for ring in several)
    if verdict != "never" and max_range_km is not None and longest_km > max_range_km:
        sentence += f"; links reach {max_range_km:,.0f} km (network.max_range_km)"
    return f"{sentence}."


def _span(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
