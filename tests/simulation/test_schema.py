"""The page about records names every key that a record and a summary have."""

import re
from pathlib import Path
from typing import get_type_hints

import pytest

from fedorbit.simulation import schema

PAGE = (Path(__file__).parents[2] / "docs" / "records.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("shape", "heading", "beside"),
    [
        (schema.RecordShape, "## A record", {"chain"}),
        (schema.SummaryShape, "## A summary", {"events"}),
    ],
)
def test_the_page_names_all_keys(shape: type, heading: str, beside: set[str]) -> None:
    section = PAGE.split(heading, 1)[1].split("\n## ", 1)[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    named = {key for row in rows for key in re.findall(r"`(\w+)`", row)}
    assert named - beside == get_type_hints(shape).keys()
