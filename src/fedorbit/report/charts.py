"""The charts of a setting: elements that the script draws in, each with a text and a table."""

from typing import Any

from fedorbit.report import confusions, noted, onboard
from fedorbit.report.curves import TRAFFIC, begun, headline_rows
from fedorbit.report.figure import chart, curve_table, picker, with_half
from fedorbit.report.markup import Html, joined, table, tag
from fedorbit.report.replicates import Setting
from fedorbit.report.transfers import transfer_chart
from fedorbit.report.wording import figures_in_words
from fedorbit.report.world_charts import classes_charts, map_chart, timeline_chart
from fedorbit.results.numbers import amount, percent

OVER = {"bytes": "all links", "ground_bytes": "links with the ground"}
"""Names of the links of `curves.LINKS`."""
BANDS = {
    1: "",
    2: " Bands span the two seeds.",
    3: " Bands are 95 % confidence intervals of the mean over seeds.",
}
"""Words for the bands of one, two, and three or more seeds."""


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
    band = BANDS[min(seeds, 3)]
    strip = f" Shaded: rounds with an orbit {shown['seen_as']}; darker below: more orbits."
    accuracy = f"Accuracy per round. At the end: {figures_in_words(rows, 'accuracy', ' %')}."
    spread = f"Spread per round. At the end: {figures_in_words(rows, 'spread', ' points')}."
    round_h = shown["round_h"]
    over_time = chart(
        "accuracy", "Accuracy", f"Mean over orbits, %.{band}{strip}", accuracy,
        curve_table(shown["accuracy"], labels, "round", round_h),
    )  # fmt: skip
    parts = [
        tag("h2", setting.label or "Training", tabindex="-1"),
        over_time if shown["by_clock"] else None,
        _noted(setting, shown, labels, band),
        _parameters(shown, band),
        tag(
            "div",
            None if shown["by_clock"] else over_time,
            chart("spread", "Spread", "Best minus worst orbit, percentage points.", spread,
                   curve_table(shown["spread"], labels, "round", round_h)),
            chart("samples", "Accuracy for computation", "Against samples trained so far, %.",
                   f"Accuracy against samples trained. {accuracy}",
                   curve_table(shown["samples"], labels, "samples")),
            _communication(f"Accuracy against bytes over all links. {accuracy}",
                           _bytes_tables(shown, labels)),
            class_="grid",
        ),
        _orbits(shown, labels, seeds),
        confusions.class_charts(setting, shown, labels),
        timeline_chart(setting, shown),
        map_chart(setting),
        transfer_chart(setting, shown, labels),
        classes_charts(setting),
        _traffic(shown, labels),
        _onboard(setting, shown),
    ]  # fmt: skip
    return tag("section", *parts, class_="setting", data_setting=number)


def together_section(number: int) -> Html:
    """Build the charts of all settings together; their numbers are those of each setting."""
    where = "The numbers are in the charts of each setting."
    charts = (
        chart("accuracy", "Accuracy", "Mean over orbits and seeds, %.",
              f"Accuracy per round in all settings. {where}", None),
        chart("spread", "Spread", "Best minus worst orbit, percentage points.",
              f"Spread per round in all settings. {where}", None),
        chart("samples", "Accuracy for computation", "Against samples trained so far, %.",
              f"Accuracy against samples trained in all settings. {where}", None),
        _communication(f"Accuracy against bytes in all settings. {where}", None),
    )  # fmt: skip
    heading = tag("h2", "All settings together", tabindex="-1")
    grid = tag("div", *charts, class_="grid")
    return tag("section", heading, grid, class_="setting", data_setting=number, hidden=True)


def _communication(in_words: str, data: Html | None) -> Html:
    """Build the chart of accuracy against bytes, over all links or with the ground alone."""
    choice = picker("Bytes over", list(OVER.items()), "bytes", "bytes-links")
    return chart(
        "bytes", "Accuracy for communication", "Against bytes sent so far, %.", in_words, data,
        before=tag("div", choice, class_="pickers", hidden=True),
    )  # fmt: skip


def _bytes_tables(shown: dict[str, Any], labels: dict[int, str]) -> Html:
    return joined(
        curve_table(shown[name], labels, "bytes", of=f"Bytes over {links}")
        for name, links in OVER.items()
    )


def _noted(
    setting: Setting, shown: dict[str, Any], labels: dict[int, str], band: str
) -> Html | None:
    """Build the charts of notes about aggregations; None where no method noted any."""
    charts = []
    for name, values in shown.get("noted", {}).items():
        kind, words = noted.KINDS[name], noted.in_words(setting, name)
        data = curve_table(values, labels, "round", shown["round_h"])
        charts.append(chart(name, kind.heading, f"{kind.caption}{band}", words, data))
    return tag("div", *charts, class_="grid") if charts else None


def _parameters(shown: dict[str, Any], band: str) -> Html | None:
    """Build the charts of final figures over the values of parameters, where several were tried."""
    charts = []
    for number, sweep in enumerate(shown["sweeps"]):
        accuracy, spread = sweep["accuracy"], sweep["spread"]
        caption = f"Final accuracy (%) and spread (points) by {sweep['name']}."
        if any(half is not None for half in accuracy["half"]):
            caption += band
        if sweep["default"] is not None:
            caption += f" Dashed: accuracy with the default, {percent(sweep['default'])} %."
        rows = [
            (str(value), with_half(accuracy, i), with_half(spread, i))
            for i, value in enumerate(sweep["values"])
        ]
        words = "; ".join(f"{value}: {a} %, spread {s}" for value, a, s in rows)
        data = table((sweep["parameter"], "accuracy, %", "spread, points"), rows, caption)
        charts.append(
            chart("sweep", sweep["name"], caption, f"{caption} {words}.", data, number=number)
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
    methods = [(row["series"], labels[row["series"]]) for row in series]
    choice = picker("Method", methods, methods[-1][0], "orbit-series")
    pickers = tag("div", choice, class_="pickers", hidden=True)
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
    return chart("orbits", "Accuracy per orbit", caption, in_words, data, before=pickers)


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
    return chart("traffic", "Communication", caption, f"Bytes moved. {words}.",
                  table(("method", *TRAFFIC.values()), rows, "Bytes moved"))  # fmt: skip


def _onboard(setting: Setting, shown: dict[str, Any]) -> Html | None:
    """Build the charts of time and charge on board, where they were recorded."""
    values = shown.get("onboard")
    if values is None:
        return None
    caption = (
        "Seconds that the slowest orbit trains and exchanges models in a round; dashed: the length "
        f"of a round, {values['round_s']:g} s."
    )
    charts = [
        chart("onboard", "Time on board", caption, onboard.time_in_words(setting),
               onboard.time_table(setting))
    ]  # fmt: skip
    if values["charge"]:
        caption = "Charge of the emptiest battery after each evaluated round, % of its capacity."
        charts.append(
            chart("charge", "Charge on board", caption, onboard.charge_in_words(setting),
                   onboard.charge_table(setting))
        )  # fmt: skip
    return tag("div", *charts, class_="grid")
