"""Tables on terminals of any width."""

import io
import re

import pytest
from rich.console import Console

from fedorbit.cli import output, run
from fedorbit.cli.commands import execute
from fedorbit.cli.orbits import _clock
from fedorbit.cli.output import Column, Table


@pytest.fixture
def at_width(monkeypatch: pytest.MonkeyPatch):
    def set_width(width: int) -> None:
        monkeypatch.setattr(output.stdout, "width", width)

    return set_width


def example() -> Table:
    table = Table(
        "A title of several words",
        [
            Column("name", text=True),
            Column("first", rank=1),
            Column("second", rank=2),
            Column("third", rank=2),
            Column("sum"),
        ],
    )
    table.add_row("a name of many words", "111,111", "222,222", "333,333", "666,666", style="bold")
    table.add_row("supercalifragilistic", "1", "2", "3", "6")
    table.add_section()
    table.add_row("b", "1", "2", "3", "6")
    return table


@pytest.mark.parametrize(
    ("width", "left_out"),
    [(80, set()), (50, set()), (40, {"second", "third"}), (25, {"first", "second", "third"}),
     (5, {"first", "second", "third"})],
)  # fmt: skip
def test_columns_go_by_rank_and_no_number_is_cut(at_width, capsys, width: int, left_out) -> None:
    at_width(width)
    assert example().print() == left_out
    text = capsys.readouterr().out
    for number, column in (("111,111", "first"), ("222,222", "second"), ("666,666", "sum")):
        assert (number in text) == (column not in left_out)
    assert ("Toonarrowfor" in "".join(text.split())) == bool(left_out)
    assert "…" not in text
    letters = re.sub(r"[^a-z]", "", text)
    assert "supercalif" in letters
    if width >= 25:
        assert all(len(line) <= width for line in text.splitlines())


def test_markup_in_titles_heads_and_cells_is_text(at_width, capsys) -> None:
    at_width(200)
    table = Table("[red]title[/red] [/x]", [Column("[/head]", text=True), Column(":smile:")])
    table.add_row("[bold]cell[/bold]", "[/number]")
    table.print()
    output.complain("[red]message[/red] [/x]")
    done = capsys.readouterr()
    for text in ("[red]title[/red] [/x]", "[/head]", ":smile:", "[bold]cell[/bold]", "[/number]"):
        assert text in done.out
    assert done.err == "fedorbit: [red]message[/red] [/x]\n"


@pytest.mark.parametrize(
    ("command", "whole"),
    [
        (["orbits"], ["satellite", "191", "00:13:46.9"]),
        (["data", "partition"], ["sat 4.3", "orbit 4"]),
        (["data", "inspect", "synthetic"], ["6,000"]),
        (["data", "list"], ["eurosat", "27,000"]),
        (["methods"], ["fedorbit", "rendezvous"]),
        (["methods", "fedorbit"], ["similarity_smoothing", "0.95"]),
    ],
)
def test_no_command_cuts_anything(at_width, capsys, command: list[str], whole: list[str]) -> None:
    for width in (20, 40, 60, 79, 100):
        at_width(width)
        assert execute(command) == 0
        text = capsys.readouterr().out
        assert "…" not in text
        for cell in whole:
            assert cell in text


SUMMARY = {
    "rounds": 200, "links": "ideal", "similarity": 0.5, "accuracy": 88.1, "spread": 12.3,
    "per_orbit": [88.1] * 5, "samples_trained": 123_456_789, "to_ground_bytes": 123_456_789,
    "to_ground_vs_fedavg": 1.05, "unlinked_bytes": 2_345_678_901,
}  # fmt: skip


@pytest.mark.parametrize(("width", "has_orbits"), [(80, False), (100, True)])
def test_the_comparison_fits_the_terminal(at_width, capsys, width: int, has_orbits: bool) -> None:
    at_width(width)
    names = ["fedavg", "fedprox", "centralised", "fedorbit", "my_module:Method"]
    run._print_comparison([{**SUMMARY, "method": name} for name in names], "means of all 2")
    text = capsys.readouterr().out
    assert all(len(line) <= width for line in text.splitlines())
    for cell in (*names, "88.1", "12.3", "123 M", "123 MB", "1.05 x", "2.35 GB"):
        assert cell in text
    assert ("88 88 88 88 88" in text) == has_orbits


def test_similarity_and_blend_are_told_apart(at_width, capsys) -> None:
    at_width(80)
    fedavg, fedorbit = ({**SUMMARY, "method": name} for name in ("fedavg", "fedorbit"))
    run._print_comparison([fedavg, {**fedorbit, "beta": 0.5}], "means")
    text = capsys.readouterr().out
    assert "Class similarity of the orbits: 0.500" in text and "beta" not in text
    for order in (1, -1):  # whichever method comes first
        run._print_comparison([fedavg, {**fedorbit, "beta": 0.25}][::order], "means")
        text = capsys.readouterr().out
        assert "Class similarity of the orbits: 0.500" in text
        assert "fedorbit blends with beta = 0.250" in text


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "00:00:00.0"), (59.94, "00:00:59.9"), (59.97, "00:01:00.0"), (3599.96, "01:00:00.0"),
     (86400.04, "24:00:00.0"), (3661.25, "01:01:01.2")],
)  # fmt: skip
def test_clock(seconds: float, shown: str) -> None:
    assert _clock(seconds) == shown


def test_progress_shows_labels_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    terminal = Console(file=screen, force_terminal=True, width=200, markup=False)
    monkeypatch.setattr(output, "stderr", terminal)
    progress = output.RichProgress()
    progress.start("preparing [/x]", 3, "images")
    progress.advance(3)
    progress.finish()
    assert "preparing [/x]" in screen.getvalue()
