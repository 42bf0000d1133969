"""A run in space: its satellites, open contacts and messages, in parts of an hour.

Positions follow from the run's configuration, contacts from the plan that the run has written, or
from geometry where it has written none, messages from its records.
"""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.build import (
    build_activity,
    build_constellation,
    build_places,
    build_plan,
    usable_plan,
)
from fedorbit.config import Config
from fedorbit.errors import RunError
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.places import PlaceArrays
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.report.document import land_rings
from fedorbit.results.reading import add_hours, read_results
from fedorbit.simulation.manifest import refuse_links, stored_config
from fedorbit.simulation.world_file import stored_plan

PART_S = 3600
STEP_S = 60
"""Drawn on straight lines in between, which is about 4 km off at most."""
MOST_SATELLITES = 20_000
"""15 MB for a part."""
MOST_RINGS = 24
"""Orbits that are drawn as circles; more would hide what moves."""
SHOWN_S = 900
"""A message is drawn for up to as long: hops of the part before are sent, too."""
MOST_SEARCHED = 2_000_000
"""Satellites x rounds in which contacts are searched for: some seconds."""

Floats32 = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Globe:
    """The geometry of a run."""

    path: Path
    config: Config
    constellation: Constellation
    activity: Activity
    plan: ContactPlan
    """Contacts, without those of satellites that are not active."""

    @property
    def duration_s(self) -> float:
        """Length of the run in simulated time."""
        return self.config.run.rounds * self.config.schedule.round_s

    @cached_property
    def about(self) -> dict[str, Any]:
        """Parts of the globe that do not move, as plain values."""
        places = build_places(self.config)
        r_ecef_km = PlaceArrays.of(places, self.constellation.geoid).r_ecef_km
        return {
            "duration_s": self.duration_s,
            "round_s": self.config.schedule.round_s,
            "part_s": PART_S,
            "step_s": STEP_S,
            "kinds": KINDS,
            "satellites": list(self.constellation.satellite_names),
            "orbit_of_satellite": self.constellation.orbit_of_satellite.tolist(),
            "has_rings": self._has_rings,
            "places": [
                {
                    "name": place.name,
                    "role": place.role,
                    "r_km": r_km,
                    "min_elevation_deg": place.min_elevation_deg,
                }
                for place, r_km in zip(places, r_ecef_km.round(1).tolist(), strict=True)
            ],
            "land": land_rings(),
        }

    @property
    def _has_rings(self) -> bool:
        """True if the satellites of an orbit fly on one circle, and the circles are few."""
        is_walker = self.config.constellation.kind == "walker"
        return is_walker and self.constellation.orbits <= MOST_RINGS

    def accuracies(self) -> list[dict[str, Any]]:
        """Return the accuracy of orbits by method and record, with the time of each record."""
        found = []
        for method in self.config.run.method:
            records = read_results(self.path, method, with_checkpoints=False).records
            add_hours(records, self.config.schedule.round_s)
            found.append(
                {
                    "method": method,
                    "time_s": [3600.0 * record["hours"] for record in records],
                    "orbits": [record["orbit_accuracy"] for record in records],
                }
            )
        return found

    def positions(self, part: int) -> Floats32:
        """Earth-fixed positions in km, `[time, satellite, 3]`, at both ends of every step.

        They are NaN in rounds in which a satellite is away.
        """
        times_s = self._begin_s(part) + np.arange(0.0, PART_S + STEP_S, STEP_S)
        r_ecef_km = self.constellation.r_ecef_km(times_s).astype(np.float32)
        rounds = (times_s / self.config.schedule.round_s).astype(np.int64)
        r_ecef_km[~self.activity.during(rounds)] = np.nan
        return r_ecef_km

    def contacts(self, part: int) -> Floats32:
        """Contacts with a piece in a part, `[n, 5]`: first node, second, kind, begin and end.

        Times are in seconds since the part began, which single precision holds to milliseconds.
        """
        begin_s = self._begin_s(part)
        plan = self.plan.overlapping(begin_s, begin_s + PART_S)
        times_s = np.column_stack((plan.begin_s, plan.end_s)) - begin_s
        rows = np.empty((len(plan), 5), dtype=np.float32)
        rows[:, :3] = np.column_stack((plan.first, plan.second, plan.kind))
        rows[:, 3:] = np.clip(times_s, -1.0, PART_S + 1.0)
        return rows

    def hops(self, part: int, method: str) -> Floats32:
        """Messages over links in a part, and shortly before: rows of begin, source and target.

        Begins are in seconds since the part began.
        """
        if method not in self.config.run.method:
            raise RunError(f"{self.path} does not run {method!r}")
        begin_s = self._begin_s(part)
        records = read_results(self.path, method, with_checkpoints=False).records
        hops = [hop for record in records for hop in record.get("hops", [])]
        rows = np.array(hops, dtype=np.float64).reshape(-1, 3)
        rows[:, 0] -= begin_s
        shown = (rows[:, 0] >= -SHOWN_S) & (rows[:, 0] < PART_S)
        nodes = self.constellation.satellites + len(self.config.stations)
        return rows[shown & (rows[:, 1:] < nodes).all(axis=1)].astype(np.float32)

    def _begin_s(self, part: int) -> float:
        if not 0 <= part * PART_S < self.duration_s:
            raise RunError(f"part {part} is outside of the run, which takes {self.duration_s:g} s")
        return float(part * PART_S)


def read_globe(path: Path) -> Globe:
    """Lay out the constellation of a run, and take its contact plan."""
    refuse_links(path)
    config = stored_config(path)
    constellation = build_constellation(config)
    if constellation.satellites > MOST_SATELLITES:
        raise RunError(
            f"{path} has {constellation.satellites:,} satellites; a globe shows at most "
            f"{MOST_SATELLITES:,}"
        )
    plan = stored_plan(path) or _searched_plan(path, config, constellation)
    if (constellation.satellites, len(config.stations)) != (plan.satellites, plan.servers):
        raise RunError(f"the contact plan of {path} is of other nodes than its config.toml")
    activity = build_activity(config, constellation)
    return Globe(path, config, constellation, activity, usable_plan(config, plan, activity))


def _searched_plan(path: Path, config: Config, constellation: Constellation) -> ContactPlan:
    """Find the contacts of a run that has not written them: an early one, or one that begins."""
    if constellation.satellites * config.schedule.rounds > MOST_SEARCHED:
        raise RunError(f"{path} has written no contacts, and is too large to search for them here")
    return build_plan(config, constellation)
