"""Calls of the command line in forked children of a process that has imported everything.

Importing PyTorch takes over a second, a fork takes milliseconds. The parent imports and never
computes, so no thread is lost in a fork. A child runs in a folder of its own with bounded memory.
"""

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PRELOADED = (
    "fedorbit.cli.commands",
    "fedorbit.simulation.runs",
    "fedorbit.studies",
    "fedorbit.report.data_figures",
    "fedorbit.report.orbit_figures",
    "fedorbit.report.paper_figures",
    "fedorbit.report.run_figures",
)
LIMIT_S = 900.0
"""Only a call that hangs takes longer."""
IDLE_S = 60.0
"""A process that sleeps so long and uses no CPU waits for something that never comes."""
MEMORY_BYTES = 2 * 2**30
"""Memory that a call may need above the imports; all inputs are tiny."""
POLL_S = 0.005

Entry = Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class Outcome:
    """End of a call."""

    argv: tuple[str, ...]
    code: int
    """Negative: the signal that ended it."""
    stdout: bytes
    stderr: str
    memory_bytes: int
    """Peak memory, above that of the parent."""
    hung: bool
    connections: int


def preload(entry: str = "fedorbit.cli:main") -> Entry:
    """Import all that calls need, and return the function `module:name` to call."""
    for module in PRELOADED:
        importlib.import_module(module)
    module, _, name = entry.partition(":")
    found: Entry = getattr(importlib.import_module(module), name)
    gc.freeze()  # or the collector of every child would copy all pages
    return found


def start(job: Callable[[], Any], answer: Path) -> int:
    """Do a job in a child, which writes what it returns as JSON; return the child's id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        answer.write_text(json.dumps(job()))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def call(
    entry: Entry,
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    *,
    listener: socket.socket | None = None,
    before: Callable[[], None] = lambda: None,
) -> Outcome:
    """Call the command line in a child and wait for its end; `before` is run in the child."""
    born_bytes = _peak_bytes()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = fork(entry, argv, cwd, environment, out.fileno(), err.fileno(), before)
        code, usage, hung, connections = _wait(child, listener)
        return Outcome(
            tuple(argv),
            code,
            _content(out.fileno()),
            _content(err.fileno()).decode("utf-8", "replace"),
            max(0, usage.ru_maxrss * 1024 - born_bytes),
            hung,
            connections,
        )


def fork(
    entry: Entry,
    argv: Sequence[str],
    cwd: Path,
    environment: Mapping[str, str],
    out: int,
    err: int,
    before: Callable[[], None] = lambda: None,
    *,
    limit_memory: bool = True,
) -> int:
    """Start a call in a child that leads a process group; return its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        os.setsid()
        os.chdir(cwd)
        os.environ.clear()
        os.environ.update(environment)
        tempfile.tempdir = None
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(err, 2)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if limit_memory:
            limit = _address_space_bytes() + 2 * MEMORY_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
        before()
        entry(list(argv))
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        # Without the interpreter's own end: to free all modules takes ten times as long as a call.
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def environment_in(folder: Path) -> dict[str, str]:
    """Return variables that keep a call within a folder; its subfolders are made."""
    places = {
        "HOME": "home",
        "FEDORBIT_CACHE": "cache",
        "XDG_CACHE_HOME": "home/.cache",
        "XDG_CONFIG_HOME": "home/.config",
        "XDG_DATA_HOME": "home/.local",
        "MPLCONFIGDIR": "home/.mpl",
        "TMPDIR": "tmp",
    }
    for place in places.values():
        (folder / place).mkdir(parents=True, exist_ok=True)
    kept = {key: os.environ[key] for key in ("PATH", "PYTHONPATH", "LANG") if key in os.environ}
    return {
        **kept,
        **{key: str(folder / place) for key, place in places.items()},
        "COLUMNS": "100",
        "OMP_NUM_THREADS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "RAY_USAGE_STATS_ENABLED": "0",
    }


def _wait(
    child: int, listener: socket.socket | None
) -> tuple[int, resource.struct_rusage, bool, int]:
    begin = moved = time.monotonic()
    used_s, connections, hung = 0.0, 0, False
    while True:
        done, status, usage = os.wait4(child, os.WNOHANG)
        if done:
            _end_group(child)
            return os.waitstatus_to_exitcode(status), usage, hung, connections
        if _connected(listener):
            connections += 1  # a failure already: what follows are retries
            os.kill(child, signal.SIGKILL)
            continue
        now = time.monotonic()
        asleep, cpu_s = _state(child)
        if not asleep or cpu_s != used_s:
            moved, used_s = now, cpu_s
        if not hung and (now - begin > LIMIT_S or now - moved > IDLE_S):
            hung = True
            os.kill(child, signal.SIGKILL)


def _connected(listener: socket.socket | None) -> bool:
    """Wait for a moment, and tell whether somebody has connected meanwhile."""
    if listener is None:
        time.sleep(POLL_S)
        return False
    if not select.select([listener], [], [], POLL_S)[0]:
        return False
    listener.accept()[0].close()
    return True


def _state(process: int) -> tuple[bool, float]:
    """Return whether a process sleeps, and how much CPU it and its children have used."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False, 0.0
    return fields[0] == "S", sum(map(float, fields[11:15]))


def _end_group(leader: int) -> None:
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _content(file: int) -> bytes:
    return os.pread(file, os.fstat(file).st_size, 0)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _address_space_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()
