"""Tasks of a study on a node of a Ray cluster: check the node, and do a run."""

import os
import socket
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fedorbit import __version__
from fedorbit.data import cache
from fedorbit.learning import kernel
from fedorbit.studies import folders
from fedorbit.studies.executors import Outcome
from fedorbit.studies.sync import Mirror, RunFiles, write_files
from fedorbit.studies.worker import do_run
from fedorbit.user_code import allow_code, allowed_code

SEND_EVERY_S = 5.0


class Outbox(Protocol):
    """Takes files to the process that ordered the run."""

    def put(self, item: tuple[str, RunFiles]) -> None:
        """Send files of the run with this ticket."""


@dataclass(frozen=True)
class Home:
    """Environment of the study's own process, which a node takes over as far as it can."""

    version: str
    folder: Path
    """Modules with methods and models of a user's own are looked for there."""
    cache: str | None
    """FEDORBIT_CACHE there."""
    allowed_code: tuple[str, ...] = ()
    """Modules of the user's own that may be imported there."""

    @classmethod
    def here(cls) -> "Home":
        """Describe this process."""
        cache_folder = os.environ.get("FEDORBIT_CACHE")
        return cls(__version__, Path.cwd(), cache_folder, allowed_code())

    def settle(self) -> None:
        """Make this process resemble that one; what the node has set for itself stays."""
        allow_code(*self.allowed_code)
        with suppress(OSError):
            os.chdir(self.folder)
        if self.cache and Path(self.cache).is_dir():
            os.environ.setdefault("FEDORBIT_CACHE", self.cache)


@dataclass(frozen=True)
class Needs:
    """Requirements of a study's runs on a node."""

    home: Home
    datasets: tuple[str, ...]
    out: Path | None
    """The study's folder, if nodes are to see it."""
    probe: str = ""
    """A run that the ordering process has locked; nodes must see the lock."""


@dataclass(frozen=True)
class Order:
    """A run to do."""

    home: Home
    out: Path
    slug: str
    engine: Mapping[str, Any]
    datasets: tuple[str, ...]
    ticket: str = ""
    """Names this attempt at the run."""
    files: RunFiles | None = None
    """The run's files so far, if this node is not to see the study's folder."""
    outbox: Outbox | None = None
    """Receiver of the files then, while the run trains."""


@dataclass(frozen=True)
class Answer:
    """Outcome of a run, and its last files if they are to be sent."""

    outcome: Outcome
    reason: str = ""
    files: RunFiles | None = None


@dataclass(frozen=True)
class Fitness:
    """Report of a node about itself."""

    obstacle: str
    """Reason why it cannot do the runs; empty if it can."""
    has_kernel: bool


def inspect(needs: Needs) -> Fitness:
    """Return whether this node can do the runs of a study."""
    needs.home.settle()
    return Fitness(_obstacle(needs), not kernel.unavailable_reason())


def do(order: Order) -> Answer:
    """Begin or continue a run; a stop keeps a checkpoint and returns `lost`."""
    order.home.settle()
    if obstacle := _missing_dataset(order.datasets):  # of a node that came later than the study
        return Answer("lost", f"its node {socket.gethostname()} {obstacle}")
    try:
        return _do_here(order) if order.files is None else _do_apart(order, order.files)
    except KeyboardInterrupt:  # by Ray, or by a user who ends the processes of this node
        return Answer("lost", f"its process on node {socket.gethostname()} was stopped")


def _do_here(order: Order) -> Answer:
    with _logging_to(folders.run_log(order.out, order.slug)):
        return Answer(do_run(order.out, order.slug, order.engine))


def _do_apart(order: Order, files: RunFiles) -> Answer:
    """Do the run in a folder of this node, and send its files."""
    with tempfile.TemporaryDirectory(prefix="fedorbit-study-") as scratch:
        out = Path(scratch)
        write_files(files, out, order.slug)
        mirror = Mirror(out, order.slug)
        mirror.changes()  # skip these first files: the sender has them
        outcome: Outcome = "lost"
        reason = f"its process on node {socket.gethostname()} was stopped"
        log = folders.run_log(out, order.slug)
        with suppress(KeyboardInterrupt), _sending(mirror, order), _logging_to(log):
            outcome, reason = do_run(out, order.slug, order.engine), ""
        return Answer(outcome, reason, mirror.changes())


@contextmanager
def _sending(mirror: Mirror, order: Order) -> Iterator[None]:
    """Send what changes, every few seconds."""
    assert order.outbox is not None
    outbox, ended = order.outbox, threading.Event()

    def send() -> None:
        while not ended.wait(SEND_EVERY_S):
            files = mirror.changes()
            if files is not None:
                outbox.put((order.ticket, files))

    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    """Put warnings, and what methods print, beside the run rather than into Ray's logs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("a") as log, redirect_stdout(log), redirect_stderr(log):
            yield
    finally:
        if not path.stat().st_size:
            path.unlink()


def _obstacle(needs: Needs) -> str:
    """Return the reason why this node cannot do the runs, to follow "node NAME"; empty if none."""
    if __version__ != needs.home.version:
        return (
            f"has fedorbit {__version__}, and the study was started by {needs.home.version}; "
            "install the same on all nodes"
        )
    if needs.out is not None:
        remedy = "choose an --out on storage that all nodes share, or add --ray-files return"
        if not needs.out.is_dir():
            return f"does not see the study's folder {needs.out}; {remedy}"
        try:
            seen = folders.is_locked(needs.out, needs.probe)
        except OSError as error:
            return f"cannot lock files in {needs.out} ({error.strerror}); {remedy}"
        if not seen:
            return (
                f"does not see locks of other nodes in {needs.out}, which is another folder there "
                f"or mounted without shared locks; {remedy}"
            )
    return _missing_dataset(needs.datasets)


def _missing_dataset(names: tuple[str, ...]) -> str:
    for name in names:
        if not cache.is_prepared(name):
            return (
                f"has no dataset {name!r} in {cache.cache_root()}; run `fedorbit data prepare "
                f"{name}` on every node, or set FEDORBIT_CACHE to a folder that all nodes share"
            )
    return ""
