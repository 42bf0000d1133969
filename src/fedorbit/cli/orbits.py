"""`fedorbit orbits`: a constellation and its contacts."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from fedorbit.cli.options import (
    AllowCode,
    AsJson,
    ConfigArgument,
    OutFolder,
    Overrides,
    allow_typed_code,
)
from fedorbit.cli.output import (
    Column,
    RichProgress,
    Table,
    print_files,
    print_json,
    printable,
    stdout,
)
from fedorbit.config import Config, load_config
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.contacts import Contacts, find_contacts
from fedorbit.orbits.earth import EARTH_MU_KM3_S2
from fedorbit.orbits.service import Service
from fedorbit.orbits.visibility import GroundStation, Schedule
from fedorbit.progress import Progress
from fedorbit.report.exports import contact_rows, write_orbit_tables
from fedorbit.scenario import (
    build_constellation,
    build_schedule,
    build_service,
    build_stations,
    has_rates,
    horizon_s,
)

MAX_ROWS = 24
"""More orbits than this are shown in groups of neighbours: a table is to fit on a screen."""
SHADES, ASCII_SHADES = "·▁▂▃▄▅▆▇█", ".:-=+*#%@"


def orbits(
    config: ConfigArgument = "paper",
    overrides: Overrides = None,
    out: OutFolder = None,
    contacts: Annotated[
        int, typer.Option("--contacts", metavar="N", min=0, help="List the first N contacts.")
    ] = 8,
    allow_code: AllowCode = None,
    as_json: AsJson = False,
) -> None:
    """Show a constellation: who is in view when, gaps, and every contact.

    [bold]Examples[/bold]

    fedorbit orbits

    fedorbit orbits my.toml --out figures  [dim]also timeline, map, CSV and NPZ[/dim]

    fedorbit orbits -o constellation.planes=12 -o stations.0.latitude_deg=69

    fedorbit orbits -o constellation.kind=elements -o constellation.file=iridium.tle

    fedorbit orbits quickstart -o link_rates.gs_uplink_mbps=0.02  [dim]rounds long enough[/dim]
    """
    allow_typed_code(overrides or [], allow_code)
    settings = load_config(config, overrides or [])
    progress = RichProgress()
    constellation = build_constellation(settings)
    stations = build_stations(settings)
    schedule = build_schedule(settings, constellation, progress)
    found = find_contacts(constellation, stations, horizon_s(settings), progress=progress)
    service = _service(settings, constellation, schedule, found) if has_rates(settings) else None
    files = _write(out, constellation, stations, schedule, found, progress) if out else []
    if as_json:
        document = summary(constellation, stations, schedule, found)
        if service is not None:
            tau_max = service.schedule.tau_max
            document["service"] = {**service.summary(), "longest_gap_rounds": tau_max}
        document["contact_list"] = contact_rows(found, constellation, stations, contacts)
        document["files"] = [str(file) for file in files]
        print_json(document)
        return
    _print_tables(settings, constellation, stations, schedule, found, contacts, service)
    print_files(files)


def _service(
    settings: Config, constellation: Constellation, schedule: Schedule, contacts: Contacts
) -> Service:
    from fedorbit.simulation.world import model_bytes  # PyTorch takes a second to import

    size_bytes = model_bytes(settings)
    return build_service(settings, constellation, schedule, size_bytes, contacts=contacts)


def summary(
    constellation: Constellation,
    stations: tuple[GroundStation, ...],
    schedule: Schedule,
    contacts: Contacts,
) -> dict[str, Any]:
    """Return the figures of a schedule as plain values."""
    return {
        "rounds": schedule.rounds,
        "orbits": schedule.orbits,
        "satellites": constellation.satellites,
        "satellites_per_orbit": constellation.satellites_per_orbit.tolist(),
        "stations": [station.name for station in stations],
        "start_utc": constellation.start.isoformat() if constellation.start else None,
        "visible_rounds": schedule.visible_rounds.tolist(),
        "visible_share": (schedule.visible_rounds / schedule.rounds).tolist(),
        "idle_rounds": schedule.idle_rounds,
        "longest_gap_rounds": schedule.tau_max,
        "longest_gaps_rounds": schedule.longest_gaps_rounds.tolist(),
        "longest_idle_rounds": schedule.longest_idle_rounds,
        "contacts": len(contacts),
        "contact_s": float(contacts.duration_s.sum()),
    }


def _write(
    folder: Path,
    constellation: Constellation,
    stations: tuple[GroundStation, ...],
    schedule: Schedule,
    contacts: Contacts,
    progress: Progress,
) -> list[Path]:
    # Matplotlib takes half a second to import: only those who draw wait for it.
    from fedorbit.report import orbit_figures, style

    radius_km = np.linalg.norm(constellation.r_ecef_km_at(np.zeros(1, int), np.zeros(1)))
    period_s = float(2.0 * np.pi * np.sqrt(radius_km**3 / EARTH_MU_KM3_S2))
    steps: list[Callable[[], list[Path]]] = [
        lambda: style.save(orbit_figures.timeline(schedule), folder, "timeline"),
        lambda: style.save(
            orbit_figures.ground_track_map(constellation, stations, period_s), folder, "map"
        ),
        lambda: write_orbit_tables(folder, schedule, contacts, constellation, stations),
    ]
    files: list[Path] = []
    progress.start("writing figures and tables", len(steps), "steps")
    try:
        for step in steps:
            files += step()
            progress.advance(1)
    finally:
        progress.finish()
    return files


def _print_tables(
    settings: Config,
    constellation: Constellation,
    stations: tuple[GroundStation, ...],
    schedule: Schedule,
    contacts: Contacts,
    listed: int,
    service: Service | None = None,
) -> None:
    hours = horizon_s(settings) / 3600.0
    round_min = settings.schedule.round_s / 60.0
    table = Table(
        f"{constellation.satellites} satellites in {constellation.orbits} orbits, "
        f"{len(stations)} ground station{'s' if len(stations) > 1 else ''}, "
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
        _add_orbits(table, constellation, schedule, service, contacts, first, together, cells)
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
    if listed and len(contacts):
        _print_contacts(contacts, constellation, stations, listed)


def _add_orbits(
    table: Table,
    constellation: Constellation,
    schedule: Schedule,
    service: Service | None,
    contacts: Contacts,
    first: int,
    together: int,
    cells: int,
) -> None:
    """Add a row about one orbit or several neighbours."""
    last = min(first + together, schedule.orbits) - 1
    rows = slice(first, last + 1)
    in_view = schedule.visible_rounds[rows].mean()
    passes_s = contacts.duration_s[(contacts.orbit >= first) & (contacts.orbit <= last)]
    table.add_row(
        f"{first}" if first == last else f"{first}-{last}",
        str(constellation.satellites_per_orbit[rows].sum()),
        f"{in_view:.0f}",
        *([f"{service.schedule.visible_rounds[rows].mean():.0f}"] if service else []),
        f"{100.0 * in_view / schedule.rounds:.1f} %",
        str(schedule.longest_gaps_rounds[rows].max()),
        str(len(passes_s)),
        f"{passes_s.mean() / 60.0:.1f} min" if len(passes_s) else "-",
        sparkline(schedule.visible[:, rows], cells),
    )


def _print_contacts(
    contacts: Contacts,
    constellation: Constellation,
    stations: tuple[GroundStation, ...],
    listed: int,
) -> None:
    table = Table(
        f"First {min(listed, len(contacts))} of {len(contacts)} contacts, times since the start",
        [
            Column("station", rank=1 if len(stations) == 1 else 0, text=True),
            Column("satellite", text=True),
            Column("rise"),
            Column("culmination", rank=3),
            Column("set"),
            Column("highest", rank=2),
        ],
    )
    for row in contact_rows(contacts, constellation, stations, listed):
        table.add_row(
            row["station"],
            row["satellite_name"],
            "up at start" if row["cut_at_start"] else _clock(row["rise_s"]),
            _clock(row["culmination_s"]),
            "up at end" if row["cut_at_end"] else _clock(row["set_s"]),
            f"{row['max_elevation_deg']:.1f}{'°' if printable('°') else ' deg'}",
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
