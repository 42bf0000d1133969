"""The tools that attack the command line find what they are made to find."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import safetensors.numpy
from compare import differences

ROOT = Path(__file__).parents[1]
# A command line that is right about everything but one: it breaks where JSON is asked for.
PLANTED = """
import sys


def main(argv):
    if "--json" in argv:
        raise TypeError("planted")
    print("fedorbit: refused", file=sys.stderr)
    sys.exit(2)
"""


def fuzz(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "planted.py").write_text(PLANTED)
    tool = [sys.executable, str(ROOT / "robustness" / "fuzz.py"), "--target", "elements"]
    return subprocess.run(
        [*tool, "--entry", "planted:main", "--keep", str(folder / "found"), *arguments],
        env={"PYTHONPATH": f"{folder}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )


def inputs(folder: Path) -> dict[str, bytes]:
    paths = sorted((folder / "work").rglob("*"))
    return {path.name: path.read_bytes() for path in paths if path.is_file()}


def test_a_planted_defect_is_found_and_repeated(tmp_path: Path) -> None:
    (tmp_path / "again").mkdir()
    done = fuzz(tmp_path, "--seed", "5", "--cases", "4")
    assert done.returncode == 1, done.stdout + done.stderr
    kept = min((tmp_path / "found").iterdir())  # one per command: all fail alike
    told = (kept / "failures.txt").read_text()
    assert "traceback: TypeError: planted" in told
    number = kept.name.removeprefix("5-")
    assert f"--seed 5 --case {number}" in told
    again = fuzz(tmp_path / "again", "--seed", "5", "--case", number)
    assert again.returncode == 1
    repeated = tmp_path / "again" / "found" / kept.name
    assert (repeated / "failures.txt").read_text() == told
    assert inputs(repeated) == inputs(kept)


def run_folder(folder: Path, value: float = 0.0, seconds: float = 1.0) -> Path:
    method = folder / "fedorbit"
    method.mkdir(parents=True)
    (folder / "config.toml").write_text("seed = 0\n")
    for name in ("world.json", "run.json"):
        (folder / name).write_text("{}\n")
    records = {"round": 0, "accuracy": 50.0, "seconds": seconds}
    (method / "records.jsonl").write_text(json.dumps(records) + "\n")
    (method / "summary.json").write_text(json.dumps({"accuracy": 50.0, "seconds": seconds}))
    vouch = {"rounds_done": 1, "spent": {"seconds": seconds}, "sha256": str(seconds)}
    (method / "checkpoint-00000001.json").write_text(json.dumps(vouch))
    tensors = {"models": np.array([value, 1.0], dtype=np.float32)}
    safetensors.numpy.save_file(tensors, method / "checkpoint-00000001.safetensors")
    return folder


def test_only_the_time_may_differ(tmp_path: Path) -> None:
    first = run_folder(tmp_path / "first")
    assert differences(first, run_folder(tmp_path / "second", seconds=2.0)) == []


def test_one_bit_makes_a_difference(tmp_path: Path) -> None:
    """Minus zero equals zero, but is another bit."""
    first, second = run_folder(tmp_path / "first"), run_folder(tmp_path / "second", value=-0.0)
    assert differences(first, second) == ["second/fedorbit: other tensors in checkpoint-00000001"]


def test_leftovers_and_missing_files_make_a_difference(tmp_path: Path) -> None:
    first, second = run_folder(tmp_path / "first"), run_folder(tmp_path / "second")
    (second / ".accuracy.0123abcd.partial.png").touch()
    (second / "fedorbit" / "summary.json").unlink()
    shutil.copy(second / "config.toml", first / "accuracy.png")
    assert differences(first, second) == [
        ".accuracy.0123abcd.partial.png is left behind",
        "second/fedorbit: other summary",
        "second: no accuracy.png",
    ]
