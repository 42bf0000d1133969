"""Docstrings of the package open with a noun phrase or an imperative verb of plain English."""

import ast
from pathlib import Path

import fedorbit

SOURCE = Path(fedorbit.__file__).parent
NOT_FIRST = (
    "How", "What", "Which", "Where", "Whether", "Why", "Who", "Whose", "Tell", "Say", "Let", "Lend",
)  # fmt: skip


def docstrings(file: Path) -> list[tuple[int, str]]:
    """Return all docstrings of a file, also those below attributes, with their line numbers."""
    return [
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    ]


def test_docstrings_open_with_a_noun_phrase_or_an_imperative_verb() -> None:
    found = [(file, *each) for file in sorted(SOURCE.rglob("*.py")) for each in docstrings(file)]
    assert len(found) > 1000
    wrong = [
        f"{file.relative_to(SOURCE)}:{line}: {text.splitlines()[0]}"
        for file, line, text in found
        if text.split() and text.split()[0].rstrip(",:;.") in NOT_FIRST
    ]
    assert not wrong, "\n".join(wrong)
