"""Runs the training of a round on a Ray cluster: every job is a task, retried where it is lost.

Models travel as arrays: an orbit's model goes out once for all its satellites, trained ones come
back one by one and are handed to their program as they arrive.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedorbit.cluster import answers
from fedorbit.errors import ClusterError, ConfigError, FedOrbitError, one_line
from fedorbit.learning.jobs import Trained, TrainingData
from fedorbit.learning.parameters import Vector
from fedorbit.learning.programs import LOOK_AROUND_S, Program, Task, run_programs
from fedorbit.learning.ray import node
from fedorbit.learning.ray.node import SentJob, TrainingSetup

Result = TypeVar("Result")
Answer = TypeVar("Answer")

RETRIES = 5
"""Number of times that a job is started again after its process or node has died."""
TASKS_PER_CPU = 3
"""Tasks in flight per CPU: one runs, and others are queued so that no CPU waits for the driver."""
TASK_IMAGES, LEAST_TASKS_PER_CPU = 2000, 4
"""Small jobs share a task, which costs the driver milliseconds; but all CPUs get several."""
HEAD_PATIENCE_S, CPU_PATIENCE_S = 20.0, 60.0
"""Seconds that a run waits for a cluster's head, and for a node with a CPU, to come back."""


class RayEngine:
    """Engine that runs jobs as tasks on the cluster that this process belongs to."""

    def __init__(self, ray: ModuleType, setup: TrainingSetup, workers: int = 0) -> None:
        self.backend: str = setup.backend
        self._ray = ray
        self._asked = workers
        self._data = setup.data
        self._address: str = ray.get_runtime_context().gcs_address
        self._own_node = _own_node(ray)
        self._workshop = [ray.put(setup)]
        # By default Ray prefers the node that has the models, the driver's, and others stay idle.
        as_task = ray.remote(num_cpus=1, max_retries=RETRIES, scheduling_strategy="SPREAD")
        self._train, self._evaluate = as_task(node.train), as_task(node.evaluate)
        self._in_use: dict[int, dict[int, tuple[NDArray[Any], Any]]] = {}
        """References to the vectors of each program's batch, by the vector's identity."""
        self._lost_since: float | None = None

    @property
    def workers(self) -> int:
        """Number of jobs that run at a time: as configured, or the CPUs of the cluster now."""
        return self._asked or max(1, self._cpus())

    def run(self, programs: Mapping[int, Program[Result]]) -> dict[int, Result]:
        """Run programs to their end, the largest first, and return their results by key."""
        workers = self.workers
        try:
            return run_programs(
                programs,
                self._data,
                self._submit,
                self._asked or TASKS_PER_CPU * workers,
                task_images=TASK_IMAGES,
                least_tasks=LEAST_TASKS_PER_CPU * workers,
                batch_done=self._in_use.pop,
                look_around=self._look_around,
            )
        finally:
            self._in_use.clear()

    def evaluate(
        self,
        models: list[Vector],
        samples: list[NDArray[np.int64]],
        offsets: Sequence[Vector | None] = (),
    ) -> list[tuple[int, float]]:
        """Evaluate each model on its samples: number of correct predictions, and sum of losses."""
        asked = zip(models, samples, offsets or [None] * len(models), strict=True)
        futures: list[_Outcome[tuple[int, float]]] = [
            _Outcome(self._ray, self._evaluate.remote(self._workshop, *each)) for each in asked
        ]
        try:
            return [self._result(future) for future in futures]
        except BaseException:
            for future in futures:
                future.cancel()
            raise

    def with_parts(self, data: TrainingData) -> "RayEngine":
        """Refuse: the nodes have opened the parts that the run began with."""
        raise ConfigError(
            "a method that moves samples between satellites cannot run on Ray, whose nodes keep "
            'those they began with; set engine.kind = "local", or switch its offloading off'
        )

    def close(self, cancel: bool = False) -> None:
        """Free the data on the cluster; the process that joined it leaves it."""
        self._workshop.clear()

    def _submit(self, task: Task) -> "Future[list[Trained]]":
        places: dict[int, int] = {}
        references: list[Any] = []

        def place(vector: NDArray[Any]) -> int:
            if id(vector) not in places:
                places[id(vector)] = len(references)
                references.append(self._sent(task.program, vector))
            return places[id(vector)]

        jobs = [SentJob.of(job, place) for job in task.jobs]
        return _Outcome(self._ray, self._train.remote(self._workshop, jobs, *references))

    def _sent(self, program: int, vector: NDArray[Any]) -> Any:
        """Put a vector where tasks find it, once for all jobs of a batch that share it."""
        sent = self._in_use.setdefault(program, {})
        if id(vector) not in sent:
            # The vector is kept beside its reference, so that no other object gets the same id().
            sent[id(vector)] = vector, self._ray.put(np.asarray(vector))
        return sent[id(vector)][1]

    def _result(self, future: "Future[Answer]") -> Answer:
        while True:
            try:
                return future.result(timeout=LOOK_AROUND_S)
            except TimeoutError:
                if future.done():  # the task's own
                    raise
                self._look_around()

    def _look_around(self) -> None:
        """Distinguish a cluster that is lost from one that is busy.

        This must come before Ray's own check, which ends the process without a checkpoint.
        """
        if not answers(self._own_node):
            self._has_lost("this machine's node of the", 0.0, "start it again")
        elif not answers(self._address):
            self._has_lost("the head of the", HEAD_PATIENCE_S, "start it again")
        elif not self._cpus():
            self._has_lost("the last CPU of the", CPU_PATIENCE_S, "add a node")
        else:
            self._lost_since = None

    def _has_lost(self, what: str, patience_s: float, remedy: str) -> None:
        now = time.monotonic()
        self._lost_since = self._lost_since or now
        if now - self._lost_since >= patience_s:
            raise ClusterError(
                f"{what} Ray cluster at {self._address} was lost; {remedy} and go on with "
                "--resume, or with --resume and --engine local on this machine alone"
            )

    def _cpus(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 0))


def _own_node(ray: ModuleType) -> str:
    """HOST:PORT of the Ray process through which this machine takes part in the cluster."""
    own = ray.get_runtime_context().get_node_id()
    node = next(node for node in ray.nodes() if node["NodeID"] == own)
    return f"{node['NodeManagerAddress']}:{node['NodeManagerPort']}"


class _Outcome(Future[Answer]):
    """The outcome of a task; cancelling it ends the process that works on it."""

    def __init__(self, ray: ModuleType, reference: Any) -> None:
        super().__init__()
        self._ray = ray
        self._reference = reference
        # Not ray.wait: it answers signals once a second, and with an exception of its own.
        reference.future().add_done_callback(self._arrived)

    def cancel(self) -> bool:
        """Cancel the task now, on whichever node it runs."""
        reference = self._reference
        if reference is not None and not self.done():
            with suppress(Exception):  # a lost cluster does not answer
                self._ray.cancel(reference, force=True)
        return True

    def _arrived(self, outcome: "Future[Any]") -> None:
        """Take the result over, in a thread of Ray's."""
        self._reference = None
        try:
            self.set_result(_owned(outcome.result()))
        except BaseException as error:
            self.set_exception(_explained(self._ray, error))


def _owned(answer: Any) -> Any:
    """Copy models out of the object store, so that its memory can be used again at once."""
    if not isinstance(answer, list):
        return answer
    return [Trained(t.model.copy(), t.steps, _copied(t.extra)) for t in answer]


def _copied(extra: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value.copy() if isinstance(value, np.ndarray) else value
        for name, value in extra.items()
    }


def _explained(ray: ModuleType, error: BaseException) -> BaseException:
    """Return the error to raise for a failed task: a `FedOrbitError` unless it is a bug."""
    if isinstance(error, ray.exceptions.RayTaskError):
        cause = error.cause
        return cause if isinstance(cause, FedOrbitError) else error
    if isinstance(error, ray.exceptions.TaskCancelledError):
        return error
    if isinstance(error, ray.exceptions.RayError):
        return ClusterError(
            f"a job was lost on the Ray cluster and could not be done in {RETRIES + 1} attempts "
            f"({one_line(error)}); see `ray status` and the nodes' memory, and go on with "
            "--resume"
        )
    return error
