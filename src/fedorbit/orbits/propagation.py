"""Positions of satellites: circular Kepler motion and SGP4, behind one interface.

Both answer two questions: all satellites at all times (`r_eci_km`, a grid), and one satellite at
one time for many pairs (`r_eci_km_at`, for refining the moments of a contact).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from sgp4.api import SGP4_ERRORS, Satrec, SatrecArray

from fedorbit.errors import ElementSetError
from fedorbit.orbits.earth import (
    EARTH_MU_KM3_S2,
    EARTH_ROTATION_RAD_S,
    SECONDS_PER_DAY,
    Floats,
    greenwich_angle_rad,
)


class Motion(Protocol):
    """Motion of a set of satellites; times are seconds since the start."""

    def r_eci_km(self, times_s: Floats) -> Floats:
        """Inertial positions `[time, satellite, 3]`."""

    def r_eci_km_at(self, satellites: NDArray[np.int64], times_s: Floats) -> Floats:
        """Inertial positions `[n, 3]` of satellite `satellites[i]` at `times_s[i]`."""

    def earth_angle_rad(self, times_s: Floats) -> Floats:
        """Angle from the inertial x axis to the Greenwich meridian."""

    @property
    def switches(self) -> tuple[NDArray[np.int64], Floats]:
        """Satellites and the moments at which their positions jump."""


@dataclass(frozen=True)
class CircularKepler:
    """Circular orbits around a point mass; every array has one entry per satellite."""

    radius_km: Floats
    inclination_rad: Floats
    raan_rad: Floats
    argument_of_latitude_rad: Floats
    earth_angle_at_start_rad: float = 0.0

    def r_eci_km(self, times_s: Floats) -> Floats:
        """Inertial positions `[time, satellite, 3]`."""
        return self._positions(slice(None), np.asarray(times_s)[:, None])

    def r_eci_km_at(self, satellites: NDArray[np.int64], times_s: Floats) -> Floats:
        """Inertial positions `[n, 3]` of satellite `satellites[i]` at `times_s[i]`."""
        return self._positions(satellites, times_s)

    def earth_angle_rad(self, times_s: Floats) -> Floats:
        """Angle from the inertial x axis to the Greenwich meridian."""
        return self.earth_angle_at_start_rad + EARTH_ROTATION_RAD_S * np.asarray(times_s)

    @property
    def switches(self) -> tuple[NDArray[np.int64], Floats]:
        """Satellites and the moments at which their positions jump: none."""
        return np.empty(0, dtype=np.int64), np.empty(0)

    def _positions(self, which: slice | NDArray[np.int64], times_s: Floats) -> Floats:
        radius_km, inclination_rad = self.radius_km[which], self.inclination_rad[which]
        raan_rad = self.raan_rad[which]
        mean_motion_rad_s = np.sqrt(EARTH_MU_KM3_S2 / radius_km**3)
        u_rad = self.argument_of_latitude_rad[which] + mean_motion_rad_s * times_s
        in_plane_x_km, in_plane_y_km = radius_km * np.cos(u_rad), radius_km * np.sin(u_rad)
        cos_raan, sin_raan = np.cos(raan_rad), np.sin(raan_rad)
        cos_inclination = np.cos(inclination_rad)
        r_eci_km = np.empty((*u_rad.shape, 3))
        r_eci_km[..., 0] = cos_raan * in_plane_x_km - sin_raan * cos_inclination * in_plane_y_km
        r_eci_km[..., 1] = sin_raan * in_plane_x_km + cos_raan * cos_inclination * in_plane_y_km
        r_eci_km[..., 2] = np.sin(inclination_rad) * in_plane_y_km
        return r_eci_km


class Sgp4:
    """SGP4 for real element sets, in the TEME frame.

    A satellite can have several sets, sorted by epoch: at each moment the set with the nearest
    epoch counts. Half-way between two epochs its position jumps, by what the sets disagree.
    """

    def __init__(
        self,
        histories: Sequence[Sequence[Satrec]],
        names: Sequence[str],
        julian_day: float,
        day_fraction: float,
    ) -> None:
        self._names = tuple(names)
        self._julian_day = julian_day
        self._day_fraction = day_fraction
        self._satrecs = [satrec for history in histories for satrec in history]
        self._satellite_of_set = np.repeat(np.arange(len(histories)), [len(h) for h in histories])
        self._array = SatrecArray(self._satrecs)
        self._begins_s = np.concatenate([self._begins_of(history) for history in histories])
        self._moments_s = np.unique(self._begins_s[np.isfinite(self._begins_s)])
        self._keys = self._key(self._satellite_of_set, self._begins_s)

    @property
    def switches(self) -> tuple[NDArray[np.int64], Floats]:
        """Satellites and the moments at which another element set of theirs takes over."""
        later = np.isfinite(self._begins_s)
        return self._satellite_of_set[later], self._begins_s[later]

    def r_eci_km(self, times_s: Floats) -> Floats:
        """Inertial positions `[time, satellite, 3]`."""
        times_s = np.asarray(times_s)
        if self._moments_s.size:
            shape = (len(times_s), len(self._names))
            satellites = np.broadcast_to(np.arange(shape[1]), shape).ravel()
            return self.r_eci_km_at(satellites, np.repeat(times_s, shape[1])).reshape(*shape, 3)
        days, fractions = self._julian_dates(times_s)
        errors, r_eci_km, _ = self._array.sgp4(days, fractions)
        for satellite in np.flatnonzero(errors.any(axis=1)):
            self._refuse(int(satellite), int(errors[satellite].max()))
        return np.ascontiguousarray(r_eci_km.transpose(1, 0, 2))

    def r_eci_km_at(self, satellites: NDArray[np.int64], times_s: Floats) -> Floats:
        """Inertial positions `[n, 3]` of satellite `satellites[i]` at `times_s[i]`."""
        days, fractions = self._julian_dates(times_s)
        r_eci_km = np.empty((len(times_s), 3))
        sets = self._sets_at(satellites, times_s)
        order = np.argsort(sets, kind="stable")
        # SGP4 in C takes one set and many times: one call per set, not per pair.
        for rows in np.split(order, np.flatnonzero(np.diff(sets[order])) + 1):
            if rows.size == 0:
                continue
            satrec = self._satrecs[sets[rows[0]]]
            errors, r_eci_km[rows], _ = satrec.sgp4_array(days[rows], fractions[rows])
            if errors.any():
                self._refuse(int(satellites[rows[0]]), int(errors.max()))
        return r_eci_km

    def _begins_of(self, history: Sequence[Satrec]) -> Floats:
        """Moments from which each set of a satellite has the nearest epoch."""
        epochs_s = SECONDS_PER_DAY * np.array(
            [
                (s.jdsatepoch - self._julian_day) + (s.jdsatepochF - self._day_fraction)
                for s in history
            ]
        )
        return np.concatenate(([-np.inf], (epochs_s[:-1] + epochs_s[1:]) / 2.0))

    def _sets_at(self, satellites: NDArray[np.int64], times_s: Floats) -> NDArray[np.int64]:
        """Return the set of each satellite that counts at its time."""
        return np.searchsorted(self._keys, self._key(satellites, times_s), side="right") - 1

    def _key(self, satellites: NDArray[np.int64], times_s: Floats) -> NDArray[np.int64]:
        """Number pairs so that they sort by satellite, and then by switches that lie behind."""
        behind = np.searchsorted(self._moments_s, times_s, side="right")
        return np.asarray(satellites * (len(self._moments_s) + 1) + behind)

    def earth_angle_rad(self, times_s: Floats) -> Floats:
        """Angle from the inertial x axis to the Greenwich meridian."""
        return greenwich_angle_rad(
            self._julian_day, self._day_fraction + np.asarray(times_s) / SECONDS_PER_DAY
        )

    def _julian_dates(self, times_s: Floats) -> tuple[Floats, Floats]:
        fractions = self._day_fraction + times_s / SECONDS_PER_DAY
        whole = np.floor(fractions)
        return self._julian_day + whole, fractions - whole

    def _refuse(self, satellite: int, error: int) -> None:
        raise ElementSetError(
            f"SGP4 cannot propagate {self._names[satellite]}: {SGP4_ERRORS[error]}; "
            "remove it from the file, or choose a period nearer to its epoch"
        )
