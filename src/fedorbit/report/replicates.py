"""Runs sorted into settings to compare in, series to compare, and seeds as replicates.

Two runs share a *setting* when their configurations differ in nothing but the seed, the methods
and how they were executed. Within a setting a *series* is a method with its parameters, and with
the training settings that a study varies, so that the variants of an ablation, and methods that
train for different numbers of epochs, are in one chart. The seeds of a series are its replicates.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from fedorbit.config.files import changes_results, flat_settings
from fedorbit.report.runfiles import MethodRecords, RunFolder, method_parameters
from fedorbit.results.numbers import averaged

NOT_A_SETTING = ("seed", "run.method")
SHORT_NAMES = {
    "partition.scheme": "partition",
    "data.name": "data",
    "constellation.planes": "planes",
    "constellation.satellites_per_plane": "satellites per plane",
}
MOST_KEYS = 4
"""If more settings differ, a label names only as many as distinguish the runs."""
MOST_TOGETHER = 6
"""Most settings in one chart: as many dashes can be told apart."""
PREFERRED = ("partition.scheme", "constellation.planes", "data.name", "run.links")
"""Settings that a label names first."""


@dataclass(frozen=True, eq=False)
class Series:
    """A method with its parameters in one setting; one entry per seed."""

    label: str
    replicates: tuple[MethodRecords, ...]
    parameters: Mapping[str, Any]
    """Method parameters that the configuration sets, and values of varied training settings."""

    @property
    def method(self) -> str:
        """The method's name, without parameters."""
        return self.replicates[0].method


@dataclass(frozen=True, eq=False)
class Setting:
    """Runs that can be compared."""

    label: str
    series: tuple[Series, ...]

    @property
    def run(self) -> RunFolder:
        """The run whose setting is shown: the lowest seed that left a `world.json`, if any did."""
        runs = [r.run for s in self.series for r in s.replicates]
        return min(runs, key=lambda run: (run.world is None, run.seed))


@dataclass(frozen=True, eq=False)
class Comparison:
    """All runs found, grouped by setting, and notes about them for the reader."""

    settings: tuple[Setting, ...]
    notes: tuple[str, ...]

    @property
    def labels(self) -> list[str]:
        """Labels of all series, in the order of their first appearance."""
        return list(dict.fromkeys(s.label for setting in self.settings for s in setting.series))

    @property
    def fits_one_chart(self) -> bool:
        """Return whether one chart can show several settings: few, with rounds of equal length."""
        few = 2 <= len(self.settings) <= MOST_TOGETHER
        return few and len({setting.run.round_s for setting in self.settings}) == 1

    @property
    def averaged(self) -> str:
        """Name the rounds that final figures are means of."""
        runs = [r for setting in self.settings for s in setting.series for r in s.replicates]
        return averaged([len(run.records) for run in runs if run.records])


def compare(methods: Sequence[MethodRecords]) -> Comparison:
    """Sort runs into settings and series."""
    runs = list(dict.fromkeys(method.run for method in methods))
    flat = {run: _given(run.config) for run in runs}
    training = frozenset[str]().union(*(run.study.training for run in runs))
    setting_keys = _telling_keys(
        [{k: v for k, v in flat[run].items() if _is_setting(k, training)} for run in runs]
    )
    parameters = {
        m: {k: v for k, v in flat[m.run].items() if k in training}
        | method_parameters(flat[m.run], m.method)
        for m in methods
    }
    parameter_keys = {
        name: _differing([parameters[m] for m in methods if m.method == name])
        for name in {m.method for m in methods}
    }
    setting_of = {
        run: name_values(flat[run], setting_keys) or _without(setting_keys) for run in runs
    }
    found: dict[str, dict[str, list[MethodRecords]]] = {}
    notes = []
    for method in methods:
        setting = setting_of[method.run]
        peers = [
            parameters[m]
            for m in methods
            if m.method == method.method and setting_of[m.run] == setting
        ]
        implied = _implied(method, parameter_keys[method.method], peers)
        telling = [key for key in parameter_keys[method.method] if key not in implied]
        own = name_values(parameters[method], telling)
        series = f"{method.method} ({own})" if own else method.method
        replicates = found.setdefault(setting, {}).setdefault(series, [])
        twin = next((r for r in replicates if r.run.seed == method.run.seed), None)
        if twin is None:
            replicates.append(method)
            continue
        if method.rounds_done > twin.rounds_done:  # the one that got further is shown
            replicates[replicates.index(twin)] = method
            method, twin = twin, method
        notes.append(
            f"{series}, seed {method.run.seed}: {method.run.path} is left out, since "
            f"{twin.run.path} holds the same run."
        )
    settings = _named(found, setting_keys, parameters)
    return Comparison(settings, (*notes, *_unfinished(methods), *_without_world(runs)))


def _implied(
    method: MethodRecords, keys: Sequence[str], peers: Sequence[Mapping[str, Any]]
) -> set[str]:
    """Parameters that a variant sets with all else of a setting, such as the period of its orbits.

    The variant's name stands for them, unless runs of the method differ in them within the setting.
    """
    variant = method.run.study.variant
    if variant is None or variant.of_series:
        return set()
    own = {key for key in keys if f"methods.{method.method}.{key}" in variant.keys}
    return own - set(_differing(peers))


def _named(
    found: Mapping[str, Mapping[str, list[MethodRecords]]],
    setting_keys: Sequence[str],
    parameters: Mapping[MethodRecords, Mapping[str, Any]],
) -> tuple[Setting, ...]:
    """Name settings and series as their study does, if it has variants."""
    members: dict[str, list[MethodRecords]] = {}
    for series in found.values():
        for name, replicates in series.items():
            members[name] = [*members.get(name, ()), *replicates]
    several = len({replicates[0].method for replicates in members.values()}) > 1
    series_names = {name: _series_name(name, m, several) for name, m in members.items()}
    setting_names = {}
    for label, series in found.items():
        runs = [method.run for replicates in series.values() for method in replicates]
        setting_names[label] = _setting_name(label, runs, setting_keys)
    called, named = _unless_ambiguous(setting_names), _unless_ambiguous(series_names)
    return tuple(
        Setting(
            called[label],
            tuple(Series(named[n], tuple(r), parameters[r[0]]) for n, r in series.items()),
        )
        for label, series in found.items()
    )


def _setting_name(label: str, runs: Sequence[RunFolder], keys: Sequence[str]) -> str:
    """Replace the settings that a variant has by its name."""
    variant = next(filter(None, (run.study.variant for run in runs)), None)
    if variant is None or variant.of_series:
        return label
    sections = tuple(f"{key}." for key in variant.keys)
    others = [k for k in keys if k not in variant.keys and not k.startswith(sections)]
    return ", ".join(filter(None, (name_values(_given(runs[0].config), others), variant.label)))


def _series_name(name: str, replicates: Sequence[MethodRecords], several_methods: bool) -> str:
    """Name a series by its variant; among several methods, one without parameters by its method."""
    variant = next(filter(None, (m.run.study.variant for m in replicates)), None)
    if variant is None or not variant.of_series:
        return name
    method = replicates[0].method
    if not several_methods:
        return variant.label
    return name if name == method else f"{method}, {variant.label}"


def _unless_ambiguous(names: Mapping[str, str]) -> Mapping[str, str]:
    """Return the proposed names, or the old ones if two of the proposed are equal."""
    return names if len(set(names.values())) == len(names) else {name: name for name in names}


def _given(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not empty: older versions wrote no `events = []`."""
    return {key: value for key, value in flat_settings(config).items() if value != []}


def _is_setting(key: str, training: AbstractSet[str]) -> bool:
    return (
        changes_results(key)
        and key not in NOT_A_SETTING
        and key not in training
        and not key.startswith("methods.")
    )


def _differing(values: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = dict.fromkeys(key for value in values for key in value)
    return [key for key in keys if any(v.get(key) != values[0].get(key) for v in values)]


def _telling_keys(values: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the keys that differ, without those that another key implies.

    A Dirichlet partition has an alpha and a pathological one has none: `partition.scheme` is
    enough. Two constellations differ in dozens of keys, of which the first few are enough.
    """
    keys = _differing(values)
    telling = [k for k in keys if len({str(v[k]) for v in values if k in v}) > 1]

    def told_apart(some: Sequence[str]) -> int:
        return len({name_values(value, some) for value in values})

    if told_apart(telling) < told_apart(keys):
        telling = keys
    if len(telling) <= MOST_KEYS:
        return telling
    chosen: list[str] = []
    for key in sorted(telling, key=lambda key: key not in PREFERRED):  # stable
        if told_apart([*chosen, key]) > told_apart(chosen):
            chosen.append(key)
    return chosen


def name_values(values: Mapping[str, Any], keys: Sequence[str]) -> str:
    """Name the values of some keys, such as `pathological, planes 7`; only what is set."""
    return ", ".join(
        str(values[key])
        if key == "partition.scheme"
        else f"{SHORT_NAMES.get(key, key)} {str(values[key]).lower()}"
        for key in keys
        if key in values
    )


def _without(keys: Sequence[str]) -> str:
    """Return a label for runs without some keys, such as `without onboard`; empty without keys."""
    tables = dict.fromkeys(key.partition(".")[0] for key in keys)
    return f"without {', '.join(tables)}" if tables else ""


def _unfinished(methods: Sequence[MethodRecords]) -> list[str]:
    return [
        f"{m.method} in {m.run.path.name} is not finished: "
        f"{m.rounds_done} of {m.run.rounds} rounds are recorded."
        for m in methods
        if m.summary is None
    ]


def _without_world(runs: Sequence[RunFolder]) -> list[str]:
    missing = [run.path.name for run in runs if run.world is None]
    if not missing:
        return []
    return [
        f"{', '.join(missing)} left no world.json (made by an older version), so map, classes and "
        "similarity may be missing; `fedorbit run --resume DIR` writes it."
    ]
