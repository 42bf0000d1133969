"""`fedorbit export`: write a model that a run has trained."""

from pathlib import Path
from typing import Annotated

import typer

from fedorbit.cli.models import Method, Orbit, Satellite, card_of, described, loaded
from fedorbit.cli.options import AllowCode, AsJson
from fedorbit.cli.output import print_json, stderr, stdout


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
    """Write the model of a run to a file: safetensors or ONNX.

    A .safetensors file holds the parameters by PyTorch's names, a state dict without pickle; class
    names, standardisation and image shape are in its metadata. An .onnx file (extra onnx) holds the
    whole graph and takes images as they are stored. A method with one model for all orbits needs no
    further choice; for other methods choose an orbit or satellite. An unfinished run gives the
    model of its last checkpoint.

    [bold]Examples[/bold]

    fedorbit export runs/1 -m fedorbit --orbit 2 --to forest.safetensors

    fedorbit export runs/1 -m centralised --to everyone.onnx  # one model for all
    """
    from fedorbit.simulation.model_files import save_model

    model = loaded(run, orbit, satellite, method, allow_code)
    with stderr.status(f"Writing {to}"):  # ONNX takes some seconds; silent without a terminal
        save_model(model, to)
    if as_json:
        print_json({"file": str(to), "bytes": to.stat().st_size, "model": card_of(model)})
        return
    stdout.print(f"Wrote {to}: {described(model)}", soft_wrap=True)
