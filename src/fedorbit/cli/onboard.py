"""Time and charge on board after a run, in tables and sentences."""

from collections.abc import Sequence
from typing import Any

from fedorbit.cli.output import Column, Table, stdout


def print_onboard(summaries: Sequence[dict[str, Any]]) -> None:
    """Tables of time on board: length of rounds, cut epochs, contacts that are long enough."""
    clocked = [row for row in summaries if "onboard" in row]
    if clocked:
        _print_clocks(clocked)
    service = next((row["service"] for row in summaries if "service" in row), None)
    if service is not None:
        served, in_view = sum(service["served_rounds"]), sum(service["in_view_rounds"])
        stdout.print(
            f"One model up and one down take {service['exchange_s']:.1f} s: {served} of {in_view} "
            "rounds in view, counted over orbits and the whole schedule, last long enough."
        )


def _print_clocks(rows: Sequence[dict[str, Any]]) -> None:
    round_s = rows[0]["onboard"]["round_s"]
    cut = "epochs_asked" in rows[0]["onboard"]
    charged = "lowest_charge" in rows[0]["onboard"]
    table = Table(
        f"On board, rounds of {round_s:g} s",
        [
            Column("method", left=True),
            Column("longest"),
            Column("of orbit", rank=2),
            Column("too long"),
            *([Column("epochs done")] if cut else []),
            *([Column("lowest charge", rank=1)] if charged else []),
        ],
    )
    for row in rows:
        told = row["onboard"]
        longest_s = max(told["longest_s"])
        asked = told.get("epochs_asked")
        table.add_row(
            row["method"],
            f"{longest_s:.1f} s",
            str(told["longest_s"].index(longest_s)) if longest_s else "-",
            _share(told["late_share"]),
            *([_share(told["epochs_done"] / asked if asked else None)] if cut else []),
            *([_share(min(told["lowest_charge"]))] if charged else []),
        )
    table.print()
    late = [row["method"] for row in rows if sum(row["onboard"]["late_rounds"])]
    if late:
        stdout.print(
            f"Not every orbit is done within a round of {round_s:g} s ({', '.join(late)}): "
            "lengthen schedule.round_s, train fewer epochs, or cut them by onboard.deadline=true."
        )


def _share(value: float | None) -> str:
    return "-" if value is None else f"{100.0 * value:.1f} %"
