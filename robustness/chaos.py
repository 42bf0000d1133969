"""Runs and studies that are killed at random moments and resumed, and come to the same bits.

Per scenario an undisturbed run is kept. Others are killed (SIGKILL) in all phases, resumed until
they are done, and compared with it; then the same with SIGTERM and SIGINT, once or several times
in a hurry. Any difference, leftover file or other exit code is a failure; then the exit code is 1.
Usage: python robustness/chaos.py [--kills 100] [--signals 20] [--seed 0] [--scenario NAME]
"""

import argparse
import json
import os
import random
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from attempts import Attempt, Ended, Pace, kill_in_phase, stop_at_random
from compare import differences
from forkserver import Entry, environment_in, preload, start
from material import Material
from scenarios import SCENARIOS, Scenario, write_inputs

AT_A_TIME = 2
LEAST_KILLS, MOST_KILLS = 3, 15
"""Of one run, before it may come to its end."""
FOUND = Path("build/chaos")
CODES = {signal.SIGKILL: (-9,), signal.SIGTERM: (143, -15), signal.SIGINT: (130, -2)}


@dataclass
class Report:
    """Results of one or several laps of a scenario."""

    scenario: str
    part: str
    executable: int = 0
    """Signals to the real executable."""
    forked: int = 0
    in_rounds: int = 0
    runs: int = 0
    """Runs that were disturbed, came to their end and were compared."""
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    @property
    def signals(self) -> int:
        """Return how many signals reached a process."""
        return self.executable + self.forked

    def add(self, other: "Report") -> None:
        """Count another lap."""
        self.executable += other.executable
        self.forked += other.forked
        self.in_rounds += other.in_rounds
        self.runs += other.runs
        self.seconds += other.seconds
        self.failures += other.failures


@dataclass(frozen=True)
class Chaos:
    """Settings that all laps share."""

    entry: Entry
    root: Path
    inputs: Path
    seed: int
    keep: Path

    def measure(self, scenario: Scenario) -> dict[str, Any]:
        """Do a scenario undisturbed, by the executable and forked; return the paces."""
        paces = {}
        for forked in (False, True)[: 1 if scenario.in_processes else 2]:
            folder = self._undisturbed(scenario, forked)
            attempt = self._attempt(scenario, folder, forked)
            attempt.wait_for(attempt.in_rounds)
            first_s = time.monotonic() - attempt.begin
            ended = attempt.ended(True, signalled=False)
            if ended.code:
                return {"error": f"ended with {ended.code}: {ended.stderr[-500:]}"}
            names = [path.stem for path in folder.rglob("checkpoint-*.json")]
            rounds = max(int(name.rpartition("-")[2]) for name in names)
            paces[str(forked)] = asdict(Pace(first_s, time.monotonic() - attempt.begin, rounds))
            if different := differences(self._undisturbed(scenario, False), folder):
                return {"error": f"undisturbed runs differ: {', '.join(different)}"}
        return {"paces": paces}

    def lap(self, scenario: Scenario, number: int, signals: int, part: str, paces: Any) -> Report:
        """Disturb runs of a scenario until there were so many signals; let the last one end."""
        rng, begin = random.Random(f"{self.seed}/{scenario.name}/{part}/{number}"), time.monotonic()
        report = Report(scenario.name, part)
        folders = self._folders(scenario, part, number)
        folder = next(folders)
        while report.signals < signals and not report.failures:
            forked = self._fork_next(scenario, report)
            attempt = self._attempt(scenario, folder, forked)
            pace = Pace(**paces[str(forked)])
            if part == "kills":
                expected = signal.SIGKILL
                ended = kill_in_phase(attempt, rng, pace)
            else:
                expected = rng.choice((signal.SIGTERM, signal.SIGINT))
                ended = stop_at_random(attempt, rng, pace, expected)
            _count(report, ended, expected)
            if report.failures:
                self._keep_messages(folder, ended)
            if ended.code == 0 and not report.failures:
                self._compare(scenario, folder, report)
                folder = next(folders)
        if not report.failures:
            ended = self._attempt(scenario, folder, forked=False).ended(True, signalled=False)
            _count(report, ended, signal.SIGKILL)
            self._compare(scenario, folder, report)
        report.seconds = time.monotonic() - begin
        return report

    def _fork_next(self, scenario: Scenario, report: Report) -> bool:
        """Fork two of three; stops go to the executable, whose start is a phase, too."""
        if scenario.in_processes or report.part != "kills":
            return False
        return report.forked < 2 * report.executable

    def _attempt(self, scenario: Scenario, folder: Path, forked: bool) -> Attempt:
        folder.parent.mkdir(parents=True, exist_ok=True)
        environment = environment_in(self.root / "places" / str(os.getpid()))
        argv = scenario.argv(self.inputs, folder)
        return Attempt(argv, folder, environment, self.entry if forked else None)

    def _undisturbed(self, scenario: Scenario, forked: bool) -> Path:
        return self.root / "undisturbed" / scenario.name / ("forked" if forked else "executable")

    def _folders(self, scenario: Scenario, part: str, number: int) -> Iterator[Path]:
        above = self.root / part / scenario.name / str(number)
        return (above / str(i) for i in count())

    def _keep_messages(self, folder: Path, ended: Ended) -> None:
        kept = self.keep / folder.relative_to(self.root)
        kept.mkdir(parents=True, exist_ok=True)
        (kept / "stderr.txt").write_text(ended.stderr, encoding="utf-8")

    def _compare(self, scenario: Scenario, folder: Path, report: Report) -> None:
        found = differences(self._undisturbed(scenario, False), folder)
        report.runs += 1
        if found:
            kept = self.keep / folder.relative_to(self.root)
            shutil.copytree(folder, kept, dirs_exist_ok=True)
            report.failures += [f"{sentence} (see {kept})" for sentence in found]
        shutil.rmtree(folder)


def _count(report: Report, ended: Ended, expected: signal.Signals) -> None:
    """Count a signal; note an end that is neither by it nor a success."""
    if ended.code in CODES[expected] and ended.signalled:
        report.forked += ended.forked
        report.executable += not ended.forked
        report.in_rounds += ended.in_rounds
    elif ended.code != 0:
        [last] = ended.stderr.strip().splitlines()[-1:] or ["no message"]
        report.failures.append(f"exit code {ended.code} after {expected.name}: {last[:200]}")
    if "Traceback" in ended.stderr or "Exception ignored" in ended.stderr:
        last = ended.stderr.strip().splitlines()[-1]
        report.failures.append(f"a traceback after {expected.name}: {last[:200]}")


# --- The driver ---------------------------------------------------------------------------------


def in_children(jobs: Iterator[Callable[[], Any]], root: Path) -> Iterator[Any]:
    """Do jobs in children, two at a time; yield what they return, as plain values."""
    running: dict[int, Path] = {}
    numbers = count()
    for job in jobs:
        if len(running) == AT_A_TIME:
            yield _result(running)
        answer = root / f"answer-{next(numbers)}.json"
        running[start(job, answer)] = answer
    while running:
        yield _result(running)


def _result(running: dict[int, Path]) -> Any:
    child, status = os.wait()
    answer = running.pop(child)
    if status:
        sys.exit("the harness itself failed; see above")
    result = json.loads(answer.read_text())
    answer.unlink()
    return result


def measure_all(chaos: Chaos, scenarios: list[Scenario]) -> dict[str, Any]:
    """Return the paces of every scenario by its name."""

    def job(scenario: Scenario) -> Callable[[], Any]:
        return lambda: {"name": scenario.name, **chaos.measure(scenario)}

    found = {}
    for measured in in_children(iter([job(s) for s in scenarios]), chaos.root):
        if "error" in measured:
            sys.exit(f"{measured['name']}: {measured['error']}")
        found[measured["name"]] = measured["paces"]
    return found


def disturb(
    chaos: Chaos, scenarios: list[Scenario], paces: dict[str, Any], part: str, signals: int
) -> list[Report]:
    """Do laps of all scenarios in turn until there were so many signals."""
    totals = {scenario.name: Report(scenario.name, part) for scenario in scenarios}
    each = max(LEAST_KILLS, min(MOST_KILLS, -(-signals // len(scenarios))))

    def job(scenario: Scenario, number: int) -> Callable[[], Any]:
        return lambda: asdict(chaos.lap(scenario, number, each, part, paces[scenario.name]))

    def jobs() -> Iterator[Callable[[], Any]]:
        laps = _in_turn(scenarios)
        return (job(*next(laps)) for _ in range(-(-signals // each)))

    for answer in in_children(jobs(), chaos.root):
        lap = Report(**answer)
        totals[lap.scenario].add(lap)
        print(
            f"{part}: {lap.scenario}, {lap.signals} signals, {lap.runs} runs compared", flush=True
        )
        for failure in lap.failures:
            print(f"FAILURE {lap.scenario}: {failure}", flush=True)
        if lap.failures:
            print(f"    {repeat_command(chaos, part, lap.scenario, signals)}", flush=True)
    return list(totals.values())


def repeat_command(chaos: Chaos, part: str, scenario: str, signals: int) -> str:
    """Return the command that draws the same moments again; the machine's load moves them."""
    numbers = {"kills": 0, "signals": 0, "kills" if part == "kills" else "signals": signals}
    options = " ".join(f"--{key} {value}" for key, value in numbers.items())
    command = f"python robustness/chaos.py --seed {chaos.seed} {options}"
    return f"{command} --scenario {shlex.quote(scenario)}"


def _in_turn(scenarios: list[Scenario]) -> Iterator[tuple[Scenario, int]]:
    """Yield scenarios and the numbers of their laps; those that take long every third time."""
    for number in count():
        for scenario in scenarios:
            if not scenario.in_processes or len(scenarios) == 1:
                yield scenario, number
            elif number % 3 == 0:
                yield scenario, number // 3


def print_table(reports: list[Report], skipped: dict[str, str]) -> None:
    """Print what was sent where, and whether the results are equal."""
    heads = ("executable", "forked", "in rounds", "runs", "seconds", "failures")
    print(f"\n{'scenario':26}{'part':8}" + "".join(f"{head:>11}" for head in heads) + "  result")
    for report in reports:
        numbers = (report.executable, report.forked, report.in_rounds, report.runs, report.seconds)
        cells = "".join(f"{n:11.0f}" for n in (*numbers, len(report.failures)))
        equal = "DIFFERENT" if report.failures else "equal" if report.runs else "-"
        print(f"{report.scenario:26}{report.part:8}{cells}  {equal}")
    for name, reason in skipped.items():
        print(f"{name:26}skipped: {reason}")
    for part in dict.fromkeys(report.part for report in reports):
        those = [report for report in reports if report.part == part]
        sums = [
            sum(getattr(r, key) for r in those) for key in ("executable", "forked", "in_rounds")
        ]
        print(f"{part}: {sums[0]} of the executable, {sums[1]} of forks, {sums[2]} in rounds")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--signals", type=int, default=20, help="SIGTERM and SIGINT")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--scenario", action="append", choices=[s.name for s in SCENARIOS])
    parser.add_argument("--keep", type=Path, default=FOUND, help="where folders that differ go")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there, too")
    given = parser.parse_args()
    # A shell that starts this in the background has it, and its children, ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    chosen = [s for s in SCENARIOS if given.scenario is None or s.name in given.scenario]
    skipped = {s.name: s.reason_to_skip for s in chosen if s.reason_to_skip}
    chosen = [s for s in chosen if s.name not in skipped]
    entry = preload()
    with tempfile.TemporaryDirectory(prefix="chaos-", ignore_cleanup_errors=True) as folder:
        inputs = write_inputs(Material(Path(folder) / "material", entry), Path(folder) / "inputs")
        chaos = Chaos(entry, Path(folder), inputs, given.seed, given.keep)
        paces = measure_all(chaos, chosen)
        reports = []
        for part, signals in (("kills", given.kills), ("stops", given.signals)):
            if signals:
                reports += disturb(chaos, chosen, paces, part, signals)
    print_table(reports, skipped)
    if given.json is not None:
        rows = [asdict(report) for report in reports]
        document = {"seed": given.seed, "scenarios": rows, "skipped": skipped}
        given.json.write_text(json.dumps(document, indent=2) + "\n")
    sys.exit(any(report.failures for report in reports))


if __name__ == "__main__":
    main()
