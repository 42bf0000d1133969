"""Tables for other programs: contacts and visibility as CSV, everything as one NPZ."""

import csv
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from fedorbit.files import replacing
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.contacts import Contacts
from fedorbit.orbits.earth import as_utc
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.visibility import Schedule

CONTACT_COLUMNS = (
    "station", "orbit", "satellite", "satellite_name", "rise_s", "culmination_s", "set_s",
    "duration_s", "max_elevation_deg", "range_km", "cut_at_start", "cut_at_end",
)  # fmt: skip
UTC_COLUMNS = ("rise_utc", "culmination_utc", "set_utc")


def contact_rows(
    plan: ContactPlan,
    constellation: Constellation,
    places: Sequence[Place],
    found: Contacts | None = None,
    first: int | None = None,
) -> list[dict[str, Any]]:
    """Return the contacts with servers as plain records, all or the first few.

    Culminations are known of contacts that were found from geometry, given as `found` in the same
    order; without it they are None.
    """
    plan = plan.with_servers
    return [
        _contact_row(plan, constellation, places, found, i)
        for i in range(len(plan) if first is None else min(first, len(plan)))
    ]


def _contact_row(
    plan: ContactPlan,
    constellation: Constellation,
    places: Sequence[Place],
    found: Contacts | None,
    i: int,
) -> dict[str, Any]:
    satellite = int(plan.first[i])
    row: dict[str, Any] = {
        "station": places[int(plan.server[i])].name,
        "orbit": int(constellation.orbit_of_satellite[satellite]),
        "satellite": satellite,
        "satellite_name": constellation.satellite_names[satellite],
        "rise_s": round(float(plan.begin_s[i]), 3),
        "culmination_s": None if found is None else round(float(found.culmination_s[i]), 3),
        "set_s": round(float(plan.end_s[i]), 3),
        "duration_s": round(float(plan.duration_s[i]), 3),
        "max_elevation_deg": None if found is None else round(float(found.max_elevation_deg[i]), 4),
        "range_km": None if np.isnan(plan.range_km[i]) else round(float(plan.range_km[i]), 3),
        "cut_at_start": bool(plan.begin_s[i] <= 0.0),
        "cut_at_end": bool(plan.end_s[i] >= plan.horizon_s),
    }
    if constellation.start is not None:
        for event in ("rise", "culmination", "set"):
            row[f"{event}_utc"] = _utc(constellation.start, row[f"{event}_s"])
    return row


def contact_columns(constellation: Constellation) -> list[str]:
    """Return the keys of a contact's record; moments in UTC need a start."""
    return [*CONTACT_COLUMNS, *(UTC_COLUMNS if constellation.start is not None else ())]


def write_orbit_tables(
    folder: Path,
    schedule: Schedule,
    plan: ContactPlan,
    constellation: Constellation,
    places: Sequence[Place],
    found: Contacts | None = None,
) -> list[Path]:
    """Write `contacts.csv`, `visibility.csv` and `schedule.npz`; return the files."""
    paths = [folder / name for name in ("contacts.csv", "visibility.csv", "schedule.npz")]
    rows = contact_rows(plan, constellation, places, found)
    with replacing(paths[0]) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, contact_columns(constellation), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with replacing(paths[1]) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["round", "time_s", *(f"orbit_{o}" for o in range(schedule.orbits))])
        for index, visible in enumerate(schedule.visible.astype(int)):
            lines.writerow([index, schedule.times_s[index], *visible])
    with replacing(paths[2]) as partial:
        np.savez_compressed(
            partial,
            visible=schedule.visible,
            times_s=schedule.times_s,
            orbit_of_satellite=constellation.orbit_of_satellite,
            **{f"contact_{name}": column for name, column in _columns(plan, rows).items()},
        )
    return paths


def _columns(plan: ContactPlan, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the contacts as arrays: exact times, and NaN for what is not known."""
    plan = plan.with_servers
    exact = {"rise_s": plan.begin_s, "set_s": plan.end_s, "station": plan.server}
    numbers = {"culmination_s", "max_elevation_deg", "range_km"}
    columns = {
        name: np.array([row[name] for row in rows], dtype=np.float64 if name in numbers else None)
        for name in ("satellite", "orbit", *sorted(numbers), "cut_at_start", "cut_at_end")
    }
    return {**columns, **exact}


def _utc(start: datetime, seconds: float | None) -> str | None:
    if seconds is None:
        return None
    moment = as_utc(start) + timedelta(seconds=seconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
