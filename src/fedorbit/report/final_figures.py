"""Figures of final accuracy and spread: of every series, and over the values of parameters."""

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fedorbit.report import style
from fedorbit.report.curves import begun
from fedorbit.report.paper_panels import (
    COLUMN_IN,
    TICK_CHARACTERS,
    legend_below,
    plain_frame,
    printed,
)
from fedorbit.report.replicates import Series, Setting
from fedorbit.report.statistics import evenly
from fedorbit.report.sweeps import FINAL_FIGURES, MOST_SWEEPS, Sweep, sweeps
from fedorbit.results.estimates import Estimate, estimate

LABEL_CHARACTERS = 8
"""Longest line of a label, per inch of a figure's width."""
PANEL_IN = 1.3
"""Least width of a panel of a parameter."""
TICKS = 6
"""Values below a panel of a parameter."""
REFERENCE: dict[str, Any] = {"color": style.PALETTE[1], "linestyle": "--", "linewidth": 0.8}


@style.paper
def final(
    setting: Setting, labels: list[str], full_scale: bool = False, width_in: float = COLUMN_IN
) -> Figure | None:
    """Draw final accuracy and spread of every series, sorted by accuracy.

    Among variants of one method a dashed line marks the first, which is the whole method.
    """
    shown = sorted(begun(setting), key=lambda s: _over_seeds(s, "accuracy").mean or 0.0)
    if len(shown) < 2:
        return None
    names = [textwrap.fill(printed(s.label), int(LABEL_CHARACTERS * width_in)) for s in shown]
    most_lines = max(name.count("\n") + 1 for name in names)
    figure = style.new_figure(width_in, 0.45 + (0.06 + 0.1 * most_lines) * len(shown))
    panels = figure.subplots(1, 2, sharey=True)
    whole = _whole(setting)
    for axes, (key, name) in zip(panels, FINAL_FIGURES.items(), strict=True):
        for place, series in enumerate(shown):
            colour = style.colour(1 if series is whole else 0)
            _point(axes, _over_seeds(series, key), place, colour)
        if whole is not None and (mean := _over_seeds(whole, key).mean) is not None:
            axes.axvline(mean, **REFERENCE, zorder=1)
        if full_scale:
            axes.set_xlim(0.0, 100.0)
        axes.set_xlabel(name)
        axes.tick_params(axis="y", length=0)
        plain_frame(axes)
    panels[0].set_yticks(range(len(shown)), names)
    panels[0].set_ylim(-0.6, len(shown) - 0.4)
    return figure


@style.paper
def parameters(
    setting: Setting,
    labels: list[str],
    full_scale: bool = False,
    width_in: float = COLUMN_IN,
    found: Sequence[Sweep] | None = None,
) -> Figure | None:
    """Draw final accuracy, and below it spread, over the values of every varied parameter."""
    found = sweeps(setting)[:MOST_SWEEPS] if found is None else found
    if not found:
        return None
    blocks = math.ceil(len(found) / int(width_in / PANEL_IN))
    columns = math.ceil(len(found) / blocks)
    figure = style.new_figure(width_in, 0.3 + 2.1 * blocks)
    panels = figure.subplots(2 * blocks, columns, squeeze=False, height_ratios=[1.4, 1.0] * blocks)
    for row, (key, name) in enumerate(FINAL_FIGURES.items()):
        drawn = panels[row::2].ravel()
        for place, axes in enumerate(drawn):
            axes.sharey(drawn[0])
            axes.tick_params(labelleft=place % columns == 0, labelbottom=row == 1)
            if place >= len(found):
                axes.set_axis_off()
                continue
            _over_values(axes, found[place], key)
            if place % columns == 0:
                axes.set_ylabel(name)
            if row == 1:
                axes.set_xlabel(textwrap.fill(printed(found[place].name), TICK_CHARACTERS))
        style.percent_axis(drawn[0], full_scale)
        drawn[0].locator_params(axis="y", nbins=5)
    figure.align_ylabels()
    uppers = zip(panels[::2].ravel(), found, strict=False)
    if with_default := [axes for axes, sweep in uppers if sweep.default]:
        legend_below(figure, with_default[0])
    return figure


def _over_values(axes: Axes, sweep: Sweep, key: str) -> None:
    """Draw a final figure at every value; a dashed line is its value with the default."""
    at_values = [estimate([r.figures.get(key) for r in seeds]) for seeds in sweep.replicates]
    means = [np.nan if one.mean is None else one.mean for one in at_values]
    deviations = [one.std or 0.0 for one in at_values]
    axes.errorbar(
        range(len(means)), means, deviations, color=style.colour(0), linewidth=1.0, marker="o",
        markersize=3, elinewidth=0.6, capsize=1.5,
    )  # fmt: skip
    default = sweep.default_mean(key)
    if default is not None:
        axes.axhline(default, **REFERENCE, zorder=1, label="with the default")
    shown = evenly(len(sweep.values), TICKS)
    axes.set_xticks(shown, [f"{sweep.values[i]:.4g}" for i in shown])
    axes.margins(x=0.1)
    plain_frame(axes)


def _point(axes: Axes, value: Estimate, place: int, colour: str) -> None:
    if value.mean is not None:
        axes.errorbar(
            value.mean, place, xerr=value.std, fmt="o", color=colour, markersize=3.5,
            elinewidth=0.8, capsize=2,
        )  # fmt: skip


def _whole(setting: Setting) -> Series | None:
    """Return the first of several variants of one method."""
    first = setting.series[0]
    variant = first.replicates[0].run.study.variant
    of_one_method = len({series.method for series in setting.series}) == 1
    return first if of_one_method and variant is not None and variant.of_series else None


def _over_seeds(series: Series, key: str) -> Estimate:
    return estimate([r.figures.get(key) for r in series.replicates if r.records])
