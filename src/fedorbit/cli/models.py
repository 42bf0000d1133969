"""`fedorbit export` and `fedorbit predict`: use the models that a run has trained."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedorbit.cli.options import AllowCode, AsJson, allow_typed_code
from fedorbit.cli.output import Column, RichProgress, Table, print_json, stdout

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.simulation.classifier import Classifier

BATCH = 256
SHOWN = 200
"""Images in a table; --json has all."""

Method = Annotated[
    str | None,
    typer.Option("--method", "-m", metavar="NAME", help="Of a run of several methods: which."),
]
Orbit = Annotated[
    int | None,
    typer.Option("--orbit", metavar="N", help="The model in use in this orbit, from 0."),
]
Satellite = Annotated[
    int | None,
    typer.Option("--satellite", metavar="N", help="The model in use on this satellite, from 0."),
]


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    to: Annotated[
        Path,
        typer.Option("--to", metavar="FILE", help="The file: [bold].safetensors[/bold] or .onnx."),
    ],
    orbit: Orbit = None,
    satellite: Satellite = None,
    method: Method = None,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Write a trained model to a file.

    A .safetensors file holds the parameters by PyTorch's names, a state dict without pickle; class
    names, standardisation and image shape are in its metadata. An .onnx file (extra onnx) holds the
    whole graph and takes images as they are stored. A method that serves everyone has one model;
    of others choose an orbit or satellite. An unfinished run gives that of its last checkpoint.

    [bold]Examples[/bold]

    fedorbit export runs/1 -m fedorbit --orbit 2 --to forest.safetensors

    fedorbit export runs/1 -m fedavg --to everyone.onnx  [dim]one model for all[/dim]
    """
    from fedorbit.simulation.model_files import save_model

    model = _loaded(run, orbit, satellite, method, allow_code)
    save_model(model, to)
    if as_json:
        print_json({"file": str(to), "bytes": to.stat().st_size, "model": _card(model)})
        return
    stdout.print(f"Wrote {to}: {_described(model)}", soft_wrap=True)


def predict(
    source: Annotated[
        Path,
        typer.Argument(metavar="RUN|FILE", help="A run's folder, or an exported .safetensors."),
    ],
    images: Annotated[
        list[Path],
        typer.Argument(metavar="IMAGES…", help="Pictures, .npy arrays, or folders of these."),
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
    """Classify images with a trained model.

    Pictures are decoded and resized as for training. Images that no picture holds, such as those of
    ten bands, come as .npy arrays \\[height, width, channels] or \\[n, height, width, channels].

    [bold]Examples[/bold]

    fedorbit predict runs/1 -m fedorbit --orbit 2 scene.jpg

    fedorbit predict forest.safetensors scenes --top 1 --json  [dim]all images of a folder[/dim]
    """
    from fedorbit.data.loose import StoredAs, batches, image_files

    files = image_files(images)
    model = _loaded(source, orbit, satellite, method, allow_code)
    stored = StoredAs(model.card.image_shape, model.card.dtype)
    rows: list[tuple[str, NDArray[np.float64]]] = []
    progress = RichProgress()
    progress.start("classifying", len(files), "images")
    try:
        for names, pixels in batches(files, stored, BATCH):
            rows += zip(names, model.probabilities(pixels), strict=True)
            progress.advance(len(names))
    finally:
        progress.finish()
    if as_json:
        print_json({"model": _card(model), "images": [_row(model, *row, top) for row in rows]})
        return
    table = Table(
        _described(model),
        [Column("image", text=True), Column("class", left=True), Column("probability")],
    )
    for name, shares in rows[:SHOWN]:
        for place, (kind, share) in enumerate(_best(model, shares, top)):
            table.add_row("" if place else name, kind, f"{100.0 * share:.1f} %")
    table.print()
    if len(rows) > SHOWN:
        stdout.print(f"{len(rows) - SHOWN} more images are left out here; --json has all.")


def _loaded(
    source: Path,
    orbit: int | None,
    satellite: int | None,
    method: str | None,
    allow_code: list[str] | None,
) -> "Classifier":
    from fedorbit.simulation.model_files import load_model

    allow_typed_code([method] if method else [], allow_code)
    return load_model(source, orbit, satellite=satellite, method=method, progress=RichProgress())


def _best(model: "Classifier", shares: NDArray[np.float64], top: int) -> list[tuple[str, float]]:
    """Return the most probable classes with their probabilities."""
    order = np.argsort(-shares, kind="stable")[:top]
    return [(model.classes[c], float(shares[c])) for c in order]


def _row(model: "Classifier", name: str, shares: NDArray[np.float64], top: int) -> dict[str, Any]:
    best = _best(model, shares, top)
    kind, share = best[0]
    return {"image": name, "class": kind, "probability": share, "classes": dict(best)}


def _card(model: "Classifier") -> dict[str, Any]:
    card, parameters = model.card, sum(p.numel() for p in model.body.parameters())
    return {
        "method": card.method,
        "serves": card.serves,
        "rounds": card.rounds,
        "model": card.model,
        "parameters": parameters,
        "classes": list(card.classes),
        "image_shape": list(card.image_shape),
        "dtype": card.dtype,
    }


def _described(model: "Classifier") -> str:
    card = _card(model)
    height, width, channels = card["image_shape"]
    return (
        f"{card['model']} of {card['method']} for {card['serves']} after {card['rounds']} rounds, "
        f"{card['parameters']:,} parameters, images of {height} x {width} x {channels}, "
        f"{len(card['classes'])} classes"
    )
