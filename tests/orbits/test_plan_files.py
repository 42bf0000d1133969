"""Contact plans as files: every format there and back, and what is refused."""

import json
import math
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from fedorbit.build import build_constellation, build_plan, plan_nodes
from fedorbit.config import load_config
from fedorbit.errors import PlanError
from fedorbit.orbits import plan_files
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.orbits.plan_files import (
    Nodes,
    as_document,
    from_document,
    from_table,
    read_plan,
    table,
    write_plan,
)
from fedorbit.orbits.service import LinkRates

ARRAYS = ("first", "second", "begin_s", "end_s", "kind", "range_km")
LONDON, HAP = Place("London", 51.0, -0.1), Place("HAP", 40.0, 0.0, 0.0, 20.0, "platform")
NODES = Nodes(("A", "B", "C", "C"), (LONDON, HAP), 1000.0, datetime(2026, 3, 1, tzinfo=UTC))
"""Nodes 0 to 3 are satellites, of which two share a name; 4 is London, 5 a platform."""


def rows_of(plan: ContactPlan) -> list[tuple[int, int, float, float]]:
    return list(
        zip(*(a.tolist() for a in (plan.first, plan.second, plan.begin_s, plan.end_s)), strict=True)
    )


def read(folder: Path, text: str, nodes: Nodes = NODES) -> ContactPlan:
    file = folder / "plan"  # the content tells the format, not the name
    file.write_text(text, encoding="utf-8")
    return read_plan(file, nodes)


@pytest.fixture(scope="module")
def papers() -> tuple[ContactPlan, Nodes]:
    """The paper's plan with a platform beside its station."""
    hap = 'name="HAP", latitude_deg=38.0, longitude_deg=-91.8, altitude_km=20.0, role="platform"'
    stations = f'stations=[{{name="London", latitude_deg=51.0, longitude_deg=-0.1}}, {{{hap}}}]'
    config = load_config("paper", [stations])
    constellation = build_constellation(config)
    return build_plan(config, constellation), plan_nodes(config, constellation)


@pytest.mark.parametrize("name", ["plan.csv", "plan.json"])
def test_our_formats_are_exact_to_the_bit(papers, tmp_path: Path, name: str) -> None:
    plan, nodes = papers
    again = read_plan(write_plan(tmp_path / name, plan, nodes, LinkRates()), nodes)
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(again, array), getattr(plan, array))
        assert getattr(again, array).dtype == getattr(plan, array).dtype
    assert (again.satellites, again.servers, again.horizon_s) == (20, 2, 120_000.0)
    assert set(again.kind) == {KINDS.index("ground"), KINDS.index("platform")}


@pytest.mark.parametrize("name", ["plan.ion", "plan.rc", "plan.txt", "plan.hdtn.json"])
def test_dtn_formats_hold_the_whole_seconds_of_every_contact(
    papers, tmp_path: Path, name: str
) -> None:
    plan, nodes = papers
    again = read_plan(write_plan(tmp_path / name, plan, nodes, LinkRates()), nodes)
    np.testing.assert_array_equal(again.begin_s, np.sort(np.ceil(plan.begin_s)))
    expected = sorted(
        (math.ceil(begin), a, b, math.floor(end)) for a, b, begin, end in rows_of(plan)
    )
    assert [(begin, a, b, end) for a, b, begin, end in rows_of(again)] == expected
    assert len(again) == len(plan) > 200
    assert np.isnan(again.range_km).all()  # a whole light second is no range near the Earth
    # Once more changes nothing: what is written is what was read.
    twice = read_plan(write_plan(tmp_path / f"again-{name}", again, nodes, LinkRates()), nodes)
    assert rows_of(twice) == rows_of(again)


def test_ion_and_hdtn_files_look_as_their_readers_want_them(papers, tmp_path: Path) -> None:
    plan, nodes = papers
    rates = LinkRates(to_ground_mbps=8.0, from_ground_mbps=None)  # to the ground, and from it
    text = write_plan(tmp_path / "plan.ion", plan, nodes, rates).read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    # The first contact: satellite 16 over London from 0 to 216.9 s; nodes count from 1.
    assert lines[:3] == [
        "a contact +0 +216 17 21 1000000",
        "a contact +0 +216 21 17 125000",
        "a range +0 +216 17 21 1",
    ]
    document = json.loads(write_plan(tmp_path / "p.hdtn.json", plan, nodes, rates).read_text())
    assert document["contacts"][0] == {
        "contact": 0, "source": 17, "dest": 21, "startTime": 0, "endTime": 216,
        "rateBitsPerSec": 8_000_000, "owlt": 1,
    }  # fmt: skip
    values = [value for contact in document["contacts"] for value in contact.values()]
    assert all(type(value) is int for value in values)


def test_a_contact_below_a_second_is_left_out_where_seconds_are_whole(tmp_path: Path) -> None:
    plan = read(tmp_path, "node_a,node_b,begin_s,end_s\n0,4,10.2,10.9\n1,4,20.5,22.5\n")
    again = read_plan(write_plan(tmp_path / "plan.ion", plan, NODES, LinkRates()), NODES)
    assert rows_of(again) == [(1, 4, 21.0, 22.0)]


def test_an_empty_plan_comes_back_empty(tmp_path: Path) -> None:
    plan = read(tmp_path, "node_a,node_b,begin_s,end_s\n")
    assert len(plan) == 0
    for name in ("plan.csv", "plan.json", "plan.hdtn.json"):
        assert len(read_plan(write_plan(tmp_path / name, plan, NODES, LinkRates()), NODES)) == 0


def test_an_operators_csv(tmp_path: Path) -> None:
    text = (
        "\ufeffnode_b, begin_s, end_s, node_a, note\n"
        "London, 100, 250.5, A, first light\n"
        "5, 2026-03-01T00:05:00Z, 2026-03-01T00:06:40+00:00, 1, by number and by moment\n"
        "\n"
        "2, 10, 20, 4, the satellite may stand on either side\n"
        "A, 400, 500, B, between satellites\n"
        "A, 900, 2000, London, beyond the horizon\n"
        "A, -50, 30, London, before the start\n"
    )
    plan = read(tmp_path, text)
    assert rows_of(plan) == [
        (0, 4, 0.0, 30.0),
        (2, 4, 10.0, 20.0),
        (0, 4, 100.0, 250.5),
        (1, 5, 300.0, 400.0),
        (0, 1, 400.0, 500.0),
        (0, 4, 900.0, 1000.0),
    ]
    kinds = ["ground", "ground", "ground", "platform", "isl", "ground"]
    assert [KINDS[kind] for kind in plan.kind] == kinds
    assert np.isnan(plan.range_km).all()
    again = read_plan(write_plan(tmp_path / "p.json", plan, NODES, LinkRates()), NODES)
    assert rows_of(again) == rows_of(plan) and np.isnan(again.range_km).all()


ION = """## begin ionadmin
1 1 ''
# a contact +0 +1 1 5 1
a contact +0 +100 1 5 125000
a contact +40 +300 5 1 125000 1.0
a contact +200 +250 1 5 125000
a contact 2026/03/01-00:10:00 +700 2 6 1
a contact +600 +700 6 2 1
a contact -1 -1 1 1 0
a range +0 +1000 5 1 0
a range +0 +1000 2 6 1
m production 1000000
## end ionadmin
"""


def test_ion_contacts_last_while_both_directions_are_listed(tmp_path: Path) -> None:
    plan = read(tmp_path, ION)
    assert rows_of(plan) == [(0, 4, 40.0, 100.0), (0, 4, 200.0, 250.0), (1, 5, 600.0, 700.0)]
    assert np.isnan(plan.range_km).all()


def test_hdtn_contacts_last_while_both_directions_are_listed(tmp_path: Path) -> None:
    rows = [(1, 5, 0, 100, 0), (5, 1, 40, 300, 0), (3, 6, 7, 8, 1), (6, 3, 7, 9, 1)]
    contacts = [
        {"contact": n, "source": s, "dest": d, "startTime": b, "endTime": e,
         "rateBitsPerSec": 1, "owlt": o}
        for n, (s, d, b, e, o) in enumerate(rows)
    ]  # fmt: skip
    plan = read(tmp_path, json.dumps({"contacts": contacts}))
    assert rows_of(plan) == [(2, 5, 7.0, 8.0), (0, 4, 40.0, 100.0)]
    assert np.isnan(plan.range_km).all()


HEAD = "node_a,node_b,begin_s,end_s,kind,range_km\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "needs the columns node_a, node_b, begin_s, end_s"),
        ("node_a,node_b,begin_s\n", "end_s is missing"),
        (HEAD + "6,4,1,2,,\n", "line 2: node_a must be from 0 to 5 (4 satellites, then 2 servers)"),
        (HEAD + "0,Londn,1,2,,\n", "line 2: node_b names no satellite or station, got 'Londn' "
         "(did you mean 'London'?)"),
        (HEAD + "C,4,1,2,,\n", "line 2: node_a 'C' is the name of 2 nodes; give the number"),
        (HEAD + "0,4,1,2,,\n0,4,nan,2,,\n", "line 3: begin_s must be a finite number, got 'nan'"),
        (HEAD + "0,4,1,inf,,\n", "line 2: end_s must be a finite number, got 'inf'"),
        (HEAD + "0,4,2026-03-32,2,,\n", "line 2: begin_s must be seconds, or a moment such as"),
        (HEAD + "0,4,soon,2,,\n", "line 2: begin_s must be a finite number, got 'soon'"),
        (HEAD + "0,4,2,2,,\n", "line 2: a contact must end after it begins, got 2 s to 2 s"),
        (HEAD + "0,0,1,2,,\n", "line 2: node 0 cannot have a contact with itself"),
        (HEAD + "4,5,1,2,,\n", "line 2: London and HAP are both servers"),
        (HEAD + "0,5,1,2,ground,\n", "line 2: kind must be platform between A and HAP, got 'ground'"),
        (HEAD + "0,4,1,2,,-3\n", "line 2: range_km must be above 0, got -3"),
        (HEAD + "0,4,1,2\n", "line 2: must have 6 values, as many as the header"),
        (HEAD + "0,4,1000,2000,,\n", "no contact lies between 0 and 1000 s"),
        (HEAD + '0,"' + 200_000 * "x" + '",1,2,,\n', "line 2: field larger than field limit"),
        ("{}", "is not a contact plan in JSON (format: field required)"),
        ("{", "is not a contact plan in JSON"),
        ('{"contacts": [{"source": 1, "dest": 5, "startTime": 0}]}',
         "is not an HDTN contact plan (contacts.0.endTime: field required)"),
        ('{"a": {}, "contacts": 7}', "is not an HDTN contact plan (contacts: input should be"),
        ('{"contacts": [{"source": 1, "dest": 5, "startTime": 0, "endTime": NaN}]}',
         "is not a contact plan in JSON (NaN is no JSON number)"),
        ('{"contacts": [{"source": 0, "dest": 5, "startTime": 0, "endTime": 9}]}',
         "contacts.0: a node must be from 1 to 6 (4 satellites, then 2 servers), got '0'"),
        ("a contact +0 +10 1 5 1\n", "line 1: contacts from node 1 to node 5 are listed, and none "
         "back; models go both ways"),
        ("a contact +0 +10 1 7 1\n", "line 1: a node must be from 1 to 6"),
        ("a contact +0 +10 1 5\n", "line 1: `a contact` needs a start, a stop, two nodes and a rate"),
        ("a contact 10 +20 1 5 1\n", "line 1: a time must be +SECONDS or yyyy/mm/dd-hh:mm:ss"),
        ("a contact +10 +5 1 5 1\na contact +0 +9 5 1 1\n", "line 1: a contact must end after"),
        ("@ +5\na contact +0 +10 1 5 1\n", "line 1: the command '@ +5' is not read"),
        ("a contact +0 +10 1 5 1\nd contact * 1 5\n", "line 2: the command 'd contact' is not read"),
    ],
)  # fmt: skip
def test_what_is_refused(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(PlanError) as refused:
        read(tmp_path, text)
    sentence = str(refused.value)
    assert told in sentence and str(tmp_path / "plan") in sentence and "\n" not in sentence


def test_moments_need_a_start(tmp_path: Path) -> None:
    without = Nodes(NODES.satellite_names, NODES.places, 1000.0)
    for text in (
        "node_a,node_b,begin_s,end_s\n0,4,2026-03-01T00:00:01Z,20\n",
        "a contact 2026/03/01-00:00:00 +700 1 5 1\n",
    ):
        with pytest.raises(PlanError, match=r"2026-03-01 00:00:0. UTC.*set schedule.start"):
            read(tmp_path, text, without)


def test_files_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PlanError, match=r"does not exist; set schedule.plan"):
        read_plan(tmp_path / "none.csv", NODES)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(PlanError, match=r"it is a FIFO"):
        read_plan(tmp_path / "fifo", NODES)
    (tmp_path / "latin").write_bytes(b"node_a\xff")
    with pytest.raises(PlanError, match=r"it is not UTF-8"):
        read_plan(tmp_path / "latin", NODES)
    monkeypatch.setattr(plan_files, "MOST_BYTES", 10)
    with pytest.raises(PlanError, match=r"allowed are 10"):
        read(tmp_path, HEAD)


def test_a_plan_of_another_constellation_is_refused(papers, tmp_path: Path) -> None:
    file = write_plan(tmp_path / "plan.json", *papers, LinkRates())
    with pytest.raises(PlanError, match=r"of 20 satellites and 2 servers.*has 4 and 2"):
        read_plan(file, NODES)


def test_an_extension_that_stands_for_nothing(papers, tmp_path: Path) -> None:
    with pytest.raises(PlanError, match=r"is written as \.csv, .* got .*plan\.xlsx"):
        write_plan(tmp_path / "plan.xlsx", *papers, LinkRates())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"first": [5]}, "first must be below second"),
        ({"second": [9]}, "second must be below 6"),
        ({"begin_s": [50.0]}, "begin_s must be below end_s"),
        ({"begin_s": [1.0, 2.0]}, "an array does not have 1 entries"),
        ({"kind": [3]}, "kind.0"),
        ({"first": [2**40]}, "first.0"),
        ({"first": None}, "an array does not have 1 entries"),
        ({"kinds": ["radio"]}, "kinds must be ground, platform, isl, got radio"),
        ({"format": 7}, "format is 7, this version reads 1"),
    ],
)
def test_arrays_that_no_plan_can_have(tmp_path: Path, changes: dict, told: str) -> None:
    document = as_document(read(tmp_path, HEAD + "0,4,1,2,,\n"))
    with pytest.raises(PlanError, match=told):
        read(tmp_path, json.dumps({**document, **changes}))


def test_arrays_in_a_file_of_their_own(papers, tmp_path: Path) -> None:
    plan, _ = papers
    np.save(tmp_path / "contacts.npy", table(plan))
    content = (tmp_path / "contacts.npy").read_bytes()
    document = json.loads(json.dumps(as_document(plan, with_arrays=False)))
    assert document["first"] is None and document["count"] == len(plan)
    again, inline = from_table(document, content), from_document(as_document(plan))
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(again, array), getattr(plan, array))
        np.testing.assert_array_equal(getattr(inline, array), getattr(plan, array))
    with pytest.raises(ValueError, match=f"does not hold {len(plan)} contacts"):
        from_table(document, content[:-1])
    with pytest.raises(ValueError, match="does not hold 7 contacts"):
        from_table({**document, "count": 7}, content)
