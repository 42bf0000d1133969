"""`fedorbit config` as a user runs it."""

import json
import re
from pathlib import Path

import pytest

from fedorbit.config import load_config, networks
from tests.orbits.element_files import made_satellite, tle_text


def test_config_show_prints_a_file_that_can_be_loaded(fedorbit, tmp_path: Path) -> None:
    printed = fedorbit("config", "show", "paper", "-o", "seed=7").stdout
    (tmp_path / "mine.toml").write_text(printed)
    shown = json.loads(fedorbit("config", "show", "mine.toml", "--json").stdout)
    assert shown["seed"] == 7
    assert shown["constellation"]["altitude_km"] == 550.0
    assert fedorbit("config", "show", "mine.toml").stdout == printed


def test_a_shown_configuration_finds_its_element_sets_from_any_folder(fedorbit, tmp_path) -> None:
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "fleet.tle").write_text(tle_text([("A", made_satellite(1, 0.0))]))
    (sets / "fleet.toml").write_text("[constellation]\nkind = 'elements'\nfile = 'fleet.tle'")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.toml").write_text(
        fedorbit("config", "show", "sets/fleet.toml").stdout
    )
    document = json.loads(fedorbit("orbits", "elsewhere/mine.toml", "--json").stdout)
    assert document["satellites"] == 1
    shown = json.loads(fedorbit("config", "show", "sets/fleet.toml", "--json").stdout)
    assert shown["constellation"]["file"] == str((sets / "fleet.tle").resolve())
    bundled = fedorbit("config", "show", "iridium-next-tle").stdout
    assert 'file = "bundled:iridium-next-2021-01-30"' in bundled


def test_config_list(fedorbit) -> None:
    assert set(json.loads(fedorbit("config", "list", "--json").stdout)["presets"]) >= {
        "paper",
        "quickstart",
        "starlink-shell1",
        "oneweb",
        "iridium-next",
        "iridium-next-tle",
        "planet-flock",
        "kepler-leo-fl",
        "paper-ring",
        "paper-hap",
        "paper-two-haps",
        "walker-star",
    }


def test_networks_are_listed(fedorbit) -> None:
    text = fedorbit("config", "networks").stdout
    assert re.search(r"ksat +36 +Prudhoe Bay", text)
    document = json.loads(fedorbit("config", "networks", "--json").stdout)
    assert document["networks"]["nasa-dsn"][0] == {
        "name": "NASA DSN Goldstone",
        "latitude_deg": 35.426667,
        "longitude_deg": -116.89,
    }


def test_a_network_on_the_command_line(fedorbit) -> None:
    text = fedorbit("orbits", "-o", "stations=nasa-dsn", "-o", "schedule.rounds=12").stdout
    assert "3 ground stations" in text
    assert "NASA DSN Canberra" in text


def test_a_run_goes_on_with_the_stations_it_began_with(
    fedorbit, own_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = [
        "constellation.planes=2", "constellation.satellites_per_plane=2", "training.epochs=1",
        "data.synthetic.samples=80", "data.synthetic.size=16", "run.rounds=2",
    ]  # fmt: skip
    options = [part for override in small for part in ("-o", override)]
    fedorbit("run", "quickstart", *options, "-o", "stations=nasa-dsn", "-m", "fedavg", "--out", "a")
    began = json.loads((tmp_path / "a" / "world.json").read_text())
    assert [s["name"] for s in began["stations"]] == [
        "NASA DSN Goldstone", "NASA DSN Canberra", "NASA DSN Madrid",
    ]  # fmt: skip
    # A later version has another list.
    moved = {"operator": "X", "name": "Y", "latitude_deg": "1", "longitude_deg": "2"}
    monkeypatch.setattr(networks, "_rows", lambda: {"nasa-dsn": [moved]})
    fedorbit("run", "--resume", "a")
    assert load_config(tmp_path / "a" / "config.toml").stations[0].name == "NASA DSN Goldstone"
    assert json.loads((tmp_path / "a" / "world.json").read_text()) == began
