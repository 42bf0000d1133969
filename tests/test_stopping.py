"""Signals, as a user sends them: one sentence, the right exit code, and nothing lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from fedorbit.simulation.records import method_folder, read_records
from tests.gates import METHOD, Gates
from tests.patience import PATIENCE_S

COMMAND = Path(sys.executable).with_name("fedorbit")
SMALL = ["-o", "constellation.planes=3", "-o", "data.synthetic.samples=120",
         "-o", "data.synthetic.size=16", "-o", "run.rounds=6", "-q"]  # fmt: skip


def start(tmp_path: Path, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([COMMAND, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True)


def end(running: "subprocess.Popen[str]", signals: Iterable[int]) -> str:
    for number in signals:
        running.send_signal(number)
        time.sleep(0.005)
    message = running.communicate(timeout=PATIENCE_S)[1]
    assert "Traceback" not in message and "Exception ignored" not in message
    return message


@pytest.mark.parametrize(
    ("signals", "code"),
    [
        ([signal.SIGTERM] * 6, 143),
        ([signal.SIGINT] * 6, 130),
        ([signal.SIGINT, signal.SIGTERM] * 3, 130),
        ([signal.SIGTERM, signal.SIGINT] * 3, 143),
    ],
)
def test_repeated_signals_end_a_run_once(
    gates: Gates, tmp_path: Path, signals: list[int], code: int
) -> None:
    gates.hold(before=3)
    running = start(tmp_path, "run", *SMALL, "-m", METHOD, "--out", "run")
    gates.wait(running)
    message = end(running, signals)
    assert running.returncode == code
    assert "--resume run --allow-code gated" in message
    assert len(read_records(method_folder(tmp_path / "run", METHOD))) == 3


def test_a_stop_before_the_first_round_names_no_folder_that_is_not_there(
    gates: Gates, tmp_path: Path
) -> None:
    """A model that is built while the world is."""
    (tmp_path / "slow.py").write_text(
        "import time\nfrom pathlib import Path\nfrom fedorbit.learning.lenet import LeNet\n"
        "def factory(*shape):\n    Path('begun').touch()\n    time.sleep(600)\n"
    )
    model = ["-o", "model.name=slow:factory", "-o", "model.classifier=fc2"]
    running = start(tmp_path, "run", *SMALL, "-m", "fedavg", *model, "--out", "run")
    until = time.monotonic() + PATIENCE_S
    while not (tmp_path / "begun").exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert end(running, [signal.SIGTERM]) == "fedorbit: stopped by SIGTERM\n"
    assert running.returncode == 143
    assert not (tmp_path / "run").exists()


def test_a_stop_that_was_swallowed_can_be_repeated(gates: Gates, tmp_path: Path) -> None:
    (tmp_path / "greedy.py").write_text(
        "import time\nfrom pathlib import Path\nfrom fedorbit import stopping\n"
        "from fedorbit.methods.fedavg import FedAvg\nstopping.PATIENCE_S = 0.2\n"
        "class Greedy(FedAvg):\n"
        "    def round(self, state, now):\n"
        "        for n in range(60_000):\n"
        "            try:\n                Path('begun').touch()\n                time.sleep(0.01)\n"
        "            except BaseException:\n                Path('swallowed').touch()\n"
    )
    running = start(tmp_path, "run", *SMALL, "-m", "greedy:Greedy", "--out", "run")
    until = time.monotonic() + PATIENCE_S
    for mark in ("begun", "swallowed"):
        while not (tmp_path / mark).exists() and time.monotonic() < until:
            time.sleep(0.01)
        if mark == "begun":
            running.send_signal(signal.SIGINT)
    while running.poll() is None and time.monotonic() < until:
        running.send_signal(signal.SIGINT)
        time.sleep(0.05)
    assert "stopped by SIGINT" in running.communicate()[1]
    assert running.returncode == 130


def test_a_library_keeps_its_handlers() -> None:
    code = (
        "import signal, fedorbit.stopping as s\n"
        "before = signal.getsignal(signal.SIGINT)\n"
        "with s.stopping_on_signals():\n"
        "    for n in range(3):\n"
        "        try:\n            signal.raise_signal(signal.SIGTERM)\n"
        "        except s.StopRequested as stop:\n            print(stop.exit_code)\n"
        "print(signal.getsignal(signal.SIGINT) is before)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert done.stdout.split() == ["143", "143", "143", "True"]
