"""Pictures of data: a contact sheet of samples, and which satellite holds which classes."""

import textwrap

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fedorbit.data.bands import colours
from fedorbit.data.cache import Dataset
from fedorbit.data.partition import Partition
from fedorbit.data.similarity import (
    class_histograms,
    jensen_shannon_distances,
    similarity_coefficient,
)
from fedorbit.data.stream import Images
from fedorbit.report import style

SHEET_COLUMNS = 12
MAX_SHEET_CLASSES = 100
MAX_SHEET_SIDE = 128
"""Pixels of a picture on the contact sheet; of larger ones every n-th pixel is shown."""
MAX_LABELLED = 45


@style.plain_text
def contact_sheet(dataset: Dataset) -> Figure:
    """Show some images of every class, evenly spread over the dataset."""
    names = dataset.class_names[:MAX_SHEET_CLASSES]
    classes = len(names)
    trio = colours(tuple(dataset.description.get("bands", ())))
    every = -(-max(dataset.images.shape[1:3]) // MAX_SHEET_SIDE)
    height, width = (-(-side // every) for side in dataset.images.shape[1:3])
    sheet = np.full((classes * (height + 2), SHEET_COLUMNS * (width + 2), 3), 255, dtype=np.uint8)
    for label in range(classes):
        members = np.flatnonzero(dataset.labels == label)
        spread = np.linspace(0, len(members) - 1, min(SHEET_COLUMNS, len(members))).astype(int)
        pictures = displayable(dataset.images[members[spread], ::every, ::every], trio)
        for column, picture in enumerate(pictures):
            y, x = label * (height + 2), column * (width + 2)
            sheet[y : y + height, x : x + width] = picture
    # About 6 of 8 inches are left for the pictures beside the class names.
    height_in = 6.0 * sheet.shape[0] / sheet.shape[1]
    figure = style.new_figure(8.0, float(np.clip(0.5 + height_in, 1.5, 60.0)))
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest")
    axes.set_anchor("E")  # room to spare goes to the class names
    axes.set_yticks(np.arange(classes) * (height + 2) + height / 2, names, fontsize=8)
    axes.set_xticks([])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    shown = f", first {classes} classes" if classes < len(dataset.class_names) else ""
    axes.set_title(
        f"{dataset.name}: {len(dataset.labels):,} images of "
        f"{' x '.join(map(str, dataset.images.shape[1:]))}{shown}",
        loc="left",
        fontsize=9,
    )
    return figure


def displayable(images: Images, trio: tuple[int, ...] | None = None) -> NDArray[np.uint8]:
    """Turn images `[n, height, width, channels]` into RGB, whatever their channels.

    `trio` is where red, green and blue are. Without it, three channels are colours already, and of
    more, So2Sat's order is assumed (blue, green, red first). Values other than uint8 are stretched
    between their percentiles.
    """
    channels = images.shape[3]
    if trio is None:
        trio = (0, 1, 2) if channels == 3 else (2, 1, 0) if channels > 3 else (0, 0, 0)
    shown = images[..., trio]
    if shown.dtype == np.uint8:
        return shown.astype(np.uint8)
    low, high = np.percentile(shown, (1, 99)) if shown.size else (0.0, 1.0)
    stretched = (shown - low) / max(high - low, 1e-12)
    return (255.0 * np.clip(stretched, 0.0, 1.0)).astype(np.uint8)


@style.plain_text
def partition_figure(partition: Partition, dataset: Dataset, title: str) -> Figure:
    """Show training samples per satellite and class, and how alike the orbits are."""
    classes = len(dataset.class_names)
    orbit_counts = partition.orbit_counts(dataset.labels, classes)
    by_satellite = len(partition.train) <= MAX_LABELLED
    counts = partition.train_counts(dataset.labels, classes) if by_satellite else orbit_counts
    figure = style.new_figure(8.0, float(np.clip(1.4 + 0.16 * len(counts), 3.6, 9.0)))
    left, right = figure.subplots(1, 2, width_ratios=(1.7, 1.0))
    image = left.imshow(counts, aspect="auto", cmap="cividis", interpolation="nearest")
    figure.colorbar(image, ax=left, label="training samples", pad=0.02)
    _label_classes(left, dataset.class_names)
    if by_satellite:
        first = np.flatnonzero(np.diff(partition.orbit_of_satellite)) + 1
        left.hlines(first - 0.5, -0.5, classes - 0.5, color="white", linewidth=1.5)
        bounds = np.concatenate(([0], first, [len(counts)]))
        middle = (bounds[:-1] + bounds[1:] - 1) / 2
        left.set_yticks(middle, [f"orbit {o}" for o in range(len(middle))])
    else:
        left.set_ylabel("orbit")
    left.set_title(textwrap.shorten(title, 60), loc="left", fontsize=9)

    similarity = 1.0 - jensen_shannon_distances(class_histograms(orbit_counts))
    image = right.imshow(similarity, vmin=0, vmax=1, cmap="cividis", interpolation="nearest")
    if len(similarity) <= 8:
        for (row, column), value in np.ndenumerate(similarity):
            ink = "black" if value > 0.5 else "white"
            right.text(column, row, f"{value:.3f}", ha="center", va="center", color=ink, fontsize=7)
        right.set_xticks(range(len(similarity)))
        right.set_yticks(range(len(similarity)))
    right.set(xlabel="orbit", ylabel="orbit")
    beta = similarity_coefficient(orbit_counts)
    right.set_title(f"class similarity, beta = {beta:.3f}", loc="left", fontsize=9)
    return figure


def _label_classes(axes: Axes, names: tuple[str, ...]) -> None:
    if len(names) <= MAX_LABELLED:
        small = 7 if len(names) <= 20 else 5
        axes.set_xticks(range(len(names)), names, rotation=90, fontsize=small)
    else:
        axes.set_xlabel("class")
