"""Overflights of a place by each satellite: how often its swath comes to cover it.

A pass counts once, when the swath reaches the place; a place covered at the start has one already.
Between grid points the cosine of the angle between place and sub-satellite point is a parabola to
better than 1e-7, so its extrema are known without a finer grid: a pass that only grazes the place
between two points is not lost, nor is a short interruption of one.
"""

import numpy as np
from numpy.typing import NDArray

from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import EARTH_RADIUS_KM, Floats
from fedorbit.orbits.visibility import time_chunks
from fedorbit.progress import Progress

GRID_STEP_S = 20.0
CELL_DEG = 1.0


def count_passes(
    constellation: Constellation,
    latitude_deg: Floats,
    longitude_deg: Floats,
    horizon_s: float,
    swath_half_width_km: float | None = None,
    min_elevation_deg: float | None = None,
    progress: Progress | None = None,
) -> NDArray[np.int32]:
    """Count passes `[place, satellite]` from 0 to the horizon.

    The swath is given either by its half-width on the ground, or by the least elevation of the
    satellite as seen from the place; exactly one of the two.
    """
    if (swath_half_width_km is None) == (min_elevation_deg is None):
        raise ValueError("give exactly one of swath_half_width_km and min_elevation_deg")
    r_ecef_km, _ = constellation.geoid.place(latitude_deg, longitude_deg)
    places = r_ecef_km / np.linalg.norm(r_ecef_km, axis=-1, keepdims=True)
    cells = _cells(latitude_deg, longitude_deg)
    centres = np.array([_mean_direction(places[members]) for members in cells])
    radii_rad = np.array(
        [
            np.arccos(np.clip((places[members] @ centre).min(), -1.0, 1.0))
            for members, centre in zip(cells, centres, strict=True)
        ]
    )
    counts = np.zeros((len(places), constellation.satellites), dtype=np.int32)
    steps = max(1, int(np.ceil(horizon_s / GRID_STEP_S)))
    step_s = horizon_s / steps  # so that the grid ends where the horizon does
    values_per_step = max(len(cells), 100) * constellation.satellites
    for rows in time_chunks(steps + 1, values_per_step, "counting overflights", progress):
        # One more point on each side: an extremum needs both of its neighbours.
        times_s = np.arange(rows.start - 1, rows.stop + 1) * step_s
        r_km = constellation.r_ecef_km(times_s)
        distance_km = np.linalg.norm(r_km, axis=-1)
        directions = r_km / distance_km[..., None]
        if min_elevation_deg is not None:
            swath_rad = _swath_rad(distance_km, np.radians(min_elevation_deg))
        else:
            assert swath_half_width_km is not None
            swath_rad = np.full(distance_km.shape, swath_half_width_km / EARTH_RADIUS_KM)
        step_rad = np.arccos(np.clip(_dots(directions[1:], directions[:-1]).min(), -1.0, 1.0))
        edge = np.cos(swath_rad)
        # First cell by cell: only the steps that come near a cell are looked at place by place.
        near_rad = swath_rad[1:-1] + step_rad
        for cell, members in enumerate(cells):
            reach = np.cos(np.minimum(near_rad + radii_rad[cell], np.pi))
            step, satellite = np.nonzero(directions[1:-1] @ centres[cell] >= reach)
            if step.size:
                before, here, after = (
                    places[members] @ directions[step + shift, satellite].T
                    - edge[step + shift, satellite]
                    for shift in range(3)
                )
                is_first, is_last = rows.start + step == 0, rows.start + step == steps
                place, which = np.nonzero(_begins(before, here, after, is_first, is_last))
                np.add.at(counts, (members[place], satellite[which]), 1)
    return counts


def _begins(
    before: Floats,
    here: Floats,
    after: Floats,
    is_first: NDArray[np.bool_],
    is_last: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return at which grid points a pass begins, from margins `[place, step]` around each.

    A place is covered where its margin, the cosine of its distance minus that of the swath's edge,
    is at least 0.
    """
    covered = here >= 0.0
    begins = covered & ((before < 0.0) | is_first)
    # Extrema between grid points whose sign none of these has: a pass, or the gap between two.
    peaks = ~covered & (here > before) & (here >= after)
    dips = covered & (here < before) & (here <= after)
    place, step = np.nonzero(peaks | dips)
    bend = 2.0 * here[place, step] - before[place, step] - after[place, step]
    slope = after[place, step] - before[place, step]
    extremum = here[place, step] + slope**2 / (8.0 * bend)
    offset = slope / (2.0 * bend)  # in steps, from the grid point in the middle
    is_inside = ~(is_first[step] & (offset < 0.0)) & ~(is_last[step] & (offset > 0.0))
    other_sign = (extremum >= 0.0) != covered[place, step]
    hidden = is_inside & other_sign
    begins[place[hidden], step[hidden]] = True
    return begins


def _swath_rad(distance_km: Floats, min_elevation_rad: float) -> Floats:
    """Earth-central angle at which a satellite stands at the given elevation."""
    ratio = EARTH_RADIUS_KM * np.cos(min_elevation_rad) / distance_km
    return np.asarray(np.arccos(np.clip(ratio, -1.0, 1.0)) - min_elevation_rad)


def _cells(latitude_deg: Floats, longitude_deg: Floats) -> list[NDArray[np.int64]]:
    """Group places into cells of about one degree."""
    columns = int(360 / CELL_DEG) + 1
    row = np.floor((np.asarray(latitude_deg) + 90.0) / CELL_DEG).astype(np.int64)
    column = np.floor((np.asarray(longitude_deg) + 180.0) / CELL_DEG).astype(np.int64)
    key = row * columns + column
    order = np.argsort(key, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(key[order])) + 1)


def _mean_direction(directions: Floats) -> Floats:
    mean = directions.mean(axis=0)
    return np.asarray(mean / np.linalg.norm(mean))


def _dots(a: Floats, b: Floats) -> Floats:
    return np.asarray(np.einsum("...i,...i->...", a, b))
