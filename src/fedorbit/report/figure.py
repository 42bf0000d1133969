"""A figure of the page: a heading, a place where the script draws, and its numbers as a table."""

from collections.abc import Sequence
from typing import Any

from fedorbit.report.markup import Html, joined, table, tag
from fedorbit.report.statistics import evenly
from fedorbit.results.numbers import NOT_KNOWN, percent

TABLE_ROWS = 25


def chart(
    name: str,
    heading: str,
    caption: str,
    in_words: str,
    data: Html | None,
    before: Html | None = None,
    after: Html | None = None,
    number: int | None = None,
) -> Html:
    """Build a figure; `before` and `after` enclose the drawing, `number` counts those of a kind."""
    # Figures side by side share three rows: what is above, the drawing, what is below.
    return tag(
        "figure",
        tag("figcaption", tag("h3", heading), tag("p", caption), before),
        tag("div", class_="plot", role="img", aria_label=in_words),
        after,
        data and tag("details", tag("summary", f"Data: {heading.lower()}"), data),
        data_chart=name,
        data_number=number,
    )


def curve_table(
    curves: list[dict[str, Any]],
    labels: dict[int, str],
    x: str,
    round_h: float | None = None,
    of: str | None = None,
) -> Html:
    """Build a table of some points of every curve; where curves have their own x, it stands beside.

    With `round_h`, x are rounds, and the hours at which they end stand beside them. `of` is a line
    above the table, where a chart has several.
    """

    def place(value: float) -> list[str]:
        hours = [] if round_h is None else [f"{(value + 1) * round_h:,.1f}"]
        return [f"{value:,.0f}", *hours]

    x_heads = [x] if round_h is None else [x, "hours"]
    same_x = all(curve["x"] == curves[0]["x"] for curve in curves)
    head: list[str] = x_heads if same_x else []
    for curve in curves:
        head = [*head, *([] if same_x else x_heads), labels[curve["series"]]]
    longest = max(len(curve["x"]) for curve in curves)
    rows = []
    for i in evenly(longest, TABLE_ROWS):
        row = place(curves[0]["x"][i]) if same_x else []
        for curve in curves:
            known = i < len(curve["x"]) and curve["mean"][i] is not None
            at = place(curve["x"][i]) if known else [NOT_KNOWN] * len(x_heads)
            row += [*([] if same_x else at), with_half(curve, i) if known else NOT_KNOWN]
        rows.append(row)
    built = table(head, rows, of or f"Values against {x}")
    return built if of is None else joined([tag("p", of), built])


def with_half(curve: dict[str, Any], i: int) -> str:
    """Mean at a point of a curve, and half the width of its band."""
    half = curve["half"][i] if curve["half"] else None
    return percent(curve["mean"][i]) + ("" if half is None else f" ± {percent(half)}")


def picker(name: str, options: Sequence[tuple[object, str]], chosen: object, class_: str) -> Html:
    """Build a choice of values with their texts."""
    built = (tag("option", text, value=v, selected=v == chosen) for v, text in options)
    return tag("label", f"{name} ", tag("select", *built, class_=class_))


def left_out(heading: str, why: str) -> Html:
    """Build a figure that says why there is nothing to see."""
    return tag("figure", tag("figcaption", tag("h3", heading), tag("p", f"Left out: {why}.")))
