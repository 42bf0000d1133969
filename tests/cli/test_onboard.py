"""On-board findings as a user sees them."""

import json
from typing import Any

import pytest

from fedorbit.cli import output
from fedorbit.cli.onboard import print_onboard


def summary(method: str, longest_s: float, late: int, **more: Any) -> dict[str, Any]:
    told = {
        "round_s": 300.0,
        "longest_s": [12.0, longest_s],
        "busy_rounds": [10, 10],
        "late_rounds": [0, late],
        "late_share": late / 20,
        **more,
    }
    return {"method": method, "onboard": told}


def test_a_run_says_which_rounds_are_too_long(capsys, monkeypatch) -> None:
    monkeypatch.setattr(output.stdout, "width", 100)
    print_onboard([summary("fedavg", 153.1, 0), summary("fedorbit", 419.12, 1)])
    shown = " ".join(capsys.readouterr().out.split())
    assert "On board, rounds of 300 s" in shown
    assert "fedavg 153.1 s 1 0.0 % fedorbit 419.1 s 1 5.0 %" in shown
    assert "Not every orbit is done within a round of 300 s (fedorbit)" in shown
    assert "epochs done" not in shown
    print_onboard([{"method": "fedavg"}])
    assert capsys.readouterr().out == ""


def test_a_run_says_what_was_cut(capsys, monkeypatch) -> None:
    monkeypatch.setattr(output.stdout, "width", 100)
    more = {"epochs_asked": 80, "epochs_done": 20, "lowest_charge": [0.5, 0.015]}
    service = {"exchange_s": 99.17, "in_view_rounds": [10, 20], "served_rounds": [9, 0]}
    print_onboard([{**summary("fedorbit", 299.0, 0, **more), "service": service}])
    shown = " ".join(capsys.readouterr().out.split())
    assert "fedorbit 299.0 s 1 0.0 % 25.0 % 1.5 %" in shown
    assert "Not every orbit" not in shown
    assert "One model up and one down take 99.2 s: 9 of 30 rounds in view" in shown


def test_a_run_tells_of_its_hardware_in_json(fedorbit) -> None:
    small = ["constellation.planes=2", "constellation.satellites_per_plane=2", "run.rounds=2",
             "data.synthetic.samples=60", "data.synthetic.size=16", "training.epochs=1",
             "schedule.rounds=60", "run.links=ideal"]  # fmt: skip
    hardware = ["onboard.samples_per_s=5", "link_rates.to_ground_mbps=1"]
    given = [part for change in (*small, *hardware) for part in ("-o", change)]
    [run] = json.loads(fedorbit("run", "-m", "fedorbit", *given, "--json").stdout)["runs"]
    assert run["onboard"]["round_s"] == 300.0
    assert len(run["onboard"]["longest_s"]) == 2
    assert run["service"]["exchange_s"] > 0
    given = [part for change in small for part in ("-o", change)]
    [run] = json.loads(fedorbit("run", "-m", "fedorbit", *given, "--json").stdout)["runs"]
    assert not {"onboard", "service"} & run.keys()


def test_orbits_show_what_rates_leave(fedorbit) -> None:
    # The paper's contacts; LeNet-5 for three channels and ten classes has 62,006 parameters.
    slow = ("quickstart", "-o", "link_rates.to_ground_mbps=0.02", "--contacts", "0")
    document = json.loads(fedorbit("orbits", *slow, "--json").stdout)
    service = document["service"]
    assert service["exchange_s"] == pytest.approx(8 * 4 * 62_006 / 0.02e6)
    assert service["in_view_rounds"] == document["visible_rounds"] == [61, 41, 34, 21, 56]
    served = service["served_rounds"]
    assert all(a <= b for a, b in zip(served, [61, 41, 34, 21, 56], strict=True))
    assert sum(served) < 213
    assert service["longest_gap_rounds"] >= document["longest_gap_rounds"] == 191
    shown = fedorbit("orbits", *slow).stdout
    words = " ".join(shown.split())
    assert f"{sum(served)} of 213 rounds in view last long enough" in words
    assert "served" in shown
    assert "served" not in fedorbit("orbits", "--contacts", "0").stdout
