"""Where satellites are: circular Kepler motion and SGP4, behind one interface.

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
    """How a set of satellites moves; times are seconds since the start."""

    def r_eci_km(self, times_s: Floats) -> Floats:
        """Inertial positions `[time, satellite, 3]`."""

    def r_eci_km_at(self, satellites: NDArray[np.int64], times_s: Floats) -> Floats:
        """Inertial positions `[n, 3]` of satellite `satellites[i]` at `times_s[i]`."""

    def earth_angle_rad(self, times_s: Floats) -> Floats:
        """Angle from the inertial x axis to the Greenwich meridian."""


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
    """SGP4 for real element sets, in the TEME frame."""

    def __init__(
        self,
        satrecs: Sequence[Satrec],
        names: Sequence[str],
        julian_day: float,
        day_fraction: float,
    ) -> None:
        self._satrecs = list(satrecs)
        self._array = SatrecArray(self._satrecs)
        self._names = tuple(names)
        self._julian_day = julian_day
        self._day_fraction = day_fraction

    def r_eci_km(self, times_s: Floats) -> Floats:
        """Inertial positions `[time, satellite, 3]`."""
        days, fractions = self._julian_dates(np.asarray(times_s))
        errors, r_eci_km, _ = self._array.sgp4(days, fractions)
        for satellite in np.flatnonzero(errors.any(axis=1)):
            self._refuse(int(satellite), int(errors[satellite].max()))
        return np.ascontiguousarray(r_eci_km.transpose(1, 0, 2))

    def r_eci_km_at(self, satellites: NDArray[np.int64], times_s: Floats) -> Floats:
        """Inertial positions `[n, 3]` of satellite `satellites[i]` at `times_s[i]`."""
        days, fractions = self._julian_dates(times_s)
        r_eci_km = np.empty((len(times_s), 3))
        order = np.argsort(satellites, kind="stable")
        # SGP4 in C takes one satellite and many times: one call per satellite, not per pair.
        for rows in np.split(order, np.flatnonzero(np.diff(satellites[order])) + 1):
            if rows.size == 0:
                continue
            satellite = int(satellites[rows[0]])
            errors, r_eci_km[rows], _ = self._satrecs[satellite].sgp4_array(
                days[rows], fractions[rows]
            )
            if errors.any():
                self._refuse(satellite, int(errors.max()))
        return r_eci_km

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
