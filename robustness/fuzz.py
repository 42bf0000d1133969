"""Damaged and hostile inputs for the command line, at random from a seed, for some minutes.

Every case derives from the seed and its number alone. What breaks a promise (see `promises.py`) is
kept once per kind, with its inputs and the command that repeats it; then the exit code is 1.
Usage: python robustness/fuzz.py [--minutes 5] [--seed 0] [--case N] [--target NAME]
"""

import argparse
import json
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from forkserver import Entry, call, environment_in, preload, start
from material import Material
from promises import Failure, check_call, check_files, check_results, snapshot
from targets import ALL, TARGETS, Call, Case, Target
from traps import Traps

AT_A_TIME = 2
FOUND = Path("build/fuzz")
FRAME = "src/fedorbit/"
SLOW = ("hang", "connection", "memory")


@dataclass(frozen=True)
class Fuzzer:
    """Settings that all cases share."""

    entry: Entry
    material: Material
    seed: int
    targets: Sequence[Target]

    def target(self, number: int) -> Target:
        """Return what a case damages."""
        return self.targets[number % len(self.targets)]

    def prepare(self, number: int, folder: Path) -> tuple[Case, list[Call]]:
        """Put the inputs of a case into a new folder."""
        folder.mkdir(parents=True)
        (folder / "work").mkdir()
        (folder / "cache").mkdir()
        rng = random.Random(f"{self.seed}/{number}")
        case = Case(rng, folder / "work", folder / "cache", Traps.around(folder), self.material)
        return case, self.target(number).prepare(case)

    def run(self, number: int, folder: Path) -> dict[str, Any]:
        """Do a case; return its report as plain values."""
        case, calls = self.prepare(number, folder)
        codes, found = [], []
        for wanted in calls:
            code, failures = self._checked(case, wanted, folder)
            codes.append(code)
            found += [
                {
                    "kind": failure.kind,
                    "detail": failure.detail,
                    "signature": f"{_command(wanted.argv)}: {failure.signature}",
                    "argv": wanted.argv,
                }
                for failure in failures
            ]
            if any(failure.kind in SLOW for failure in failures):
                break  # the next call would most likely do the same
        case.traps.close()
        return {"case": number, "done": case.done, "codes": codes, "failures": found}

    def _checked(self, case: Case, wanted: Call, folder: Path) -> tuple[int, list[Failure]]:
        environment = environment_in(folder)
        before = snapshot(folder)
        listener = case.traps.listener
        outcome = call(self.entry, wanted.argv, case.work, environment, listener=listener)
        failures = check_call(outcome, "--json" in wanted.argv)
        after = snapshot(folder)
        failures += check_files(outcome, before, after, wanted.keeps) + case.traps.check()
        if wanted.results is not None and "--json" in wanted.argv:
            command, baseline = wanted.results
            failures += check_results(command, outcome, baseline, may_miss=wanted.may_miss)
        if any(failure.kind == "internal error" for failure in failures):
            shown = call(self.entry, (*wanted.argv, "--debug"), case.work, environment)
            failures = [_placed(failure, shown.stderr) for failure in failures]
            case.traps.check()  # what this call has sprung was sprung before
        return outcome.code, failures


def _placed(failure: Failure, debug: str) -> Failure:
    """Name the line of ours in which an internal error arose, so that equal ones are one."""
    words = [word.strip("│ ") for line in debug.splitlines() for word in line.split(" in ")[:1]]
    places = [word[word.index(FRAME) + len(FRAME) :] for word in words if FRAME in word]
    if failure.kind != "internal error" or not places:
        return failure
    return replace(failure, place=f"in {places[-1].split(' ')[0]}")


def _command(argv: Sequence[str]) -> str:
    words = [word for word in argv[:2] if not word.startswith("-") or word == "--resume"]
    known = ("study", "data", "config")
    return " ".join(words if argv[0] in known or "--resume" in words else words[:1])


# --- The driver ---------------------------------------------------------------------------------


@dataclass
class Tally:
    """Counts of cases, exit codes and failures."""

    cases: Counter[str] = field(default_factory=Counter)
    codes: Counter[tuple[str, int]] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, list[dict[str, Any]]] = field(default_factory=dict)

    def add(self, target: str, report: dict[str, Any]) -> list[str]:
        """Count a case; return the signatures of failures that are new."""
        self.cases[target] += 1
        self.codes.update((target, code) for code in report["codes"])
        self.failed[target] += bool(report["failures"])
        new = []
        for failure in report["failures"]:
            same = self.kinds.setdefault(failure["signature"], [])
            if not same:
                new.append(failure["signature"])
            same.append({**failure, "case": report["case"], "done": report["done"]})
        return new


def fuzz(fuzzer: Fuzzer, numbers: Sequence[int], end: float, keep: Path) -> Tally:
    """Do cases, two at a time, until there is no more or the time is over."""
    tally, running, position = Tally(), dict[int, tuple[int, Path]](), 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as scratch:
        while running or (position < len(numbers) and time.monotonic() < end):
            room = len(running) < AT_A_TIME
            if room and position < len(numbers) and time.monotonic() < end:
                number, folder = numbers[position], Path(scratch) / str(numbers[position])
                job = partial(fuzzer.run, number, folder)  # has calls as children of its own
                running[start(job, folder / "report.json")] = number, folder
                position += 1
                continue
            child, status = os.wait()
            number, folder = running.pop(child)
            if status:
                sys.exit(f"the fuzzer itself failed in case {number}; see above")
            report = json.loads((folder / "report.json").read_text())
            for signature in tally.add(fuzzer.target(number).name, report):
                _keep(fuzzer, number, signature, tally.kinds[signature][0], keep)
            _remove(folder)
    return tally


def _keep(fuzzer: Fuzzer, number: int, signature: str, failure: dict[str, Any], keep: Path) -> None:
    """Save a failure: its inputs as they were before the call, and how to repeat it."""
    folder = keep / f"{fuzzer.seed}-{number}"
    if not folder.exists():
        case, _ = fuzzer.prepare(number, folder)
        case.traps.close()
    with (folder / "failures.txt").open("a", encoding="utf-8", errors="replace") as file:
        lines = (
            signature,
            failure["detail"],
            f"inputs: {'; '.join(failure['done'])}",
            f"call, in work/: fedorbit {shlex.join(failure['argv'])[:2000]}",
            repeat_command(fuzzer, number),
        )
        file.write("\n".join(lines) + "\n\n")
    print(f"FAILURE {signature[:150]}\n    {repeat_command(fuzzer, number)}", flush=True)


def repeat_command(fuzzer: Fuzzer, number: int) -> str:
    """Return the command that does a case again."""
    chosen = dict.fromkeys(target.name for target in fuzzer.targets)
    names = [] if len(chosen) == len(ALL) else [f" --target {shlex.quote(n)}" for n in chosen]
    return f"python robustness/fuzz.py --seed {fuzzer.seed} --case {number}{''.join(names)}"


def _remove(folder: Path) -> None:
    for path in folder.rglob("*"):
        if not path.is_symlink() and path.stat().st_mode & 0o700 != 0o700:
            path.chmod(0o700)
    shutil.rmtree(folder)


def print_table(tally: Tally) -> None:
    """Print cases per target, exit codes, and failures by kind."""
    codes = sorted({code for _, code in tally.codes})
    print(
        f"\n{'target':16} {'cases':>7} " + "".join(f"{'exit ' + str(c):>9}" for c in codes), end=""
    )
    print(f" {'failed':>7}")
    for target, cases in tally.cases.items():
        counts = "".join(f"{tally.codes[target, code]:9}" for code in codes)
        print(f"{target:16} {cases:7} {counts} {tally.failed[target]:7}")
    total = sum(tally.cases.values())
    print(
        f"\n{total} cases, {sum(tally.codes.values())} calls, {len(tally.kinds)} kinds of failure"
    )
    for signature, same in sorted(tally.kinds.items()):
        print(f"  {len(same):5} x {signature[:140]}   (case {same[0]['case']})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="do this one alone, and tell all of it")
    parser.add_argument("--cases", type=int, default=10**9, help="do so many at most")
    parser.add_argument("--target", action="append", choices=[t.name for t in ALL])
    parser.add_argument("--keep", type=Path, default=FOUND, help="where failures are kept")
    parser.add_argument("--entry", default="fedorbit.cli:main", help="the command line to attack")
    given = parser.parse_args()
    chosen = [t for t in TARGETS if given.target is None or t.name in given.target]
    entry = preload(given.entry)
    with tempfile.TemporaryDirectory(prefix="fuzz-material-") as folder:
        material = Material(Path(folder), preload())
        fuzzer = Fuzzer(entry, material, given.seed, chosen)
        one = given.case is not None
        for target in [fuzzer.target(given.case)] if one else chosen:
            for name in target.material:
                material.folder(name)
        numbers = [given.case] if one else range(given.cases)
        tally = fuzz(fuzzer, numbers, time.monotonic() + given.minutes * 60, given.keep)
    print_table(tally)
    if tally.kinds:
        print(f"inputs and commands are in {given.keep}")
    sys.exit(bool(tally.kinds))


if __name__ == "__main__":
    main()
