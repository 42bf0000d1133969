"""CZML documents: their structure, and numbers against the propagation and the plan."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedorbit.build import build_constellation, build_places, build_plan
from fedorbit.config import load_config
from fedorbit.errors import ConfigError
from fedorbit.orbits import czml
from fedorbit.orbits.constellation import walker
from fedorbit.orbits.czml import check_czml_name, clip, write_czml
from fedorbit.orbits.plan import KINDS

MOMENT = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
OVERRIDES = (
    "schedule.start=2026-03-01T12:00:00Z",
    "schedule.rounds=36",
    'stations=["nasa-dsn", {name="HAP \\u2713", latitude_deg=51, longitude_deg=0, altitude_km=20, role="platform"}]',
)


def world(*overrides: str) -> tuple[Any, Any, Any]:
    config = load_config("paper", [*OVERRIDES, *overrides])
    constellation = build_constellation(config)
    return constellation, build_places(config), build_plan(config, constellation)


def written(folder: Path, constellation, places, plan, hours=None) -> list[dict[str, Any]]:
    path = write_czml(folder / "a.czml", constellation, places, plan, clip(plan, hours))
    packets = json.loads(path.read_text(encoding="utf-8"))
    require_structure(packets)
    return packets


def require_structure(packets: list[dict[str, Any]]) -> None:
    """Check what CZML asks for of any document."""
    document, *rest = packets
    assert (document["id"], document["version"]) == ("document", "1.0")
    ids = [packet["id"] for packet in packets]
    assert len(set(ids)) == len(ids)
    interval = re.compile(f"{MOMENT}/{MOMENT}")
    assert interval.fullmatch(document["clock"]["interval"])
    whole = document["clock"]["interval"].split("/")
    assert document["clock"]["currentTime"] == whole[0]
    for packet in rest:
        assert packet.get("parent", ids[1]) in ids
        found = packet.get("availability", [])
        for text in [found] if isinstance(found, str) else found:
            assert interval.fullmatch(text)
            begin, end = text.split("/")
            assert whole[0] <= begin <= end <= whole[1]  # ISO 8601 sorts as text
        if "polyline" in packet:
            for reference in packet["polyline"]["positions"]["references"]:
                node, hash_sign, name = reference.partition("#")
                assert (hash_sign, name) == ("#", "position")
                assert "position" in packets[ids.index(node)]
        cartesian = packet.get("position", {}).get("cartesian")
        if cartesian is not None:
            assert re.fullmatch(MOMENT, packet["position"]["epoch"])
            assert len(cartesian) % 4 == 0
            assert np.all(np.diff(cartesian[::4]) > 0)
            radii_m = np.linalg.norm(np.reshape(cartesian, (-1, 4))[:, 1:], axis=1)
            assert np.all((radii_m > 6.5e6) & (radii_m < 6e7))  # metres, not kilometres


def by_id(packets: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [packet for packet in packets if packet["id"].startswith(f"{kind}/")]


def test_positions_are_those_of_the_propagation(tmp_path: Path) -> None:
    constellation, places, plan = world()
    satellites = by_id(written(tmp_path, constellation, places, plan), "satellite")
    assert [s["name"] for s in satellites] == list(constellation.satellite_names)
    for number, packet in enumerate(satellites):
        position = packet["position"]
        assert position["referenceFrame"] == "FIXED"
        assert position["epoch"] == "2026-03-01T12:00:00.000Z"
        rows = np.reshape(position["cartesian"], (-1, 4))
        assert (rows[0, 0], rows[1, 0]) == (0, 60)
        assert rows[-1, 0] >= 36 * 300.0  # up to the end, or the viewer would have to guess
        satellite = np.full(len(rows), number)
        expected_m = 1000.0 * constellation.r_ecef_km_at(satellite, rows[:, 0].astype(float))
        np.testing.assert_allclose(rows[:, 1:], expected_m, atol=0.51)
        assert packet["parent"] == f"orbit/{constellation.orbit_of_satellite[number]}"


@pytest.mark.parametrize("altitude_km", [200.0, 550.0, 20_000.0])
def test_interpolation_at_the_widest_step_is_good_to_metres(altitude_km: float) -> None:
    constellation = walker(1, 1, 0.0, altitude_km, 53.0)
    step_s = czml.STEPS_S[-1]
    nodes_s = step_s * np.arange(czml.DEGREE + 1.0)
    nodes_km = constellation.r_ecef_km(nodes_s)[:, 0]
    for asked_s in np.linspace(0.0, nodes_s[-1], 400):
        weights = [np.prod([(asked_s - b) / (a - b) for b in nodes_s if b != a]) for a in nodes_s]
        true_km = constellation.r_ecef_km(np.array([asked_s]))[0, 0]
        error_m = 1000.0 * np.linalg.norm(np.array(weights) @ nodes_km - true_km)
        # The viewer takes the samples around a moment; only at the ends is it off their middle.
        middle = nodes_s[czml.DEGREE // 2] <= asked_s <= nodes_s[czml.DEGREE // 2 + 1]
        assert error_m < (2.0 if middle else 40.0)


def test_lines_are_there_during_contacts(tmp_path: Path) -> None:
    constellation, places, plan = world()
    lines = by_id(written(tmp_path, constellation, places, plan), "contact")
    shown = set()
    for line in lines:
        first, second = (
            reference.removesuffix("#position")
            for reference in line["polyline"]["positions"]["references"]
        )
        satellite, server = (
            int(first.removeprefix("satellite/")),
            int(second.removeprefix("place/")),
        )
        assert line["name"] == f"{constellation.satellite_names[satellite]} - {places[server].name}"
        for interval in line["availability"]:
            times_ms = [
                round((datetime.fromisoformat(text) - START) / timedelta(milliseconds=1))
                for text in interval.split("/")
            ]
            shown.add((satellite, server, *times_ms))
    columns = (plan.first, plan.server, plan.begin_s, plan.end_s)
    expected = {
        (a, b, int(1000 * begin_s), int(1000 * end_s))
        for a, b, begin_s, end_s in zip(*(c.tolist() for c in columns), strict=True)
    }
    assert len(shown) == len(expected) == len(plan) > 20
    for found, right in zip(sorted(shown), sorted(expected), strict=True):
        assert np.abs(np.subtract(found, right)).max() <= 1  # a millisecond


def test_links_between_satellites_are_lines_too(tmp_path: Path) -> None:
    constellation, places, plan = world()
    isl = replace(
        plan,
        first=np.array([0, 0], dtype=np.int32),
        second=np.array([1, 1], dtype=np.int32),
        begin_s=np.array([10.0, 400.5]),
        end_s=np.array([20.0, 1e9]),
        kind=np.full(2, KINDS.index("isl"), dtype=np.uint8),
        range_km=np.full(2, np.nan),
    )
    [line] = by_id(written(tmp_path, constellation, places, isl), "contact")
    assert line["polyline"]["positions"]["references"] == [
        "satellite/0#position",
        "satellite/1#position",
    ]
    assert line["availability"] == [
        "2026-03-01T12:00:10.000Z/2026-03-01T12:00:20.000Z",
        "2026-03-01T12:06:40.500Z/2026-03-01T15:00:00.000Z",  # cut at the end of what is shown
    ]


def test_places_have_labels_and_heights_in_metres(tmp_path: Path) -> None:
    constellation, places, plan = world()
    packets = by_id(written(tmp_path, constellation, places, plan), "place")
    assert [p["label"]["text"] for p in packets] == [place.name for place in places]
    assert packets[-1]["name"] == "HAP ✓"
    assert packets[-1]["position"]["cartographicDegrees"] == [0.0, 51.0, 20_000.0]
    assert packets[0]["point"]["color"] != packets[-1]["point"]["color"]


def test_orbits_have_colours_of_their_own(tmp_path: Path) -> None:
    constellation, places, plan = world()
    satellites = by_id(written(tmp_path, constellation, places, plan), "satellite")
    colours = {(s["parent"], tuple(s["point"]["color"]["rgba"])) for s in satellites}
    assert len(colours) == constellation.orbits == len({colour for _, colour in colours})
    assert all("path" in s and "label" in s for s in satellites)


def test_of_many_satellites_the_first_of_each_orbit_has_a_path(tmp_path: Path) -> None:
    constellation, places, plan = world("constellation.satellites_per_plane=30")
    satellites = by_id(written(tmp_path, constellation, places, plan), "satellite")
    with_path = [s["id"] for s in satellites if "path" in s]
    assert with_path == [f"satellite/{30 * orbit}" for orbit in range(5)]
    assert not any("label" in s for s in satellites)


def test_a_constellation_without_a_start_begins_in_2000(tmp_path: Path) -> None:
    config = load_config("paper", ["schedule.rounds=4"])
    constellation = build_constellation(config)
    plan = build_plan(config, constellation)
    [document, *_] = written(tmp_path, constellation, build_places(config), plan)
    assert document["clock"]["interval"] == "2000-01-01T00:00:00.000Z/2000-01-01T00:20:00.000Z"


def test_the_step_is_the_finest_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, plan = world()  # 20 satellites, 10,800 s
    found = []
    for most in (20 * 182, 20 * 182 - 1, 20 * 38, 20 * 38 - 1, 20 * 12):
        monkeypatch.setattr(czml, "MOST_POSITIONS", most)
        shown = clip(plan)
        assert plan.satellites * (shown.duration_s // shown.step_s + 2) <= most
        found.append((shown.step_s, shown.duration_s, shown.is_cut))
    assert found == [
        (60, 10_800.0, False),
        (120, 10_800.0, False),
        (300, 10_800.0, False),
        (300, 10_500.0, True),
        (300, 3_000.0, True),
    ]


def test_what_does_not_fit_is_cut_or_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    constellation, places, plan = world()
    assert clip(plan, 1.0).duration_s == 3600.0
    assert clip(plan, 99.0).duration_s == plan.horizon_s
    monkeypatch.setattr(czml, "MOST_CONTACTS", 7)
    shown = clip(plan)
    assert shown.is_cut
    assert np.sum(plan.begin_s < shown.duration_s) <= 7
    packets = written(tmp_path, constellation, places, plan)
    assert sum(len(line["availability"]) for line in by_id(packets, "contact")) <= 7
    with pytest.raises(ConfigError, match=r"--czml-hours must be at most 0\.\d\d for 20 .*got 3;"):
        clip(plan, 3.0)
    monkeypatch.setattr(czml, "MOST_POSITIONS", 30)
    with pytest.raises(ConfigError, match="too few for 20 satellites"):
        clip(plan)


def test_another_extension_is_refused() -> None:
    check_czml_name(Path("a.CZML"))
    with pytest.raises(ConfigError, match=r"ends in \.czml, got 'a\.json'"):
        check_czml_name(Path("a.json"))
