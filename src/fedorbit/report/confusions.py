"""Confusion matrices of a setting: the last of every method, per orbit, added up over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.report.curves import begun
from fedorbit.report.markup import Html, joined, table
from fedorbit.report.replicates import Series, Setting
from fedorbit.results.numbers import percent
from fedorbit.simulation.confusion import balanced_accuracy, class_accuracies, macro_f1

Counts = NDArray[np.int64]

MAX_VALUES = 20_000
"""Of a method on a page; with more, the orbits are shown together only."""


def summed(matrices: Sequence[Any]) -> Counts | None:
    """Add matrices up; those that are None do not count."""
    known = [np.asarray(matrix, dtype=np.int64) for matrix in matrices if matrix is not None]
    return np.sum(known, axis=0) if known else None


def orbit_matrices(series: Series) -> list[Counts | None]:
    """Return the last matrix of each orbit, added up over seeds; nothing where none is recorded."""
    last: list[list[Any]] = [
        next((r["confusion"] for r in reversed(run.records) if "confusion" in r), [])
        for run in series.replicates
    ]
    orbits = max(map(len, last))
    return [summed([seed[o] for seed in last if o < len(seed)]) for o in range(orbits)]


def total_matrices(setting: Setting) -> dict[str, Counts]:
    """Return the matrix of all orbits together, of each series that has one."""
    totals = {series.label: summed(orbit_matrices(series)) for series in begun(setting)}
    return {label: total for label, total in totals.items() if total is not None}


def class_names(setting: Setting, classes: int) -> list[str]:
    """Return the names of the classes, or numbers where the run does not tell them."""
    names = (setting.run.world or {}).get("classes", [])
    return list(names) if len(names) == classes else [f"class {c}" for c in range(classes)]


def confusion_values(setting: Setting, labels: Sequence[str]) -> dict[str, Any] | None:
    """Return what the page's script draws; None where no method has a matrix."""
    totals = total_matrices(setting)
    if not totals:
        return None
    rows = []
    for series in begun(setting):
        if series.label in totals:
            matrices = orbit_matrices(series)
            fits = sum(m.size for m in matrices if m is not None) <= MAX_VALUES
            orbits = [None if m is None else m.tolist() for m in matrices] if fits else []
            total = totals[series.label].tolist()
            rows.append({"series": labels.index(series.label), "total": total, "orbits": orbits})
    classes = len(next(iter(totals.values())))
    return {"names": class_names(setting, classes), "rows": rows}


def in_words(setting: Setting) -> str:
    """Describe the matrices without the picture."""
    return "; ".join(
        f"{label}: {percent(balanced_accuracy(m))} % balanced accuracy, macro F1 "
        f"{percent(macro_f1(m))} %"
        for label, m in total_matrices(setting).items()
    )


def class_tables(setting: Setting) -> Html:
    """Build the tables of accuracy per class, all orbits together, and per orbit."""
    totals = total_matrices(setting)
    names = class_names(setting, len(next(iter(totals.values()))))
    accuracies = {label: class_accuracies(matrix) for label, matrix in totals.items()}
    rows: list[tuple[str, ...]] = [
        (name, *(percent(values[c]) for values in accuracies.values()))
        for c, name in enumerate(names)
    ]
    rows.append(("balanced accuracy", *(percent(balanced_accuracy(m)) for m in totals.values())))
    rows.append(("macro F1", *(percent(macro_f1(m)) for m in totals.values())))
    built = [table(["class", *totals], rows, "Accuracy per class, all orbits together, %")]
    for series in begun(setting):
        if series.label in totals:
            known = [(o, m) for o, m in enumerate(orbit_matrices(series)) if m is not None]
            head = ["orbit", *names, "balanced accuracy", "macro F1"]
            cells = [
                (
                    f"orbit {o}",
                    *map(percent, class_accuracies(matrix)),
                    percent(balanced_accuracy(matrix)),
                    percent(macro_f1(matrix)),
                )
                for o, matrix in known
            ]
            built.append(table(head, cells, f"Accuracy per class and orbit, {series.label}, %"))
    return joined(built)
