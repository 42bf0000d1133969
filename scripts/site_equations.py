"""Equations of docstrings, plain text such as c_k <- c_k / eta^2, as they are printed."""

import re
from html import escape

GREEK = {
    "alpha": "α", "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "eps": "ε",
    "eta": "η", "theta": "θ", "kappa": "κ", "lambda": "λ", "mu": "μ", "rho": "ρ", "sigma": "σ",
    "tau": "τ", "phi": "φ", "pi": "π",
}  # fmt: skip
SIGNS = {"<-": "←", ">=": "≥", "<=": "≤"}
TAGS = {"\ue000": "<sub>", "\ue001": "</sub>", "\ue002": "<sup>", "\ue003": "</sup>"}
"""While Markdown's own signs are escaped, characters of no meaning stand for the tags."""
RAISED = r"(\{[^}]*\}|-?[0-9A-Za-zα-ω]+)"
CODE = re.compile(r"(`[^`]*`|\*\*[^*]+\*\*|(?<![\w*])\*\w+\*(?![\w*]))")


def escaped(text: str) -> str:
    """Return plain text as Markdown; `code`, **words** and *words* are kept."""
    return "".join(p if CODE.fullmatch(p) else _escaped(p) for p in CODE.split(text))


def printed(text: str) -> str:
    """Return plain text as Markdown with equations set; `code` and **words** are kept."""
    parts = [p if CODE.fullmatch(p) else _marked(p) for p in CODE.split(text)]
    return _tagged(escaped("".join(parts)))


def block(lines: str) -> str:
    """Return an indented block: a table of symbols as a table, equations line by line."""
    rows = [line.removeprefix("    ") for line in lines.split("\n")]
    if re.match(r"(symbol|state)\s", rows[0]):
        return _symbols(rows)
    return '<pre class="equations">' + "\n".join(map(_line, rows)) + "</pre>"


def _line(row: str) -> str:
    """Return a line of equations in which columns stay where they were.

    Two spaces after a comma or semicolon only separate: what follows is no column.
    """
    pieces = []
    for piece in re.split(r"((?<![,; ]) {2,}| {3,})", row):
        parts = [p if CODE.fullmatch(p) else _marked(p) for p in CODE.split(piece)]
        shown = re.sub(r"[`\ue000-\ue003]", "", "".join(parts))
        pieces.append("".join(_code(p) or _tagged(escape(p)) for p in parts))
        pieces.append(" " * (len(piece) - len(shown)))
    return "".join(pieces).rstrip()


def _symbols(rows: list[str]) -> str:
    """Return a table, the first row its head; one that begins with a space continues the last."""
    found: list[list[str]] = []
    for row in rows:
        if row.startswith(" ") and found:
            found[-1][1] += " " + row.strip()
        else:
            symbol, _, meaning = re.sub(r" {2,}", "\0", row, count=1).partition("\0")
            found.append([symbol, re.sub(r"; {2,}", "; ", meaning)])
    head, *lines = [f"| {printed(symbol)} | {printed(meaning)} |" for symbol, meaning in found]
    return "\n".join([head, "| --- | --- |", *lines])


def _marked(text: str) -> str:
    """Set Greek letters, sums, gradients, roots, arrows, subscripts and exponents."""
    for plain, sign in SIGNS.items():
        text = text.replace(plain, sign)
    names = "|".join(GREEK)
    text = re.sub(rf"(?<![A-Za-z])({names})(?![A-Za-z])", lambda found: GREEK[found[1]], text)
    # The word is English unless a symbol follows.
    text = re.sub(r"\bsum(?=_|\s+[A-Za-zα-ω]{1,2}[_(][A-Za-z0-9{])", "Σ", text)
    text = re.sub(r"\bgrad (?=[fF]\b|[fF]_)", "∇", text)
    text = re.sub(r"<(∇[^<>]*)>", r"⟨\1⟩", text)  # a scalar product
    text = text.replace("sqrt(", "√(")
    base = r"(?<![A-Za-z0-9_α-ω])([A-Za-zα-ωΣ]|vbar|SNR|max|min|ready|end)"
    text = re.sub(
        rf"{base}_(\{{[^}}]*\}}|[0-9A-Za-z]+)(?![A-Za-z0-9_])",
        lambda found: f"{found[1]}\ue000{found[2].strip('{}')}\ue001",
        text,
    )
    text = re.sub(r"([α-ω])(\d)", "\\1\ue000\\2\ue001", text)
    return re.sub(rf"\^{RAISED}", lambda found: f"\ue002{found[1].strip('{}')}\ue003", text)


def _escaped(text: str) -> str:
    return re.sub(r"([*_>|\[\]])", r"\\\1", text.replace("<", "&lt;"))


def _tagged(text: str) -> str:
    for mark, tag in TAGS.items():
        text = text.replace(mark, tag)
    return text


def _code(part: str) -> str | None:
    if not CODE.fullmatch(part):
        return None
    return f"<b>{escape(part.strip('`'))}</b>" if part.startswith("`") else part.strip("*")
