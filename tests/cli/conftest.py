import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fedorbit.cli import output
from fedorbit.cli.commands import execute
from tests.cli.answers import Done


@pytest.fixture
def fedorbit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., Done]:
    """Run `fedorbit` in an empty folder; in this process, since starting one takes a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.stdout, "width", 100)

    def run(*arguments: str, code: int = 0) -> Done:
        ended = execute(arguments)
        done = Done(*capsys.readouterr())
        assert ended == code, done.stderr
        return done

    return run


@pytest.fixture
def process(own_cache: Path, tmp_path: Path) -> Callable[..., Done]:
    """Run a shell line with `fedorbit` as a real process."""

    def run(line: str, code: int = 0, **environment: str) -> Done:
        done = subprocess.run(
            line.replace("fedorbit", f"{sys.executable} -m fedorbit", 1),
            shell=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "FEDORBIT_CACHE": str(own_cache), **environment},
            check=False,
        )
        assert done.returncode == code, done.stderr
        return Done(done.stdout, done.stderr)

    return run
