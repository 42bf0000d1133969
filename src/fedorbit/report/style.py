"""Style of all figures: colours that colour-blind readers can distinguish, and saving."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from fedorbit.files import replacing

# Okabe and Ito's palette, without the yellow that vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
LAND, SEA, GRID = "#dcd8cf", "#f4f8fb", "#c8ccd0"
FORMATS = ("png", "svg")

# Fixed ids and no date: the same figure is the same file, so it can be committed and compared.
_PLAIN_TEXT: dict[Any, Any] = {"text.parse_math": False}  # names may hold a dollar sign
_SETTINGS = {
    **_PLAIN_TEXT,
    "svg.hashsalt": "fedorbit",
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, as publishers ask for
    "font.size": 9,
}
_METADATA = {
    "png": {"Software": None},
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
# Legible in a column of 3.4 inches.
_PAPER = {
    **_PLAIN_TEXT,
    "font.size": 7,
    "axes.titlesize": 7,
    "axes.linewidth": 0.5,
    "xtick.major.width": 0.5,
    "ytick.major.width": 0.5,
    "hatch.linewidth": 0.4,
}


plain_text = rc_context(_PLAIN_TEXT)
"""Decorator of every function that builds a figure: a text remembers how it was to be read."""


paper = rc_context(_PAPER)
"""The same for a figure that goes into a column of a paper."""


def colour(index: int) -> str:
    """Colour of orbit or series `index`; they repeat after seven."""
    return PALETTE[index % len(PALETTE)]


def percent_axis(axes: Axes, full_scale: bool) -> None:
    """Show on a vertical axis of percentages what is drawn, or all from 0 to 100."""
    low, high = (0.0, 100.0) if full_scale else axes.get_ylim()
    axes.set_ylim(max(low, 0.0), min(high, 100.0))


def new_figure(width_in: float, height_in: float) -> Figure:
    """Return an empty figure that needs no display and no global state."""
    figure = Figure(figsize=(width_in, height_in), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(
    figure: Figure, folder: Path, name: str, formats: Sequence[str] = FORMATS, dpi: int = 160
) -> list[Path]:
    """Write a figure in every format and return the files."""
    paths = [folder / f"{name}.{extension}" for extension in formats]
    with rc_context(_SETTINGS):
        for path in paths:
            with replacing(path) as partial:
                figure.savefig(partial, dpi=dpi, metadata=_METADATA.get(path.suffix[1:]))
    return paths
