"""Only regular files are opened, and nothing is read beyond a limit."""

import os
import socket
from pathlib import Path

import pytest

from fedorbit.inputs import kind_of, open_regular, read_regular


def test_a_file_and_a_link_to_it_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"12345")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        assert read_regular(tmp_path / name, 5) == b"12345"
        with open_regular(tmp_path / name) as file:
            assert file.read() == b"12345"


@pytest.mark.parametrize(("size", "held"), [(6, 6), (1 << 40, 1 << 40)])
def test_a_file_beyond_the_limit_is_not_read(tmp_path: Path, size: int, held: int) -> None:
    path = tmp_path / "sparse"
    path.touch()
    os.truncate(path, size)
    with pytest.raises(OSError, match=f"it has {held:,} bytes, allowed are 5"):
        read_regular(path, 5)


def test_a_file_that_announces_no_size_is_bounded_too() -> None:
    path = Path("/proc/self/environ")
    if not path.exists():
        pytest.skip("this system has no /proc")
    with pytest.raises(OSError, match="it has 3 bytes, allowed are 2"):
        read_regular(path, 2)


def make_fifo(path: Path) -> None:
    os.mkfifo(path)


def make_socket(path: Path) -> None:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path.name)  # a full path can be too long for a socket
    listener.close()


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (make_fifo, "a FIFO"),
        (make_socket, "a socket"),
        (Path.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "a device"),
    ],
    ids=["fifo", "socket", "folder", "device"],
)
def test_what_is_no_file_is_not_opened(tmp_path: Path, monkeypatch, make, kind: str) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "odd"
    make(path)
    for read in (open_regular, lambda path: read_regular(path, 5)):
        with pytest.raises(OSError, match=f"it is {kind}, not a regular file"):
            read(path)
    assert kind_of(path.stat().st_mode) == kind


def test_what_becomes_a_fifo_at_the_last_moment_is_not_waited_for(
    tmp_path: Path, monkeypatch
) -> None:
    regular, fifo = tmp_path / "regular", tmp_path / "fifo"
    regular.touch()
    os.mkfifo(fifo)
    monkeypatch.setattr(Path, "stat", lambda self: os.stat(regular))  # noqa: PTH116
    with pytest.raises(OSError, match="it is a FIFO, not a regular file"):
        open_regular(fifo)


def test_a_link_to_itself_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        read_regular(tmp_path / "loop", 5)
