"""The parts of the page around its charts: notes, results, switches, provenance."""

from collections.abc import Sequence

from fedorbit.report.curves import (
    HeadlineRow,
    further_metrics,
    headline_rows,
    is_compared_with_fedavg,
)
from fedorbit.report.markup import Html, joined, scrolling, table, tag
from fedorbit.report.replicates import Comparison
from fedorbit.results.estimates import Estimate
from fedorbit.results.metrics import find_metric
from fedorbit.results.numbers import NOT_KNOWN, amount, percent, ratio

SHOWN_NOTES = 5
COLOURS = 7
MARKS = (
    "m-3.4 0a3.4 3.4 0 1 0 6.8 0a3.4 3.4 0 1 0 -6.8 0z",
    "m-3 -3h6v6h-6z",
    "m0 -4.2l4 7.2h-8z",
    "m0 -4.4l3.6 4.4l-3.6 4.4l-3.6 -4.4z",
    "m-1.3 -4.4h2.6v8.8h-2.6z",
)
"""Colours and marks of the series, as in svg.js."""
CLOSER = (
    "Drag across a chart to look closer; a double click, or Show all, goes back. With the "
    "keyboard: arrow keys for the values, + and - to look closer and back, Escape for everything."
)
COLUMNS = (
    "method", "accuracy, %", "spread, points", "samples trained", "to ground", "seeds",
)  # fmt: skip


def notes(comparison: Comparison) -> Html | None:
    """List what is unfinished or missing."""
    if not comparison.notes:
        return None
    items = [tag("li", note) for note in comparison.notes]
    more = None
    if len(items) > SHOWN_NOTES:
        summary = tag("summary", f"and {len(items) - SHOWN_NOTES} more")
        more = tag("details", summary, tag("ul", *items[SHOWN_NOTES:]))
    return tag("div", tag("ul", *items[:SHOWN_NOTES]), more, class_="note", role="note")


def headline(comparison: Comparison) -> Html:
    """Build the table of final figures, setting by setting."""
    several = len(comparison.settings) > 1
    further = further_metrics(comparison.settings)
    compared = is_compared_with_fedavg(comparison.settings)
    metrics = [find_metric(name) for name in further]
    heads = (metric.head for metric in metrics)
    columns = (*COLUMNS[:-1], *["/ FedAvg"] * compared, *heads, COLUMNS[-1])
    groups = []
    for setting in comparison.settings:
        rows = [_headline_row(row, comparison, further, compared) for row in headline_rows(setting)]
        if several:
            name = tag(
                "th", setting.label, class_="setting", colspan=len(columns), scope="rowgroup"
            )
            rows.insert(0, tag("tr", name))
        groups.append(tag("tbody", *rows))
    caption = "Final figures per method"
    head = tag("thead", tag("tr", *(tag("th", name, scope="col") for name in columns)))
    built = tag("table", head, *groups, aria_label=caption, id="headline")
    explained = (
        "Accuracy is the mean over orbits of each orbit's model on its own test samples, spread "
        f"the best orbit minus the worst; both are {comparison.averaged}, "
        "± standard deviation over seeds. Bold is best among finished methods"
        + (", the centralised bound left out." if "centralised" in comparison.labels else ".")
    )
    explained += "".join(f" {metric.explained}" for metric in metrics if metric.explained)
    if any(row.published for setting in comparison.settings for row in headline_rows(setting)):
        explained += " Published values are those of the study that the runs belong to."
    return tag(
        "section",
        tag("h2", "Results", id="results"),
        scrolling(built, caption),
        tag("p", explained, class_="small"),
        aria_labelledby="results",
    )


def toolbar(comparison: Comparison) -> Html:
    """Build the choice of setting, and one switch per series."""
    options = [
        tag("option", setting.label, value=number)
        for number, setting in enumerate(comparison.settings)
    ]
    if comparison.fits_one_chart:
        options.append(tag("option", "all together", value=len(options)))
    choice = tag("label", "Setting ", tag("select", *options, id="setting"))
    switches = (
        tag(
            "button",
            _key(number),
            label,
            class_="toggle",
            type="button",
            aria_pressed="true",
            data_series=number,
        )
        for number, label in enumerate(comparison.labels)
    )
    hours = tag(
        "button", "Hours", id="hours", class_="switch", type="button", aria_pressed="false",
        title="Simulated hours instead of rounds",
    )  # fmt: skip
    scale = tag(
        "button", "0 to 100 %", id="full-scale", class_="switch", type="button",
        aria_pressed="false", title="Axes of percentages from 0 to 100 instead of what is shown",
    )  # fmt: skip
    bar = tag(
        "div",
        choice if len(options) > 1 else None,
        *switches,
        hours,
        scale,
        class_="bar",
        role="toolbar",
        aria_label="What the charts show",
        hidden=True,
    )
    return joined([bar, tag("p", CLOSER, class_="small hint", hidden=True)])


def provenance(comparison: Comparison) -> Html:
    """List every run with what made it, and the configuration of each setting."""
    rows, configurations = [], []
    for setting in comparison.settings:
        for series in setting.series:
            for replicate in series.replicates:
                made = (replicate.summary or {}).get("provenance", {})
                done = "finished" if replicate.summary else "unfinished"
                rows.append(
                    (
                        series.label,
                        replicate.run.path.name,
                        replicate.run.seed,
                        f"{replicate.rounds_done} of {replicate.run.rounds}, {done}",
                        amount(replicate.figures.get("seconds"), "s"),
                        f"{made.get('fedorbit', NOT_KNOWN)} {made.get('backend', '')}",
                        (made.get("commit") or NOT_KNOWN)[:12]
                        + ("+" if (made.get("commit") or "").endswith("+") else ""),
                        (made.get("config_hash") or NOT_KNOWN)[:12],
                        made.get("cpu") or made.get("machine") or NOT_KNOWN,
                    )
                )
        configurations.append(
            tag(
                "details",
                tag("summary", f"Configuration{': ' + setting.label if setting.label else ''}"),
                tag("pre", setting.run.config_text, tabindex="0"),
            )
        )
    head = ("method", "run", "seed", "rounds", "time", "version", "commit", "config", "machine")
    return tag(
        "section",
        tag("h2", "Configuration and provenance", id="provenance"),
        table(head, rows, "Runs and what made them"),
        *configurations,
        aria_labelledby="provenance",
    )


def _headline_row(
    row: HeadlineRow, comparison: Comparison, further: Sequence[str], compared: bool
) -> Html:
    name = tag("th", _key(comparison.labels.index(row.series)), row.series, scope="row")
    if not row.is_finished:
        name = tag(
            "th",
            _key(comparison.labels.index(row.series)),
            f"{row.series} (unfinished, {row.rounds} of {row.planned_rounds} rounds)",
            scope="row",
        )
    return tag(
        "tr",
        name,
        tag("td", _figure(row.accuracy, "accuracy" in row.best), _published(row, 0)),
        tag("td", _figure(row.spread, "spread" in row.best), _published(row, 1)),
        tag("td", amount(row.samples_trained.mean)),
        tag("td", amount(row.to_ground_bytes.mean, "B")),
        tag("td", ratio(row.to_ground_vs_fedavg.mean)) if compared else None,
        *(tag("td", row.printed(name)) for name in further),
        tag("td", len(row.seeds)),
        data_series=row.series,
    )


def _figure(estimate: Estimate, best: bool) -> Html:
    mean = tag("strong", percent(estimate.mean)) if best else joined([percent(estimate.mean)])
    if estimate.std is None:
        return mean
    return joined([mean, tag("span", f" ± {percent(estimate.std)}", class_="pm")])


def _published(row: HeadlineRow, place: int) -> Html | None:
    if row.published is None:
        return None
    return tag("div", f"published {percent(row.published[place])}", class_="pm")


def _key(number: int) -> Html:
    line = tag("line", x1=0, x2=26, y1=6, y2=6)
    mark = tag("path", class_="mark", d=f"M13 6{MARKS[number % len(MARKS)]}")
    return tag("svg", line, mark, class_=f"key c{number % COLOURS}", aria_hidden="true")
