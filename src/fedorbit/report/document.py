"""The numbers that the page's charts are drawn from, thinned to what a screen can show."""

import json
from collections.abc import Sequence
from importlib import resources
from typing import Any

import numpy as np

from fedorbit.report.confusions import confusion_values
from fedorbit.report.curves import (
    LINKS,
    TRAFFIC,
    against,
    begun,
    orbit_accuracies,
    per_round,
    visible_windows,
)
from fedorbit.report.noted import is_by_clock, noted_values
from fedorbit.report.onboard import onboard_values
from fedorbit.report.replicates import Comparison, Setting
from fedorbit.report.run_links import direct_windows, run_links
from fedorbit.report.statistics import Curve, Floats, evenly
from fedorbit.report.sweeps import FINAL_FIGURES, MOST_SWEEPS, Sweep, sweeps
from fedorbit.report.transfers import transfer_values
from fedorbit.results.estimates import estimate

MAX_POINTS = 240
"""Points of a curve: more than a chart of 700 pixels can tell apart."""
MAX_ORBIT_VALUES = 6000
MAX_WINDOWS = 20_000
LAND_STEP_DEG = 0.1


def page_document(comparison: Comparison) -> dict[str, Any]:
    """Return everything the page's script needs, as plain values."""
    labels = comparison.labels
    worlds: list[dict[str, Any]] = []
    settings = []
    for setting in comparison.settings:
        shown = {"label": setting.label, **chart_values(setting, labels)}
        world = setting.run.world
        if world is not None:
            kept = _map_values(world)
            if kept not in worlds:  # settings of a study often share a constellation
                worlds.append(kept)
            shown["world"] = worlds.index(kept)
            shown["places"] = world["places"]
            shown["classes"] = {
                "names": world["classes"],
                "counts": world["orbit_class_counts"],
                "similarity": world["similarity"],
                "beta": world["beta"],
            }
        settings.append(shown)
    return {
        "series": labels,
        "settings": settings,
        "worlds": worlds,
        "land": land_rings() if worlds else [],
    }


def chart_values(setting: Setting, labels: Sequence[str]) -> dict[str, Any]:
    """Return the curves and bars of a setting; series are named by their place in `labels`."""
    curves: dict[str, list[dict[str, Any]]] = {
        "accuracy": [], "spread": [], "samples": [], "orbits": [], "traffic": [],
        **{name: [] for name in LINKS},
    }  # fmt: skip
    for series in begun(setting):
        index = labels.index(series.label)
        for key in ("accuracy", "spread"):
            curves[key].append(_thin(index, per_round(series, key)))
        curves["samples"].append(_thin(index, against(series, "accuracy", ["samples_trained"])))
        for name, links in LINKS.items():
            curves[name].append(_thin(index, against(series, "accuracy", links)))
        curves["orbits"].append(_thin_orbits(index, *orbit_accuracies(series)))
        spent = [r.figures for r in series.replicates if r.records]
        traffic = {key: estimate([s.get(key) for s in spent]).mean for key in TRAFFIC}
        curves["traffic"].append({"series": index, **traffic})
    windows = visible_windows(setting)
    world = setting.run.world
    direct = direct_windows(world) if world is not None and setting.run.is_relayed else None
    onboard = onboard_values(setting, labels, _thin)
    noted = noted_values(setting, labels, _thin)
    confusion = confusion_values(setting, labels)
    transfers = transfer_values(setting, labels)
    found = sweeps(setting)
    return {
        "sweeps": [_sweep_values(sweep) for sweep in found[:MOST_SWEEPS]],
        "sweeps_left_out": len(found[MOST_SWEEPS:]),
        "rounds": max(r.run.rounds for s in setting.series for r in s.replicates),
        "round_h": setting.run.round_s / 3600.0,
        "by_clock": is_by_clock(setting),
        "visible": _thin_windows(windows),
        "seen_as": "reached" if setting.run.is_relayed else "in view",
        "in_view": windows and _rounds_in(windows),
        "direct": _thin_windows(direct),
        "in_direct": direct and _rounds_in(direct),
        **curves,
        **({"onboard": onboard} if onboard else {}),
        **({"noted": noted} if noted else {}),
        **({"confusion": confusion} if confusion else {}),
        **({"transfers": transfers} if transfers else {}),
    }


def land_rings() -> list[list[list[float]]]:
    """Coastlines, coarse enough for a page: rings of longitude and latitude in degrees."""
    text = (resources.files("fedorbit.report") / "land.json").read_text("utf-8")
    rings = []
    for ring in json.loads(text)["rings_longitude_latitude_deg"]:
        points = np.asarray(ring).round(1)
        moved = np.abs(np.diff(points, axis=0)).max(axis=1) > LAND_STEP_DEG
        kept = points[np.concatenate(([True], moved))]
        if len(kept) > 3:
            rings.append(kept.tolist())
    return rings


def _thin(index: int, full: Curve) -> dict[str, Any]:
    kept = evenly(len(full.x), MAX_POINTS)
    half = full.half[kept]
    return {
        "series": index,
        "x": _plain(full.x[kept], 2),
        "mean": _plain(full.mean[kept], 2),
        "half": _plain(half, 2) if np.isfinite(half).any() else None,
    }


def _sweep_values(sweep: Sweep) -> dict[str, Any]:
    lines = {key: sweep.curve(key) for key in FINAL_FIGURES}
    return {
        "name": sweep.name,
        "parameter": sweep.parameter,
        "values": sweep.values,
        "default": sweep.default_mean("accuracy"),
        **{
            key: {"mean": _plain(line.mean, 2), "half": _plain(line.half, 2)}
            for key, line in lines.items()
        },
    }


def _thin_orbits(index: int, rounds: Floats, accuracies: Floats) -> dict[str, Any]:
    points = int(np.clip(MAX_ORBIT_VALUES // len(accuracies), 40, MAX_POINTS))
    kept = evenly(len(rounds), points)
    rows = [_plain(row, 1) for row in accuracies[:, kept]]
    return {"series": index, "x": _plain(rounds[kept], 0), "rows": rows}


def _rounds_in(windows: list[list[list[int]]]) -> list[int]:
    return [sum(end - begin for begin, end in row) for row in windows]


def _thin_windows(windows: list[list[list[int]]] | None) -> list[list[list[int]]] | None:
    """Close the shortest gaps until so few windows are left that a page can draw them."""
    if windows is None:
        return None
    gap = 0
    while sum(map(len, windows)) > MAX_WINDOWS and max(map(len, windows)) > 1:
        gap = 2 * gap + 1
        windows = [_closed(row, gap) for row in windows]
    return windows


def _closed(row: list[list[int]], gap: int) -> list[list[int]]:
    closed: list[list[int]] = []
    for begin, end in row:
        if closed and begin - closed[-1][1] <= gap:
            closed[-1][1] = end
        else:
            closed.append([begin, end])
    return closed


def _map_values(world: dict[str, Any]) -> dict[str, Any]:
    keys = ("round_s", "rounds", "visible", "stations", "positions")
    links = run_links(world)
    drawn = links.on_map() if links is not None else None
    return {**{key: world[key] for key in keys}, **({"links": drawn} if drawn is not None else {})}


def _plain(values: Floats, digits: int) -> list[float | None]:
    """Rounded numbers for JSON: whole ones without a point, None for what is not known."""
    plain: list[float | None] = []
    for value in values:
        if not np.isfinite(value):
            plain.append(None)
            continue
        rounded = round(float(value), digits)
        plain.append(int(rounded) if rounded.is_integer() else rounded)
    return plain
