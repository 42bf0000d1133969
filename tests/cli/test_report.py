"""`fedorbit report` as a user runs it."""

import json
from pathlib import Path

from tests.cli.test_run import SMALL
from tests.report.run_folders import world, write_run


def test_a_page_and_figures_of_a_real_run(fedorbit, tmp_path: Path) -> None:
    fedorbit("run", *SMALL, "-m", "fedavg", "-m", "ditto", "-o", "run.rounds=3", "--out", "run")
    world_file = json.loads((tmp_path / "run" / "world.json").read_text())
    assert len(world_file["visible"]) == 3
    done = fedorbit("report", "run", "--figures", "figures", "--json")
    document = json.loads(done.stdout)
    assert document["page"] == "run/report.html" and document["notes"] == []
    assert (tmp_path / "run" / "report.html").stat().st_size == document["bytes"]
    assert len(document["figures"]) == 39
    assert all((tmp_path / figure).is_file() for figure in document["figures"])
    [setting] = document["settings"]
    for row in setting["methods"]:
        summary = json.loads((tmp_path / "run" / row["series"] / "summary.json").read_text())
        assert row["accuracy"]["mean"] == summary["accuracy"]
        assert summary["provenance"].keys() >= {"commit", "config_hash", "cpu"}


def test_several_folders_and_notes(fedorbit, tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"fedavg": 50.0}, setting=world())
    write_run(tmp_path / "b", {"ditto": 60.0}, unfinished=("ditto",))
    done = fedorbit("report", "a", "b")
    assert "ditto (unfinished)" in done.stdout and "Wrote report.html" in done.stdout
    assert "6 of 12 rounds are recorded" in done.stderr
    assert (tmp_path / "report.html").is_file()


def test_what_is_no_run_is_refused(fedorbit, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    refused = fedorbit("report", "empty", code=2)
    assert "empty holds no run" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert "runs/1/report.html" in fedorbit("report", "--help").stdout
