"""Facts of this machine as the operating system reports them; None where it does not.

Linux reports through `/proc` and, in a container, `/sys/fs/cgroup`. Elsewhere less is known, and
nothing here fails because of it.
"""

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """The processor and memory that this process may use."""

    cpu: str
    features: frozenset[str] | None
    """Flags of the processor, such as `avx2`."""
    cpu_limit: float | None
    """Cores' worth of time that a container allows."""
    memory_bytes: int | None
    available_bytes: int | None


def read_machine(root: Path = Path("/")) -> Machine:
    """Read the system's own files below `root`."""
    cpuinfo = _fields(root / "proc/cpuinfo")
    flags = cpuinfo.get("flags") or cpuinfo.get("Features")
    total, available = _memory(root)
    return Machine(
        cpu=cpuinfo.get("model name") or platform.processor() or platform.machine(),
        features=frozenset(flags.split()) if flags else None,
        cpu_limit=_cpu_limit(root / "sys/fs/cgroup/cpu.max"),
        memory_bytes=total,
        available_bytes=available,
    )


def _fields(path: Path) -> dict[str, str]:
    """Read `key : value` lines; of repeated keys (one block per core) the first counts."""
    fields: dict[str, str] = {}
    for line in _text(path).splitlines():
        key, colon, value = line.partition(":")
        if colon:
            fields.setdefault(key.strip(), value.strip())
    return fields


def _memory(root: Path) -> tuple[int | None, int | None]:
    meminfo = _fields(root / "proc/meminfo")
    total, available = (_kib(meminfo.get(key)) for key in ("MemTotal", "MemAvailable"))
    if total is None and "SC_PHYS_PAGES" in os.sysconf_names:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limit, used = (_text(root / f"sys/fs/cgroup/memory.{kind}") for kind in ("max", "current"))
    if limit.strip().isdigit() and (total is None or int(limit) < total):
        total = int(limit)
        if used.strip().isdigit():
            left = max(total - int(used), 0)
            available = left if available is None else min(available, left)
    return total, available


def _kib(value: str | None) -> int | None:
    """Bytes of `123 kB`, the kernel's way to write KiB."""
    return None if value is None else 1024 * int(value.split()[0])


def _cpu_limit(path: Path) -> float | None:
    """Cores of `quota period` in microseconds; `max` as the quota means no limit."""
    quota, _, period = _text(path).partition(" ")
    return int(quota) / int(period) if quota.isdigit() and period.strip().isdigit() else None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
