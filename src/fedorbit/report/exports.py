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
from fedorbit.orbits.visibility import GroundStation, Schedule

CONTACT_COLUMNS = (
    "station", "orbit", "satellite", "satellite_name", "rise_s", "culmination_s", "set_s",
    "duration_s", "max_elevation_deg", "cut_at_start", "cut_at_end",
)  # fmt: skip
UTC_COLUMNS = ("rise_utc", "culmination_utc", "set_utc")


def contact_rows(
    contacts: Contacts,
    constellation: Constellation,
    stations: Sequence[GroundStation],
    first: int | None = None,
) -> list[dict[str, Any]]:
    """Return contacts as plain records, all or the first few."""
    rows = []
    for i in range(len(contacts) if first is None else min(first, len(contacts))):
        row: dict[str, Any] = {
            "station": stations[int(contacts.station[i])].name,
            "orbit": int(contacts.orbit[i]),
            "satellite": int(contacts.satellite[i]),
            "satellite_name": constellation.satellite_names[int(contacts.satellite[i])],
            "rise_s": round(float(contacts.rise_s[i]), 3),
            "culmination_s": round(float(contacts.culmination_s[i]), 3),
            "set_s": round(float(contacts.set_s[i]), 3),
            "duration_s": round(float(contacts.duration_s[i]), 3),
            "max_elevation_deg": round(float(contacts.max_elevation_deg[i]), 4),
            "cut_at_start": bool(contacts.cut_at_start[i]),
            "cut_at_end": bool(contacts.cut_at_end[i]),
        }
        if constellation.start is not None:
            for event in ("rise", "culmination", "set"):
                row[f"{event}_utc"] = _utc(constellation.start, row[f"{event}_s"])
        rows.append(row)
    return rows


def contact_columns(constellation: Constellation) -> list[str]:
    """Return the keys of a contact's record; moments in UTC need a start."""
    return [*CONTACT_COLUMNS, *(UTC_COLUMNS if constellation.start is not None else ())]


def write_orbit_tables(
    folder: Path,
    schedule: Schedule,
    contacts: Contacts,
    constellation: Constellation,
    stations: Sequence[GroundStation],
) -> list[Path]:
    """Write `contacts.csv`, `visibility.csv` and `schedule.npz`; return the files."""
    paths = [folder / name for name in ("contacts.csv", "visibility.csv", "schedule.npz")]
    rows = contact_rows(contacts, constellation, stations)
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
            **{f"contact_{name}": getattr(contacts, name) for name in vars(contacts)},
        )
    return paths


def _utc(start: datetime, seconds: float) -> str:
    moment = as_utc(start) + timedelta(seconds=seconds)
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
