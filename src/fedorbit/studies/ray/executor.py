"""Runs as tasks of a Ray cluster, one task per run.

Ray reports lost processes and nodes, and free resources; everything else about a run is as on one
machine. Ray ends tasks when the process that started them ends.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from fedorbit.cluster import answers, ray_cluster
from fedorbit.data.catalog import SYNTHETIC
from fedorbit.errors import ClusterError, ConfigError, one_line
from fedorbit.studies import folders
from fedorbit.studies.executors import TICK_S, Ended
from fedorbit.studies.grid import Cell
from fedorbit.studies.ray import node
from fedorbit.studies.ray.node import Answer, Home, Needs, Order
from fedorbit.studies.ray.nodes import check_nodes, runs_at_once
from fedorbit.studies.ray.retrieval import ReturnedFiles, returned_files
from fedorbit.studies.schema import ResourcesSection
from fedorbit.studies.study import Study

GRACE_S = 60.0
"""Seconds that runs may take to stop."""
PATIENCE_S = 20.0
"""Seconds that the cluster's head may be silent; after a minute, Ray would end this process."""


@dataclass(frozen=True)
class OnRay:
    """Settings of a study on a Ray cluster."""

    address: str | None = None
    """HOST:PORT; default RAY_ADDRESS, else Ray is started on this machine."""
    cpus: int | None = None
    """Cores, and threads, of a run; default: as the study's [resources] say, which is one."""
    gpus: float | None = None
    """GPUs that are reserved for a run; its engine.device decides whether it uses them."""
    files: Literal["shared", "return"] = "shared"
    """`shared`: nodes write into the study's folder; `return`: nodes send their files back."""


@contextmanager
def ray_executor(
    study: Study, out: Path, cells: Sequence[Cell], wanted: OnRay, jobs: int | None
) -> "Iterator[RayTasks]":
    """Join the cluster, check that its nodes can do the runs, and stop the runs in the end."""
    out = out.absolute()
    resources = _resources(study, wanted)
    names = {cell.config.data.name for cell in cells} - {SYNTHETIC}
    with ray_cluster(wanted.address) as ray:
        needs = Needs(Home.here(), tuple(sorted(names)), out if wanted.files == "shared" else None)
        check_nodes(ray, needs, cells, resources)
        with ExitStack() as stack:
            returned = None
            if wanted.files == "return":
                returned = stack.enter_context(returned_files(ray, out))
            most = min(jobs or len(cells), len(cells))
            tasks = RayTasks(ray, out, needs, resources, most, returned)
            stack.callback(tasks.stop)
            yield tasks


def _resources(study: Study, wanted: OnRay) -> ResourcesSection:
    given = {"cpus": wanted.cpus, "gpus": wanted.gpus}
    chosen = study.file.resources.model_copy(
        update={key: value for key, value in given.items() if value is not None}
    )
    gpus = float(chosen.gpus)
    if chosen.cpus < 1 or gpus < 0 or not (gpus.is_integer() or 0.0001 <= gpus <= 1):
        raise ConfigError(
            "a run must have at least 1 CPU, and GPUs that are a whole number or a part of one, "
            f"got {chosen.cpus} and {gpus:g}; set --cpus and --gpus"
        )
    return chosen


class RayTasks:
    """Running tasks, and their events."""

    retries = 3

    def __init__(
        self,
        ray: ModuleType,
        out: Path,
        needs: Needs,
        resources: ResourcesSection,
        jobs: int,
        returned: ReturnedFiles | None,
    ) -> None:
        self._ray, self._out, self._needs, self._returned = ray, out, needs, returned
        self._resources, self._jobs = resources, jobs
        # No retries by Ray, which would not report them.
        task = ray.remote(num_cpus=resources.cpus, num_gpus=resources.gpus, max_retries=0)
        self._do = task(node.do)
        self._slugs: dict[Any, str] = {}
        self._held: list[Ended] = []
        self._head: str = ray.get_runtime_context().gcs_address
        self._answered_s = time.monotonic()
        self.at_once = self._room()

    @property
    def busy(self) -> int:
        """Number of runs in progress."""
        return len(self._slugs) + len(self._held)

    def begin(self, slug: str, waiting: int) -> None:
        """Begin or continue a run as a Ray task, wherever there is room."""
        engine = {"kind": "local", "workers": self._resources.cpus}
        order = Order(self._needs.home, self._out, slug, engine, self._needs.datasets)
        if self._returned is not None:
            if not self._returned.lock(slug):
                self._held.append(Ended(slug, "held"))
                return
            order = self._returned.complete(order)
        self._slugs[self._do.options(name=f"fedorbit {slug}").remote(order)] = slug

    def news(self) -> list[Ended]:
        """Wait for runs to end, a tick at most."""
        if not self._is_there():  # whatever is asked of Ray now might not return
            time.sleep(TICK_S)
            return []
        self.at_once = self._room()
        ended, self._held = self._held, []
        tasks = list(self._slugs)
        if not tasks and not ended:
            time.sleep(TICK_S)
        done, _ = self._ray.wait(tasks, timeout=TICK_S) if tasks else ([], [])
        if self._returned is not None:
            self._returned.receive()
        return ended + [self._hear(task) for task in done]

    def stop(self) -> None:
        """Stop all runs; they keep a checkpoint."""
        tasks = list(self._slugs) if answers(self._head) else []
        for task in tasks:
            self._ray.cancel(task, force=False)
        if tasks:
            done, _ = self._ray.wait(tasks, num_returns=len(tasks), timeout=GRACE_S)
            for task in done:
                self._hear(task)

    def _room(self) -> int:
        """Count the runs that nodes can do just now; one, if only to wait for a node."""
        return max(1, min(self._jobs, runs_at_once(self._ray, self._resources)))

    def _is_there(self) -> bool:
        now_s = time.monotonic()
        if answers(self._head):
            self._answered_s = now_s
        elif now_s - self._answered_s > PATIENCE_S:
            raise ClusterError(
                f"the Ray cluster at {self._head} was lost; start it again, and the same command "
                "goes on, or go on without it"
            )
        return self._answered_s == now_s

    def _hear(self, task: Any) -> Ended:
        slug = self._slugs.pop(task)
        errors = self._ray.exceptions
        try:
            answer: Answer = self._ray.get(task)
        except errors.RayTaskError as error:  # ours, and not the run's, whose errors are caught
            cause = f"{type(error.cause).__name__}: {error.cause}"
            folders.write_failure(self._out, slug, cause, str(error))
            answer = Answer("failed")
        except errors.RayError as error:
            answer = Answer("lost", _describe_loss(errors, error))
        if self._returned is not None:
            self._returned.settle(slug, answer.files)
        return Ended(slug, answer.outcome, answer.reason)


def _describe_loss(errors: ModuleType, error: Exception) -> str:
    if isinstance(error, errors.OutOfMemoryError):
        return "its process was ended by Ray, since its node was short of memory; try more --cpus"
    if isinstance(error, errors.NodeDiedError):
        return "its node was lost"
    if isinstance(error, errors.WorkerCrashedError):
        return "its process was killed, perhaps for want of memory; try more --cpus"
    return f"its task was lost ({one_line(error, with_kind=True)})"
