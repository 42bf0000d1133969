"""Pictures of runs, from their records."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from fedorbit.report import style
from fedorbit.simulation.records import Record


@style.plain_text
def accuracy_figure(records: Mapping[str, list[Record]], full_scale: bool = False) -> Figure:
    """Draw mean accuracy and spread over the orbits, per round and method."""
    figure = style.new_figure(8.0, 3.4)
    left, right = figure.subplots(1, 2)
    for index, (method, rows) in enumerate(records.items()):
        rounds = [row["round"] for row in rows]
        for axes, key in ((left, "accuracy"), (right, "spread")):
            values = np.array([np.nan if row[key] is None else row[key] for row in rows])
            axes.plot(rounds, values, color=style.colour(index), label=method, linewidth=1.4)
    left.set(xlabel="round", ylabel="accuracy, mean over orbits (%)")
    right.set(xlabel="round", ylabel="spread, best minus worst orbit")
    for axes in (left, right):
        style.percent_axis(axes, full_scale)
        axes.grid(color=style.GRID, linewidth=0.4)
        axes.spines[["top", "right"]].set_visible(False)
    left.legend(fontsize=8, frameon=False, loc="lower right")
    return figure


def write_accuracy_figure(folder: Path, records: Mapping[str, list[Record]]) -> list[Path]:
    """Write `accuracy.png` and `.svg` into a run's folder."""
    return style.save(accuracy_figure(records), folder, "accuracy")
