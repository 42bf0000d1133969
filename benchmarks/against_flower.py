"""Whole runs: fedorbit against Flower's simulation engine and against a plain DataLoader loop.

FedAvg and FedOrbit on EuroSAT at 64x64 (preset `paper`, synthetic images of that size where EuroSAT
is not prepared), evaluated after every round, everybody on the same two cores:

    fedorbit   two worker threads
    flower     Ray with two CPUs, one CPU and one PyTorch thread per client (`benchmarks/flower/`)
    loop       one client after the other, with PyTorch's best number of threads
               (`benchmarks/dataloader_loop.py`)

The other two are idiomatic: images are transformed on access, as Flower's guide and torchvision
do it, and every orbit's model is evaluated in every round. With --generous they get standardised
tensors in memory and, like fedorbit, evaluate a model only when it has changed.

All three do the same jobs in the same rounds with fedorbit's own aggregation; that the number of
samples trained is the same is checked, and accuracies are printed. Runs take turns. Two ratios to
fedorbit are printed: of the rounds alone, without starting Ray, importing and loading images, and
of the whole process. The first is the one to quote: it favours Flower.

Flower gets an environment of its own in fedorbit's cache folder, made on first use.
Usage: python benchmarks/against_flower.py [--rounds 10] [--method fedavg|fedorbit|both]
           [--generous] [--repeats N] [-o KEY=VALUE]
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from workload import export

from fedorbit.config import load_config
from fedorbit.data.cache import cache_root, is_prepared

HERE = Path(__file__).parent
FLOWER = HERE / "flower"
CORES = 2
SYNTHETIC = ["data.name=synthetic", "data.synthetic.size=64", "data.synthetic.samples=27000"]


@dataclass(frozen=True)
class Outcome:
    """One run: seconds of its rounds and of the process, and what came out."""

    rounds_s: float
    whole_s: float
    accuracy: list[float]
    samples_trained: int


def flower_python() -> Path:
    """Return the interpreter of Flower's environment; make it where it is missing."""
    pinned = (FLOWER / "requirements.txt").read_bytes()
    folder = cache_root() / "benchmarks" / f"flower-{hashlib.sha256(pinned).hexdigest()[:10]}"
    python, complete = folder / "bin" / "python", folder / "complete"
    if not complete.exists():
        tell(f"making Flower's environment in {folder}")
        venv.create(folder, clear=True, with_pip=True)
        run_quietly(python, "-m", "pip", "install", "-r", FLOWER / "requirements.txt")
        complete.touch()
    # Methods and fleet of this checkout; from a copy without setup.py, so that no kernel is built
    # there and nothing is left here.
    with tempfile.TemporaryDirectory() as copy:
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(HERE.parent / name, copy)
        ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.egg-info")
        shutil.copytree(HERE.parent / "src", Path(copy) / "src", ignore=ignored)
        run_quietly(python, "-m", "pip", "install", "--no-deps", "--force-reinstall", copy)
    return python


def run_quietly(*command: Any, **environment: str) -> str:
    """Run a command; return its standard output, or end with what it said."""
    done = subprocess.run(
        list(map(str, command)),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environment},
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


class Contest:
    """Everybody who can do the work, in a scratch folder."""

    def __init__(self, folder: Path, changes: list[str], idiomatic: bool) -> None:
        self._folder = folder
        self._changes = changes
        self._workload = folder / "workload.npz"
        export(self._workload, load_config("paper", changes), idiomatic)
        self._flower = flower_python()
        probe = run_quietly(sys.executable, HERE / "dataloader_loop.py", self._workload, "--probe")
        self.threads = int(json.loads(probe)["threads"])
        self.contestants = {"fedorbit": self.fedorbit, "flower": self.flower, "loop": self.loop}

    def fedorbit(self, method: str) -> Outcome:
        out = self._folder / "run"
        overrides = [word for change in self._changes for word in ("-o", change)]
        command = [sys.executable, "-m", "fedorbit", "run", "paper", "-m", method, "--quiet"]
        begin = time.perf_counter()
        run_quietly(*command, *overrides, "-o", f"engine.workers={CORES}", "--out", out)
        whole_s = time.perf_counter() - begin
        summary = json.loads((out / method / "summary.json").read_text())
        records = (out / method / "records.jsonl").read_text().splitlines()
        shutil.rmtree(out)
        if summary["provenance"]["backend"] != "kernel":
            tell("fedorbit trained with PyTorch, not with its kernel; see `fedorbit doctor`")
        accuracy = [json.loads(record)["accuracy"] for record in records]
        return Outcome(summary["seconds"], whole_s, accuracy, summary["samples_trained"])

    def flower(self, method: str) -> Outcome:
        result = self._folder / "flower.json"
        result.unlink(missing_ok=True)
        begin = time.perf_counter()
        run_quietly(
            self._flower,
            FLOWER / "run.py",
            self._workload,
            method,
            result,
            PYTHONPATH=str(HERE),
            FLWR_TELEMETRY_ENABLED="0",
        )
        return _outcome(time.perf_counter() - begin, json.loads(result.read_text()))

    def loop(self, method: str) -> Outcome:
        command = [sys.executable, HERE / "dataloader_loop.py", self._workload, method]
        begin = time.perf_counter()
        printed = run_quietly(*command, "--threads", self.threads)
        return _outcome(time.perf_counter() - begin, json.loads(printed))


def _outcome(whole_s: float, result: dict[str, Any]) -> Outcome:
    return Outcome(result["seconds"], whole_s, result["accuracy"], result["samples_trained"])


def compare(contest: Contest, method: str, repeats: int) -> None:
    """Run all contestants in turns and print the ratios to fedorbit."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in contest.contestants}
    begin, done = time.perf_counter(), 0
    for _ in range(repeats):
        for name, run in contest.contestants.items():
            outcomes[name].append(outcome := run(method))
            done += 1
            left = len(outcomes) * repeats - done
            eta_s = (time.perf_counter() - begin) / done * left
            tell(
                f"{method}, {name}: {outcome.rounds_s:.1f} s for the rounds, {outcome.whole_s:.1f} "
                f"s for the process; {left} runs to go, ETA {eta_s / 60:.0f} min"
            )
    trained = {outcome.samples_trained for runs in outcomes.values() for outcome in runs}
    if len(trained) != 1:
        sys.exit(f"not the same work: {sorted(trained)} samples were trained")
    print(f"\n{method}, {trained.pop():,} samples trained, {repeats} runs each")
    print(f"{'':12}{'rounds, x fedorbit':26}{'process, x fedorbit':26}accuracy, last round")
    for name, runs in outcomes.items():
        ratios = [
            [
                getattr(own, kind) / getattr(fedorbits, kind)
                for own, fedorbits in zip(runs, outcomes["fedorbit"], strict=True)
            ]
            for kind in ("rounds_s", "whole_s")
        ]
        columns = "".join(
            f"{median(r):6.2f} ({min(r):.2f} to {max(r):.2f})".ljust(26) for r in ratios
        )
        accuracies = " ".join(f"{run.accuracy[-1]:.1f}" for run in runs)
        print(f"{name:10}{columns}  {accuracies}", flush=True)


def tell(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--method", choices=["fedavg", "fedorbit", "both"], default="both")
    parser.add_argument("--generous", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("-o", dest="changes", action="append", default=[], metavar="KEY=VALUE")
    options = parser.parse_args()
    if hasattr(os, "sched_setaffinity"):  # the same cores for everybody, however many there are
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    data = [] if is_prepared("eurosat") else SYNTHETIC
    changes = [*data, f"run.rounds={options.rounds}", *options.changes]
    with tempfile.TemporaryDirectory() as folder:
        contest = Contest(Path(folder), changes, not options.generous)
        name = load_config("paper", changes).data.name
        print(
            f"{options.rounds} rounds on {name}, the others "
            f"{'generous' if options.generous else 'idiomatic'}; "
            f"the loop uses {contest.threads} threads"
        )
        for method in ("fedavg", "fedorbit") if options.method == "both" else (options.method,):
            compare(contest, method, options.repeats)


if __name__ == "__main__":
    main()
