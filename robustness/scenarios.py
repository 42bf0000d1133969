"""Runs and studies that are killed: all methods, links, events, limits, element files, and Ray.

Each takes a few seconds, most of them in its rounds, and names the files by which its phases are
told apart.
"""

import importlib.util
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from material import LIMITS, PLAIN, Material, study_text

EVENTS = """
[[events]]
round = 10
kind = "leave"
satellite = 0

[[events]]
round = 15
kind = "leave"
orbit = 1

[[events]]
round = 30
kind = "join"
orbit = 1
"""
STUDY = (
    study_text("a study to kill", horizon=200, samples=300, rounds=60, every=7)
    + """
[[grid]]
method = ["fedorbit", "ditto"]
"""
)


@dataclass(frozen=True)
class Scenario:
    """A run or study that is started, killed and resumed."""

    name: str
    file: str
    """Its configuration or study, in the folder of all scenarios."""
    overrides: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    is_study: bool = False
    needs: str = ""
    """A package without which it is skipped."""

    @property
    def reason_to_skip(self) -> str:
        """Reason why it cannot be done here; empty if it can."""
        missing = self.needs and importlib.util.find_spec(self.needs) is None
        return f"{self.needs} is not installed" if missing else ""

    @property
    def in_processes(self) -> bool:
        """Return whether it has processes of its own, and so is never forked."""
        return self.is_study or bool(self.needs)

    def argv(self, inputs: Path, out: Path) -> list[str]:
        """Return the call that begins it or goes on with it."""
        if self.is_study:
            return ["study", "run", str(inputs / self.file), "--out", str(out), *self.options]
        if (out / "config.toml").exists():
            return ["run", "--resume", str(out), "-q", *self.options]
        changes = [word for override in self.overrides for word in ("-o", override)]
        begin = ["run", str(inputs / self.file), "--out", str(out), "-q"]
        return [*begin, *changes, *self.options]


def _run(
    name: str,
    methods: Sequence[str],
    rounds: int,
    *changes: str,
    file: str = "plain.toml",
    options: tuple[str, ...] = (),
    needs: str = "",
) -> Scenario:
    quoted = ", ".join(f'"{method}"' for method in methods)
    overrides = (
        f"run.method=[{quoted}]",
        f"run.rounds={rounds}",
        "schedule.rounds=200",
        "data.synthetic.samples=300",
        "engine.checkpoint_every=5",
        *changes,
    )
    return Scenario(name, file, overrides, options, needs=needs)


SEVEN = ("local", "centralised", "fedavg", "fedprox", "apfl", "ditto", "fedorbit")
SPACE = (
    "fedsat",
    "fedspace",
    "fedhap",
    "asyncfleo",
    "fedleo_sink",
    "fedleo",
    "airfl",
    "fedsn",
    "alanine",
)
PHYSICAL = ("run.links=physical", "network.isl=line-of-sight")
SCENARIOS = (
    _run("fedorbit, ditto", ("fedorbit", "ditto"), 80),
    _run("fedavg, fedprox, causal", ("fedavg", "fedprox"), 80, "run.links=causal"),
    _run("apfl, local, centralised", ("apfl", "local", "centralised"), 60),
    _run("seven methods, causal", SEVEN, 25, "run.links=causal"),
    _run("physical links", ("fedorbit", "scaffold", "ditto"), 40, *PHYSICAL),
    _run("space systems", SPACE, 20, "run.links=causal", "onboard.samples_per_s=0.05"),
    _run("space, physical, events", SPACE, 20, *PHYSICAL, file="events.toml"),
    _run("events", ("fedorbit", "apfl"), 80, file="events.toml"),
    _run("events, causal", ("fedorbit", "ditto"), 80, "run.links=causal", file="events.toml"),
    _run("on-board limits", ("fedorbit", "fedavg"), 80, file="limits.toml"),
    _run("element file", ("fedorbit", "fedprox"), 60, file="elements.toml"),
    _run(
        "rarely evaluated", ("ditto", "fedorbit"), 80,
        "run.evaluate_every=3", "engine.checkpoint_every=7", "engine.workers=2",
    ),
    _run("every round kept", ("fedorbit",), 80, "engine.checkpoint_every=1"),
    Scenario("study", "study.toml", options=("--jobs", "2"), is_study=True),
    _run("ray", ("fedorbit",), 30, options=("--engine", "ray"), needs="ray"),
)  # fmt: skip


def write_inputs(material: Material, folder: Path) -> Path:
    """Write the configurations and studies of all scenarios."""
    shutil.copytree(material.folder("configs"), folder)
    (folder / "limits.toml").write_text(PLAIN + LIMITS)
    (folder / "events.toml").write_text(PLAIN + EVENTS)
    (folder / "study.toml").write_text(STUDY)
    return folder
