"""Transfers of models between orbits and stations: messages and bytes of each pair."""

from collections.abc import Sequence
from typing import Any

from fedorbit.report.curves import begun
from fedorbit.report.figure import chart, picker
from fedorbit.report.markup import Html, table, tag
from fedorbit.report.replicates import Series, Setting
from fedorbit.results.numbers import amount

MAX_PAIRS = 2000
"""Pairs of a method on a page: those with most bytes."""
LISTED = 100
"""Number of rows in the table."""


def end_names(setting: Setting) -> list[str]:
    """Return the names of all ends: orbits, stations, and the ground as a whole, which is last."""
    world = setting.run.world
    if world is None:
        return []
    orbits = [f"orbit {orbit}" for orbit in range(len(world["visible"]))]
    return [*orbits, *(station["name"] for station in world["stations"]), "the ground"]


def transfers_of(series: Series, ends: int) -> list[tuple[int, int, float, float]] | None:
    """Return source, target, messages and bytes, means over the seeds that are done.

    None where no seed counted transfers, or where a summary names an end that does not exist.
    """
    summaries = [replicate.summary or {} for replicate in series.replicates]
    counted = [summary["transfers"] for summary in summaries if "transfers" in summary]
    rows = [row for rows in counted for row in rows]
    if not counted or any(max(row[:2]) >= ends - 1 for row in rows):
        return None
    totals: dict[tuple[int, int], tuple[int, int]] = {}
    for source, target, messages, size_bytes in rows:
        pair = (source % ends, target % ends)  # the ground, -1, is the last
        before = totals.get(pair, (0, 0))
        totals[pair] = (before[0] + messages, before[1] + size_bytes)
    seeds = len(counted)
    found = [(a, b, n / seeds, size / seeds) for (a, b), (n, size) in totals.items()]
    return sorted(found, key=lambda row: -row[3])


def transfer_values(setting: Setting, labels: Sequence[str]) -> dict[str, Any] | None:
    """Return the values that the page's script draws; None where no run has counted transfers."""
    names = end_names(setting)
    found = {s.label: transfers_of(s, len(names)) for s in begun(setting)} if names else {}
    rows: list[dict[str, Any]] = [
        {
            "series": labels.index(label),
            "pairs": len(pairs),
            "cells": [[a, b, round(n, 1), round(size)] for a, b, n, size in pairs[:MAX_PAIRS]],
        }
        for label, pairs in found.items()
        if pairs
    ]
    if not rows:
        return None
    if not any(len(names) - 1 in cell[:2] for row in rows for cell in row["cells"]):
        names = names[:-1]  # all stations are known
    return {"names": names, "rows": rows}


def transfer_chart(setting: Setting, shown: dict[str, Any], labels: dict[int, str]) -> Html | None:
    """Build the matrix of transfers, where runs have counted them."""
    values = shown.get("transfers")
    if values is None:
        return None
    names, rows = values["names"], values["rows"]
    methods = [(n, labels[row["series"]]) for n, row in enumerate(rows)]
    pickers = tag(
        "div",
        picker("Method", methods, methods[-1][0], "transfers-method"),
        picker(
            "Shown", [("bytes", "bytes"), ("messages", "messages")], "bytes", "transfers-measure"
        ),
        class_="pickers",
        hidden=True,
    )
    caption = (
        "From orbits and stations (rows) to others (columns), over links that exist: within an "
        "orbit, between orbits, and with the ground. A relayed message counts on each of its links."
    )
    if (most := max(row["pairs"] for row in rows)) > MAX_PAIRS:
        caption += f" Of up to {most:,} pairs, the {MAX_PAIRS:,} with most bytes are shown."
    cells = [
        (labels[row["series"]], names[a], names[b], amount(n), amount(size, "B"))
        for row in rows
        for a, b, n, size in row["cells"][: LISTED // len(rows)]
    ]
    words = "; ".join(
        f"{labels[row['series']]}: most from {names[a]} to {names[b]}, {amount(size, 'B')}"
        for row in rows
        for a, b, _, size in row["cells"][:1]
    )
    data = table(("method", "from", "to", "messages", "bytes"), cells, "Transfers with most bytes")
    in_words = f"Bytes between {len(names)} orbits and stations. {words}."
    return chart("transfers", "Exchanges over links", caption, in_words, data, before=pickers)
