"""The charts of a setting's world: contacts and links, the map, classes and their similarity."""

from typing import Any

from fedorbit.report.curves import visible_windows
from fedorbit.report.figure import chart, left_out
from fedorbit.report.markup import Html, joined, table, tag
from fedorbit.report.replicates import Setting
from fedorbit.report.run_links import LISTED, RunLinks, run_links
from fedorbit.report.wording import listed

MAX_TRACKS, TRACK_MAX_STEP_S = 80, 900
"""As in map.js: of more satellites, or of positions further apart, no tracks are drawn."""


def timeline_chart(setting: Setting, shown: dict[str, Any]) -> Html | None:
    """Build the contacts of every orbit, with tables of links between satellites."""
    windows, rounds = visible_windows(setting), shown["rounds"]
    if windows is None:
        return left_out("Contacts", "rounds were not all evaluated and the run left no world.json")
    seen = shown["in_view"]
    in_view: set[int] = set()
    for row in windows:
        for begin, end in row:
            in_view.update(range(begin, end))
    idle = 100.0 * (rounds - len(in_view)) / rounds
    passes = (setting.run.world or {}).get("passes")
    # Files of earlier versions have no contacts: rounds in a row can hold several, or miss one.
    counted, last = (
        (passes, "passes") if passes is not None else (list(map(len, windows)), "runs of rounds")
    )
    direct = shown["in_direct"]
    rows = [
        (
            f"orbit {o}",
            in_rounds,
            f"{100.0 * in_rounds / rounds:.1f} %",
            *([direct[o]] if direct else []),
            count,
        )
        for o, (in_rounds, count) in enumerate(zip(seen, counted, strict=True))
    ]
    how = "reaches an orbit, directly or relayed" if setting.run.is_relayed else "sees an orbit"
    caption = f"Rounds in which a station {how}; {idle:.1f} % of rounds have none."
    if direct:
        caption += " Light: reached over other satellites."
    if service := (setting.run.world or {}).get("service"):
        caption += (
            f" Only rounds are shown that are long enough to send a model up and one down, "
            f"{service['exchange_s']:.1f} s."
        )
    seen_as = shown["seen_as"]
    words = f"{caption} Orbits are {seen_as} in {min(seen)} to {max(seen)} of {rounds} rounds."
    heads = ("orbit", f"rounds {seen_as}", "share", *(["direct"] if direct else []), last)
    data = table(heads, rows, f"Rounds {seen_as} per orbit")
    links = run_links(setting.run.world)
    if links is not None:
        caption += f" {_links_in_words(links)}"
        data = joined([data, *_link_tables(links)])
    return chart("timeline", "Contacts", caption, words, data)


def _links_in_words(links: RunLinks) -> str:
    pairs = links.orbit_pairs()
    within, across = ([p for p in pairs if (p.first == p.second) is same] for same in (True, False))
    return (
        f"Links between satellites have {sum(p.windows for p in within):,} windows within orbits "
        f"and {sum(p.windows for p in across):,} between orbits."
    )


def _link_tables(links: RunLinks) -> list[Html]:
    """Build the tables of links: per pair of orbits, and the first windows."""
    found = links.orbit_pairs()
    pairs = [
        (
            f"in {pair.first}" if pair.first == pair.second else f"{pair.first} and {pair.second}",
            pair.windows,
            f"{pair.median_s:.0f}",
            f"{100.0 * pair.share:.1f} %",
        )
        for pair in found[:LISTED]
    ]
    windows = [
        (w.first, w.second, f"{w.begin_s:.1f}", f"{w.end_s:.1f}", f"{w.end_s - w.begin_s:.1f}")
        for w in links.windows()
    ]
    of_orbits = f"Links between satellites, {len(pairs)} of {len(found):,} pairs of orbits"
    of_windows = f"First {len(windows)} of {len(links):,} links between satellites"
    heads = ("satellite", "other satellite", "begin, s", "end, s", "length, s")
    return [
        table(("orbits", "links", "median, s", "linked"), pairs, of_orbits),
        table(heads, windows, of_windows),
    ]


def map_chart(setting: Setting) -> Html:
    """Build the map with its slider."""
    world = setting.run.world
    if world is None:
        return left_out("Map", "the run left no world.json")
    positions, stations = world["positions"], world["stations"]
    drawn, total = len(positions["satellites"]), positions["of_satellites"]
    of_all = f"{drawn} of {total} satellites" if drawn < total else "Satellites"
    step_s = positions["every_round"] * world["round_s"]
    has_tracks = drawn <= MAX_TRACKS and step_s <= TRACK_MAX_STEP_S
    tracks = ", and 45 minutes of their tracks" if has_tracks else ""
    caption = f"{of_all} at a round, filled while a station sees them{tracks}."
    caption += " Dashed: where a station reaches."
    links = run_links(world)
    if links is not None and links.on_map() is not None:
        caption += " Thin lines: links between satellites."
    if world["places"]:
        caption += " Discs: where the samples were taken, coloured by the orbit that holds most."
    words = (
        f"World map with {drawn} satellites in {len(world['visible'])} orbits and the stations "
        f"{listed([station['name'] for station in stations])}. The slider shows other rounds."
    )
    slider = tag(
        "div",
        tag("button", "Play", class_="play", type="button"),
        tag("input", type="range", min=0, max=world["rounds"] - 1, value=0, step=1,
            aria_label="Round shown on the map"),
        class_="slider",
        hidden=True,
    )  # fmt: skip
    rows = [
        (
            s["name"],
            f"{s['latitude_deg']:.2f}",
            f"{s['longitude_deg']:.2f}",
            f"{s['min_elevation_deg']:g}",
        )
        for s in stations
    ]
    data = table(
        ("station", "latitude, deg", "longitude, deg", "least elevation, deg"), rows, "Stations"
    )
    return chart("map", "Map", caption, words, data,
                  after=joined([slider, tag("output", aria_live="polite")]))  # fmt: skip


def classes_charts(setting: Setting) -> Html:
    """Build the classes of every orbit, and how alike the orbits are."""
    world = setting.run.world
    if world is None:
        return left_out("Classes and similarity", "the run left no world.json")
    counts, names = world["orbit_class_counts"], world["classes"]
    seed = f" Seed {setting.run.seed}."
    totals = [sum(row) for row in counts]
    rows = [(name, *(row[c] for row in counts)) for c, name in enumerate(names)]
    head = ["class", *(f"orbit {o}" for o in range(len(counts)))]
    unseen = world["unseen_samples"]
    caption = f"Training samples per class and orbit.{seed}"
    caption += f" {unseen:,} samples lie where no satellite passes." if unseen else ""
    words = (
        f"{len(names)} classes over {len(counts)} orbits, {sum(totals)} training samples; "
        f"orbits hold between {min(totals)} and {max(totals)}."
    )
    charts: list[Html] = [
        chart("classes", "Classes per orbit", caption, words, table(head, rows, caption))
    ]
    matrix, beta = world["similarity"], f"β = {world['beta']:.3f}"
    caption = (
        f"One minus the Jensen-Shannon distance of the class histograms; mean of all pairs {beta}."
    )
    if matrix is None:
        charts.append(left_out("Similarity of orbits", f"there are too many orbits; {beta}"))
    else:
        rows = [(f"orbit {o}", *(f"{v:.3f}" for v in row)) for o, row in enumerate(matrix)]
        words = f"Class similarity of {len(matrix)} orbits; {beta}."
        head = ["", *(f"orbit {o}" for o in range(len(matrix)))]
        charts.append(
            chart("similarity", "Similarity of orbits", caption, words, table(head, rows, caption))
        )
    return tag("div", *charts, class_="grid")
