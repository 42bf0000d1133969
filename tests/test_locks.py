"""One process at a time, whatever stands in the place of the lock's file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedorbit import locks
from fedorbit.locks import is_locked, locked
from tests.patience import PATIENCE_S

HOLDER = """
import sys
from pathlib import Path
from fedorbit.locks import locked
with locked(Path(sys.argv[1])) as is_ours:
    print(is_ours, flush=True)
    sys.stdin.readline()
"""


def test_a_lock_is_held_once_and_released(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not is_locked(path) and not path.exists()
    with locked(path) as first, locked(path) as second:
        assert (first, second) == (True, False)
        assert is_locked(path)
    assert not is_locked(path)
    with locked(path) as third:
        assert third


def test_a_lock_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    other = locked(path)
    assert other.__enter__()
    waits: list[float] = []

    def release(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 3:
            other.__exit__(None, None, None)

    monkeypatch.setattr(locks.time, "sleep", release)
    with locked(path, patience_s=PATIENCE_S) as is_ours:
        assert is_ours and len(waits) == 3


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    command = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "True\n"
        assert is_locked(path)
        holder.kill()
        holder.wait(PATIENCE_S)
        with locked(path) as is_ours:
            assert is_ours


def test_a_file_that_was_removed_meanwhile_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever comes next makes a new file, and two processes would hold "the" lock."""
    path, original = tmp_path / "lock", locks.fcntl.flock

    def after_it_was_removed(file: int, how: int) -> None:
        path.unlink()
        original(file, how)

    monkeypatch.setattr(locks.fcntl, "flock", after_it_was_removed)
    with locked(path) as is_ours:
        assert not is_ours


def test_neither_a_link_nor_a_fifo_is_a_lock(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    os.mkfifo(tmp_path / "fifo")
    for name, reason in (("link", "symbolic link"), ("fifo", "it is a FIFO, not a regular file")):
        with pytest.raises(OSError, match=reason), locked(tmp_path / name):
            pass
        with pytest.raises(OSError, match=reason):
            is_locked(tmp_path / name)
    assert (tmp_path / "precious").read_text() == "kept"


def test_no_file_stays_open(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with locked(tmp_path / "lock"), locked(tmp_path / "lock", patience_s=0.1):
        is_locked(tmp_path / "lock")
    with pytest.raises(OSError, match="FIFO"), locked(tmp_path / "fifo"):
        pass
    assert len(list(Path("/proc/self/fd").iterdir())) == before
