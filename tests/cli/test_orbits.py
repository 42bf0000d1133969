"""`fedorbit orbits` as a user runs it, on real files."""

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.cli.answers import one_sentence
from tests.orbits.element_files import made_satellite, tle_text


def test_orbits_json_has_the_papers_figures(process) -> None:
    document = json.loads(process("fedorbit orbits --json").stdout)
    assert document["rounds"] == 400
    assert document["orbits"] == 5
    assert document["satellites"] == 20
    assert document["visible_rounds"] == [61, 41, 34, 21, 56]
    assert document["idle_rounds"] == 187
    assert document["longest_gap_rounds"] == 191
    assert document["longest_idle_rounds"] == 4


def test_orbits_tables(fedorbit) -> None:
    text = fedorbit("orbits", "paper", "--contacts", "3").stdout
    assert "20 satellites in 5 orbits, 1 ground station, 400 rounds of 5 min (33.3 h)" in text
    assert "No orbit in view in 187 rounds (46.8 %), at most 4 in a row" in text
    assert "First 3 of 147 contacts" in text
    assert "15.2 %" in text


def test_orbits_writes_figures_and_tables(fedorbit, tmp_path: Path) -> None:
    document = json.loads(fedorbit("orbits", "paper", "--out", "figures", "--json").stdout)
    folder = tmp_path / "figures"
    assert sorted(f.name for f in folder.iterdir()) == [
        "contacts.csv",
        "map.png",
        "map.svg",
        "schedule.npz",
        "timeline.png",
        "timeline.svg",
        "visibility.csv",
    ]
    assert {Path(f).name for f in document["files"]} == {f.name for f in folder.iterdir()}
    with (folder / "contacts.csv").open() as file:
        contacts = list(csv.DictReader(file))
    assert len(contacts) == document["contacts"]
    assert float(contacts[1]["rise_s"]) == pytest.approx(492.974, abs=1e-3)
    with np.load(folder / "schedule.npz", allow_pickle=False) as arrays:
        assert arrays["visible"].sum(axis=0).tolist() == document["visible_rounds"]
        assert len(arrays["contact_rise_s"]) == document["contacts"]
    with (folder / "visibility.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["orbit_3"]) for row in rows) == 21
    with Image.open(folder / "map.png") as picture:
        assert picture.size[0] > 1000
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 100
    assert "London" in (folder / "map.svg").read_text()


def test_figures_are_the_same_bytes_every_time(fedorbit, tmp_path: Path) -> None:
    for name in ("a", "b"):
        fedorbit("orbits", "paper", "--out", name, "--json")
    for file in (tmp_path / "a").iterdir():
        if file.suffix in (".png", ".svg", ".csv"):
            assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_orbits_of_real_element_sets(fedorbit, tmp_path: Path) -> None:
    satellites = [
        (f"SAT {plane}{slot}", made_satellite(10 * plane + slot + 1, 40.0 * plane, 90.0 * slot))
        for plane in range(3)
        for slot in range(4)
    ]
    (tmp_path / "fleet.tle").write_text(tle_text(satellites))
    (tmp_path / "fleet.toml").write_text(
        'extends = "paper"\n[constellation]\nkind = "elements"\nfile = "fleet.tle"\n'
    )
    document = json.loads(fedorbit("orbits", "fleet.toml", "--json", "--out", "o").stdout)
    assert document["satellites_per_orbit"] == [4, 4, 4]
    assert document["start_utc"].startswith("2026-03-01T00:00:00")
    assert document["contacts"] > 10
    assert document["contact_list"][0]["rise_utc"].startswith("2026-03-01T")
    late = fedorbit("orbits", "fleet.toml", "-o", "schedule.start=2026-06-01T00:00:00Z", code=2)
    assert "12 of 12 element sets are too old" in one_sentence(late)


def test_drifting_satellites_are_counted_and_shells_shown(process, tmp_path: Path) -> None:
    satellites = [
        (f"SAT {plane}-{slot}", made_satellite(20 * plane + slot + 1, 40.0 * plane, 18.0 * slot))
        for plane in range(3)
        for slot in range(20)
    ]
    between = ("BETWEEN", made_satellite(99, 20.0))
    (tmp_path / "fleet.tle").write_text(tle_text([*satellites, between]))
    command = (
        "fedorbit orbits -o constellation.kind=elements -o constellation.file=fleet.tle "
        "-o schedule.rounds=12"
    )
    shown = process(command)
    assert "1 of 61 satellites drift between planes or shells and are left out (BETWEEN); " in (
        shown.stderr
    )
    assert "60 satellites in 3 orbits" in shown.stdout
    assert re.search(r"0-2 +53\.00\S* *\S* +55\d km +3 +60", shown.stdout)
    document = json.loads(process(f"{command} --json").stdout)
    assert document["left_out"] == ["BETWEEN"]
    assert [(s["orbits"], s["satellites"]) for s in document["shells"]] == [(3, 60)]
    kept = process(f"{command} -o constellation.drifting=keep")
    assert "61 satellites in 4 orbits" in kept.stdout
    assert kept.stderr == ""
    refused = process(f"{command} -o constellation.drifting=refuse", code=2)
    assert "1 of 61 satellites drift" in one_sentence(refused)


def test_many_orbits_are_shown_in_groups(fedorbit) -> None:
    many = ("-o", "constellation.planes=50", "-o", "schedule.rounds=20", "--contacts", "0")
    text = fedorbit("orbits", *many).stdout
    document = json.loads(fedorbit("orbits", *many, "--json").stdout)
    cells_of_lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = {cells[0]: cells for cells in cells_of_lines if re.fullmatch(r"\d+-\d+", cells[0])}
    assert list(rows) == [f"{first}-{min(first + 2, 49)}" for first in range(0, 50, 3)]
    for first, cells in zip(range(0, 50, 3), rows.values(), strict=True):
        group = slice(first, first + 3)
        in_view = document["visible_rounds"][group]
        assert cells[1] == str(sum(document["satellites_per_orbit"][group]))
        assert cells[2] == f"{sum(in_view) / len(in_view):.0f}"
        assert cells[5] == str(max(document["longest_gaps_rounds"][group]))
    assert "Each row is up to 3 orbits" in text


def test_times_in_utc_whatever_the_offset_of_the_start(fedorbit) -> None:
    starts = ["2026-03-01T00:30:00Z", "2026-03-01T00:30:00", "2026-02-28T19:00:00-05:30"]
    documents = [
        json.loads(fedorbit("orbits", "paper", "-o", f"schedule.start={start}", "--json").stdout)
        for start in starts
    ]
    assert documents[0]["start_utc"] == "2026-03-01T00:30:00+00:00"
    assert documents[0]["contact_list"][0]["rise_utc"] == "2026-03-01T00:30:00.000Z"
    assert documents[0] == documents[1] == documents[2]


def test_a_naive_start_with_element_sets(fedorbit, tmp_path: Path) -> None:
    (tmp_path / "fleet.tle").write_text(tle_text([("A", made_satellite(1, 0.0))]))
    elements = ("-o", "constellation.kind=elements", "-o", "constellation.file=fleet.tle")
    document = json.loads(
        fedorbit("orbits", *elements, "-o", "schedule.start=2026-03-02T00:00:00", "--json").stdout
    )
    assert document["start_utc"] == "2026-03-02T00:00:00+00:00"
    late = ("-o", "schedule.start=2026-06-01T01:00:00+02:00")
    refused = one_sentence(fedorbit("orbits", *elements, *late, code=2))
    assert "from 2026-05-31 23:00 UTC" in refused


def test_a_plan_is_written_and_drives_the_same_tables(fedorbit, tmp_path: Path) -> None:
    computed = json.loads(fedorbit("orbits", "paper", "--json", "--plan", "plans/plan.csv").stdout)
    assert computed["files"] == ["plans/plan.csv"]
    assert computed["passes"] == [40, 28, 21, 23, 35] and computed["passes_per_station"] == [147]
    given = ("-o", "schedule.plan=plans/plan.csv")
    read = json.loads(fedorbit("orbits", "paper", *given, "--json", "--plan", "again.csv").stdout)
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "plans/plan.csv").read_bytes()
    unknown = {"culmination_s": None, "max_elevation_deg": None}
    for row in computed["contact_list"]:
        row.update(unknown)
    assert read == {**computed, "files": ["again.csv"]}
    text = fedorbit("orbits", "paper", *given, "--contacts", "2", "--out", "figures").stdout
    assert "First 2 of 147 contacts" in text and "culmination" not in text
    assert len((tmp_path / "figures" / "contacts.csv").read_text().splitlines()) == 148


def test_a_plan_of_an_operator_is_shown_as_it_is(fedorbit, tmp_path: Path) -> None:
    plan = "node_a,node_b,begin_s,end_s\nsat 0.1,London,0,610\nsat 0.2,London,3000,3300\n"
    (tmp_path / "plan.csv").write_text(plan)
    document = json.loads(
        fedorbit("orbits", "paper", "-o", "schedule.plan=plan.csv", "--json").stdout
    )
    assert document["visible_rounds"] == [4, 0, 0, 0, 0]  # at 0, 300, 600 and 3000 s
    assert document["longest_gap_rounds"] == 400
    assert document["passes"] == [2, 0, 0, 0, 0] and document["contact_s"] == 910.0


@pytest.mark.parametrize("name", ["plan.ion", "plan.hdtn.json", "plan.json"])
def test_plans_of_other_formats(fedorbit, name: str) -> None:
    fedorbit("orbits", "paper", "--plan", name)
    again = json.loads(fedorbit("orbits", "paper", "-o", f"schedule.plan={name}", "--json").stdout)
    assert again["contacts"] == 147
    assert again["contact_s"] == pytest.approx(64_260, abs=300)
    ranges_km = [row["range_km"] for row in again["contact_list"]]
    if name == "plan.json":
        assert 550.0 < min(ranges_km) < max(ranges_km) < 2000.0
    else:  # whole light seconds say nothing about kilometres
        assert set(ranges_km) == {None}
    fedorbit(
        "orbits", "paper", "-o", f"schedule.plan={name}", "--out", "out", "--plan", "again.csv"
    )


def test_mistakes_with_plans_get_one_sentence(fedorbit, tmp_path: Path) -> None:
    told = one_sentence(fedorbit("orbits", "paper", "--plan", "plan.xls", code=2))
    assert "a contact plan is written as .csv, .json" in told and "plan.xls" in told
    told = one_sentence(fedorbit("orbits", "paper", "-o", "schedule.plan=none.csv", code=2))
    assert "contact plan none.csv does not exist; set schedule.plan to a file" in told
    (tmp_path / "plan.csv").write_text("node_a,node_b,begin_s,end_s\n0,Paris,1,2\n")
    told = one_sentence(fedorbit("orbits", "paper", "-o", "schedule.plan=plan.csv", code=2))
    assert "plan.csv, line 2: node_b names no satellite or station, got 'Paris'" in told


def test_several_places_are_counted_by_role_and_listed(fedorbit) -> None:
    hap = 'name="HAP", latitude_deg=51.0, longitude_deg=-0.1, altitude_km=20.0, role="platform"'
    stations = (
        'stations=[{name="London", latitude_deg=51.0, longitude_deg=-0.1}, '
        f"{{{hap}, min_elevation_deg=-3.2}}]"
    )
    text = fedorbit("orbits", "paper", "-o", stations, "--contacts", "0").stdout
    assert "1 ground station and 1 platform" in text
    rows = [line.split() for line in text.splitlines()]
    assert ["London", "ground", "0", "km", "10°", "147", "7.3", "min"] in rows
    assert ["HAP", "platform", "20", "km", "-3.2°", "194", "12.5", "min"] in rows


def test_orbits_writes_czml(fedorbit, tmp_path: Path) -> None:
    short = ("orbits", "paper", "-o", "schedule.rounds=24", "--czml", "out/fleet.czml")
    text = fedorbit(*short).stdout
    assert "Wrote out/fleet.czml" in text
    assert "The CZML document has 2.0 h, a position every 60 s." in text
    packets = json.loads((tmp_path / "out" / "fleet.czml").read_text())
    assert packets[0]["name"] == "fleet"
    assert sum(packet["id"].startswith("satellite/") for packet in packets) == 20
    document = json.loads(fedorbit(*short, "--czml-hours", "0.5", "--json").stdout)
    assert document["czml"] == {"duration_s": 1800.0, "step_s": 60}
    assert document["files"] == ["out/fleet.czml"]
    assert "the first 0.5 of 2.0 h" in fedorbit(*short, "--czml-hours", "0.5").stdout


def test_wrong_czml_options_are_refused_before_anything_is_computed(fedorbit) -> None:
    named = fedorbit("orbits", "starlink-shell1", "--czml", "a.json", code=2)
    assert "needs a name that ends in .czml, got 'a.json'" in one_sentence(named)
    alone = fedorbit("orbits", "starlink-shell1", "--czml-hours", "3", code=2)
    assert "add --czml FILE" in one_sentence(alone)


def test_orbits_says_whether_satellites_of_an_orbit_see_each_other(fedorbit) -> None:
    text = " ".join(fedorbit("orbits", "paper", "--contacts", "0").stdout.split())
    assert (
        "Satellites of an orbit never see each other: 4 at 550 km are 90° apart, "
        "a permanent ring needs 9 (42.5°)."
    ) in text
    assert "--links adds" in text and "Delays" not in text
    document = json.loads(fedorbit("orbits", "paper", "--json").stdout)
    assert [ring["neighbours"] for ring in document["rings"]] == ["never"] * 5
    assert document["rings"][3]["orbit"] == 3 and document["rings"][3]["needed"] == 9
    assert "links" not in document and "delays" not in document


def test_orbits_with_links_has_the_reference_numbers(fedorbit, tmp_path: Path) -> None:
    options = ("orbits", "paper", "--links", "--contacts", "3")
    rows = [line.split() for line in fedorbit(*options).stdout.splitlines()]
    assert ["in", "plane", "0", "30", "0", "0", *["-"] * 3, "0.0", "-"] in rows
    assert [
        "cross", "plane", "80", "160", "3,360", "0", "506", "s", "285", "s", "766", "s",
        "15.1", "2,578", "km",
    ] in rows  # fmt: skip
    assert ["orbit", "to", "server", "contacts", "306", "217", "790", "933", "17.9", "%", "0.0", "%"] in rows  # fmt: skip
    assert ["links", "2.5", "1.4", "6.6", "18.0", "85.1", "%", "0.0", "%"] in rows
    document = json.loads(fedorbit(*options, "--json", "--out", "figures").stdout)
    links, delays = document["links"], document["delays"]
    assert links["cross_plane"]["windows"] == 3360
    assert links["none_share"] == pytest.approx(0.148, abs=0.001)
    assert links["alone_share"] == pytest.approx(0.207, abs=0.001)
    assert links["orbit_pair_share"][0] == pytest.approx([0.0, 0.65, 0.85, 0.85, 0.65], abs=0.005)
    assert delays["starts"] == 400
    direct, routed = delays["direct"], delays["with_links"]
    assert set(direct) == set(routed) and len(direct) == 6
    per_orbit_min = np.array(direct["orbit_to_server"]["per_orbit_mean_s"]) / 60.0
    np.testing.assert_allclose(per_orbit_min, [223, 260, 334, 397, 318], atol=0.7)
    assert routed["all_to_all"]["max_s"] / 60.0 == pytest.approx(35.0, abs=0.5)
    folder = tmp_path / "figures"
    written = {Path(file).name for file in document["files"]}
    assert {"links.csv", "links.png", "delay-matrix.svg", "delay-matrix.csv"} <= written
    with (folder / "links.csv").open() as file:
        windows = list(csv.DictReader(file))
    assert len(windows) == 3360
    assert all(row["first_orbit"] != row["second_orbit"] for row in windows)
    with (folder / "delay-matrix.csv").open() as file:
        matrix = {(row["from"], row["to"]): row for row in csv.DictReader(file)}
    assert len(matrix) == 21 * 21
    mates_s = [
        float(matrix[f"sat 2.{a}", f"sat 2.{b}"]["with_links_mean_s"])
        for a in range(4) for b in range(4) if a != b
    ]  # fmt: skip
    assert np.mean(mates_s) / 60.0 == pytest.approx(10.4, abs=0.5)


def test_links_leave_the_contacts_with_stations_as_they_are(fedorbit) -> None:
    alone = json.loads(fedorbit("orbits", "paper", "--json", "--contacts", "147").stdout)
    linked = json.loads(
        fedorbit("orbits", "paper", "--json", "--contacts", "147", "--links").stdout
    )
    assert {key: linked[key] for key in alone} == alone


def test_plans_and_czml_have_the_links_that_are_configured(fedorbit, tmp_path: Path) -> None:
    short = (
        "orbits",
        "paper",
        "-o",
        "schedule.rounds=24",
        "--plan",
        "plan.csv",
        "--czml",
        "a.czml",
    )

    def kinds() -> list[str]:
        with (tmp_path / "plan.csv").open() as file:
            return [row["kind"] for row in csv.DictReader(file)]

    def lines() -> list[str]:
        packets = json.loads((tmp_path / "a.czml").read_text())
        return [packet["id"] for packet in packets if packet["id"].startswith("contact/")]

    fedorbit(*short)
    stations = len(kinds())
    assert set(kinds()) == {"ground"} and all("place/0" in line for line in lines())
    document = json.loads(fedorbit(*short, "-o", "network.isl=line-of-sight", "--json").stdout)
    cross = document["links"]["cross_plane"]
    assert kinds().count("isl") == cross["windows"] > 0 and kinds().count("ground") == stations
    assert sum("place/0" not in line for line in lines()) == cross["pairs"]
    # The plan drives the same numbers; delays end where it does.
    given = ("-o", "schedule.rounds=24", "-o", "schedule.plan=plan.csv", "--links", "--json")
    read = json.loads(fedorbit("orbits", "paper", *given).stdout)
    assert read["links"] == document["links"]
    assert read["delays"]["direct"]["all_to_all"]["unreached"] > 0.0


def test_rates_delay_news(fedorbit) -> None:
    small = ("orbits", "quickstart", "-o", "schedule.rounds=24", "--links", "--json")
    at_once = json.loads(fedorbit(*small).stdout)["delays"]["with_links"]["satellite_to_server"]
    rates = ("-o", "link_rates.to_ground_mbps=0.1")
    late = json.loads(fedorbit(*small, *rates).stdout)["delays"]["with_links"]
    assert late["satellite_to_server"]["mean_s"] > at_once["mean_s"] + 10.0


def test_too_many_links_for_delays_are_said_and_those_for_memory_refused(
    fedorbit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedorbit.cli.orbit_links.MOST_CONTACTS", 400)
    short = ("orbits", "paper", "-o", "schedule.rounds=48", "--links")
    text = " ".join(fedorbit(*short).stdout.split())
    assert "Delays are left out: the plan has" in text and "at most 200 are routed over" in text
    assert json.loads(fedorbit(*short, "--json").stdout)["delays"] is None
    fedorbit(*short, "--out", "figures")
    refused = one_sentence(fedorbit("orbits", "starlink-shell1", "--links", code=2))
    assert "million are listed; set network.terminals" in refused


def test_of_many_rounds_some_are_looked_at(fedorbit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedorbit.cli.orbit_links.MOST_STEPS", 1)
    text = fedorbit("orbits", "paper", "-o", "schedule.rounds=40", "--links").stdout
    assert "Delays in minutes, from the begins of 8 of 40 rounds" in text
