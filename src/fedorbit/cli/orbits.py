"""`fedorbit orbits`: a constellation and its contacts."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedorbit.build import (
    build_constellation,
    build_places,
    build_plan,
    build_schedule,
    build_service,
    has_rates,
    horizon_s,
    plan_nodes,
    search_contacts,
)
from fedorbit.cli.options import (
    DEFAULT_CONFIG,
    AllowCode,
    AsJson,
    ConfigArgument,
    OutFolder,
    Overrides,
    allow_typed_code,
)
from fedorbit.cli.orbit_links import (
    Linked,
    is_linked,
    links_document,
    look_at_links,
    print_links,
)
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    degree,
    print_files,
    print_json,
    printable,
    stdout,
)
from fedorbit.config import Config, load_config
from fedorbit.errors import ConfigError
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.contacts import Contacts
from fedorbit.orbits.czml import Clip, check_czml_name, clip, write_czml
from fedorbit.orbits.earth import EARTH_MU_KM3_S2, Floats
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.plan_files import write_plan
from fedorbit.orbits.routing import HopTimes
from fedorbit.orbits.service import LinkRates, Service
from fedorbit.orbits.visibility import Schedule
from fedorbit.progress import Progress
from fedorbit.report.exports import (
    contact_rows,
    write_delay_matrix,
    write_links,
    write_orbit_tables,
)

MAX_ROWS = 24
"""More orbits than this are shown in groups of neighbours: a table is to fit on a screen."""
SHADES, ASCII_SHADES = "·▁▂▃▄▅▆▇█", ".:-=+*#%@"


def orbits(
    config: ConfigArgument = DEFAULT_CONFIG,
    overrides: Overrides = None,
    out: OutFolder = None,
    contacts: Annotated[
        int, typer.Option("--contacts", metavar="N", min=0, help="List the first N contacts.")
    ] = 8,
    plan_file: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            metavar="FILE",
            help="Write the contact plan: .csv, .json, .ion for ION, .hdtn.json for HDTN.",
        ),
    ] = None,
    czml_file: Annotated[
        Path | None,
        typer.Option(
            "--czml",
            metavar="FILE",
            help="Write satellites, stations and contacts for Cesium, as a .czml document.",
        ),
    ] = None,
    czml_hours: Annotated[
        float | None,
        typer.Option(
            "--czml-hours",
            metavar="H",
            min=0.01,
            help="Length of the CZML document.",
            show_default="the schedule, or as much of it as fits",
        ),
    ] = None,
    links: Annotated[
        bool,
        typer.Option(
            "--links",
            help="Also show links between satellites, and delays; as network.isl=line-of-sight.",
        ),
    ] = False,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Show a constellation: times in view of its orbits, gaps, and every contact.

    [bold]Examples[/bold]

    fedorbit orbits

    fedorbit orbits my.toml --out figures  # also timeline, map, CSV and NPZ

    fedorbit orbits --plan plan.csv  # for a run: -o schedule.plan=plan.csv

    fedorbit orbits paper --links  # which satellites see each other, and delays

    fedorbit orbits --czml fleet.czml  # open it in Cesium

    fedorbit orbits iridium-next-tle -o stations=ksat  # see config networks

    fedorbit orbits -o constellation.planes=12 -o stations.0.latitude_deg=69

    fedorbit orbits -o constellation.kind=elements -o constellation.file=my.tle

    fedorbit orbits -o link_rates.to_ground_mbps=0.02  # contacts long enough
    """
    if czml_file is not None:
        check_czml_name(czml_file)
    elif czml_hours is not None:
        raise ConfigError("--czml-hours is the length of a CZML document; add --czml FILE")
    allow_typed_code(overrides or [], allow_code)
    line_of_sight = ["network.isl=line-of-sight"] if links else []
    settings = load_config(config, [*(overrides or []), *line_of_sight])
    progress = RichProgress()
    view = _view(settings, progress)
    service = _service(settings, view) if has_rates(settings) else None
    linked = look_at_links(settings, view.constellation, view.plan, _hop_times(settings), progress)
    files = _write(out, view, linked, progress) if out else []
    if plan_file is not None:
        nodes = plan_nodes(settings, view.constellation)
        files.append(write_plan(plan_file, view.plan, nodes, _rates(settings)))
    shown = None
    if czml_file is not None:
        shown = clip(view.plan, czml_hours)
        places = view.places
        files.append(write_czml(czml_file, view.constellation, places, view.plan, shown, progress))
    if as_json:
        document = {**summary(view), **links_document(linked)}
        if shown is not None:
            document["czml"] = {"duration_s": shown.duration_s, "step_s": shown.step_s}
        if service is not None:
            tau_max = service.schedule.tau_max
            document["service"] = {**service.summary(), "longest_gap_rounds": tau_max}
        document["contact_list"] = contact_rows(
            view.plan, view.constellation, view.places, view.found, contacts
        )
        document["files"] = [str(file) for file in files]
        print_json(document)
        return
    _print_tables(settings, view, contacts, service, linked)
    print_files(files)
    if shown is not None:
        _print_clip(shown)


def _print_clip(shown: Clip) -> None:
    """Print which part of the schedule the CZML document covers."""
    hours, all_hours = shown.duration_s / 3600.0, shown.horizon_s / 3600.0
    part = f"the first {hours:.1f} of {all_hours:.1f} h" if shown.is_cut else f"{hours:.1f} h"
    stdout.print(f"The CZML document has {part}, a position every {shown.step_s} s.")


@dataclass(frozen=True, eq=False)
class View:
    """A constellation, its places and its contact plan, to be shown."""

    constellation: Constellation
    places: tuple[Place, ...]
    plan: ContactPlan
    schedule: Schedule
    found: Contacts | None
    """The contacts with their culminations, unless the plan comes from a file."""


def _view(settings: Config, progress: Progress) -> View:
    constellation = build_constellation(settings)
    found = None
    if settings.schedule.plan is None:
        found = search_contacts(settings, constellation, progress)
    plan = build_plan(settings, constellation, progress, contacts=found)
    schedule = build_schedule(settings, constellation, plan)
    return View(constellation, build_places(settings), plan, schedule, found)


def _rates(settings: Config) -> LinkRates:
    rates = settings.link_rates
    return LinkRates(rates.to_ground_mbps, rates.from_ground_mbps) if rates else LinkRates()


def _service(settings: Config, view: View) -> Service:
    from fedorbit.simulation.world import model_bytes  # PyTorch takes a second to import

    size_bytes = model_bytes(settings)
    return build_service(settings, view.constellation, view.plan, view.schedule, size_bytes)


def _hop_times(settings: Config) -> HopTimes:
    """Return how long a model takes over a contact; without rates it arrives at once."""
    rates = settings.link_rates
    if rates is None or not is_linked(settings):
        return HopTimes()
    from fedorbit.simulation.world import model_bytes

    size_bytes = model_bytes(settings)
    return HopTimes.of(size_bytes, rates.to_ground_mbps, rates.from_ground_mbps, rates.isl_mbps)


def summary(view: View) -> dict[str, Any]:
    """Return the figures of a schedule as plain values."""
    constellation, schedule, plan = view.constellation, view.schedule, view.plan.with_servers
    return {
        "rounds": schedule.rounds,
        "orbits": schedule.orbits,
        "satellites": constellation.satellites,
        "satellites_per_orbit": constellation.satellites_per_orbit.tolist(),
        "stations": [place.name for place in view.places],
        "shells": [asdict(shell) for shell in constellation.shells],
        "left_out": list(constellation.left_out),
        "start_utc": constellation.start.isoformat() if constellation.start else None,
        "visible_rounds": schedule.visible_rounds.tolist(),
        "visible_share": (schedule.visible_rounds / schedule.rounds).tolist(),
        "idle_rounds": schedule.idle_rounds,
        "longest_gap_rounds": schedule.tau_max,
        "longest_gaps_rounds": schedule.longest_gaps_rounds.tolist(),
        "longest_idle_rounds": schedule.longest_idle_rounds,
        "contacts": len(plan),
        "contact_s": float(plan.duration_s.sum()),
        "passes": plan.passes(constellation.orbit_of_satellite, plan.horizon_s).tolist(),
        "passes_per_station": np.bincount(plan.server, minlength=plan.servers).tolist(),
    }


def _write(folder: Path, view: View, linked: Linked, progress: Progress) -> list[Path]:
    # Matplotlib takes half a second to import, and only figures need it.
    from fedorbit.report import orbit_figures, style

    constellation, schedule, places = view.constellation, view.schedule, view.places
    radius_km = np.linalg.norm(constellation.r_ecef_km_at(np.zeros(1, int), np.zeros(1)))
    period_s = float(2.0 * np.pi * np.sqrt(radius_km**3 / EARTH_MU_KM3_S2))
    steps: list[Callable[[], list[Path]]] = [
        lambda: style.save(orbit_figures.timeline(schedule), folder, "timeline"),
        lambda: style.save(
            orbit_figures.ground_track_map(constellation, places, period_s), folder, "map"
        ),
        lambda: write_orbit_tables(folder, schedule, view.plan, constellation, places, view.found),
    ]
    if linked.links is not None:
        steps += _link_steps(folder, view, linked, progress)
    files: list[Path] = []
    progress.start("writing figures and tables", len(steps), "steps")
    try:
        for step in steps:
            files += step()
            progress.advance(1)
    finally:
        progress.finish()
    return files


def _link_steps(
    folder: Path, view: View, linked: Linked, progress: Progress
) -> list[Callable[[], list[Path]]]:
    """Return what to write about links; mean delays between nodes if delays are known."""
    from fedorbit.report import link_figures, style

    constellation, orbit = view.constellation, view.constellation.orbit_of_satellite
    steps: list[Callable[[], list[Path]]] = [
        lambda: style.save(link_figures.link_timeline(view.plan, orbit), folder, "links"),
        lambda: write_links(folder, view.plan, constellation),
    ]
    if linked.news is not None:
        matrix = link_figures.delay_matrix(
            *linked.news.mean_delays_s(progress),
            orbit,
            constellation.satellite_names,
            [place.name for place in view.places],
        )
        columns = matrix.names, matrix.direct_s, matrix.linked_s
        steps += [
            lambda: style.save(link_figures.delay_matrices(matrix), folder, "delay-matrix"),
            lambda: write_delay_matrix(folder, *columns),
        ]
    return steps


def _print_tables(
    settings: Config, view: View, listed: int, service: Service | None, linked: Linked
) -> None:
    constellation, schedule = view.constellation, view.schedule
    hours = horizon_s(settings) / 3600.0
    round_min = settings.schedule.round_s / 60.0
    table = Table(
        f"{constellation.satellites} satellites in {constellation.orbits} orbits, "
        f"{_counted(view.places)}, "
        f"{schedule.rounds} rounds of {round_min:g} min ({hours:.1f} h)",
        [
            Column("orbit"),
            Column("sats", rank=3),
            Column("in view"),
            *([Column("served")] if service else []),
            Column("share", rank=1),
            Column("max gap"),
            Column("passes", rank=2),
            Column("mean pass", rank=4),
            Column("timeline", rank=5, left=True),
        ],
    )
    together = -(-schedule.orbits // MAX_ROWS)
    cells = min(max(stdout.width - (69 if service else 61), 10), 80)
    for first in range(0, schedule.orbits, together):
        _add_orbits(table, view, service, first, together, cells)
    table.print()
    if together > 1:
        stdout.print(
            f"Each row is up to {together} orbits: in view and share are means, "
            "max gap is the longest; --json has every orbit."
        )
    stdout.print(
        f"No orbit in view in {schedule.idle_rounds} rounds "
        f"({100.0 * schedule.idle_rounds / schedule.rounds:.1f} %), "
        f"at most {schedule.longest_idle_rounds} in a row. "
        f"Longest gap of one orbit (tau_max): {schedule.tau_max} rounds of {round_min:g} min."
    )
    if service is not None:
        served = service.schedule
        stdout.print(
            f"One model up and one down take {service.exchange_s:.1f} s: "
            f"{served.visible_rounds.sum()} of {schedule.visible_rounds.sum()} rounds in view last "
            f"long enough (served; the longest {service.longest_contact_s:.1f} s), and the longest "
            f"gap of one orbit is {served.tau_max} rounds."
        )
    print_links(linked)
    if len(constellation.shells) > 1 or constellation.left_out:
        _print_shells(constellation)
    if len(view.places) > 1:
        _print_stations(view)
    if listed and len(view.plan.with_servers):
        _print_contacts(view, listed)


def _counted(places: Sequence[Place]) -> str:
    """Name the places by their roles, such as `2 ground stations and 1 platform`."""
    words = {"ground": "ground station", "platform": "platform"}
    counts = {role: sum(place.role == role for place in places) for role in words}
    parts = [f"{n} {words[role]}{'s' if n > 1 else ''}" for role, n in counts.items() if n]
    return " and ".join(parts)


def _print_shells(constellation: Constellation) -> None:
    """Print the shells of real satellites, and which orbits belong to none."""
    table = Table(
        "Shells",
        [
            Column("orbits"),
            Column("inclination"),
            Column("altitude"),
            Column("planes"),
            Column("satellites"),
        ],
    )
    first = 0
    for shell in constellation.shells:
        last = first + shell.orbits - 1
        table.add_row(
            f"{first}" if first == last else f"{first}-{last}",
            f"{shell.inclination_deg:.2f}{degree()}",
            f"{shell.altitude_km:.0f} km",
            str(shell.orbits),
            str(shell.satellites),
        )
        first = last + 1
    table.print()
    if first < constellation.orbits:
        drifting = int(constellation.satellites_per_orbit[first:].sum())
        stdout.print(f"Orbits from {first} on: {drifting} satellites that drift.")


def _print_stations(view: View) -> None:
    """Print how often and how long each of several stations is in contact."""
    plan = view.plan.with_servers
    table = Table(
        "Contacts per station",
        [
            Column("station", text=True),
            Column("role", rank=3, left=True),
            Column("altitude", rank=2),
            Column("mask", rank=1),
            Column("passes"),
            Column("mean pass"),
        ],
    )
    for number, place in enumerate(view.places[:MAX_ROWS]):
        passes_s = plan.duration_s[plan.server == number]
        table.add_row(
            place.name,
            place.role,
            f"{place.altitude_km:g} km",
            f"{place.min_elevation_deg:g}{degree()}",
            str(len(passes_s)),
            _mean_pass(passes_s),
        )
    table.print()
    if len(view.places) > MAX_ROWS:
        stdout.print(f"{len(view.places) - MAX_ROWS} more stations; --json has all.")


def _mean_pass(passes_s: Floats) -> str:
    return f"{passes_s.mean() / 60.0:.1f} min" if len(passes_s) else "-"


def _add_orbits(
    table: Table, view: View, service: Service | None, first: int, together: int, cells: int
) -> None:
    """Add a row about one orbit or several neighbours."""
    schedule, plan = view.schedule, view.plan.with_servers
    last = min(first + together, schedule.orbits) - 1
    rows = slice(first, last + 1)
    in_view = schedule.visible_rounds[rows].mean()
    orbit = view.constellation.orbit_of_satellite[plan.first]
    passes_s = plan.duration_s[(orbit >= first) & (orbit <= last)]
    table.add_row(
        f"{first}" if first == last else f"{first}-{last}",
        str(view.constellation.satellites_per_orbit[rows].sum()),
        f"{in_view:.0f}",
        *([f"{service.schedule.visible_rounds[rows].mean():.0f}"] if service else []),
        f"{100.0 * in_view / schedule.rounds:.1f} %",
        str(schedule.longest_gaps_rounds[rows].max()),
        str(len(passes_s)),
        _mean_pass(passes_s),
        sparkline(schedule.visible[:, rows], cells),
    )


def _print_contacts(view: View, listed: int) -> None:
    contacts = len(view.plan.with_servers)
    table = Table(
        f"First {min(listed, contacts)} of {contacts} contacts, times since the start",
        [
            Column("station", rank=1 if len(view.places) == 1 else 0, text=True),
            Column("satellite", text=True),
            Column("rise"),
            *([Column("culmination", rank=3)] if view.found is not None else []),
            Column("set"),
            *([Column("highest", rank=2)] if view.found is not None else []),
        ],
    )
    for row in contact_rows(view.plan, view.constellation, view.places, view.found, listed):
        table.add_row(
            row["station"],
            row["satellite_name"],
            "up at start" if row["cut_at_start"] else _clock(row["rise_s"]),
            *([_clock(row["culmination_s"])] if view.found is not None else []),
            "up at end" if row["cut_at_end"] else _clock(row["set_s"]),
            *([f"{row['max_elevation_deg']:.1f}{degree()}"] if view.found is not None else []),
        )
    table.print()


def sparkline(flags: NDArray[np.bool_], cells: int) -> str:
    """Shrink the visibility of one orbit or several, `[round]` or `[round, orbit]`, to a line."""
    parts = np.array_split(flags, min(cells, len(flags)))
    shades = SHADES if printable(SHADES) else ASCII_SHADES
    levels = [int(np.ceil(part.mean() * (len(shades) - 1))) for part in parts]
    return "".join(shades[level] for level in levels)


def _clock(seconds: float) -> str:
    minutes, tenths = divmod(round(10.0 * seconds), 600)  # rounded first: never 60.0 s
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{tenths / 10.0:04.1f}"
