"""Provenance of a result: commit, hash of the configuration, backend and machine."""

import subprocess
from pathlib import Path

import pytest

from fedorbit.simulation.provenance import config_hash, provenance, source_commit
from tests.simulation.test_runs import small


def git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "checkout"
    folder.mkdir()
    git(folder, "init", "--quiet")
    (folder / "provenance.py").write_text("1\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", "one")
    return folder


def test_the_commit_of_a_checkout(checkout: Path) -> None:
    commit = git(checkout, "rev-parse", "HEAD")
    assert source_commit(checkout) == commit
    (checkout / "new.txt").write_text("not known to git, and no part of the source")
    assert source_commit(checkout) == commit
    (checkout / "provenance.py").write_text("2\n")
    assert source_commit(checkout) == commit + "+"


def test_no_commit_where_there_is_no_checkout(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = checkout / "site-packages"
    installed.mkdir()
    (installed / "provenance.py").write_text("somebody else's repository\n")
    assert source_commit(installed) is None
    assert source_commit(tmp_path / "nowhere") is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert source_commit(checkout) is None


def test_the_hash_is_of_what_can_change_a_result() -> None:
    plain = config_hash(small())
    assert config_hash(small(engine={"workers": 1, "checkpoint_every": 9})) == plain
    assert config_hash(small(seed=1)) != plain
    assert config_hash(small(engine={"backend": "torch"})) != plain
    assert config_hash(small(methods={"fedorbit": {"rho": 0.5}})) != plain
    assert len(plain) == 64


def test_the_machine_is_named() -> None:
    made = provenance(small(), "kernel")
    assert made["backend"] == "kernel" and made["config_hash"] == config_hash(small())
    assert made["cpu"] is None or made["cpu"].strip()
