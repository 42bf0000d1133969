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
from fedorbit.orbits.visibility import GroundStation, Schedule


def contact_rows(
    contacts: Contacts,
    constellation: Constellation,
    stations: Sequence[GroundStation],
    first: int | None = None,
) -> list[dict[str, Any]]:
    """Return contacts as plain records, all or the first few."""
    rows = []
    for i in range(len(contacts) if first is None else min(first, len(contacts))):
        row = {
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
            row["rise_utc"] = _utc(constellation.start, contacts.rise_s[i])
            row["set_utc"] = _utc(constellation.start, contacts.set_s[i])
        rows.append(row)
    return rows


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
    with replacing(paths[0]) as partial, partial.open("w", newline="") as file:
        header = list(rows[0]) if rows else ["station", "satellite", "rise_s", "set_s"]
        writer = csv.DictWriter(file, header, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    with replacing(paths[1]) as partial, partial.open("w", newline="") as file:
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
    moment = start + timedelta(seconds=float(seconds))
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
