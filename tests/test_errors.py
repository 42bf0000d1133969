"""Errors of other libraries, in a sentence of ours."""

import pytest

from fedorbit.errors import LONGEST_LINE, one_line


@pytest.mark.parametrize(
    ("error", "plain", "with_kind"),
    [
        (
            ValueError("a cause\nand its\n  place."),
            "a cause and its place",
            "ValueError: a cause and its place",
        ),
        (ValueError("\n  indented \r\n"), "indented", "ValueError: indented"),
        (ValueError(), "ValueError", "ValueError"),
        (
            OSError("no answer at https://me:secret@host/path"),
            "no answer at https://host/path",
            "OSError: no answer at https://host/path",
        ),
    ],
)
def test_an_error_is_quoted_in_one_line(error: Exception, plain: str, with_kind: str) -> None:
    assert one_line(error) == plain
    assert one_line(error, with_kind=True) == with_kind


def test_a_long_line_is_cut() -> None:
    assert one_line(ValueError("x" * 1000)) == "x" * (LONGEST_LINE - 1) + "…"
