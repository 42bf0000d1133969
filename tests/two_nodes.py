"""A real Ray cluster on this machine, with nodes and processes that tests may take away."""

import os
import signal
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fedorbit.cluster import QUIET

NODE = {"num_cpus": 1, "object_store_memory": 80 * 2**20}


class TwoNodes:
    """A head and a second node, with one CPU each."""

    def __init__(self, cluster: Any) -> None:
        self._cluster = cluster
        self.address: str = cluster.address
        self.second = cluster.add_node(**NODE)

    def remove_second(self) -> int | None:
        """Kill all processes of the second node, if it trains now; return which one did."""
        pids = self.training(self.second)
        if not pids:
            return None
        self._cluster.remove_node(self.second, allow_graceful=False)
        return pids[0]

    def replace_second(self) -> None:
        """Start another one in its place."""
        self.second = self._cluster.add_node(**NODE)

    def training(self, *nodes: Any) -> list[int]:
        """Process ids of the workers that train at this moment, on these nodes or on all."""
        found = []
        for node in nodes or self._cluster.list_all_nodes():
            raylet = node.all_processes["raylet"][0].process.pid
            children = Path(f"/proc/{raylet}/task/{raylet}/children").read_text().split()
            for child in map(int, children):
                try:
                    title = Path(f"/proc/{child}/cmdline").read_bytes()
                except OSError:  # it has just ended
                    continue
                if title.startswith(b"ray::train"):
                    found.append(child)
        return found

    def kill_a_worker(self) -> int | None:
        """Kill a process in the middle of a job, if there is one now; return which."""
        for pid in self.training():
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(pid, signal.SIGKILL)
                return pid
        return None


@contextmanager
def start_two_nodes() -> Iterator[TwoNodes]:
    """Start a head with one CPU and another node with one."""
    os.environ.update(QUIET)  # read when Ray is imported
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Ray's own
        from ray.cluster_utils import Cluster

        cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
        try:
            yield TwoNodes(cluster)
        finally:
            cluster.shutdown()
