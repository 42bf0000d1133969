"""Settings and figures in words, for tables, captions and text alternatives of charts."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fedorbit.report.curves import HeadlineRow
from fedorbit.report.replicates import Comparison, Setting
from fedorbit.results.numbers import with_deviation


def listed(values: Sequence[object], at_most: int = 8) -> str:
    """Join values with commas; of many, the first few and how many there are."""
    if len(values) <= at_most:
        return ", ".join(map(str, values))
    return f"{', '.join(map(str, values[:at_most]))} … ({len(values)})"


def title(comparison: Comparison) -> str:
    """Name the report by its data, and by its study or its methods."""
    datasets = dict.fromkeys(_dataset(setting) for setting in comparison.settings)
    titles = {
        r.run.study.title
        for s in comparison.settings
        for series in s.series
        for r in series.replicates
    }
    [study] = titles if len(titles) == 1 else [None]
    return f"{' and '.join(datasets)}: {study or listed(comparison.labels, 6)}"


def summary_line(comparison: Comparison) -> str:
    """Describe in one line what was run."""
    configs = [setting.run.config for setting in comparison.settings]
    seeds = sorted(
        {r.run.seed for s in comparison.settings for series in s.series for r in series.replicates}
    )
    parts = [
        _same([_share(config) for config in configs]),
        _same([_constellation(config) for config in configs]),
        _same([_contacts(config) for config in configs]),
        _same([f"{config['run']['rounds']} rounds" for config in configs]),
        _same([f"{config['run'].get('links', 'ideal')} links" for config in configs]),
        f"{len(comparison.settings)} settings" if len(comparison.settings) > 1 else None,
        f"seed{'s' if len(seeds) > 1 else ''} {listed(seeds)}",
    ]
    return " · ".join(part for part in parts if part)


def figures_in_words(rows: Sequence[HeadlineRow], key: str, unit: str) -> str:
    """List the final figures of all series."""
    return "; ".join(
        f"{row.series} {with_deviation(getattr(row, key))}{unit}" for row in rows if row.rounds
    )


def _dataset(setting: Setting) -> str:
    name = setting.run.config.get("data", {}).get("name")
    if part := re.fullmatch(r"resisc45-(\d+)", str(name)):  # a part of the classes
        return f"RESISC45 ({part[1]} classes)"
    return {
        "eurosat": "EuroSAT", "eurosat-ms": "EuroSAT (multispectral)", "so2sat": "So2Sat",
        "resisc45": "RESISC45", "cifar10": "CIFAR-10", "mnist": "MNIST",
    }.get(name, str(name))  # fmt: skip


def _share(config: Mapping[str, Any]) -> str:
    share = config.get("data", {}).get("share", 1.0)
    return f"{share:.3g} of the images" if share < 1 else ""


def _constellation(config: Mapping[str, Any]) -> str:
    section = config.get("constellation", {})
    if section.get("kind", "walker") != "walker":
        return "satellites from element sets"
    counts = section.get("satellites_per_plane")
    if isinstance(counts, list):
        counts = f"{min(counts)} to {max(counts)}"
    return f"{section.get('planes')} orbits of {counts} satellites"


def _contacts(config: Mapping[str, Any]) -> str:
    stations = config.get("stations", [])
    if len(stations) == 1:
        return f"station {stations[0].get('name')}"
    return f"{len(stations)} stations"


def _same(values: Sequence[str]) -> str | None:
    return values[0] if len(set(values)) == 1 else None
