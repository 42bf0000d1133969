"""`fedorbit run` in a terminal of 80 columns and 24 lines."""

import os
import pty
import re
import struct
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from fedorbit.cli.run_progress import state_lines

fcntl, termios = pytest.importorskip("fcntl"), pytest.importorskip("termios")
SMALL = (
    "run.rounds=4", "constellation.planes=3",
    "constellation.satellites_per_plane=2", "data.synthetic.samples=120", "training.epochs=1",
)  # fmt: skip


def in_a_terminal(*arguments: str) -> str:
    """Return everything that the command wrote to a terminal of 80 x 24."""
    child, terminal = pty.fork()
    if child == 0:
        os.environ |= {"TERM": "xterm-256color"}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "CI"):
            os.environ.pop(name, None)
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.execv(sys.executable, [sys.executable, "-m", "fedorbit", *arguments])
    written = b""
    try:
        while chunk := os.read(terminal, 65536):
            written += chunk
    except OSError:  # the other side has ended
        pass
    os.close(terminal)
    assert os.waitpid(child, 0)[1] == 0, written.decode()
    return written.decode()


def test_all_of_it_fits_and_ends_with_what_to_open(tmp_path: Path) -> None:
    changes = [part for change in SMALL for part in ("-o", change)]
    written = in_a_terminal("run", *changes, "-m", "fedavg", "--out", str(tmp_path / "r"))
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written))
    path = str(tmp_path)
    assert [line for line in lines if cell_len(line) > 80 and path not in line] == []
    shown = "\n".join(lines)
    assert re.search(r"fedavg \S+ 4/4 rounds \S+/s took 0:00:\d\d", shown)
    state = r"accuracy \d+\.\d %, spread \d+\.\d; satellites in view \d, orbits reached \d/3"
    assert re.search(state, shown)
    assert re.search(r"0\.3 h: to ground \S+ [kM]?B, from ground \S+ [kM]?B, ISL \S+ [kM]?B", shown)
    report, serve = lines[-3:-1]
    assert report.split("#")[0].split() == ["fedorbit", "report", f"{path}/r"]
    assert serve.split("#")[0].split() == ["fedorbit", "serve", f"{path}/r"]


def record(**changes: Any) -> dict[str, Any]:
    """A record of a run that has sent as much as a line can hold."""
    return {
        "accuracy": 100.0, "spread": 100.0, "hours": 100.0, "orbit_accuracy": [100.0] * 72,
        "visible": [3, 70], "satellites_in_view": 2, "to_ground_bytes": 126_000_000, "from_ground_bytes": 196_000_000,
        "isl_bytes": 82_000_000_000, "unlinked_bytes": 0, **changes,
    }  # fmt: skip


def test_what_is_in_view_fits_into_a_line() -> None:
    line = state_lines(record(visible=list(range(72)), satellites_in_view=1584))[0]
    assert line.endswith("satellites in view 1584, orbits reached 72/72")
    assert len(line) <= 78


def test_bytes_by_kind_of_link() -> None:
    """Bytes without a link are there only where links are assumed; two columns are an indent."""
    assert state_lines(record())[1] == "100.0 h: to ground 126 MB, from ground 196 MB, ISL 82.0 GB"
    assumed = state_lines(record(unlinked_bytes=223_000_000))
    assert assumed[1].endswith("ISL 82.0 GB, unlinked 223 MB")
    assert max(map(len, assumed)) <= 78
