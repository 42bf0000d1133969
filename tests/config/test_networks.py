"""Ground-station networks by name, in files and overrides."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fedorbit.config import load_config
from fedorbit.config import networks as bundled
from fedorbit.config.files import dumps
from fedorbit.config.networks import networks, stations_of
from fedorbit.errors import ConfigError

SOURCE = {"nasa-dsn": "dsn", "nasa-nen": "nen"}
"""Names of the source's files where they differ from those of networks."""


def refusal(*overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        load_config("paper", overrides)
    return str(error.value).removeprefix("preset paper: ")


def test_a_name_stands_for_all_stations_of_a_network() -> None:
    stations = load_config("paper", ["stations=ksat"]).stations
    assert len(stations) == len(networks()["ksat"]) == 36
    [svalbard] = [s for s in stations if s.name == "KSAT Svalbard"]
    assert (svalbard.latitude_deg, svalbard.longitude_deg) == (78.23, 15.41)
    assert (svalbard.min_elevation_deg, svalbard.altitude_km, svalbard.role) == (
        10.0,
        0.0,
        "ground",
    )


@pytest.mark.parametrize("name", list(networks()))
def test_every_network_is_a_valid_list_of_stations(name: str) -> None:
    stations = load_config("paper", [f"stations={name}"]).stations
    assert len({s.name for s in stations}) == len(stations)


def test_there_are_as_many_as_the_readme_says() -> None:
    readme = Path(bundled.__file__).parents[1] / "presets" / "stations" / "README.md"
    total = sum(len(places) for places in networks().values())
    assert f"{total} real ground stations" in readme.read_text()


@pytest.mark.parametrize("name", list(networks()))
def test_coordinates_are_those_of_the_source(name: str, real_file: Callable[[str], Path]) -> None:
    source = json.loads(real_file(f"stations/{SOURCE.get(name, name)}.json").read_text())
    expected = [
        (f["properties"]["name"], *f["geometry"]["coordinates"]) for f in source["features"]
    ]
    found = zip(networks()[name], stations_of(name), strict=True)
    assert [(n, s["longitude_deg"], s["latitude_deg"]) for n, s in found] == expected


def test_a_list_mixes_networks_and_tables(tmp_path: Path) -> None:
    file = tmp_path / "my.toml"
    file.write_text(
        'stations = ["nasa-dsn", {name = "Bremen", latitude_deg = 53.1, longitude_deg = 8.8},\n'
        '            {network = "aws", min_elevation_deg = 5}]\n'
    )
    stations = load_config(file).stations
    assert [s.name for s in stations][:5] == [
        "NASA DSN Goldstone", "NASA DSN Canberra", "NASA DSN Madrid", "Bremen", "AWS Alaska",
    ]  # fmt: skip
    assert {s.min_elevation_deg for s in stations[:4]} == {10.0}
    assert {s.min_elevation_deg for s in stations[4:]} == {5.0}


def test_a_table_with_a_network_may_stand_alone() -> None:
    stations = load_config("paper", ['stations={network="nasa-dsn", min_elevation_deg=6}']).stations
    assert [s.min_elevation_deg for s in stations] == [6.0] * 3


def test_an_override_of_one_station_counts_over_the_network() -> None:
    overrides = ["stations.2.min_elevation_deg=3", "stations=nasa-dsn"]
    for order in (overrides, overrides[::-1]):
        stations = load_config("paper", order).stations
        assert [s.min_elevation_deg for s in stations] == [10.0, 10.0, 3.0]


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("stations=ksta", "stations: no network of ground stations is called 'ksta' (did you mean 'ksat'?); there are atlas, aws, ksat, leaf, nasa-dsn, nasa-nen, ssc, viasat"),
        ("stations=[{network=3}]", "stations: no network of ground stations is called 3; there are atlas"),
        ('stations=["ksat", {latitude_deg=1}]', "stations.1.longitude_deg is missing"),
        ('stations=["ksat", {latitude_deg=91, longitude_deg=1}]', "stations.1.latitude_deg must be at least -90 and at most 90, got 91"),
        ('stations={network="aws", min_elevation_deg=95}', "stations: min_elevation_deg of network 'aws' must be a number at least 0 and below 90, got 95"),
        ('stations={network="aws", min_elevation_deg="a"}', "below 90, got 'a'"),
        ('stations={network="aws", min_elevation_deg=nan}', "below 90, got nan"),
        ('stations={network="aws", name="x"}', "stations: network 'aws' has no key 'name'; a network takes network and min_elevation_deg"),
        ("stations=[7]", "stations.0 must be a table, got 7"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_sentence(override: str, message: str) -> None:
    assert message in refusal(override)
    assert "\n" not in refusal(override)


def test_a_wrong_name_is_named_beside_an_override_of_a_station() -> None:
    assert "is called 'ksta'" in refusal("stations=ksta", "stations.0.min_elevation_deg=3")


def test_there_is_a_limit() -> None:
    names = ", ".join(['"ksat"'] * 300)
    assert "at most 10000 stations, got 10800" in refusal(f"stations=[{names}]")


def test_a_stored_configuration_does_not_change_with_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = load_config("paper", ['stations=["nasa-dsn", "aws"]'])
    stored = tmp_path / "config.toml"
    stored.write_text(dumps(config))
    assert "network =" not in stored.read_text()
    moved = {
        "nasa-dsn": [{"operator": "X", "name": "Y", "latitude_deg": "1", "longitude_deg": "2"}]
    }
    monkeypatch.setattr(bundled, "_rows", lambda: moved)
    assert load_config(stored) == config
    assert [s.name for s in load_config("paper", ["stations=nasa-dsn"]).stations] == ["X Y"]
