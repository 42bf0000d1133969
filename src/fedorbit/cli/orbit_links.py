"""Links between satellites in `fedorbit orbits`: rings, windows, and delays of messages.

Whether satellites of an orbit see each other takes a moment and is always shown. Windows and
delays take as long as the constellation is large, and are shown where links are configured.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fedorbit.build import build_plan, build_server_groups
from fedorbit.cli.output import Column, Table, degree, stdout
from fedorbit.config import Config
from fedorbit.config.network import NetworkSection
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.earth import Floats
from fedorbit.orbits.linkage import Linkage, LinkKind, linkage
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.rings import Ring, ring_sentence, rings
from fedorbit.orbits.routing import ContactGraph, Delays, HopTimes, Spread, delays, mean_delays
from fedorbit.orbits.visibility import round_times_s
from fedorbit.progress import Progress

MOST_CONTACTS = 500_000
"""More contacts than this take minutes to route over, and gigabytes."""
MOST_STEPS = 3_000_000_000
"""Contacts x messages for all delays, about a minute; rounds are left out to stay below it."""
FEWEST_STARTS = 8
MOST_LISTED = 12
"""Means of more orbits than this are given as a range."""
NAMES = {
    "orbit_to_server": "orbit to server",
    "satellite_to_server": "satellite to server",
    "server_to_satellite": "server to satellite",
    "slowest_to_server": "slowest of an orbit to server",
    "to_mates": "satellite to orbit mate",
    "all_to_all": "all to all of an orbit",
}


@dataclass(frozen=True, eq=False)
class News:
    """Delays of messages from begins of rounds: by contacts with servers, and with links."""

    starts_s: Floats
    rounds: int
    round_s: float
    direct: ContactGraph
    linked: ContactGraph
    by_contacts: Delays
    by_links: Delays

    def mean_delays_s(self, progress: Progress) -> tuple[Floats, Floats]:
        """Return mean delays from node to node, by contacts with servers and with links."""
        found = (
            mean_delays(graph, self.starts_s, progress) for graph in (self.direct, self.linked)
        )
        (direct_s, _), (linked_s, _) = found
        return direct_s, linked_s


@dataclass(frozen=True, eq=False)
class Linked:
    """Facts about links between satellites that are printed."""

    rings: list[Ring]
    max_range_km: float | None
    links: Linkage | None
    """Links in numbers; None where no links are configured."""
    news: News | None
    """Delays of messages; None where there are no links, or too many."""
    contacts: int


def is_linked(settings: Config) -> bool:
    """Return whether a configuration asks for links between satellites from geometry."""
    return settings.network is not None and settings.network.isl == "line-of-sight"


def look_at_links(
    settings: Config,
    constellation: Constellation,
    plan: ContactPlan,
    hop_times: HopTimes,
    progress: Progress,
) -> Linked:
    """Look at rings, and where links are configured at windows and delays."""
    network = settings.network or NetworkSection()
    links = news = None
    if is_linked(settings):
        links = linkage(plan, constellation.orbit_of_satellite)
        if 2 * len(plan) <= MOST_CONTACTS:
            news = _news(settings, constellation, plan, hop_times, progress)
    return Linked(
        rings(constellation, network.grazing_km),
        network.max_range_km or None,
        links,
        news,
        len(plan),
    )


def _news(
    settings: Config,
    constellation: Constellation,
    plan: ContactPlan,
    hop_times: HopTimes,
    progress: Progress,
) -> News:
    """Compute delays; over a horizon twice as long, so that those of the last rounds are known."""
    schedule = settings.schedule
    if schedule.plan is None:
        longer = schedule.model_copy(update={"rounds": 2 * schedule.rounds})
        doubled = settings.model_copy(update={"schedule": longer})
        plan = build_plan(doubled, constellation, progress)
    groups = build_server_groups(settings)
    direct = ContactGraph(plan.with_servers, hop_times, groups)
    linked = ContactGraph(plan, hop_times, groups)
    starts_s = _starts_s(plan, schedule.rounds, schedule.round_s)
    orbit = constellation.orbit_of_satellite
    return News(
        starts_s,
        schedule.rounds,
        schedule.round_s,
        direct,
        linked,
        delays(direct, starts_s, orbit, progress),
        delays(linked, starts_s, orbit, progress),
    )


def _starts_s(plan: ContactPlan, rounds: int, round_s: float) -> Floats:
    """Begins of all rounds, or of as many, evenly spread, as are computed in about a minute."""
    affordable = MOST_STEPS // (plan.satellites * max(1, 2 * len(plan)))
    count = min(rounds, max(FEWEST_STARTS, affordable))
    return round_times_s(rounds, round_s)[np.arange(count) * rounds // count]


def links_document(linked: Linked) -> dict[str, Any]:
    """Return everything about links as plain values."""
    document: dict[str, Any] = {
        "rings": [
            {**asdict(ring), "neighbours": ring.verdict, "orbit": orbit}
            for orbit, ring in enumerate(linked.rings)
        ]
    }
    if linked.links is not None:
        found = linked.links
        document["links"] = {
            "in_plane": asdict(found.in_plane),
            "cross_plane": asdict(found.cross_plane),
            "none_share": found.none,
            "alone_share": found.alone,
            "most_at_a_time": found.most,
            "orbit_pair_share": found.orbit_pairs.tolist(),
        }
        document["delays"] = None if linked.news is None else _delays_document(linked.news)
    return document


def _delays_document(news: News) -> dict[str, Any]:
    return {
        "starts": len(news.starts_s),
        "direct": _kinds_of_delays(news.by_contacts, news.round_s),
        "with_links": _kinds_of_delays(news.by_links, news.round_s),
    }


def _kinds_of_delays(found: Delays, round_s: float) -> dict[str, Any]:
    """Return each kind of delay in numbers; kinds that are per orbit also with a mean per orbit."""
    kinds: dict[str, Any] = {}
    for name, spread in found.summary().items():
        values_s = getattr(found, f"{name}_s")
        kinds[name] = {
            **{key: _plain(value) for key, value in asdict(spread).items()},
            "within_round": _within(values_s, round_s),
        }
        if name in ("orbit_to_server", "slowest_to_server", "all_to_all"):
            kinds[name]["per_orbit_mean_s"] = [_plain(x) for x in _orbit_means_s(values_s)]
    return kinds


def _orbit_means_s(values_s: Floats) -> list[float]:
    """Return the mean of each orbit over the starts with a way."""
    return [Spread.of(column).mean_s for column in values_s.T]


def _within(values_s: Floats, round_s: float) -> float | None:
    return float((values_s < round_s).mean()) if values_s.size else None


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def print_links(linked: Linked) -> None:
    """Print the sentence about rings, and the tables of links and delays."""
    sentence = ring_sentence(linked.rings, linked.max_range_km, degree())
    if sentence is not None:
        stdout.print(sentence)
    if linked.links is None:
        stdout.print("--links adds the links between satellites and delays of messages.")
        return
    _print_windows(linked.links)
    if linked.news is not None:
        _print_delays(linked.news)
    else:
        stdout.print(
            f"Delays are left out: the plan has {linked.contacts:,} contacts, and at most "
            f"{MOST_CONTACTS // 2:,} are routed over; set network.terminals, a shorter "
            "network.max_range_km or fewer schedule.rounds."
        )


def _print_windows(links: Linkage) -> None:
    table = Table(
        "Links between satellites",
        [
            Column("links", left=True),
            Column("pairs"),
            Column("of", rank=2),
            Column("windows"),
            Column("permanent", rank=3),
            Column("median"),
            Column("shortest", rank=1),
            Column("longest", rank=1),
            Column("at a time"),
            Column("nearest", rank=4),
        ],
    )
    kinds = {"in plane": links.in_plane, "cross plane": links.cross_plane}
    for name, kind in kinds.items():
        table.add_row(name, *_window_cells(kind))
    table.print()
    stdout.print(
        f"No link at all {100.0 * links.none:.1f} % of the time; a satellite has none "
        f"{100.0 * links.alone:.1f} % of the time, and at most {links.most} at a time."
    )


def _window_cells(kind: LinkKind) -> tuple[str, ...]:
    return (
        f"{kind.pairs:,}",
        f"{kind.possible:,}",
        f"{kind.windows:,}",
        f"{kind.permanent:,}",
        _seconds(kind.median_s),
        _seconds(kind.shortest_s),
        _seconds(kind.longest_s),
        f"{kind.at_a_time:.1f}",
        "-" if kind.nearest_km is None else f"{kind.nearest_km:,.0f} km",
    )


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f} s"


def _print_delays(news: News) -> None:
    moments = f"{news.rounds} rounds"
    if len(news.starts_s) < news.rounds:
        moments = f"{len(news.starts_s)} of {moments}"
    table = Table(
        f"Delays in minutes, from the begins of {moments}",
        [
            Column("from, to", left=True),
            Column("over", left=True),
            Column("mean"),
            Column("median", rank=1),
            Column("90 %", rank=2),
            Column("max"),
            Column("in the round", rank=3),
            Column("no way", rank=4),
        ],
    )
    for name, text in NAMES.items():
        for over, found in (("contacts", news.by_contacts), ("links", news.by_links)):
            values_s = getattr(found, f"{name}_s")
            table.add_row(
                text if over == "contacts" else "", over, *_delay_cells(values_s, news.round_s)
            )
    table.print()
    stdout.print(
        "Over contacts: with servers alone; over links: with servers and between satellites. "
        "Mean from an orbit to a server: "
        f"{_listed(_orbit_means_s(news.by_contacts.orbit_to_server_s))} min by contacts, "
        f"{_listed(_orbit_means_s(news.by_links.orbit_to_server_s))} min with links."
    )


def _delay_cells(values_s: Floats, round_s: float) -> tuple[str, ...]:
    spread, within = Spread.of(values_s), _within(values_s, round_s)
    numbers = (spread.mean_s, spread.median_s, spread.p90_s, spread.max_s)
    return (
        *(_minutes(number) for number in numbers),
        "-" if within is None else f"{100.0 * within:.1f} %",
        f"{100.0 * spread.unreached:.1f} %",
    )


def _minutes(seconds: float) -> str:
    if not np.isfinite(seconds):
        return "-"
    return f"{seconds / 60.0:.1f}" if seconds < 6000.0 else f"{seconds / 60.0:,.0f}"


def _listed(means_s: Sequence[float]) -> str:
    if len(means_s) <= MOST_LISTED:
        return ", ".join(map(_minutes, means_s))
    known = [mean for mean in means_s if np.isfinite(mean)]
    return f"{_minutes(min(known))} to {_minutes(max(known))}" if known else "-"
