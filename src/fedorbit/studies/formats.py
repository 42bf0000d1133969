"""A study's table as text: lines and cells for a terminal, Markdown, LaTeX, CSV, JSON."""

import csv
import io
from dataclasses import dataclass
from typing import Any

from fedorbit.methods.base import Family
from fedorbit.results.estimates import DECIMALS
from fedorbit.results.metrics import Metric
from fedorbit.results.numbers import NOT_KNOWN, percent
from fedorbit.studies.tables import Entry, StudyTable

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_",
    "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}",
    "<": r"\textless{}", ">": r"\textgreater{}", "±": r"$\pm$", "−": "$-$",
}  # fmt: skip

FAMILY_NAMES: dict[Family, str] = {
    "global": "One global model",
    "personalised": "Personalised models",
    "space": "Systems made for space",
    "reference": "References",
    "other": "Other methods",
}


@dataclass(frozen=True)
class Line:
    """A printed row; a cell is its text and whether it is the best of its column."""

    label: str
    cells: tuple[tuple[str, bool], ...]
    begins_section: bool
    published: bool = False
    heading: bool = False
    """True for a line without numbers that names the group or family of the rows below it."""


def lines(table: StudyTable) -> list[Line]:
    """Return the lines that every format prints; published values and differences below ours."""
    several = len(table.seeds) > 1
    found: list[Line] = []
    kinds = table.kinds * len(table.columns)
    before: tuple[str, str, bool, int] | None = None
    for row in table.rows:
        entries = [e for of in row.entries for e in (of or (None,) * len(table.metrics))]
        section = row.group, row.family, row.reference, row.section
        begins = before is not None and section != before
        blank = tuple(("", False) for _ in entries)
        if row.group and (before is None or row.group != before[0]):
            found.append(Line(row.group, blank, begins, heading=True))
            begins = False
        if len(table.families) > 1 and (before is None or section[:2] != before[:2]):
            found.append(Line(FAMILY_NAMES[row.family], blank, begins, heading=True))
            begins = False
        before = section
        cells = tuple(
            (_text(e, metric, several), e is not None and e.best)
            for e, metric in zip(entries, kinds, strict=True)
        )
        found.append(Line(row.label, cells, begins))
        if any(e is not None and e.published is not None for e in entries):
            cells = tuple((_published(e), False) for e in entries)
            found.append(Line("  published (ours − it)", cells, False, published=True))
    return found


def heads(table: StudyTable) -> list[str]:
    """Return the head of every column of numbers."""
    return [" ".join((*column, kind.head)) for column in table.columns for kind in table.kinds]


def markdown(table: StudyTable) -> str:
    """Write a table for a README or an issue."""

    def row(*cells: str) -> str:
        return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

    out = [f"**{table.heading}**", "", row("", *heads(table))]
    out.append("|---|" + "---:|" * len(heads(table)))
    for line in lines(table):
        cells = (f"**{text}**" if best else text for text, best in line.cells)
        label = line.label.strip()
        out.append(row(f"*{label}*" if line.heading else label, *cells))
    return "\n".join([*out, "", table.note, ""])


def latex(table: StudyTable) -> str:
    """Write a table for a paper; needs the package booktabs."""
    groups = [" ".join(column) for column in table.columns]
    width = len(table.metrics)
    names = [escape(kind.head) for kind in table.kinds]
    spans = [(2 + i * width, 1 + (i + 1) * width) for i in range(len(groups))]
    out = [
        "% Needs \\usepackage{booktabs}.",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{escape(table.heading)}. {escape(table.note)}}}",
        rf"  \begin{{tabular}}{{l{'r' * width * len(groups)}}}",
        r"    \toprule",
    ]
    if any(groups):
        spanned = (rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}" for group in groups)
        out.append("    & " + " & ".join(spanned) + r" \\")
        out.append("    " + " ".join(rf"\cmidrule(lr){{{a}-{b}}}" for a, b in spans))
    out += ["    & " + " & ".join(names * len(groups)) + r" \\", r"    \midrule"]
    for line in lines(table):
        out += [r"    \midrule"] if line.begins_section else []
        cells = (
            rf"\textbf{{{escape(text)}}}" if best else escape(text) for text, best in line.cells
        )
        label = (r"\quad " if line.published else "") + escape(line.label.strip())
        label = rf"\emph{{{label}}}" if line.heading else label
        out.append("    " + " & ".join([label, *cells]) + r" \\")
    return "\n".join([*out, r"    \bottomrule", r"  \end{tabular}", r"\end{table}", ""])


def tidy(table: StudyTable) -> list[dict[str, Any]]:
    """Return one flat record per number, with all digits."""
    records = []
    for row in table.rows:
        for column, entries in zip(table.columns, row.entries, strict=True):
            for metric, entry in zip(table.metrics, entries or (), strict=entries is not None):
                records.append(
                    {
                        "row": row.full_label,
                        "column": " ".join(column) or " ".join(table.fixed),
                        "metric": metric,
                        "n": len(entry.values),
                        "expected": entry.expected,
                        "mean": entry.mean,
                        "std": entry.over_seeds.std,
                        "best": entry.best,
                        "published": entry.published,
                        "difference": entry.difference,
                        "values": list(entry.values),
                    }
                )
    return records


def as_csv(table: StudyTable) -> str:
    """Write one line per number, for a spreadsheet or pandas; empty where incomplete."""
    out = io.StringIO()
    keys = ["row", "column", "metric", "n", "expected", "mean", "std", "published", "difference"]
    writer = csv.DictWriter(
        out, ["quick", *keys] if table.quick else keys, extrasaction="ignore", lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows({**record, "quick": True} for record in tidy(table))
    return out.getvalue()


def as_json(table: StudyTable) -> dict[str, Any]:
    """Return everything as one document."""
    return {
        "study": table.name,
        "title": table.title,
        "quick": table.quick,
        "fixed": list(table.fixed),
        "changes": dict(table.changes),
        "numbers": tidy(table),
    }


def escape(text: str) -> str:
    """Write a text so that LaTeX prints it as it is."""
    return "".join(LATEX.get(character, character) for character in text)


def _text(entry: Entry | None, metric: Metric, several_n: bool) -> str:
    if entry is None:
        return ""
    if entry.unknown:
        return NOT_KNOWN
    if not entry.complete:
        return f"{len(entry.values)}/{entry.expected} runs"
    n = f" (n={entry.expected})" if several_n else ""
    return f"{metric.printed(entry.over_seeds)}{n}"


def _published(entry: Entry | None) -> str:
    if entry is None or entry.published is None:
        return ""
    text = percent(entry.published)
    if entry.difference is None:
        return text
    return f"{text} ({entry.difference:+.{DECIMALS}f})".replace("-", "−")
