"""Draw the picture of the README, docs/images/overview.png: python scripts/readme_figure.py.

Left a run of the quickstart on the live page, docs/images/globe.png, right accuracy over time of
committed runs, docs/results/own-method/own-half: physical links, equal settings and effort.
"""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from PIL import Image

from fedorbit.report import style
from fedorbit.simulation.records import read_records

ROOT = Path(__file__).parents[1]
GLOBE = ROOT / "docs" / "images" / "globe.png"
"""Taken by scripts/screenshots.py: the quickstart's run after six hours."""
RUNS = {
    "Centralised, all images": "centralised",
    "Rendezvous": "rendezvous_epochs-4",
    "FedOrbit": "fedorbit_epochs-8_orbit-momentum-0.8_max-epochs-15_dark-epochs-3",
    "FedAvg": "fedavg_epochs-10_orbit-momentum-0.8",
    "Local, no federation": "local_orbit-momentum-0.8",
    "FedLEO": "fedleo",
}
SEEDS = 3


def draw_globe(axes: Axes) -> None:
    """Show the globe of `fedorbit serve`."""
    with Image.open(GLOBE) as picture:
        beside = (picture.width - picture.height) // 2
        square = picture.crop((beside, 2, picture.width - beside, picture.height - 2))
    axes.imshow(np.asarray(square.convert("RGB")))
    axes.set_axis_off()
    axes.set_title("A run on the globe: links, footprints, models", loc="left", fontsize=10)


def draw_curves(axes: Axes) -> None:
    """Draw accuracy over simulated time: means of three seeds, with bands of one deviation."""
    results = ROOT / "docs" / "results" / "own-method" / "own-half"
    for number, (label, run) in enumerate(RUNS.items()):
        method = run.partition("_")[0]
        folders = sorted(results.glob(f"eurosat-32_dirichlet_{run}_seed*/{method}"))
        assert len(folders) == SEEDS, f"{len(folders)} seeds of {run}"
        records = [read_records(folder) for folder in folders]
        seeds = np.array([[r["accuracy"] for r in one] for one in records])
        hours = [r["hours"] for r in records[0]]
        mean, deviation = seeds.mean(axis=0), seeds.std(axis=0, ddof=1)
        axes.plot(hours, mean, color=style.colour(number), label=label, linewidth=1.6)
        axes.fill_between(
            hours, mean - deviation, mean + deviation, color=style.colour(number), alpha=0.15,
            linewidth=0,
        )  # fmt: skip
    axes.set(xlabel="simulated hours", ylabel="accuracy (%)", xlim=(0, hours[-1]))
    axes.grid(color=style.GRID, linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, ncols=2, loc="lower right", framealpha=0.9)
    title = "EuroSAT, Dirichlet(0.5), physical links, equal effort: mean ± deviation of 3 seeds"
    axes.set_title(title, loc="left", fontsize=10)


def main() -> None:
    """Write the picture."""
    figure = style.new_figure(10.0, 4.2)
    left, right = figure.subplots(1, 2, width_ratios=(1.0, 1.45))
    draw_globe(left)
    draw_curves(right)
    # Not with a palette: the few green points of the globe would lose their colour.
    style.save(figure, ROOT / "docs" / "images", "overview", ("png",), 110)


if __name__ == "__main__":
    main()
