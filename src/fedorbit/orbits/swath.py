"""How often each satellite flies over a place: closest approaches within its swath.

A pass counts once, at its closest approach. Between grid points the cosine of the angle between
place and sub-satellite point is a parabola to better than 1e-7, so its maximum is known without
a finer grid, and a pass that only grazes the swath between two points is not lost.
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
    steps = int(np.ceil(horizon_s / GRID_STEP_S))
    values_per_step = max(len(cells), 100) * constellation.satellites
    for rows in time_chunks(steps + 1, values_per_step, "counting overflights", progress):
        # One more point on each side: a maximum needs both of its neighbours.
        times_s = np.arange(rows.start - 1, rows.stop + 1) * GRID_STEP_S
        r_km = constellation.r_ecef_km(times_s)
        distance_km = np.linalg.norm(r_km, axis=-1)
        directions = r_km / distance_km[..., None]
        if min_elevation_deg is not None:
            swath_rad = _swath_rad(distance_km, np.radians(min_elevation_deg))
        else:
            assert swath_half_width_km is not None
            swath_rad = np.full(distance_km.shape, swath_half_width_km / EARTH_RADIUS_KM)
        step_rad = np.arccos(np.clip(_dots(directions[1:], directions[:-1]).min(), -1.0, 1.0))
        # First cell by cell: only the steps that come near a cell are looked at place by place.
        near_rad = swath_rad[1:-1] + step_rad
        for cell, members in enumerate(cells):
            reach = np.cos(np.minimum(near_rad + radii_rad[cell], np.pi))
            step, satellite = np.nonzero(directions[1:-1] @ centres[cell] >= reach)
            if step.size:
                before, here, after = (
                    places[members] @ directions[step + shift, satellite].T for shift in range(3)
                )
                is_closest = (here > before) & (here >= after)
                with np.errstate(divide="ignore", invalid="ignore"):
                    peak = here + (after - before) ** 2 / (8.0 * (2.0 * here - before - after))
                is_pass = is_closest & (peak >= np.cos(swath_rad[step + 1, satellite]))
                place, which = np.nonzero(is_pass)
                np.add.at(counts, (members[place], satellite[which]), 1)
    return counts


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
