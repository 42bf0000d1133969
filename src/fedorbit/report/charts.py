"""The charts of a setting: places where the script draws, each with words and a table."""

from typing import Any

from fedorbit.report import confusions, noted, onboard
from fedorbit.report.curves import TRAFFIC, begun, headline_rows, visible_windows
from fedorbit.report.markup import Html, joined, table, tag
from fedorbit.report.replicates import Setting
from fedorbit.report.run_links import LISTED, RunLinks, run_links
from fedorbit.report.statistics import evenly
from fedorbit.report.wording import figures_in_words, listed
from fedorbit.results.numbers import NOT_KNOWN, amount, percent

TABLE_ROWS = 25
BANDS = " Bands are 95 % confidence intervals of the mean over seeds."


def setting_section(number: int, setting: Setting, shown: dict[str, Any]) -> Html:
    """Build all charts of a setting."""
    if not begun(setting):
        nothing = tag("p", "No round of this setting is recorded yet.", class_="small")
        return tag(
            "section", tag("h2", setting.label), nothing, class_="setting", data_setting=number
        )
    rows = headline_rows(setting)
    labels = {c["series"]: s.label for c, s in zip(shown["accuracy"], begun(setting), strict=True)}
    seeds = max(len(row.seeds) for row in rows)
    band = BANDS if seeds > 1 else ""
    strip = " Shaded: rounds with an orbit in view; darker below: more orbits."
    accuracy = f"Accuracy per round. At the end: {figures_in_words(rows, 'accuracy', ' %')}."
    spread = f"Spread per round. At the end: {figures_in_words(rows, 'spread', ' points')}."
    by_clock = is_by_clock(setting)
    caption = "Against simulated hours since the start, %."
    hours = _chart(
        "hours", "Accuracy over time", f"{caption}{band if by_clock else ''}",
        f"Accuracy against simulated hours. {accuracy}",
        _curve_table(shown["hours"], labels, "hours"),
    )  # fmt: skip
    parts = [
        tag("h2", setting.label or "Training", tabindex="-1"),
        hours if by_clock else None,
        _noted(setting, shown, labels, band),
        _parameters(shown),
        tag(
            "div",
            _chart("accuracy", "Accuracy", f"Mean over orbits, %.{band}{strip}", accuracy,
                   _curve_table(shown["accuracy"], labels, "round")),
            _chart("spread", "Spread", "Best minus worst orbit, percentage points.", spread,
                   _curve_table(shown["spread"], labels, "round")),
            None if by_clock else hours,
            _chart("samples", "Accuracy for computation", "Against samples trained so far, %.",
                   f"Accuracy against samples trained. {accuracy}",
                   _curve_table(shown["samples"], labels, "samples")),
            _chart("bytes", "Accuracy for communication",
                   "Against bytes over ground-station links so far, up and down, %.",
                   f"Accuracy against bytes over ground-station links. {accuracy}",
                   _curve_table(shown["bytes"], labels, "bytes")),
            class_="grid",
        ),
        _orbits(shown, labels, seeds),
        _confusion(setting, shown, labels),
        _timeline(setting, shown),
        _map(setting, shown),
        _classes(setting, shown),
        _traffic(shown, labels),
        _onboard(setting, shown),
    ]  # fmt: skip
    return tag("section", *parts, class_="setting", data_setting=number)


def is_by_clock(setting: Setting) -> bool:
    """Return whether accuracy over time is what a setting is about.

    So it is where methods aggregate when they can instead of in rounds, and where a study asks for
    hours.
    """
    runs = [r for s in setting.series for r in s.replicates]
    asked = any("hours_to_80" in r.run.study.metrics for r in runs)
    return asked or any(noted.noting(setting, name) for name in noted.KINDS)


def _noted(
    setting: Setting, shown: dict[str, Any], labels: dict[int, str], band: str
) -> Html | None:
    """What methods noted about their aggregations, where any did."""
    charts = []
    for name, values in shown.get("noted", {}).items():
        kind, curves = noted.KINDS[name], values["curves"]
        words = noted.in_words(setting, name)
        data = _curve_table(curves, labels, "hours")
        charts.append(_chart(name, kind.heading, f"{kind.caption}{band}", words, data))
    return tag("div", *charts, class_="grid") if charts else None


def _chart(
    name: str,
    heading: str,
    caption: str,
    in_words: str,
    data: Html | None,
    before: Html | None = None,
    after: Html | None = None,
    number: int | None = None,
) -> Html:
    return tag(
        "figure",
        tag("figcaption", tag("h3", heading), tag("p", caption)),
        before,
        tag("div", class_="plot", role="img", aria_label=in_words),
        after,
        data and tag("details", tag("summary", f"Data: {heading.lower()}"), data),
        data_chart=name,
        data_number=number,
    )


def _curve_table(curves: list[dict[str, Any]], labels: dict[int, str], x: str) -> Html:
    """Table of some points of every curve; where curves have their own x, it stands beside."""
    same_x = all(curve["x"] == curves[0]["x"] for curve in curves)
    head: list[str] = [x] if same_x else []
    for curve in curves:
        head += [labels[curve["series"]]] if same_x else [x, labels[curve["series"]]]
    longest = max(len(curve["x"]) for curve in curves)
    digits = 1 if x == "hours" else 0
    rows = []
    for i in evenly(longest, TABLE_ROWS):
        row: list[str] = [f"{curves[0]['x'][i]:,.{digits}f}"] if same_x else []
        for curve in curves:
            known = i < len(curve["x"]) and curve["mean"][i] is not None
            text = _with_half(curve, i) if known else NOT_KNOWN
            at = f"{curve['x'][i]:,.{digits}f}" if known else NOT_KNOWN
            row += [text] if same_x else [at, text]
        rows.append(row)
    return table(head, rows, f"Values against {x}")


def _with_half(curve: dict[str, Any], i: int) -> str:
    """Mean at a point of a curve, and half the width of its confidence interval."""
    half = curve["half"][i] if curve["half"] else None
    return percent(curve["mean"][i]) + ("" if half is None else f" ± {percent(half)}")


def _parameters(shown: dict[str, Any]) -> Html | None:
    """Final figures over the values of parameters, where several were tried."""
    charts = []
    for number, sweep in enumerate(shown["sweeps"]):
        accuracy, spread = sweep["accuracy"], sweep["spread"]
        caption = f"Final accuracy (%) and spread (points) by {sweep['name']}."
        if any(half is not None for half in accuracy["half"]):
            caption += BANDS
        if sweep["default"] is not None:
            caption += f" Dashed: accuracy with the default, {percent(sweep['default'])} %."
        rows = [
            (str(value), _with_half(accuracy, i), _with_half(spread, i))
            for i, value in enumerate(sweep["values"])
        ]
        words = "; ".join(f"{value}: {a} %, spread {s}" for value, a, s in rows)
        data = table((sweep["parameter"], "accuracy, %", "spread, points"), rows, caption)
        charts.append(
            _chart("sweep", sweep["name"], caption, f"{caption} {words}.", data, number=number)
        )
    if not charts:
        return None
    grid = tag("div", *charts, class_="grid")
    if not shown["sweeps_left_out"]:
        return grid
    more = f"{shown['sweeps_left_out']} more combinations of parameters are left out."
    return joined([grid, tag("p", more, class_="small")])


def _orbits(shown: dict[str, Any], labels: dict[int, str], seeds: int) -> Html:
    series = shown["orbits"]
    options = [
        tag("option", labels[row["series"]], value=row["series"], selected=row is series[-1])
        for row in series
    ]
    picker = tag("label", "Method ", tag("select", *options, class_="orbit-series"), hidden=True)
    ends = {labels[row["series"]]: [values[-1] for values in row["rows"]] for row in series}
    orbits = len(series[0]["rows"])
    caption = "Accuracy of each orbit's model on its own test samples, %."
    caption += " Mean over seeds." if seeds > 1 else ""
    words = "; ".join(
        f"{name}: lowest {percent(min(known))}, highest {percent(max(known))} %"
        for name, values in ends.items()
        if (known := [value for value in values if value is not None])
    )
    head = ["last round", *(f"orbit {o}" for o in range(orbits))]
    rows = [(name, *map(percent, values)) for name, values in ends.items()]
    data = table(head, rows, "Accuracy per orbit in the last round")
    in_words = f"Accuracy of {orbits} orbits over rounds; in the last round {words}."
    return _chart("orbits", "Accuracy per orbit", caption, in_words, data, before=picker)


def _confusion(setting: Setting, shown: dict[str, Any], labels: dict[int, str]) -> Html | None:
    """Which classes are taken for which at the end, where it was recorded."""
    values = shown.get("confusion")
    if values is None:
        return None
    rows = values["rows"]
    methods = [
        tag("option", labels[row["series"]], value=n, selected=row is rows[-1])
        for n, row in enumerate(rows)
    ]
    orbits = [tag("option", "all", value=-1, selected=True)]
    orbits += [tag("option", o, value=o) for o in range(max(len(row["orbits"]) for row in rows))]
    pickers = tag(
        "div",
        tag("label", "Method ", tag("select", *methods, class_="confusion-method")),
        tag("label", " Orbit ", tag("select", *orbits, class_="confusion-orbit")),
        class_="pickers",
        hidden=True,
    )
    caption = (
        "Test samples of each true class (rows) by the class they are taken for (columns, in the "
        "same order) at the last evaluation; colours are shares of the row."
    )
    words = f"Confusion matrix of {len(values['names'])} classes. {confusions.in_words(setting)}."
    data = confusions.class_tables(setting)
    return _chart("confusion", "Confusion of classes", caption, words, data, before=pickers)


def _timeline(setting: Setting, shown: dict[str, Any]) -> Html | None:
    windows, rounds = visible_windows(setting), shown["rounds"]
    if windows is None:
        return _left_out("Contacts", "rounds were not all evaluated and the run left no world.json")
    seen = shown["in_view"]
    in_view: set[int] = set()
    for row in windows:
        for begin, end in row:
            in_view.update(range(begin, end))
    idle = 100.0 * (rounds - len(in_view)) / rounds
    passes = (setting.run.world or {}).get("passes")
    # Files of earlier versions know no contacts: rounds in a row can hold several, or miss one.
    counted, last = (
        (passes, "passes") if passes is not None else (list(map(len, windows)), "runs of rounds")
    )
    rows = [
        (f"orbit {o}", in_rounds, f"{100.0 * in_rounds / rounds:.1f} %", count)
        for o, (in_rounds, count) in enumerate(zip(seen, counted, strict=True))
    ]
    caption = f"Rounds in which an orbit is in view of a station; {idle:.1f} % of rounds have none."
    if service := (setting.run.world or {}).get("service"):
        caption += (
            f" Only rounds are shown that are long enough to send a model up and one down, "
            f"{service['exchange_s']:.1f} s."
        )
    words = f"{caption} Orbits are in view in {min(seen)} to {max(seen)} of {rounds} rounds."
    data = table(("orbit", "rounds in view", "share", last), rows, "Rounds in view per orbit")
    links = run_links(setting.run.world)
    if links is not None:
        caption += f" {_links_in_words(links)}"
        data = joined([data, *_link_tables(links)])
    return _chart("timeline", "Contacts", caption, words, data)


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


def _map(setting: Setting, shown: dict[str, Any]) -> Html:
    world = setting.run.world
    if world is None:
        return _left_out("Map", "the run left no world.json")
    positions, stations = world["positions"], world["stations"]
    drawn, total = len(positions["satellites"]), positions["of_satellites"]
    caption = (
        "Satellites at a round, filled while a station sees them, and 45 minutes of their tracks."
    )
    if drawn < total:
        caption = f"{drawn} of {total} satellites at a round, filled while a station sees them."
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
    return _chart("map", "Map", caption, words, data,
                  after=joined([slider, tag("output", aria_live="polite")]))  # fmt: skip


def _classes(setting: Setting, shown: dict[str, Any]) -> Html:
    world = setting.run.world
    if world is None:
        return _left_out("Classes and similarity", "the run left no world.json")
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
        _chart("classes", "Classes per orbit", caption, words, table(head, rows, caption))
    ]
    matrix, beta = world["similarity"], f"β = {world['beta']:.3f}"
    caption = (
        f"One minus the Jensen-Shannon distance of the class histograms; mean of all pairs {beta}."
    )
    if matrix is None:
        charts.append(_left_out("Similarity of orbits", f"there are too many orbits; {beta}"))
    else:
        rows = [(f"orbit {o}", *(f"{v:.3f}" for v in row)) for o, row in enumerate(matrix)]
        words = f"Class similarity of {len(matrix)} orbits; {beta}."
        head = ["", *(f"orbit {o}" for o in range(len(matrix)))]
        charts.append(
            _chart("similarity", "Similarity of orbits", caption, words, table(head, rows, caption))
        )
    return tag("div", *charts, class_="grid")


def _traffic(shown: dict[str, Any], labels: dict[int, str]) -> Html:
    rows = [
        (labels[row["series"]], *(amount(row[key], "B") for key in TRAFFIC))
        for row in shown["traffic"]
    ]
    words = "; ".join(
        f"{row[0]}: "
        + ", ".join(f"{n} {v}" for n, v in zip(TRAFFIC.values(), row[1:], strict=True))
        for row in rows
    )
    caption = "Totals, four bytes per parameter; × is against FedAvg in the same setting."
    return _chart("traffic", "Communication", caption, f"Bytes moved. {words}.",
                  table(("method", *TRAFFIC.values()), rows, "Bytes moved"))  # fmt: skip


def _onboard(setting: Setting, shown: dict[str, Any]) -> Html | None:
    """Time and charge on board, where they were recorded."""
    values = shown.get("onboard")
    if values is None:
        return None
    caption = (
        "Seconds that the slowest orbit trains and exchanges models in a round; dashed: the length "
        f"of a round, {values['round_s']:g} s."
    )
    charts = [
        _chart("onboard", "Time on board", caption, onboard.time_in_words(setting),
               onboard.time_table(setting))
    ]  # fmt: skip
    if values["charge"]:
        caption = "Charge of the emptiest battery after each evaluated round, % of its capacity."
        charts.append(
            _chart("charge", "Charge on board", caption, onboard.charge_in_words(setting),
                   onboard.charge_table(setting))
        )  # fmt: skip
    return tag("div", *charts, class_="grid")


def _left_out(heading: str, why: str) -> Html:
    return tag("figure", tag("figcaption", tag("h3", heading), tag("p", f"Left out: {why}.")))
