"""Only training needs PyTorch: all else starts without importing it, and works where it is absent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.answers import Done

WITHOUT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Absent())
from fedorbit.cli import main
main()
"""
SMALL = ["-o", "data.synthetic.samples=200", "-o", "data.synthetic.size=16"]


@pytest.fixture
def without_torch(own_cache: Path, tmp_path: Path):
    """Run `fedorbit` in a process that has no PyTorch."""

    def run(*arguments: str, code: int = 0) -> Done:
        done = subprocess.run(
            [sys.executable, "-c", WITHOUT, *arguments],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "FEDORBIT_CACHE": str(own_cache)},
            check=False,
        )
        assert done.returncode == code, done.stderr
        return Done(done.stdout, done.stderr)

    return run


@pytest.mark.parametrize(
    "command",
    [
        "methods",
        "config list",
        "orbits paper -o schedule.rounds=20 --out orbits",
        "orbits paper -o schedule.rounds=20 --links",
        "data list",
        "study list",
        "study status ablation --quick",
    ],
)
def test_commands_that_need_no_pytorch(without_torch, command: str) -> None:
    assert json.loads(without_torch(*command.split(), "--json").stdout)


def test_images_are_made_dealt_and_looked_at(without_torch) -> None:
    dealt = json.loads(without_torch("data", "partition", *SMALL, "--out", "here", "--json").stdout)
    assert without_torch("data", "inspect", dealt["dataset"], "--json").stdout


def test_a_page_is_made_of_a_run_from_elsewhere(fedorbit, without_torch, tmp_path: Path) -> None:
    fedorbit("run", *SMALL, "-m", "fedavg", "-o", "run.rounds=2", "--out", "made", "--quiet")
    without_torch("report", "made", "--figures", "figures")
    assert (tmp_path / "made" / "report.html").stat().st_size > 0


@pytest.mark.parametrize("command", [["run"], ["orbits", "-o", "link_rates.to_ground_mbps=1"]])
def test_where_a_model_is_built_the_remedy_is_named(without_torch, command: list[str]) -> None:
    done = without_torch(*command, code=2)
    assert done.stderr.startswith("fedorbit: this needs PyTorch, which is not installed: pip")
    assert len(done.stderr.splitlines()) == 1
