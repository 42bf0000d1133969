"""Tables of a study: means and deviations over seeds, made from the files of its runs alone."""

import itertools
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedorbit.methods import FAMILIES, family_of
from fedorbit.methods.base import Family
from fedorbit.results.estimates import COMPETING, Estimate, best, estimate
from fedorbit.results.metrics import DEFAULT, Metric, find_metric, values_over_seeds
from fedorbit.results.reading import MethodResults, add_hours, finished
from fedorbit.simulation.records import LAST_ROUNDS
from fedorbit.studies.folders import refuse_other_configurations
from fedorbit.studies.grid import ALWAYS, Cell, method_label, short_key
from fedorbit.studies.schema import DATASET, METHOD, PARTITION, SEED, VARIANT
from fedorbit.studies.study import Study


@dataclass(frozen=True)
class Entry:
    """One number of a table: a metric over the seeds of a cell."""

    values: tuple[float, ...]
    """Values of the finished runs that have the metric, in the order of the seeds."""
    expected: int
    done: int
    published: float | None = None
    best: bool = False

    @property
    def complete(self) -> bool:
        """True if every seed has a value; a mean over some of the seeds is never shown."""
        return len(self.values) == self.expected

    @property
    def unknown(self) -> bool:
        """True if every seed is done and none has a value of the metric."""
        return self.done == self.expected and not self.values

    @property
    def over_seeds(self) -> Estimate:
        """Mean and sample standard deviation; an empty estimate unless complete."""
        return estimate(self.values if self.complete else ())

    @property
    def mean(self) -> float | None:
        """Mean over the seeds; None unless complete."""
        return self.over_seeds.mean

    @property
    def difference(self) -> float | None:
        """Ours minus the published value."""
        return None if self.mean is None or self.published is None else self.mean - self.published


@dataclass(frozen=True)
class Row:
    """A method or variant; `entries` are the metrics per column, None where there is no cell."""

    label: str
    section: int
    family: Family
    reference: bool
    entries: tuple[tuple[Entry, ...] | None, ...]
    group: str = ""
    """Heading above the row; empty if the study has none."""

    @property
    def full_label(self) -> str:
        """Its name where there are no headings."""
        return f"{self.label}, {self.group}" if self.group else self.label


@dataclass(frozen=True)
class StudyTable:
    """Rows are methods and variants, columns axes of the study, mostly dataset and partition."""

    name: str
    title: str
    quick: bool
    columns: tuple[tuple[str, ...], ...]
    """Values of the column axes, without those that are the same in all columns."""
    fixed: tuple[str, ...]
    """Values that are the same in all columns."""
    changes: Mapping[str, str]
    """Settings that are not those of the study's file."""
    rows: tuple[Row, ...]
    metrics: tuple[str, ...] = DEFAULT
    """Metrics of every column."""

    @property
    def families(self) -> list[Family]:
        """Families of its methods, in the order of the rows."""
        return list(dict.fromkeys(row.family for row in self.rows))

    @property
    def seeds(self) -> set[int]:
        """Numbers of seeds behind the entries; one number as a rule."""
        return {e.expected for row in self.rows for pair in row.entries if pair for e in pair}

    @property
    def note(self) -> str:
        """The note below the table: units, rounds, seeds."""
        n = ", ".join(map(str, sorted(self.seeds)))
        seeds = f"n = {n} seed{'' if n == '1' else 's'}"
        over = f"{seeds}, mean ± sample standard deviation" if n != "1" else seeds
        left_out = [row.label for row in self.rows if row.reference]
        bounds = f", {' and '.join(left_out)} left out" if left_out else ""
        changed = ", ".join(f"{key} = {value}" for key, value in self.changes.items())
        groups = " of each part" if any(row.group for row in self.rows) else ""
        competing = [name for name in self.metrics if name in COMPETING]
        figures = " and ".join(competing).capitalize()
        percent = "In" if set(self.metrics) <= set(COMPETING) else f"{figures} in"
        means = f"{percent} percent, means of the last {LAST_ROUNDS} evaluated rounds; "
        best_of = f"; best{groups} in bold{bounds}"
        explained = "".join(f" {m.explained}" for m in self.kinds if m.explained)
        return (
            f"{means if competing else ''}{over}{best_of if competing else ''}."
            f"{explained}{f' With {changed}.' if changed else ''}"
        )

    @property
    def kinds(self) -> list[Metric]:
        """The metrics, in the order of the columns."""
        return [find_metric(name) for name in self.metrics]

    @property
    def heading(self) -> str:
        """The heading of the table."""
        quick = "QUICK (synthetic images, few rounds; says nothing about the real study): "
        fixed = f" [{', '.join(self.fixed)}]" if self.fixed else ""
        return f"{quick if self.quick else ''}{self.name}: {self.title}{fixed}"


def table(study: Study, out: Path | str | None = None) -> StudyTable:
    """Read the runs that are done into a table."""
    folder = Path(out) if out is not None else study.default_out
    refuse_other_configurations(folder, study.runs)
    layout = study.file.table
    axes, metrics = layout.columns, layout.metrics
    columns = list(dict.fromkeys(_column(cell, axes) for cell in study.cells))
    several = {k for k in ALWAYS if len({cell.value(k) for cell in study.cells}) > 1}
    groups: dict[tuple[Any, ...], dict[tuple[str, ...], dict[str, Cell]]] = {}
    for cell in study.cells:
        row = groups.setdefault((_group(cell, layout.groups), _row_key(cell, axes)), {})
        row.setdefault(_column(cell, axes), {})[cell.slug] = cell
    rows = []
    for (group, _), by_column in groups.items():
        first = next(iter(next(iter(by_column.values())).values()))
        entries = tuple(
            _entries(study, folder, list(by_column[c].values())) if c in by_column else None
            for c in columns
        )
        reference = first.method in layout.references
        label = _row_label(first, (*axes, *layout.groups), several)
        rows.append(Row(label, first.grid, family_of(first.method), reference, entries, group))
    # Stable: within a family as the study has them, and what does not compete goes last.
    in_order = _groups(study.cells, layout.groups)
    rows.sort(
        key=lambda row: (in_order.index(row.group), row.reference, FAMILIES.index(row.family))
    )
    varying = [i for i in range(len(axes)) if len({c[i] for c in columns}) > 1]
    return StudyTable(
        name=study.name,
        title=study.file.title,
        quick=study.quick,
        columns=tuple(tuple(c[i] for i in varying) for c in columns),
        fixed=tuple(columns[0][i] for i in range(len(axes)) if i not in varying),
        changes=study.changes,
        rows=_with_best(rows, len(columns), metrics),
        metrics=metrics,
    )


def _column(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(cell.value(axis)) for axis in axes)


def _groups(cells: Sequence[Cell], axes: Sequence[str]) -> list[str]:
    """Name the parts of the table: by the first axis, then by the second, as the study has them."""
    ranks = [list(dict.fromkeys(cell.value(axis) for cell in cells)) for axis in axes]

    def place(cell: Cell) -> list[int]:
        return [rank.index(cell.value(axis)) for rank, axis in zip(ranks, axes, strict=True)]

    return list(dict.fromkeys(_group(cell, axes) for cell in sorted(cells, key=place)))


def _group(cell: Cell, axes: Sequence[str]) -> str:
    """Name the part of the table that a cell is in: its values on some axes."""
    return ", ".join(
        _variant_label(cell) if axis == VARIANT else str(cell.value(axis)) for axis in axes
    )


def _variant_label(cell: Cell) -> str:
    return "" if cell.variant is None else cell.variant.label or cell.variant.name


def _row_key(cell: Cell, axes: Sequence[str]) -> tuple[Any, ...]:
    """Everything that is neither a column nor the seed."""
    kept = [k for k in (DATASET, PARTITION, VARIANT, *sorted(cell.extra)) if k not in axes]
    return cell.method, tuple((k, cell.value(k)) for k in kept)


def _row_label(cell: Cell, axes: Sequence[str], several: AbstractSet[str]) -> str:
    """Name a row; `several`: axes of all grids that have more than one value in the study."""
    parts = [str(cell.value(k)) for k in (DATASET, PARTITION) if k in several and k not in axes]
    if cell.variant is not None and VARIANT not in axes:
        parts.append(_variant_label(cell))
    parts += [f"{short_key(k)} = {v}" for k, v in cell.extra.items() if k not in axes]
    if METHOD in several or not parts:
        parts.insert(0, method_label(cell.method))
    return ", ".join(parts)


def _entries(study: Study, out: Path, cells: list[Cell]) -> tuple[Entry, ...]:
    kinds = [find_metric(name) for name in study.file.table.metrics]
    with_records = any(metric.needs_records for metric in kinds)
    runs = [_finished(out, cell, with_records) for cell in cells]
    done = [results for results in runs if results is not None]
    expected = len({cell.axes[SEED] for cell in cells})
    published = dict(zip(COMPETING, study.published(cells[0]) or (), strict=False))
    return tuple(
        Entry(
            tuple(v for v in values_over_seeds(metric, done) if v is not None),
            expected,
            len(done),
            published.get(name),
        )
        for name, metric in zip(study.file.table.metrics, kinds, strict=True)
    )


def _finished(out: Path, cell: Cell, with_records: bool) -> MethodResults | None:
    results = finished(out / cell.slug, cell.method, with_records)
    if results is not None:
        add_hours(results.records, cell.config.schedule.round_s)
    return results


def _with_best(rows: list[Row], columns: int, metrics: Sequence[str]) -> tuple[Row, ...]:
    """Mark the best of the methods that compete, in every part of the table."""
    places = [(place, name) for place, name in enumerate(metrics) if name in COMPETING]
    for group in dict.fromkeys(row.group for row in rows):
        numbers = [n for n, row in enumerate(rows) if row.group == group and not row.reference]
        for column, (place, metric) in itertools.product(range(columns), places):
            found = {n: rows[n].entries[column] for n in numbers}
            means = {n: entries[place].mean for n, entries in found.items() if entries is not None}
            known = {n: mean for n, mean in means.items() if mean is not None}
            for number in best(known, metric):
                rows[number] = _marked(rows[number], column, place)
    return tuple(rows)


def _marked(row: Row, column: int, place: int) -> Row:
    columns = list(row.entries)
    entries = columns[column]
    assert entries is not None
    columns[column] = tuple(replace(e, best=e.best or i == place) for i, e in enumerate(entries))
    return replace(row, entries=tuple(columns))
