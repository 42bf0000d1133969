"""Confusion matrices of a setting: the last of every method, per orbit, added up over seeds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedorbit.report.curves import begun
from fedorbit.report.figure import chart, picker
from fedorbit.report.markup import Html, joined, table, tag
from fedorbit.report.replicates import Series, Setting
from fedorbit.results.numbers import percent
from fedorbit.simulation.confusion import balanced_accuracy, class_accuracies, class_f1, macro_f1

Counts = NDArray[np.int64]

MAX_VALUES = 20_000
"""Most values of a method on a page; with more, only the sum over orbits is shown."""


MAX_LISTED = 15
"""Most classes of a matrix as a table."""


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
    """Return the names of the classes, or numbers where the run has no names."""
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


def class_charts(setting: Setting, shown: dict[str, Any], labels: dict[int, str]) -> Html | None:
    """Build the confusion matrix, and beside it how well each class is recognised in each orbit."""
    values = shown.get("confusion")
    if values is None:
        return None
    rows = values["rows"]
    methods = [(n, labels[row["series"]]) for n, row in enumerate(rows)]
    orbits = [(o, str(o)) for o in range(max(len(row["orbits"]) for row in rows))]
    pickers = tag(
        "div",
        picker("Method", methods, methods[-1][0], "confusion-method"),
        picker("Orbit of the matrix", [(-1, "all"), *orbits], -1, "confusion-orbit"),
        picker("Per class", [("accuracy", "accuracy"), ("f1", "F1")], "accuracy", "class-measure"),
        class_="pickers",
        hidden=True,
    )
    matrix = (
        "Test samples of each true class (rows) by the class they are taken for (columns, in the "
        "same order) at the last evaluation; colours are shares of the row."
    )
    per_class = (
        "Accuracy: the share of a class's test samples that are recognised; F1 also counts samples "
        "of other classes that are taken for it. In %, for all orbits together and for each."
    )
    words = f"{len(values['names'])} classes. {in_words(setting)}."
    charts = (
        chart("confusion", "Confusion of classes", matrix, f"Confusion matrix of {words}",
              matrix_tables(setting, values["names"])),
        chart("per-class", "Figures per class", per_class, f"Accuracy and F1 of {words}",
              class_tables(setting)),
    )  # fmt: skip
    return tag("div", pickers, tag("div", *charts, class_="grid"), class_="class-view")


def matrix_tables(setting: Setting, names: Sequence[str]) -> Html | None:
    """Build a table of every method's matrix, all orbits together; None with too many classes."""
    if len(names) > MAX_LISTED:
        return None
    built: list[Html] = []
    for label, matrix in total_matrices(setting).items():
        caption = f"{label}: true class by predicted class, all orbits together"
        rows = [(name, *row) for name, row in zip(names, matrix.tolist(), strict=True)]
        built += [tag("p", caption), table(["true class", *names], rows, caption)]
    return joined(built)


def class_tables(setting: Setting) -> Html:
    """Build the tables of accuracy per class, all orbits together, and per orbit."""
    totals = total_matrices(setting)
    names = class_names(setting, len(next(iter(totals.values()))))
    built = []
    for title, of_classes, mean, of_all in (
        ("Accuracy", class_accuracies, "balanced accuracy", balanced_accuracy),
        ("F1", class_f1, "macro F1", macro_f1),
    ):
        figures = [of_classes(matrix) for matrix in totals.values()]
        rows = [(name, *(percent(of[c]) for of in figures)) for c, name in enumerate(names)]
        rows.append((mean, *(percent(of_all(matrix)) for matrix in totals.values())))
        built.append(table(["class", *totals], rows, f"{title} per class, all orbits together, %"))
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
