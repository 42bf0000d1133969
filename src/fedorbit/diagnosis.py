"""Findings about the installation: backend, hardware, extras and datasets."""

import importlib.metadata
import os
import platform
import re
import shutil
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from fedorbit import __version__
from fedorbit.data import catalog
from fedorbit.data.cache import cache_root, downloads_root, prepared_names
from fedorbit.errors import INSTALL_TORCH, DataError, one_line
from fedorbit.extras import extras, install_extra
from fedorbit.learning import kernel
from fedorbit.machine import Machine, read_machine

Verdict = Literal["ok", "absent", "notice", "problem"]
"""`absent` is an option that is not there, `notice` costs something, `problem` prevents runs."""

KERNEL_FEATURES = ("avx2", "fma")
LITTLE_MEMORY_BYTES = 2 << 30
LITTLE_SPACE_BYTES = 1 << 30
"""EuroSAT, prepared, takes a third of this."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at: `value` for scripts, `text` for people."""

    topic: str
    name: str
    value: Any
    text: str
    state: Verdict = "ok"
    remedy: str = ""


def diagnose(machine: Machine | None = None) -> list[Finding]:
    """Look at everything; takes as long as importing PyTorch."""
    machine = machine or read_machine()
    broken = _torch_error()
    return [
        *_training(broken),
        *_machine(machine, broken),
        *_software(broken),
        *_storage(),
        *_datasets(),
    ]


def can_run(findings: list[Finding]) -> bool:
    """Return whether runs are possible at all."""
    return all(finding.state != "problem" for finding in findings)


def _torch_error() -> str:
    """Return the reason why PyTorch cannot be used; empty if it can."""
    try:
        import torch

        torch.from_numpy(np.zeros(1, np.float32)).add_(1.0)  # fails if built for another NumPy
    except Exception as error:  # a broken installation may fail in any way
        return one_line(error, with_kind=True)
    return ""


# --- Backend ------------------------------------------------------------------------------------


def _training(torch_error: str) -> Iterator[Finding]:
    topic, name = "training", "training path"
    reason = kernel.unavailable_reason()
    if torch_error:
        yield Finding(
            topic,
            name,
            None,
            f"none: PyTorch cannot be used ({torch_error})",
            "problem",
            f"install PyTorch: {INSTALL_TORCH}",
        )
    elif reason:
        text = f"PyTorch, because there is no kernel: {reason.partition(';')[0]}"
        yield Finding(topic, name, "torch", text, "notice", _kernel_remedy(reason))
    else:
        text = "the C kernel for lenet on the CPU; PyTorch for other models and devices"
        yield Finding(topic, name, "kernel", text)
    found, usable = _compiler()
    if usable:
        yield Finding(topic, "C compiler", found, found)
    else:
        text = f"{found}, but Python builds with {_build_compiler()}" if found else "none found"
        needless = "; not needed, the kernel is built" if not reason else ""
        yield Finding(topic, "C compiler", found or None, text + needless, "absent")


def _kernel_remedy(reason: str) -> str:
    """Return how to get the kernel: its own advice, fitted to the installed compilers."""
    _, _, remedy = reason.partition("; ")
    if not remedy:  # the processor is what it is
        return "nothing is wrong: runs give the same accuracy and take longer"
    found, usable = _compiler()
    if usable:
        return "reinstall fedorbit; its build says why the extension was passed over (pip -v)"
    return f"reinstall fedorbit with CC={Path(found).name} set" if found else remedy


def _build_compiler() -> str:
    """The compiler that setuptools calls."""
    chosen = os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc"
    return str(chosen).split()[0]


def _compiler() -> tuple[str, bool]:
    """Path of a C compiler, empty if there is none, and whether a build would use it."""
    if path := shutil.which(_build_compiler()):
        return path, True
    return next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), ""), False


# --- The machine --------------------------------------------------------------------------------


def _machine(machine: Machine, torch_error: str) -> Iterator[Finding]:
    topic = "machine"
    yield Finding(topic, "processor", machine.cpu, f"{machine.cpu} ({platform.machine()})")
    yield _features(topic, machine)
    if not torch_error:
        yield _workers(topic, machine)
    total, available = machine.memory_bytes, machine.available_bytes
    if total is None:
        yield Finding(topic, "memory", None, "not known")
        return
    text = _gib(total) + ("" if available is None else f", {_gib(available)} available")
    little = (total if available is None else available) < LITTLE_MEMORY_BYTES
    yield Finding(
        topic,
        "memory",
        {"total_bytes": total, "available_bytes": available},
        text,
        "notice" if little else "ok",
        "a run holds its images in memory: end other programs, or use fewer or smaller images"
        if little
        else "",
    )


def _features(topic: str, machine: Machine) -> Finding:
    """AVX2 and FMA; the kernel, where it loads, has checked for both itself."""
    if kernel.available():
        has = dict.fromkeys(KERNEL_FEATURES, True)
    elif machine.features is not None:
        has = {name: name in machine.features for name in KERNEL_FEATURES}
    else:
        return Finding(topic, "AVX2, FMA", None, "not known")
    text = ", ".join(f"{name.upper()} {'yes' if there else 'no'}" for name, there in has.items())
    return Finding(topic, "AVX2, FMA", has, text, "ok" if all(has.values()) else "absent")


def _workers(topic: str, machine: Machine) -> Finding:
    from fedorbit.learning.engine import default_workers

    workers, limit = default_workers(), machine.cpu_limit
    text = f"{workers} usable of {os.cpu_count() or workers}, so {workers} training threads"
    value = {"usable": workers, "present": os.cpu_count(), "limit": limit}
    if limit is None or limit >= workers:
        return Finding(topic, "cores", value, text)
    return Finding(
        topic,
        "cores",
        value,
        f"{text}, but the container allows the time of {limit:g}",
        "notice",
        f"set -o engine.workers={max(round(limit), 1)}: more threads would only take turns",
    )


# --- Software -----------------------------------------------------------------------------------


def _software(torch_error: str) -> Iterator[Finding]:
    topic = "software"
    python = platform.python_version()
    yield Finding(topic, "fedorbit", __version__, __version__)
    yield Finding(topic, "Python", python, f"{python} ({platform.platform(terse=True)})")
    yield Finding(topic, "NumPy", np.__version__, np.__version__)
    if not torch_error:
        import torch

        gpu = "CUDA: " + (torch.cuda.get_device_name() if torch.cuda.is_available() else "none")
        yield Finding(topic, "PyTorch", torch.__version__, f"{torch.__version__} ({gpu})")
    for extra, requirements in extras().items():
        packages = [re.split(r"[<>=!~]", requirement)[0] for requirement in requirements]
        missing = [package for package in packages if _version(package) is None]
        name = f"extra {extra}"
        if missing:
            text = f"not installed ({', '.join(missing)})"
            remedy = f"if you want it: {install_extra(extra)}"
            yield Finding(topic, name, False, text, "absent", remedy)
        else:
            versions = (f"{package} {_version(package)}" for package in packages)
            yield Finding(topic, name, True, ", ".join(versions))


def _version(package: str) -> str | None:
    """Return the installed version, if any."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


# --- Storage and data ---------------------------------------------------------------------------


def _storage() -> Iterator[Finding]:
    folder = cache_root()
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free_bytes: int | None = None
    try:
        free_bytes = shutil.disk_usage(there).free
        text = f"{folder}, {_gib(free_bytes)} free"
    except OSError as error:
        text = f"{folder}, free space not known ({error.strerror})"
    value = {"folder": str(folder), "free_bytes": free_bytes}
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        # What is prepared can still be read; without anything prepared there is nothing to train.
        yield Finding(
            "data",
            "cache folder",
            value,
            f"{text}, not writable",
            "notice" if _prepared_names() else "problem",
            "set FEDORBIT_CACHE to a folder that you may write to",
        )
    elif free_bytes is not None and free_bytes < LITTLE_SPACE_BYTES:
        remedy = "free some space, or set FEDORBIT_CACHE to a folder on a larger disk"
        yield Finding("data", "cache folder", value, text, "notice", remedy)
    else:
        yield Finding("data", "cache folder", value, text)


def _datasets() -> Iterator[Finding]:
    prepared = _prepared_names()
    for name in prepared:
        try:
            found = catalog.open_dataset(name)
        except DataError as error:
            problem, _, remedy = str(error).partition("; ")
            yield Finding("data", name, False, f"damaged: {problem}", "notice", remedy)
            continue
        shape = " x ".join(map(str, found.images.shape[1:]))
        text = f"prepared: {len(found.labels):,} images of {shape}"
        yield Finding("data", name, True, text)
    for name, source in catalog.SOURCES.items():
        if name in prepared or not source.downloads:
            continue
        if any((downloads_root() / file).is_file() for file in source.downloads):
            remedy = f"fedorbit data prepare {name}"
            yield Finding("data", name, False, "downloaded, not prepared", "notice", remedy)
        else:
            remedy = f"if you want it: fedorbit data fetch {name} && fedorbit data prepare {name}"
            yield Finding("data", name, False, "not here", "absent", remedy)


def _prepared_names() -> tuple[str, ...]:
    try:
        return prepared_names()
    except OSError:  # a cache folder that may not even be listed
        return ()


def _gib(size_bytes: int) -> str:
    return f"{size_bytes / (1 << 30):.1f} GiB"
