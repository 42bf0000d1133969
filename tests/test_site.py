"""Pages of the documentation's site that are made from the code."""

import re

from site_reference import commands, configuration


def test_the_command_line_has_values_defaults_and_comments() -> None:
    page = commands()
    assert "| `--out DIR` | runs/1, runs/2 … | The run's folder. |" in page
    assert (
        "| `--method, -m NAME` | those of CONFIG | Run this method (see `fedorbit methods`)" in page
    )
    assert "| `--engine local|ray` | `local` |" in page
    assert "| `DIR...` | required |" in page
    assert "fedorbit run  # the quickstart: synthetic images" in page
    assert "[bold]" not in page and "<" not in page


def test_the_command_line_has_all_exit_codes() -> None:
    lines = [line for line in commands().partition("## ")[0].splitlines() if line.startswith("| ")]
    assert [line.split()[1] for line in lines[2:]] == ["0", "1", "2", "3", "130", "143"]


def test_every_setting_has_a_meaning() -> None:
    rows = re.findall(r"(?m)^\| `.*\|$", configuration())
    assert len(rows) > 80
    assert [row for row in rows if row.endswith("|  |")] == []


def test_bounds_are_short() -> None:
    page = configuration()
    assert (
        "| `seed` | integer, ≥ 0, < 2<sup>63</sup> | `0` | every random draw derives from it |"
        in page
    )
    assert "| `max_range_km` | number, ≥ 0, ≤ 1,000,000 |" in page
