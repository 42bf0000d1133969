"""Draw the picture of the README, docs/images/overview.png: python scripts/readme_figure.py.

Left the paper's constellation with its ground station, right accuracy per round of committed runs,
docs/results/baselines-fifth.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from pictures import write_small

from fedorbit import load_config
from fedorbit.build import build_constellation, build_places
from fedorbit.orbits.earth import latitude_longitude_deg
from fedorbit.report import style
from fedorbit.report.orbit_figures import land_rings
from fedorbit.simulation.records import read_records

ROOT = Path(__file__).parents[1]
METHODS = {
    "FedOrbit": "fedorbit",
    "pFedMe": "pfedme",
    "Ditto": "ditto",
    "Local, no federation": "local",
    "SCAFFOLD": "scaffold",
    "FedAvg": "fedavg",
}
WINDOW = 10
"""Rounds that a point of a curve is the mean of."""
SEEDS = 3


def draw_map(axes: Axes) -> None:
    """Draw one revolution of every satellite."""
    config = load_config("paper")
    constellation, [station] = build_constellation(config), build_places(config)
    times_s = np.arange(0.0, 5740.0, 30.0)
    satellites = np.arange(constellation.satellites)
    r_ecef_km = constellation.r_ecef_km_at(
        np.tile(satellites, len(times_s)), np.repeat(times_s, len(satellites))
    ).reshape(len(times_s), len(satellites), 3)
    latitude_deg, longitude_deg = latitude_longitude_deg(r_ecef_km)
    axes.set_facecolor(style.SEA)
    axes.add_collection(PolyCollection(land_rings(), facecolor=style.LAND, edgecolor="none"))
    for k, orbit in enumerate(constellation.orbit_of_satellite):
        points = np.column_stack((longitude_deg[:, k], latitude_deg[:, k]))
        jumps = np.flatnonzero(np.abs(np.diff(points[:, 0])) > 180.0) + 1
        tracks = LineCollection(np.split(points, jumps), colors=style.colour(orbit), linewidths=0.6)
        axes.add_collection(tracks)
        axes.plot(*points[0], "o", color=style.colour(orbit), markersize=5, markeredgecolor="white")
    where = (station.longitude_deg, station.latitude_deg)
    axes.plot(*where, "^", color="black", markersize=7, zorder=5)
    axes.annotate("ground station", where, textcoords="offset points", xytext=(6, 5), fontsize=8)
    axes.set(xlim=(-180, 180), ylim=(-75, 85), xticks=[], yticks=[])
    axes.set_title("20 satellites in 5 orbits, one ground station", loc="left", fontsize=10)


def draw_curves(axes: Axes) -> None:
    """Draw accuracy per round: means of three seeds, with bands of one deviation."""
    results = ROOT / "docs" / "results" / "baselines-fifth"
    for number, (label, method) in enumerate(METHODS.items()):
        folders = sorted(results.glob(f"eurosat_dirichlet_{method}_seed*/{method}"))
        seeds = np.array([[r["accuracy"] for r in read_records(folder)] for folder in folders])
        assert len(seeds) == SEEDS, f"{len(seeds)} seeds of {method}"
        kernel = np.ones(WINDOW) / WINDOW
        smooth = np.array([np.convolve(seed, kernel, mode="valid") for seed in seeds])
        rounds = np.arange(smooth.shape[1]) + WINDOW
        mean, deviation = smooth.mean(axis=0), smooth.std(axis=0, ddof=1)
        axes.plot(rounds, mean, color=style.colour(number), label=label, linewidth=1.6)
        axes.fill_between(
            rounds, mean - deviation, mean + deviation, color=style.colour(number), alpha=0.15,
            linewidth=0,
        )  # fmt: skip
    axes.set(xlabel="round of 5 minutes", ylabel="accuracy (%)", xlim=(WINDOW, 200))
    axes.grid(color=style.GRID, linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, ncols=2, loc="lower right", framealpha=0.9)
    title = "EuroSAT, Dirichlet(0.5), a fifth of the images: mean ± deviation of 3 seeds"
    axes.set_title(title, loc="left", fontsize=10)


def main() -> None:
    """Write the picture."""
    figure = style.new_figure(12.0, 3.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.15, 1.0))
    draw_map(left)
    draw_curves(right)
    [path] = style.save(figure, ROOT / "docs" / "images", "overview", ("png",), 110)
    write_small(path, path)


if __name__ == "__main__":
    main()
