"""Tables of a study: mean and spread over seeds, made from the summaries of its runs alone."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedorbit.methods import FAMILIES, family_of
from fedorbit.methods.base import Family
from fedorbit.results.estimates import METRICS, Estimate, best, estimate
from fedorbit.results.reading import finished
from fedorbit.simulation.records import LAST_ROUNDS
from fedorbit.studies.folders import refuse_other_configurations
from fedorbit.studies.grid import ALWAYS, Cell, method_label, short_key
from fedorbit.studies.schema import DATASET, METHOD, PARTITION, SEED
from fedorbit.studies.study import Study


@dataclass(frozen=True)
class Entry:
    """One number of a table: a metric over the seeds of a cell, in percent."""

    values: tuple[float, ...]
    """Of the runs that are done, in the order of the seeds."""
    expected: int
    published: float | None = None
    best: bool = False

    @property
    def complete(self) -> bool:
        """Whether every seed is done; a mean over some of them is never shown."""
        return len(self.values) == self.expected

    @property
    def over_seeds(self) -> Estimate:
        """Mean and sample standard deviation; of nothing unless complete."""
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
    """A method or variant; `entries` are accuracy and spread per column, None where not asked."""

    label: str
    section: int
    family: Family
    reference: bool
    entries: tuple[tuple[Entry, Entry] | None, ...]


@dataclass(frozen=True)
class StudyTable:
    """Rows are methods and variants, columns what the study says, dataset and partition mostly."""

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
        """What the numbers are."""
        n = ", ".join(map(str, sorted(self.seeds)))
        seeds = f"n = {n} seed{'' if n == '1' else 's'}"
        over = f"{seeds}, mean ± sample standard deviation" if n != "1" else seeds
        left_out = [row.label for row in self.rows if row.reference]
        bounds = f", {' and '.join(left_out)} left out" if left_out else ""
        changed = ", ".join(f"{key} = {value}" for key, value in self.changes.items())
        return (
            f"In percent, means of the last {LAST_ROUNDS} evaluated rounds; {over}; "
            f"best in bold{bounds}.{f' With {changed}.' if changed else ''}"
        )

    @property
    def heading(self) -> str:
        """What the table is about."""
        quick = "QUICK (synthetic images, few rounds; says nothing about the real study): "
        fixed = f" [{', '.join(self.fixed)}]" if self.fixed else ""
        return f"{quick if self.quick else ''}{self.name}: {self.title}{fixed}"


def table(study: Study, out: Path | str | None = None) -> StudyTable:
    """Read the runs that are done into a table."""
    folder = Path(out) if out is not None else study.default_out
    refuse_other_configurations(folder, study.runs)
    axes = study.file.table.columns
    columns = list(dict.fromkeys(_column(cell, axes) for cell in study.cells))
    several = {k for k in ALWAYS if len({cell.value(k) for cell in study.cells}) > 1}
    groups: dict[tuple[Any, ...], dict[tuple[str, ...], dict[str, Cell]]] = {}
    for cell in study.cells:
        row = groups.setdefault(_row_key(cell, axes), {})
        row.setdefault(_column(cell, axes), {})[cell.slug] = cell
    rows = []
    for by_column in groups.values():
        first = next(iter(next(iter(by_column.values())).values()))
        entries = tuple(
            _entries(study, folder, list(by_column[c].values())) if c in by_column else None
            for c in columns
        )
        reference = first.method in study.file.table.references
        label = _row_label(first, axes, several)
        rows.append(Row(label, first.grid, family_of(first.method), reference, entries))
    # Stable: within a family as the study has them, and what does not compete goes last.
    rows.sort(key=lambda row: (row.reference, FAMILIES.index(row.family)))
    varying = [i for i in range(len(axes)) if len({c[i] for c in columns}) > 1]
    return StudyTable(
        name=study.name,
        title=study.file.title,
        quick=study.quick,
        columns=tuple(tuple(c[i] for i in varying) for c in columns),
        fixed=tuple(columns[0][i] for i in range(len(axes)) if i not in varying),
        changes=study.changes,
        rows=_with_best(rows, len(columns)),
    )


def _column(cell: Cell, axes: Sequence[str]) -> tuple[str, ...]:
    return tuple(str(cell.value(axis)) for axis in axes)


def _row_key(cell: Cell, axes: Sequence[str]) -> tuple[Any, ...]:
    """Everything that is neither a column nor the seed."""
    kept = [k for k in (DATASET, PARTITION, *sorted(cell.extra)) if k not in axes]
    return cell.method, cell.value("variant"), tuple((k, cell.value(k)) for k in kept)


def _row_label(cell: Cell, axes: Sequence[str], several: AbstractSet[str]) -> str:
    """Name a row; `several`: axes of all grids that have more than one value in the study."""
    parts = [str(cell.value(k)) for k in (DATASET, PARTITION) if k in several and k not in axes]
    if cell.variant is not None:
        parts.append(cell.variant.label or cell.variant.name)
    parts += [f"{short_key(k)} = {v}" for k, v in cell.extra.items() if k not in axes]
    if METHOD in several or not parts:
        parts.insert(0, method_label(cell.method))
    return ", ".join(parts)


def _entries(study: Study, out: Path, cells: list[Cell]) -> tuple[Entry, Entry]:
    found = [finished(out / cell.slug, cell.method) for cell in cells]
    published = study.published(cells[0])
    accuracy, spread = (
        Entry(
            tuple(s[metric] for s in found if s is not None and s[metric] is not None),
            len({cell.axes[SEED] for cell in cells}),
            published[place] if published else None,
        )
        for place, metric in enumerate(METRICS)
    )
    return accuracy, spread


def _with_best(rows: list[Row], columns: int) -> tuple[Row, ...]:
    """Mark the best of the methods that compete."""
    for column in range(columns):
        for place, metric in enumerate(METRICS):
            pairs = {n: row.entries[column] for n, row in enumerate(rows) if not row.reference}
            means = {n: pair[place].mean for n, pair in pairs.items() if pair is not None}
            known = {n: mean for n, mean in means.items() if mean is not None}
            for number in best(known, metric):
                rows[number] = _marked(rows[number], column, place)
    return tuple(rows)


def _marked(row: Row, column: int, place: int) -> Row:
    entries = list(row.entries)
    pair = entries[column]
    assert pair is not None
    marked = [replace(e, best=e.best or i == place) for i, e in enumerate(pair)]
    entries[column] = marked[0], marked[1]
    return replace(row, entries=tuple(entries))
