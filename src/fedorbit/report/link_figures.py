"""Pictures of links between satellites: when orbits are linked, and delays of messages."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from fedorbit.orbits.earth import Floats
from fedorbit.orbits.plan import ContactPlan
from fedorbit.report import style

TIMELINE_S = 6 * 3600.0
"""Longest period of a timeline: a few revolutions, so that single windows can be told apart."""
BINS = 720
MOST_ROWS = 60
"""More pairs of orbits than this are drawn by how many orbits they are apart."""
MOST_NODES = 100
"""More nodes than this are drawn as orbits and servers."""
LABELLED = 45
"""Rows of a matrix that have room for a label each."""
LEAST_MIN = 0.1
"""Shorter delays have the colour of this one: the scale is logarithmic."""

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class DelayMatrix:
    """Mean delays between nodes, or between orbits and servers, in the order of `names`."""

    names: tuple[str, ...]
    direct_s: Floats
    """Delays over contacts with servers alone; NaN where there is no way."""
    linked_s: Floats
    """Delays over contacts with servers and links between satellites; NaN where there is no way."""


def delay_matrix(
    direct_s: Floats,
    linked_s: Floats,
    orbit_of_satellite: Ints,
    satellites: Sequence[str],
    servers: Sequence[str],
) -> DelayMatrix:
    """Name the rows of mean delays `[node, node]`; of many nodes take means over orbits."""
    if len(direct_s) <= MOST_NODES:
        return DelayMatrix((*satellites, *servers), direct_s, linked_s)
    orbits = int(orbit_of_satellite[-1]) + 1
    group = np.concatenate((orbit_of_satellite, orbits + np.arange(len(servers))))
    names = (*(f"orbit {orbit}" for orbit in range(orbits)), *servers)
    return DelayMatrix(names, *(_grouped(values, group) for values in (direct_s, linked_s)))


def _grouped(values: Floats, group: Ints) -> Floats:
    """Return means over groups of rows and columns; a node to itself does not count."""
    known = np.isfinite(values) & ~np.eye(len(values), dtype=np.bool_)
    begins = np.flatnonzero(np.diff(group, prepend=-1))

    def summed(array: Floats) -> Floats:
        return np.add.reduceat(np.add.reduceat(array, begins, axis=0), begins, axis=1)

    total, count = summed(np.where(known, values, 0.0)), summed(known.astype(np.float64))
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


@style.plain_text
def delay_matrices(matrix: DelayMatrix) -> Figure:
    """Draw mean delays from row to column: direct on the left, with links on the right."""
    figure = style.new_figure(10.0, 5.2)
    left, right = figure.subplots(1, 2)
    minutes = np.stack((matrix.direct_s, matrix.linked_s)) / 60.0
    known = minutes[np.isfinite(minutes)]
    norm = LogNorm(LEAST_MIN, max(float(known.max(initial=0.0)), 10.0 * LEAST_MIN))
    for axes, values, title in (
        (left, minutes[0], "contacts with servers alone"),
        (right, minutes[1], "with links between satellites"),
    ):
        image = axes.imshow(
            np.clip(values, LEAST_MIN, None), cmap="viridis_r", norm=norm, interpolation="nearest"
        )
        axes.set_facecolor(style.GRID)
        axes.set_title(f"Mean delay, {title}", loc="left", fontsize=9)
        _label_nodes(axes, matrix.names)
    right.set_yticklabels([])
    right.set_ylabel("")
    bar = figure.colorbar(image, ax=(left, right), shrink=0.75, format="%g")
    bar.set_label("minutes; grey: no way")
    return figure


def _label_nodes(axes: Axes, names: Sequence[str]) -> None:
    if len(names) <= LABELLED:
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=6)
        axes.set_yticks(range(len(names)), names, fontsize=6)
    axes.set_xlabel("to")
    axes.set_ylabel("from")


@style.plain_text
def link_timeline(plan: ContactPlan, orbit_of_satellite: Ints) -> Figure:
    """Draw how many links each pair of orbits has, in the first hours."""
    links = plan.between_satellites
    end_s = min(plan.horizon_s, TIMELINE_S)
    first, second = orbit_of_satellite[links.first], orbit_of_satellite[links.second]
    row, labels = _rows(first, second, int(orbit_of_satellite[-1]) + 1)
    count = _counted(row, len(labels), links, end_s)
    figure = style.new_figure(8.0, min(1.6 + 0.22 * len(labels), 10.0))
    axes = figure.subplots()
    image = axes.imshow(
        count,
        aspect="auto",
        interpolation="nearest",
        cmap="Blues",
        vmin=0.0,
        vmax=max(1.0, float(count.max(initial=0.0))),
        extent=(0.0, end_s / 3600.0, len(labels) - 0.5, -0.5),
    )
    if len(labels) <= MOST_ROWS:
        axes.set_yticks(range(len(labels)), labels, fontsize=7)
    else:
        axes.set_ylabel("orbits apart")
    axes.set_xlabel("hours since start")
    axes.set_title(
        f"Links between satellites, first {end_s / 3600.0:.3g} h", loc="left", fontsize=9
    )
    axes.hlines(np.arange(1, len(labels)) - 0.5, 0.0, end_s / 3600.0, color="white", linewidth=1)
    axes.spines[:].set_visible(False)
    ticks = MaxNLocator(integer=True, nbins=6)
    figure.colorbar(image, label="links at a time", ticks=ticks)
    return figure


def _rows(first: Ints, second: Ints, orbits: int) -> tuple[Ints, list[str]]:
    """Return the row of each link, and names of rows: pairs of orbits, or how far apart they are.

    Orbits are numbered around the Earth, so that the last is next to the first.
    """
    low, high = np.minimum(first, second), np.maximum(first, second)
    pairs, row = np.unique(np.column_stack((low, high)), axis=0, return_inverse=True)
    if len(pairs) <= MOST_ROWS:
        names = [f"in orbit {a}" if a == b else f"orbits {a} and {b}" for a, b in pairs.tolist()]
        return row.ravel(), names or ["no links"]
    apart = np.minimum(high - low, orbits - (high - low))
    names = [f"{step} orbits apart" for step in range(int(apart.max()) + 1)]
    return apart, ["in an orbit", "neighbour orbits", *names[2:]][: len(names)]


def _counted(row: Ints, rows: int, links: ContactPlan, end_s: float) -> Floats:
    """Return the links of each row in the middle of each bin, `[row, bin]`."""
    middles_s = (np.arange(BINS) + 0.5) * end_s / BINS
    change = np.zeros((rows, BINS + 1))
    np.add.at(change, (row, np.searchsorted(middles_s, links.begin_s)), 1.0)
    np.add.at(change, (row, np.searchsorted(middles_s, links.end_s)), -1.0)
    return np.cumsum(change, axis=1)[:, :-1]
