"""Tables for other programs: contacts, links and visibility as CSV, contacts also as NPZ."""

import csv
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from fedorbit.files import replacing
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.contacts import Contacts
from fedorbit.orbits.earth import Floats, as_utc
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.visibility import Schedule

CONTACT_COLUMNS = (
    "station", "orbit", "satellite", "satellite_name", "rise_s", "culmination_s", "set_s",
    "duration_s", "max_elevation_deg", "range_km", "cut_at_start", "cut_at_end",
)  # fmt: skip
LINK_COLUMNS = (
    "first", "first_name", "first_orbit", "second", "second_name", "second_orbit", "begin_s",
    "end_s", "duration_s", "range_km", "cut_at_start", "cut_at_end",
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


def link_rows(plan: ContactPlan, constellation: Constellation) -> Iterator[dict[str, Any]]:
    """Yield the links between satellites as plain records, by begin."""
    links, orbit = plan.between_satellites, constellation.orbit_of_satellite
    columns = (links.first, links.second, links.begin_s, links.end_s, links.range_km)
    for first, second, begin_s, end_s, range_km in zip(
        *(column.tolist() for column in columns), strict=True
    ):
        yield {
            "first": first,
            "first_name": constellation.satellite_names[first],
            "first_orbit": int(orbit[first]),
            "second": second,
            "second_name": constellation.satellite_names[second],
            "second_orbit": int(orbit[second]),
            "begin_s": round(begin_s, 3),
            "end_s": round(end_s, 3),
            "duration_s": round(end_s - begin_s, 3),
            "range_km": None if np.isnan(range_km) else round(range_km, 3),
            "cut_at_start": begin_s <= 0.0,
            "cut_at_end": end_s >= links.horizon_s,
        }


def write_links(folder: Path, plan: ContactPlan, constellation: Constellation) -> list[Path]:
    """Write `links.csv`, the links between satellites."""
    path = folder / "links.csv"
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, LINK_COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(link_rows(plan, constellation))
    return [path]


def write_delay_matrix(
    folder: Path, names: Sequence[str], direct_s: Floats, linked_s: Floats
) -> list[Path]:
    """Write `delay-matrix.csv`: mean delays from one node to another, empty without a way."""
    path = folder / "delay-matrix.csv"
    with replacing(path) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["from", "to", "direct_mean_s", "with_links_mean_s"])
        for i, j in np.ndindex(direct_s.shape):
            means_s = (float(direct_s[i, j]), float(linked_s[i, j]))
            cells = ["" if np.isnan(mean_s) else round(mean_s, 3) for mean_s in means_s]
            lines.writerow([names[i], names[j], *cells])
    return [path]


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
