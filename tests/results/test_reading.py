"""Reading of results, with and without what a run keeps to be continued."""

from pathlib import Path

import pytest

from fedorbit.results import reading
from tests.serve.run_folders import add_rounds, write_run


def test_checkpoints_are_read_unless_they_are_not_wanted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run")
    add_rounds(run, [40.0, 50.0])
    looked_at: list[Path] = []
    monkeypatch.setattr(reading, "warn_of_damage", lambda folder, _: looked_at.append(folder))
    without = reading.read_results(run, "fedavg", with_checkpoints=False)
    assert looked_at == []
    assert without.records == reading.read_results(run, "fedavg").records
    assert looked_at == [run / "fedavg"]
