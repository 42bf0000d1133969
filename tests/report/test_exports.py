import csv
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest

from fedorbit.orbits.constellation import Constellation, walker
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import ContactPlan, plan_of
from fedorbit.orbits.visibility import Schedule, round_times_s
from fedorbit.report.exports import contact_rows, write_orbit_tables

START = datetime(2026, 3, 1, 22, 30, tzinfo=UTC)
STATIONS = [Place("London", 51.0, -0.1), Place("Perth", -31.9, 115.9)]


def fleet(start: datetime | None) -> Constellation:
    return walker(3, 4, 1, 550.0, 53.0, start=start)


def schedule_of(plan: ContactPlan, constellation: Constellation, times_s: np.ndarray) -> Schedule:
    return Schedule(times_s, plan.orbits_in_view(times_s, constellation.orbit_of_satellite))


def written_contacts(folder: Path, constellation: Constellation, horizon_s: float, stations):
    contacts = find_contacts(constellation, stations, 10, horizon_s / 10)
    plan = plan_of(contacts, constellation.satellites, stations, horizon_s)
    schedule = schedule_of(plan, constellation, round_times_s(10, horizon_s / 10))
    files = write_orbit_tables(folder, schedule, plan, constellation, stations, contacts)
    assert [file.name for file in files] == ["contacts.csv", "visibility.csv", "schedule.npz"]
    with files[0].open(newline="") as file:
        rows = csv.DictReader(file)
        return list(rows), rows.fieldnames, contacts


@pytest.mark.parametrize(
    "start",
    [START, START.replace(tzinfo=None), START.astimezone(timezone(timedelta(hours=5, minutes=30)))],
)
def test_moments_are_in_utc_each_of_its_own_event(tmp_path: Path, start: datetime) -> None:
    rows, _, contacts = written_contacts(tmp_path, fleet(start), 20_000.0, STATIONS)
    assert len(rows) == len(contacts) > 10
    for row in rows:
        moments = [datetime.fromisoformat(row[f"{e}_utc"]) for e in ("rise", "culmination", "set")]
        for moment, event in zip(moments, ("rise", "culmination", "set"), strict=True):
            since_start = moment - START
            assert since_start == timedelta(seconds=float(row[f"{event}_s"]))
        assert moments[0] <= moments[1] <= moments[2]
        assert moments[0] < moments[2]
        assert row["rise_utc"].endswith("Z")


def test_rows_hold_what_the_contacts_say(tmp_path: Path) -> None:
    constellation = fleet(None)
    contacts = find_contacts(constellation, STATIONS, 1, 20_000.0)
    plan = plan_of(contacts, 12, STATIONS, 20_000.0)
    rows = contact_rows(plan, constellation, STATIONS, contacts)
    assert [r["station"] for r in rows] == [STATIONS[s].name for s in contacts.station]
    assert [r["satellite"] for r in rows] == contacts.satellite.tolist()
    assert [r["orbit"] for r in rows] == (contacts.satellite // 4).tolist()
    assert rows[0]["satellite_name"] == constellation.satellite_names[rows[0]["satellite"]]
    for key in ("rise_s", "culmination_s", "set_s", "duration_s", "max_elevation_deg", "range_km"):
        np.testing.assert_allclose([r[key] for r in rows], getattr(contacts, key), atol=1e-3)
    assert "rise_utc" not in rows[0]
    assert contact_rows(plan, constellation, STATIONS, contacts, first=2) == rows[:2]
    # A plan from a file knows no culminations, and the rest all the same.
    unknown = {"culmination_s": None, "max_elevation_deg": None}
    assert contact_rows(plan, constellation, STATIONS) == [{**row, **unknown} for row in rows]


@pytest.mark.parametrize("start", [None, START])
def test_columns_do_not_depend_on_the_number_of_contacts(tmp_path: Path, start) -> None:
    # A pole that no satellite at 53 degrees of inclination sees.
    pole = [Place("pole", 90.0, 0.0, 30.0)]
    rows, empty, _ = written_contacts(tmp_path / "empty", fleet(start), 20_000.0, pole)
    assert rows == []
    rows, full, _ = written_contacts(tmp_path / "full", fleet(start), 20_000.0, STATIONS)
    assert empty == full == list(rows[0])
    assert ("culmination_utc" in full) == (start is not None)


def test_visibility_and_arrays(tmp_path: Path) -> None:
    constellation = fleet(START)
    contacts = find_contacts(constellation, STATIONS, 20, 300.0)
    plan = plan_of(contacts, 12, STATIONS, 6000.0)
    schedule = schedule_of(plan, constellation, round_times_s(20, 300.0))
    _, visibility, arrays = write_orbit_tables(
        tmp_path, schedule, plan, constellation, STATIONS, contacts
    )
    with visibility.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(r["time_s"]) for r in rows] == schedule.times_s.tolist()
    for orbit in range(3):
        assert [int(r[f"orbit_{orbit}"]) for r in rows] == schedule.visible[:, orbit].tolist()
    with np.load(arrays, allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["visible"], schedule.visible)
        np.testing.assert_array_equal(stored["contact_set_s"], contacts.set_s)
        np.testing.assert_allclose(stored["contact_range_km"], contacts.range_km, atol=1e-3)
    *_, arrays = write_orbit_tables(tmp_path, schedule, plan, constellation, STATIONS)
    with np.load(arrays, allow_pickle=False) as stored:
        np.testing.assert_array_equal(stored["contact_set_s"], contacts.set_s)
        assert np.isnan(stored["contact_culmination_s"]).all()
