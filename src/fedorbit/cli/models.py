"""Options and descriptions that `fedorbit export` and `fedorbit predict` share."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedorbit.cli.options import allow_typed_code
from fedorbit.cli.output import RichProgress

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.simulation.classifier import Classifier

Method = Annotated[
    str | None,
    typer.Option("--method", "-m", metavar="NAME", help="Method, if the run has several."),
]
Orbit = Annotated[
    int | None,
    typer.Option("--orbit", metavar="N", help="The model in use in this orbit, from 0."),
]
Satellite = Annotated[
    int | None,
    typer.Option("--satellite", metavar="N", help="The model in use on this satellite, from 0."),
]


def loaded(
    source: Path,
    orbit: int | None,
    satellite: int | None,
    method: str | None,
    allow_code: list[str] | None,
) -> "Classifier":
    """Return the model that the options name."""
    from fedorbit.simulation.model_files import load_model

    allow_typed_code([method] if method else [], allow_code)
    return load_model(source, orbit, satellite=satellite, method=method, progress=RichProgress())


def card_of(model: "Classifier") -> dict[str, Any]:
    """Return the description of a model that `--json` prints."""
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
        "file_bands": card.file_bands,
        "kept_bands": list(card.kept_bands),
    }


def described(model: "Classifier") -> str:
    """Return one line about a model."""
    card = card_of(model)
    height, width, channels = card["image_shape"]
    return (
        f"{card['model']} of {card['method']} for {card['serves']} after {card['rounds']} rounds, "
        f"{card['parameters']:,} parameters, images of {height} x {width} x {channels}, "
        f"{len(card['classes'])} classes"
    )
