"""Answers of the application without a server in front of it."""

from pathlib import Path
from urllib.parse import urlencode

import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
from starlette.requests import Request

from fedorbit.report.runfiles import read_run
from fedorbit.serve import app
from fedorbit.serve.catalog import Catalog
from tests.report.run_folders import write_sweep
from tests.serve.run_folders import add_rounds, write_run


def ask(answers: app.Answers, *names: str) -> str:
    query = urlencode([("name", name) for name in names]).encode()
    answer = answers.runs(Request({"type": "http", "query_string": query, "headers": []}))
    assert answer.status_code == 200
    return bytes(answer.body).decode()


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Runs that are read, and whether with their checkpoints."""
    found: list[tuple[str, bool]] = []

    def reading(path: Path, with_checkpoints: bool = True) -> object:
        found.append((path.name, with_checkpoints))
        return read_run(path, with_checkpoints)

    monkeypatch.setattr(app, "read_run", reading)
    return found


def test_only_what_has_changed_is_read_again_and_no_checkpoint(
    tmp_path: Path, read: list[tuple[str, bool]]
) -> None:
    for name in ("1", "2"):
        add_rounds(write_run(tmp_path / name, seed=int(name)), [40.0])
    answers = app.Answers(Catalog(tmp_path), lambda: False)
    first = ask(answers, "1", "2")
    assert ask(answers, "1", "2") == first
    assert read == [("1", False), ("2", False)]
    add_rounds(tmp_path / "2", [60.0])
    assert ask(answers, "1", "2") != first
    assert read[2:] == [("2", False)]


def test_a_study_that_is_described_anew_is_read_again(
    tmp_path: Path, read: list[tuple[str, bool]]
) -> None:
    study = write_sweep(tmp_path / "study") / "study.toml"
    answers = app.Answers(Catalog(tmp_path), lambda: False)
    ask(answers, "study")
    study.write_text(study.read_text().replace('"kappa"', '"another title"'))
    assert "another title" in ask(answers, "study")
    assert len(read) == 2 * 4


def test_records_of_few_runs_are_kept(
    tmp_path: Path, read: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "MOST_READ", 2)
    for name in ("1", "2", "3"):
        add_rounds(write_run(tmp_path / name, seed=int(name)), [40.0])
    answers = app.Answers(Catalog(tmp_path), lambda: False)
    for name in ("1", "2", "1", "3", "1", "2"):
        ask(answers, name)
    assert [name for name, _ in read] == ["1", "2", "3", "2"]
