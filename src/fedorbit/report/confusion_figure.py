"""Confusion matrices as a figure for papers."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedorbit.report import style
from fedorbit.report.paper_panels import COLUMN_IN, printed
from fedorbit.simulation.confusion import balanced_accuracy

MAX_CELL_TEXTS = 225
MAX_NAMES, MAX_NUMBERS = 45, 20
NAME_CHARACTERS = 24


@style.paper
def confusion_figure(matrices: Mapping[str, NDArray[np.int64]], classes: Sequence[str]) -> Figure:
    """Draw a panel for each matrix: shares of the samples of each true class, in percent."""
    figure = style.new_figure(COLUMN_IN, 0.2 + 2.3 * len(matrices))
    panels = figure.subplots(len(matrices), 1, squeeze=False)[:, 0]
    places = range(len(classes))
    for axes, (label, counts) in zip(panels, matrices.items(), strict=True):
        totals = counts.sum(axis=1, keepdims=True)
        shares: Any = np.divide(
            100.0 * counts, totals, out=np.full(counts.shape, np.nan), where=totals > 0
        )
        image = axes.imshow(
            shares, vmin=0, vmax=100, cmap="cividis", interpolation="nearest", aspect="auto"
        )
        figure.colorbar(image, ax=axes, label="share of the true class (%)")
        if counts.size <= MAX_CELL_TEXTS:
            for (row, column), value in np.ndenumerate(shares):
                if counts[row, column]:
                    ink = "black" if value > 50 else "white"
                    text = f"{value:.0f}"
                    axes.text(column, row, text, ha="center", va="center", color=ink, fontsize=6)
        if len(classes) <= MAX_NAMES:
            names = [textwrap.shorten(name, NAME_CHARACTERS) for name in classes]
            axes.set_yticks(places, [f"{name} {c}" for c, name in enumerate(names)])
        if len(classes) <= MAX_NUMBERS:
            axes.set_xticks(places)
        mean = balanced_accuracy(counts)
        told = "" if mean is None else f", balanced accuracy {mean:.1f} %"
        axes.set_title(f"{printed(label)}{told}", loc="left")
        axes.set(xlabel="predicted class", ylabel="true class")
    return figure
