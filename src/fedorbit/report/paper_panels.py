"""Parts of figures for papers: names, lines with deviations over seeds, frames and legends."""

import math
import re
import textwrap
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedorbit.methods import METHODS
from fedorbit.report import style
from fedorbit.report.statistics import Curve

COLUMN_IN = 3.4
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "p", "h")  # more than there are colours
LINES = ("-", "--", "-.", ":")
"""For the first seven series, for those whose colour is the second of its kind, and so on."""
TICK_CHARACTERS, LINE_CHARACTERS = 24, 56
"""The longest label beside an axis, and the longest line in a column."""
LEGEND_ROW_IN, HANDLE_IN, CHARACTER_IN = 0.17, 0.35, 0.055


def printed(label: str) -> str:
    """Name a series as papers do: `FedAvg, effort always` for `fedavg (effort always)`."""
    method = re.match(r"\w+", label)
    if method is None or method[0] not in METHODS:
        return label
    name = METHODS[method[0]].label or METHODS[method[0]].__name__
    rest = label.removeprefix(method[0])
    if values := re.fullmatch(r" \((.*)\)", rest):
        rest = f", {values[1]}".replace("training.", "").replace("_", " ")
    return name + rest


def with_deviations(curve: Curve) -> Curve:
    """Return a curve whose bands are one standard deviation over seeds."""
    return replace(curve, half=curve.deviation)


def line(axes: Axes, number: int, label: str, curve: Curve, top: float = 100.0) -> None:
    """Draw a curve with its band; `number` decides colour, line and marker."""
    colour, every = style.colour(number), max(1, len(curve.x) // 8)
    linestyle = LINES[number // len(style.PALETTE) % len(LINES)]
    axes.plot(
        curve.x, curve.mean, color=colour, linestyle=linestyle, linewidth=1.0, label=label,
        marker=MARKERS[number % len(MARKERS)], markevery=(number % every, every), markersize=3,
    )  # fmt: skip
    known = np.isfinite(curve.half)
    if known.any():
        low = np.clip(curve.mean - curve.half, 0, top)
        high = np.clip(curve.mean + curve.half, 0, top)
        axes.fill_between(curve.x, low, high, where=known, color=colour, alpha=0.15, linewidth=0)


def plain_frame(axes: Axes) -> None:
    """Draw a light grid, and axes without the frame above and on the right."""
    axes.grid(color=style.GRID, linewidth=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)


def legend_below(figure: Figure, axes: Axes) -> None:
    """Put the legend below, and make the figure higher by what it takes of more than two rows."""
    handles, labels = axes.get_legend_handles_labels()
    names = [in_lines(printed(label)) for label in labels]
    longest = max(len(row) for name in names for row in name.split("\n"))
    fitting = max(int(figure.get_figwidth() / (HANDLE_IN + CHARACTER_IN * longest)), 1)
    rows = math.ceil(len(names) / fitting)
    columns = math.ceil(len(names) / rows)
    rows += sum(name.count("\n") for name in names)
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW_IN * max(rows - 2, 0))
    figure.legend(handles, names, loc="outside lower center", ncols=columns, frameon=False)


def in_lines(label: str) -> str:
    """Break a label that is longer than a column is wide."""
    return textwrap.fill(label, LINE_CHARACTERS)
