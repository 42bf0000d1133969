"""Figures for papers: one column wide, legible without colour, the same bytes every time.

Bands and bars of errors are one standard deviation over seeds, as in tables.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from fedorbit.progress import Progress, SilentProgress
from fedorbit.report import style
from fedorbit.report.confusion_figure import confusion_figure
from fedorbit.report.confusions import class_names, total_matrices
from fedorbit.report.curves import (
    TRAFFIC,
    against,
    begun,
    in_hours,
    orbit_accuracies,
    visible_windows,
)
from fedorbit.report.final_figures import final, parameters
from fedorbit.report.noted import highest, noted_curve, noting
from fedorbit.report.orbit_figures import land_rings
from fedorbit.report.paper_panels import (
    COLUMN_IN,
    MARKERS,
    TICK_CHARACTERS,
    in_lines,
    legend_below,
    line,
    plain_frame,
    printed,
    with_deviations,
)
from fedorbit.report.replicates import Comparison, Setting
from fedorbit.report.statistics import Curve
from fedorbit.report.sweeps import FINAL_FIGURES
from fedorbit.results.estimates import estimate

FORMATS = ("pdf", "svg", "png")
DPI = 300
HATCHES = ("", "////", "....", "xxxx", "----")
MANY_ORBITS = 10
MANY_SERIES = 12
"""Most series with a panel each: more would take more than two pages."""
MANY_MATRICES = 4
"""Most matrices of classes in a figure; a page has more."""
MAX_CELL_TEXTS = 64


def write_figures(
    folder: Path,
    comparison: Comparison,
    progress: Progress | None = None,
    *,
    full_scale: bool = False,
) -> list[Path]:
    """Write every figure of every setting in all formats; return the files.

    Axes of percentages show what the curves take, or with `full_scale` 0 to 100.
    """
    progress = progress or SilentProgress()
    progress.start("drawing figures", len(comparison.settings) * len(FIGURES), "figures")
    written = []
    try:
        for setting in filter(begun, comparison.settings):
            slug = re.sub(r"[^a-z0-9.]+", "-", setting.label.lower()).strip("-.")
            for name, draw in FIGURES.items():
                axes = {"full_scale": full_scale} if name in OF_PERCENT else {}
                figure = draw(setting, comparison.labels, **axes)
                if figure is not None:
                    full_name = f"{name}-{slug}" if slug else name
                    written += style.save(figure, folder, full_name, FORMATS, DPI)
                progress.advance(1)
    finally:
        progress.finish()
    return written


@style.paper
def orbits(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure | None:
    """Draw accuracy per orbit of every series: lines for few orbits, a raster for many."""
    shown = begun(setting)
    if len(shown) > MANY_SERIES:
        return None
    figure = style.new_figure(COLUMN_IN, 0.35 + 1.25 * len(shown))
    panels = figure.subplots(len(shown), 1, sharex=True, squeeze=False)[:, 0]
    for axes, series in zip(panels, shown, strict=True):
        rounds, rows = orbit_accuracies(series)
        if len(rows) <= MANY_ORBITS:
            for orbit, row in enumerate(rows):
                none = np.full(len(row), np.nan)
                line(axes, orbit, f"orbit {orbit}", Curve(rounds, row, none, none))
            axes.set_ylabel("accuracy (%)")
            style.percent_axis(axes, full_scale)
        else:
            image = axes.imshow(
                rows, aspect="auto", cmap="cividis", vmin=0, vmax=100, interpolation="nearest",
                extent=(rounds[0] - 0.5, rounds[-1] + 0.5, len(rows) - 0.5, -0.5),
            )  # fmt: skip
            figure.colorbar(image, ax=axes, label="accuracy (%)")
            axes.set_ylabel("orbit")
        axes.set_title(in_lines(printed(series.label)), loc="left")
    panels[-1].set_xlabel("round")
    if len(rows) <= MANY_ORBITS:
        legend_below(figure, panels[0])
    return figure


@style.paper
def contacts(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw the rounds in which each orbit is in view."""
    windows = visible_windows(setting)
    if windows is None:
        return None
    figure = style.new_figure(COLUMN_IN, float(np.clip(0.6 + 0.16 * len(windows), 1.2, 4.5)))
    axes = figure.subplots()
    for orbit, row in enumerate(windows):
        spans = [(begin - 0.5, end - begin) for begin, end in row]
        axes.broken_barh(spans, (orbit - 0.4, 0.8), facecolors=style.colour(orbit))
    axes.set(xlim=(-0.5, setting.run.rounds - 0.5), ylim=(len(windows) - 0.5, -0.5))
    axes.set(xlabel="round", ylabel="orbit")
    if len(windows) <= 12:
        axes.set_yticks(range(len(windows)))
    plain_frame(axes)
    return figure


@style.paper
def ground_map(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw the satellites at the first round, the stations, and where the data lies."""
    world = setting.run.world
    if world is None:
        return None
    figure = style.new_figure(COLUMN_IN, 1.9)
    axes = figure.subplots()
    axes.set_facecolor(style.SEA)
    axes.add_collection(PolyCollection(land_rings(), facecolor=style.LAND, edgecolor="none"))
    if world["places"]:
        row, column, orbit, count = np.array(world["places"]["rows"]).T
        size_deg = world["places"]["bin_deg"]
        colours = [style.colour(int(o)) for o in orbit]
        at = (column + 0.5) * size_deg, (row + 0.5) * size_deg
        axes.scatter(*at, s=0.4 + 4.0 * count / count.max(), c=colours, linewidths=0, alpha=0.6)
    positions = world["positions"]
    away = positions.get("away", [[]])[0]
    for s, orbit_number in enumerate(positions["orbit_of_satellite"]):
        if s in away:
            continue
        axes.plot(
            positions["longitude_deg"][0][s], positions["latitude_deg"][0][s],
            MARKERS[orbit_number % len(MARKERS)], color=style.colour(orbit_number), markersize=3,
        )  # fmt: skip
    for station in world["stations"]:
        at_deg = station["longitude_deg"], station["latitude_deg"]
        axes.plot(*at_deg, "*", color="black", markersize=6)
        if len(world["stations"]) <= 8:
            axes.annotate(station["name"], at_deg, textcoords="offset points", xytext=(4, 3))
    axes.set(xlim=(-180, 180), ylim=(-90, 90), xlabel="longitude (deg)", ylabel="latitude (deg)")
    axes.set_xticks(range(-180, 181, 60))
    axes.set_yticks(range(-90, 91, 30))
    return figure


@style.paper
def classes(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw training samples per class and orbit."""
    world = setting.run.world
    if world is None:
        return None
    counts = np.array(world["orbit_class_counts"]).T
    figure = style.new_figure(COLUMN_IN, float(np.clip(0.7 + 0.15 * len(counts), 1.5, 6.0)))
    axes = figure.subplots()
    image = axes.imshow(counts, aspect="auto", cmap="cividis", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="training samples")
    if len(counts) <= 45:
        axes.set_yticks(range(len(counts)), world["classes"])
    axes.set_xlabel("orbit")
    if counts.shape[1] <= 12:
        axes.set_xticks(range(counts.shape[1]))
    return figure


@style.paper
def similarity(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw how alike the orbits' classes are."""
    world = setting.run.world
    if world is None or world["similarity"] is None:
        return None
    matrix = np.array(world["similarity"])
    figure = style.new_figure(COLUMN_IN, 2.6)
    axes = figure.subplots()
    image = axes.imshow(matrix, vmin=0, vmax=1, cmap="cividis", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="class similarity")
    if matrix.size <= MAX_CELL_TEXTS:
        for (row, column), value in np.ndenumerate(matrix):
            ink = "black" if value > 0.5 else "white"
            axes.text(column, row, f"{value:.3f}", ha="center", va="center", color=ink, fontsize=6)
        axes.set_xticks(range(len(matrix)))
        axes.set_yticks(range(len(matrix)))
    axes.set(xlabel="orbit", ylabel="orbit", title=f"β = {world['beta']:.3f}")
    return figure


@style.paper
def traffic(setting: Setting, labels: list[str]) -> Figure:
    """Draw the bytes that each series moved, by kind of link."""
    shown = begun(setting)
    figure = style.new_figure(COLUMN_IN, 0.3 + len(TRAFFIC) * (0.35 + 0.16 * len(shown)))
    panels = figure.subplots(len(TRAFFIC), 1)
    names = [printed(series.label) for series in shown]
    are_long = max(map(len, names)) > TICK_CHARACTERS
    for axes, (key, name) in zip(panels, TRAFFIC.items(), strict=True):
        for place, series in enumerate(shown):
            spent = [r.figures.get(key) for r in series.replicates if r.records]
            number = labels.index(series.label)
            axes.barh(
                place, (estimate(spent).mean or 0.0) / 1e6, 0.8, color=style.colour(number),
                hatch=HATCHES[number % len(HATCHES)], edgecolor="white", linewidth=0.4,
                label=series.label,
            )  # fmt: skip
        axes.set_yticks(range(len(shown)), [""] * len(shown) if are_long else names)
        axes.invert_yaxis()
        axes.set_xlim(left=0)
        axes.set_title(f"{name} (MB)", loc="left")
        plain_frame(axes)
    if are_long:
        legend_below(figure, panels[0])
    return figure


@style.paper
def confusion(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw the last confusion matrix of every series, all orbits and seeds together."""
    found = total_matrices(setting)
    if not found or len(found) > MANY_MATRICES:
        return None
    return confusion_figure(found, class_names(setting, len(next(iter(found.values())))))


X_AXES: dict[str, tuple[list[str], float]] = {
    "round": (["round"], 1.0),
    "simulated time (h)": (["hours"], 1.0),
    "samples trained (millions)": (["samples_trained"], 1e6),
    "ground-station traffic (MB)": (["to_ground_bytes", "from_ground_bytes"], 1e6),
}
"""Figures of a record whose sum is an axis of curves, and its unit."""


@style.paper
def curves(
    setting: Setting,
    labels: list[str],
    full_scale: bool = False,
    width_in: float = COLUMN_IN,
    *,
    x: str,
    key: str = "accuracy",
) -> Figure:
    """Draw accuracy or spread over rounds, time or cost, with deviations over seeds."""
    figure = style.new_figure(width_in, 0.5 + 0.5 * width_in)
    axes = figure.subplots()
    cost, unit = X_AXES[x]
    for series in begun(setting):
        full = with_deviations(against(series, key, cost))
        line(axes, labels.index(series.label), series.label, replace(full, x=full.x / unit))
    axes.set(xlabel=x, ylabel=FINAL_FIGURES[key])
    axes.margins(x=0.01)
    axes.set_xlim(left=0)
    style.percent_axis(axes, full_scale)
    plain_frame(axes)
    legend_below(figure, axes)
    return figure


@style.paper
def noted(setting: Setting, labels: list[str], *, name: str, y: str) -> Figure | None:
    """Draw what methods noted about their aggregations, where any did."""
    round_s = setting.run.round_s
    found = {
        s.label: in_hours(with_deviations(noted_curve(s, name)), round_s)
        for s in noting(setting, name)
    }
    if not found:
        return None
    figure = style.new_figure(COLUMN_IN, 2.3)
    axes = figure.subplots()
    top = highest(list(found.values()))
    for label, one in found.items():
        line(axes, labels.index(label), label, one, top)
    axes.set(xlabel="simulated time (h)", ylabel=y, ylim=(0, top))
    axes.set_xlim(left=0)
    plain_frame(axes)
    legend_below(figure, axes)
    return figure


FIGURES: dict[str, Callable[..., Figure | None]] = {
    "final": final,
    "parameters": parameters,
    "accuracy": partial(curves, x="round"),
    "spread": partial(curves, x="round", key="spread"),
    "accuracy-hours": partial(curves, x="simulated time (h)"),
    "accuracy-samples": partial(curves, x="samples trained (millions)"),
    "accuracy-bytes": partial(curves, x="ground-station traffic (MB)"),
    "staleness": partial(noted, name="staleness", y="staleness (versions)"),
    "aggregations": partial(noted, name="version", y="aggregations"),
    "idle-visits": partial(noted, name="idle_visit", y="idle visits"),
    "orbits": orbits,
    "confusion": confusion,
    "contacts": contacts,
    "map": ground_map,
    "classes": classes,
    "similarity": similarity,
    "traffic": traffic,
}
OF_PERCENT = {
    "final", "parameters", "accuracy", "spread", "accuracy-hours", "accuracy-samples",
    "accuracy-bytes", "orbits",
}  # fmt: skip
"""Figures with an axis of percentages, which `full_scale` changes."""
