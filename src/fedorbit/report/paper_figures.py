"""Figures for papers: one column wide, legible without colour, the same bytes every time."""

import math
import re
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
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
    per_round,
    visible_windows,
)
from fedorbit.report.noted import highest, noted_curve, noting
from fedorbit.report.orbit_figures import land_rings
from fedorbit.report.replicates import Comparison, Setting
from fedorbit.report.statistics import Curve, evenly
from fedorbit.report.sweeps import FINAL_FIGURES, MOST_SWEEPS, sweeps
from fedorbit.results.estimates import estimate

COLUMN_IN = 3.4
FORMATS = ("pdf", "svg", "png")
DPI = 300
LEGEND_ROW_IN = 0.17
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")  # more than there are colours
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
HATCHES = ("", "////", "....", "xxxx", "----")
TICK_CHARACTERS, LINE_CHARACTERS = 24, 56
"""The longest label beside an axis, and the longest line in a column."""
MANY_ORBITS = 10
MANY_SERIES = 12
"""Most series with a panel each: more would take more than two pages."""
MANY_MATRICES = 4
"""Most matrices of classes in a figure; a page has more."""
TICKS = 6
"""Values below an axis that is half a column wide."""
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
def accuracy(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure:
    """Draw the mean accuracy over orbits per round, with bands over seeds."""
    return _over_rounds(setting, labels, "accuracy", "accuracy (%)", full_scale)


@style.paper
def spread(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure:
    """Draw best minus worst orbit per round."""
    return _over_rounds(setting, labels, "spread", "spread (points)", full_scale)


@style.paper
def accuracy_hours(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure:
    """Draw accuracy against simulated time."""
    return _over_cost(setting, labels, ["hours"], 1.0, "time (h)", full_scale)


@style.paper
def accuracy_samples(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure:
    """Draw accuracy against samples trained."""
    cost = ["samples_trained"]
    return _over_cost(setting, labels, cost, 1e6, "samples trained (millions)", full_scale)


@style.paper
def accuracy_bytes(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure:
    """Draw accuracy against bytes over ground-station links."""
    cost = ["to_ground_bytes", "from_ground_bytes"]
    return _over_cost(setting, labels, cost, 1e6, "ground-station traffic (MB)", full_scale)


@style.paper
def staleness(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw how far updates are behind as they are aggregated, where methods noted it."""
    return _noted(setting, labels, "staleness", "staleness (versions)")


@style.paper
def aggregations(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw the number of aggregations so far, where methods noted it."""
    return _noted(setting, labels, "version", "aggregations")


@style.paper
def idle_visits(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw the number of contacts without an exchange so far, where methods noted it."""
    return _noted(setting, labels, "idle_visit", "idle visits")


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
                _line(axes, orbit, f"orbit {orbit}", Curve(rounds, row, np.full(len(row), np.nan)))
            axes.set_ylabel("accuracy (%)")
            style.percent_axis(axes, full_scale)
        else:
            image = axes.imshow(
                rows, aspect="auto", cmap="cividis", vmin=0, vmax=100, interpolation="nearest",
                extent=(rounds[0] - 0.5, rounds[-1] + 0.5, len(rows) - 0.5, -0.5),
            )  # fmt: skip
            figure.colorbar(image, ax=axes, label="accuracy (%)")
            axes.set_ylabel("orbit")
        axes.set_title(_in_lines(series.label), loc="left")
    panels[-1].set_xlabel("round")
    if len(rows) <= MANY_ORBITS:
        _legend_below(figure, panels[0])
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
    _plain_frame(axes)
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
def parameters(setting: Setting, labels: list[str], full_scale: bool = False) -> Figure | None:
    """Draw final accuracy and spread over the values of every parameter that was varied."""
    found = sweeps(setting)[:MOST_SWEEPS]
    if not found:
        return None
    rows = math.ceil(len(found) / 2)
    figure = style.new_figure(COLUMN_IN, 0.45 + 1.25 * rows)
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False).ravel()
    for axes, sweep in zip(panels, found, strict=False):
        for number, (key, name) in enumerate(FINAL_FIGURES.items()):
            line = sweep.curve(key)
            colour, known = style.colour(number), np.isfinite(line.half)
            axes.plot(
                line.x, line.mean, color=colour, linestyle=LINES[number], linewidth=1.0,
                marker=MARKERS[number], markersize=3, label=name,
            )  # fmt: skip
            axes.errorbar(
                line.x[known], line.mean[known], line.half[known], fmt="none", ecolor=colour,
                elinewidth=0.6, capsize=1.5,
            )  # fmt: skip
        default = sweep.default_mean("accuracy")
        if default is not None:
            ends, name = (0, len(sweep.values) - 1), "accuracy with the default (%)"
            axes.plot(ends, (default, default), "k:", linewidth=0.8, label=name)
        axes.set_xlabel(textwrap.fill(sweep.name, TICK_CHARACTERS))
        shown = evenly(len(sweep.values), TICKS)
        axes.set_xticks(shown, [f"{sweep.values[i]:.4g}" for i in shown])
        _plain_frame(axes)
    style.percent_axis(panels[0], full_scale)  # all share it
    for axes in panels[len(found) :]:
        axes.set_axis_off()
    most_lines = max(panels[: len(found)], key=lambda axes: len(axes.get_lines()))
    _legend_below(figure, most_lines)
    return figure


@style.paper
def traffic(setting: Setting, labels: list[str]) -> Figure:
    """Draw the bytes that each series moved, by kind of link."""
    shown = begun(setting)
    figure = style.new_figure(COLUMN_IN, 0.3 + len(TRAFFIC) * (0.35 + 0.16 * len(shown)))
    panels = figure.subplots(len(TRAFFIC), 1)
    are_long = max(len(series.label) for series in shown) > TICK_CHARACTERS
    for axes, (key, name) in zip(panels, TRAFFIC.items(), strict=True):
        for place, series in enumerate(shown):
            spent = [r.figures.get(key) for r in series.replicates if r.records]
            number = labels.index(series.label)
            axes.barh(
                place, (estimate(spent).mean or 0.0) / 1e6, 0.8, color=style.colour(number),
                hatch=HATCHES[number % len(HATCHES)], edgecolor="white", linewidth=0.4,
                label=series.label,
            )  # fmt: skip
        axes.set_yticks(range(len(shown)), ["" if are_long else s.label for s in shown])
        axes.invert_yaxis()
        axes.set_title(f"{name} (MB)", loc="left")
        _plain_frame(axes)
    if are_long:
        _legend_below(figure, panels[0])
    return figure


@style.paper
def confusion(setting: Setting, labels: list[str]) -> Figure | None:
    """Draw the last confusion matrix of every series, all orbits and seeds together."""
    found = total_matrices(setting)
    if not found or len(found) > MANY_MATRICES:
        return None
    return confusion_figure(found, class_names(setting, len(next(iter(found.values())))))


FIGURES: dict[str, Callable[..., Figure | None]] = {
    "parameters": parameters,
    "accuracy": accuracy,
    "spread": spread,
    "accuracy-hours": accuracy_hours,
    "accuracy-samples": accuracy_samples,
    "accuracy-bytes": accuracy_bytes,
    "staleness": staleness,
    "aggregations": aggregations,
    "idle-visits": idle_visits,
    "orbits": orbits,
    "confusion": confusion,
    "contacts": contacts,
    "map": ground_map,
    "classes": classes,
    "similarity": similarity,
    "traffic": traffic,
}
OF_PERCENT = {
    "parameters", "accuracy", "spread", "accuracy-hours", "accuracy-samples", "accuracy-bytes",
    "orbits",
}  # fmt: skip
"""Figures with an axis of percentages, which `full_scale` changes."""


def _over_rounds(
    setting: Setting, labels: list[str], key: str, name: str, full_scale: bool
) -> Figure:
    figure = style.new_figure(COLUMN_IN, 2.3)
    axes = figure.subplots()
    windows = visible_windows(setting) or []
    for begin, end in sorted({(begin, end) for row in windows for begin, end in row}):
        axes.axvspan(begin - 0.5, end - 0.5, color=style.GRID, alpha=0.25, linewidth=0)
    for series in begun(setting):
        _line(axes, labels.index(series.label), series.label, per_round(series, key))
    axes.set(xlabel="round", ylabel=name, xlim=(0, setting.run.rounds))
    style.percent_axis(axes, full_scale)
    _plain_frame(axes)
    _legend_below(figure, axes)
    return figure


def _over_cost(
    setting: Setting,
    labels: list[str],
    cost: list[str],
    unit: float,
    name: str,
    full_scale: bool,
) -> Figure:
    figure = style.new_figure(COLUMN_IN, 2.3)
    axes = figure.subplots()
    for series in begun(setting):
        full = against(series, "accuracy", cost)
        scaled = Curve(full.x / unit, full.mean, full.half)
        _line(axes, labels.index(series.label), series.label, scaled)
    axes.set(xlabel=name, ylabel="accuracy (%)")
    axes.set_xlim(left=0)
    style.percent_axis(axes, full_scale)
    _plain_frame(axes)
    _legend_below(figure, axes)
    return figure


def _noted(setting: Setting, labels: list[str], name: str, axis: str) -> Figure | None:
    curves = {
        s.label: in_hours(noted_curve(s, name), setting.run.round_s) for s in noting(setting, name)
    }
    if not curves:
        return None
    figure = style.new_figure(COLUMN_IN, 2.3)
    axes = figure.subplots()
    top = highest(list(curves.values()))
    for label, one in curves.items():
        _line(axes, labels.index(label), label, one, top)
    axes.set(xlabel="time (h)", ylabel=axis, ylim=(0, top))
    axes.set_xlim(left=0)
    _plain_frame(axes)
    _legend_below(figure, axes)
    return figure


def _line(axes: Axes, number: int, label: str, curve: Curve, top: float = 100.0) -> None:
    every = max(1, len(curve.x) // 8)
    axes.plot(
        curve.x, curve.mean, color=style.colour(number), linestyle=LINES[number % len(LINES)],
        marker=MARKERS[number % len(MARKERS)], markevery=(number % every, every), markersize=3,
        linewidth=1.0, label=label,
    )  # fmt: skip
    known = np.isfinite(curve.half)
    if known.any():
        low = np.clip(curve.mean - curve.half, 0, top)
        high = np.clip(curve.mean + curve.half, 0, top)
        colour = style.colour(number)
        axes.fill_between(curve.x, low, high, where=known, color=colour, alpha=0.18, linewidth=0)


def _plain_frame(axes: Axes) -> None:
    axes.grid(color=style.GRID, linewidth=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def _legend_below(figure: Figure, axes: Axes) -> None:
    """Put the legend below, and make the figure higher by what it takes of more than two rows."""
    handles, labels = axes.get_legend_handles_labels()
    names = [_in_lines(label) for label in labels]
    longest = max(map(len, names))
    columns = 3 if longest <= 12 else 2 if longest <= TICK_CHARACTERS else 1
    rows = math.ceil(len(names) / columns) + sum(name.count("\n") for name in names)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW_IN * max(rows - 2, 0))
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)


def _in_lines(label: str) -> str:
    return textwrap.fill(label, LINE_CHARACTERS)
