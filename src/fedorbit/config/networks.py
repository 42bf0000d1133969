"""Ground-station networks by name: `stations = "ksat"`, or a list of networks and tables.

A network stands for its stations as they are in the package. A configuration holds these, not the
name, so that what a run has stored does not change with the package.
"""

import csv
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from fedorbit.config.explain import nearest

KEYS = ("network", "min_elevation_deg")


@cache
def _rows() -> dict[str, list[dict[str, str]]]:
    """Rows of the file in the package, by network."""
    file = resources.files("fedorbit") / "presets" / "stations" / "networks.csv"
    found: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(file.read_text("utf-8").splitlines()):
        found.setdefault(row["network"], []).append(row)
    return found


def networks() -> dict[str, list[str]]:
    """Names of the networks in the package, and of the places where each has a station."""
    return {network: [row["name"] for row in rows] for network, rows in _rows().items()}


def entries_of(stations: Any) -> Any:
    """Return the entries of a list of stations; one network may stand without a list."""
    return [stations] if isinstance(stations, str | Mapping) else stations


def is_network(entry: Any) -> bool:
    """Return whether an entry is a network: its name, or a table that has it."""
    return isinstance(entry, str) or (isinstance(entry, Mapping) and "network" in entry)


def stations_of(entry: str | Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return tables of the stations of a network; one that is not right is a `ValueError`."""
    table: dict[str, Any] = {"network": entry} if isinstance(entry, str) else dict(entry)
    name = table.pop("network")
    if not isinstance(name, str) or name not in networks():
        hint = nearest(name, networks()) if isinstance(name, str) else ""
        raise ValueError(
            f"no network of ground stations is called {name!r}{hint}; there are "
            f"{', '.join(networks())}"
        )
    if unknown := sorted(set(table) - set(KEYS)):
        raise ValueError(
            f"network {name!r} has no key {unknown[0]!r}; a network takes {' and '.join(KEYS)}"
        )
    mask_deg = table.get("min_elevation_deg", 0.0)
    if type(mask_deg) not in (int, float) or not 0.0 <= mask_deg < 90.0:
        raise ValueError(
            f"min_elevation_deg of network {name!r} must be a number at least 0 and below 90, "
            f"got {mask_deg!r}"
        )
    return [
        {
            # Operators share places: the name of a station is that of both.
            "name": f"{row['operator']} {row['name']}",
            "latitude_deg": float(row["latitude_deg"]),
            "longitude_deg": float(row["longitude_deg"]),
            **table,
        }
        for row in _rows()[name]
    ]


def expanded(stations: Any) -> Any:
    """Return stations with tables for networks; what is wrong stays, and validation refuses it."""
    entries = entries_of(stations)
    if not isinstance(entries, list):
        return stations
    tables: list[Any] = []
    for entry in entries:
        try:
            tables += stations_of(entry) if is_network(entry) else [entry]
        except ValueError:
            return stations
    return tables
