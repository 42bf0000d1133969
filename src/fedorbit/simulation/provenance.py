"""Provenance of a result: the code, the configuration and the machine that made it."""

import hashlib
import json
import platform
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from fedorbit import __version__
from fedorbit.config import Config
from fedorbit.config.inputs import input_files

GIT_TIMEOUT_S = 10.0
LATER = {
    "model": ("options", "buffers", "frozen", "weights", "weights_skip"),
    "training": (
        *("optimiser", "beta2", "epsilon"),
        *("augment", "shift", "calibrate", "orbit_momentum", "running_mean"),
    ),
    "run": ("confusion_every",),
}
"""Settings that came later, and do not count at their defaults."""


def provenance(config: Config, backend: str) -> dict[str, Any]:
    """Return what a reader needs to decide whether two results can be compared."""
    import torch  # takes a second

    return {
        "fedorbit": __version__,
        "commit": source_commit(),
        "config_hash": config_hash(config),
        "backend": backend,
        "numpy": np.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cpu": cpu_model(),
    }


def config_hash(config: Config) -> str:
    """SHA-256 of every setting that can change a result, in one canonical spelling."""
    text = json.dumps(what_counts(config), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def what_counts(config: Config) -> dict[str, Any]:
    """Return the settings that can change a result, as plain values.

    Of the engine's settings only the backend can: kernel and PyTorch round differently. Trackers
    only watch. Of a file its content counts, wherever it lies. What is left out does not count, be
    it a table, `data.share`, a plan, confusion matrices on the way, or the role of a ground
    station: hashes stay the same when a later version has more.
    """
    counted = config.model_dump(mode="json", exclude={"tracking"})
    values = {k: v for k, v in counted.items() if v is not None}
    if config.data.share in (None, 1.0):
        del values["data"]["share"]
    if config.schedule.plan is None:
        del values["schedule"]["plan"]
    for section, keys in LATER.items():
        given = getattr(config, section)
        defaults = type(given)()
        for key in keys:
            if getattr(given, key) == getattr(defaults, key):
                del values[section][key]
    for station in values["stations"]:
        if station["role"] == "ground":
            del station["role"]
    values["engine"] = {"backend": values["engine"]["backend"]}
    for key, file in input_files(config).items():
        section, name = key.split(".")
        if file.is_file():
            values[section][name] = hashlib.sha256(file.read_bytes()).hexdigest()
    return values


def source_commit(folder: Path = Path(__file__).parent) -> str | None:
    """Commit of the checkout that holds the source, `+` behind it if files differ from it.

    None where there is no checkout or no git; and an installed package inside another
    repository is no checkout of ours, so this file itself must be tracked by git.
    """
    if _git(folder, "ls-files", "--error-unmatch", Path(__file__).name) is None:
        return None
    commit, changes = (
        _git(folder, "rev-parse", "HEAD"),
        _git(folder, "status", "--porcelain", "-uno"),
    )
    return None if commit is None or changes is None else commit + ("+" if changes else "")


def cpu_model() -> str | None:
    """Name of the processor, where the system reports it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or None


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
