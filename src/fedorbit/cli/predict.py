"""`fedorbit predict`: classify images with a model that a run has trained."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedorbit.cli.models import Method, Orbit, Satellite, card_of, described, loaded
from fedorbit.cli.options import AllowCode, AsJson
from fedorbit.cli.output import Column, RichProgress, Table, print_json, stdout

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.simulation.classifier import Classifier

BATCH = 256
SHOWN = 200
"""Images in a table; --json has all."""


def predict(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN|FILE", help="A run's folder, or an exported .safetensors."),
    ],
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES", help="Pictures, .npy arrays, or folders of these."),
    ],
    orbit: Orbit = None,
    satellite: Satellite = None,
    method: Method = None,
    top: Annotated[
        int, typer.Option("--top", metavar="N", min=1, help="Classes to show for each image.")
    ] = 3,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Classify images with the model of a run or of an exported file.

    Pictures are decoded, their bands chosen, and resized as by `fedorbit data prepare`. Arrays in
    .npy files are images as a dataset stores them: \\[height, width, channels], or many of them
    \\[n, height, width, channels].

    [bold]Examples[/bold]

    fedorbit predict runs/1 -m fedorbit --orbit 2 scene.jpg

    fedorbit predict forest.safetensors scenes --top 1 --json  # a whole folder
    """
    from fedorbit.data.loose import StoredAs, batches, count_images, image_files

    files = image_files(images)
    model = loaded(source, orbit, satellite, method, allow_code)
    card = model.card
    stored = StoredAs(card.image_shape, card.dtype, card.file_bands, card.kept_bands)
    rows: list[tuple[str, NDArray[np.float64]]] = []
    progress = RichProgress()
    progress.start("classifying", count_images(files, stored), "images")
    try:
        for names, pixels in batches(files, stored, BATCH):
            rows += zip(names, model.probabilities(pixels), strict=True)
            progress.advance(len(names))
    finally:
        progress.finish()
    if as_json:
        print_json({"model": card_of(model), "images": [_row(model, *row, top) for row in rows]})
        return
    table = Table(
        described(model),
        [Column("image", text=True), Column("class", left=True), Column("probability")],
    )
    for name, shares in rows[:SHOWN]:
        for place, (kind, share) in enumerate(_best(model, shares, top)):
            table.add_row("" if place else name, kind, f"{100.0 * share:.1f} %")
    table.print()
    if len(rows) > SHOWN:
        stdout.print(f"{len(rows) - SHOWN} more images are left out here; --json has all.")


def _best(model: "Classifier", shares: NDArray[np.float64], top: int) -> list[tuple[str, float]]:
    """Return the most probable classes with their probabilities."""
    order = np.argsort(-shares, kind="stable")[:top]
    return [(model.classes[c], float(shares[c])) for c in order]


def _row(model: "Classifier", name: str, shares: NDArray[np.float64], top: int) -> dict[str, Any]:
    best = _best(model, shares, top)
    kind, share = best[0]
    return {"image": name, "class": kind, "probability": share, "classes": dict(best)}
