"""`fedorbit config`: see what can be set."""

from fedorbit.cli.app import App
from fedorbit.cli.options import DEFAULT_CONFIG, AsJson, ConfigArgument, Overrides
from fedorbit.cli.output import Column, Table, print_json, print_toml
from fedorbit.config import load_config
from fedorbit.config.files import dumps, preset_names, preset_summary
from fedorbit.config.inputs import anywhere
from fedorbit.config.networks import networks, stations_of

app = App(
    help="""List presets; print settings.

    [bold]Examples[/bold]

    fedorbit config list  # the presets

    fedorbit config show paper > my.toml  # a file to change

    fedorbit run my.toml
    """,
    no_args_is_help=True,
)


@app.command("list")
def list_presets(as_json: AsJson = False) -> None:
    """List the presets.

    [bold]Example[/bold]

    fedorbit config list
    """
    summaries = {name: preset_summary(name) for name in preset_names()}
    if as_json:
        print_json({"presets": summaries})
        return
    table = Table("Presets", [Column("preset", left=True), Column("what it is", text=True)])
    for name, summary in summaries.items():
        table.add_row(name, summary)
    table.print()


@app.command("networks")
def list_networks(as_json: AsJson = False) -> None:
    """List the networks of ground stations that `stations` may name.

    [bold]Examples[/bold]

    fedorbit config networks

    fedorbit orbits -o stations=ksat

    fedorbit orbits -o 'stations={network="aws", min_elevation_deg=5}'
    """
    if as_json:
        print_json({"networks": {name: stations_of(name) for name in networks()}})
        return
    table = Table(
        "Networks",
        [Column("network", left=True), Column("stations"), Column("places", text=True)],
    )
    for name, places in networks().items():
        table.add_row(name, str(len(places)), ", ".join(places))
    table.print()


@app.command()
def show(
    config: ConfigArgument = DEFAULT_CONFIG,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Print a preset or file in full, every setting with its default and meaning.

    [bold]Examples[/bold]

    fedorbit config show paper > my.toml

    fedorbit config show my.toml -o partition.scheme=pathological
    """
    # The text may be saved in any folder, and paths in a file are relative to that.
    loaded = anywhere(load_config(config, overrides or []))
    if as_json:
        print_json(loaded.model_dump(mode="json"))
    else:
        print_toml(dumps(loaded))
