"""`fedorbit serve`: runs and studies on a local page that is live."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from fedorbit.cli.options import AsJson
from fedorbit.cli.output import complain, print_json, stdout
from fedorbit.errors import ConfigError
from fedorbit.extras import install_extra

PORT = 8420


def serve(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="Folder; runs and studies at and below are shown.")
    ] = Path("runs"),
    host: Annotated[
        str, typer.Option("--host", metavar="NAME", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option("--port", metavar="N", min=0, max=65535, help="Port; 0 takes any free one."),
    ] = PORT,
    as_json: AsJson = False,
) -> None:
    """Show runs and studies on a local web page that follows them live.

    The page lists what is in the folder, follows runs while they train, compares those that you
    tick with the charts of [bold]fedorbit report[/bold], and shows a run on a globe with its
    satellites and links. It only reads: runs are not changed, and nothing is fetched from
    elsewhere. Ctrl-C ends it. It needs the extra serve: see [bold]fedorbit doctor[/bold].

    [bold]Examples[/bold]

    fedorbit serve  # what is in runs/, on http://127.0.0.1:8420/

    fedorbit serve studies/paper --port 0 --json  # for scripts, on any free port

    ssh -L 8420:localhost:8420 cluster fedorbit serve  # on another machine
    """
    try:
        from fedorbit.serve.server import Listening
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"fedorbit serve needs {error.name}, which is not installed; {install_extra('serve')}"
        ) from None
    from fedorbit.serve.catalog import Catalog

    catalog = Catalog(folder)
    listening = Listening(host, port)
    listing = catalog.listing()

    def announce() -> None:
        if as_json:
            studies = [group for group in listing.groups if group.title is not None]
            print_json(
                {
                    "address": listening.address,
                    "folder": str(catalog.root),
                    "runs": [state.as_json() for state in catalog.states(listing.runs)],
                    "studies": [{"name": s.name, "title": s.title} for s in studies],
                    "left_out": listing.left_out,
                }
            )
        else:
            shown = f"{len(listing.runs)} runs below {catalog.root}"
            stdout.print(f"{shown}: {listening.address} (Ctrl-C ends)", soft_wrap=True)
        sys.stdout.flush()
        if not listening.is_loopback:
            complain(
                f"everybody who reaches {listening.address} can see these runs: there is no "
                "password and no encryption; `ssh -L` to a server on 127.0.0.1 has both",
                style="bold yellow",
            )

    with suppress(KeyboardInterrupt):  # how a server ends
        listening.serve(catalog, announce)
