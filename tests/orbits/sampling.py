"""V by sampling elevations at the begin of every round: what V from contacts must equal.

Until the contact plan existed, this was how the package computed V.
"""

from collections.abc import Sequence

import numpy as np

from fedorbit.activity import Activity
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.places import Place, PlaceArrays


def sampled(constellation: Constellation, places: Sequence[Place], times_s: Floats) -> np.ndarray:
    """V[round, satellite, server]: the elevation is at least the mask at the round's begin."""
    arrays = PlaceArrays.of(places, constellation.geoid)
    steps = max(1, 1_000_000 // (constellation.satellites * len(places)))
    return np.concatenate(
        [
            arrays.sin_elevation(constellation.r_ecef_km(times_s[begin : begin + steps]))
            >= arrays.sin_min_elevation
            for begin in range(0, len(times_s), steps)
        ]
    )


def sampled_orbits(
    constellation: Constellation,
    places: Sequence[Place],
    times_s: Floats,
    activity: Activity | None = None,
) -> np.ndarray:
    """V[round, orbit]: any place sees any satellite of the orbit that is there."""
    seen = sampled(constellation, places, times_s).any(axis=2)
    if activity is not None:
        seen &= activity.during(np.arange(len(times_s)))
    orbit_of = constellation.orbit_of_satellite
    return np.stack(
        [seen[:, orbit_of == orbit].any(axis=1) for orbit in range(constellation.orbits)], axis=1
    )
