"""The nodes of a Ray cluster: how many runs they can do, and whether they can do them at all.

A node that cannot is found before the first run begins: it would otherwise fail one run after the
other, faster than the others do theirs.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

from fedorbit.errors import ClusterError
from fedorbit.studies import folders
from fedorbit.studies.grid import Cell
from fedorbit.studies.ray import node
from fedorbit.studies.ray.node import Fitness, Needs
from fedorbit.studies.schema import ResourcesSection

CHECK_TIMEOUT_S = 120.0

Node = dict[str, Any]


def on_node(ray: ModuleType, node_id: str) -> Any:
    """Return Ray's word for: there and nowhere else."""
    strategies = ray.util.scheduling_strategies
    return strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)


def runs_at_once(ray: ModuleType, resources: ResourcesSection) -> int:
    """Count the runs that all nodes together can do at a time."""
    return sum(_room(node, resources) for node in _alive(ray))


def check_nodes(
    ray: ModuleType, needs: Needs, cells: Sequence[Cell], resources: ResourcesSection
) -> None:
    """Refuse a cluster that has no room for a run, or a node that cannot do one."""
    alive = _alive(ray)
    nodes = [node for node in alive if _room(node, resources)]
    if not nodes:
        has = "; ".join(
            f"{_name(n)} has {_amount(n, 'CPU'):g} and {_amount(n, 'GPU'):g}" for n in alive
        )
        raise ClusterError(
            f"no node of the Ray cluster has the {resources.cpus} CPUs and {resources.gpus:g} GPUs "
            f"that a run is to have: {has}; lower --cpus or --gpus, or add nodes"
        )
    with _probe(needs) as needs:
        found = _ask(ray, nodes, needs)
    for name, fitness in found:
        if fitness.obstacle:
            raise ClusterError(f"node {name} {fitness.obstacle}")
    _refuse_mixed_kernels(found, cells)


@contextmanager
def _probe(needs: Needs) -> Iterator[Needs]:
    """Lock a run that does not exist; nodes that share the study's folder see the lock."""
    if needs.out is None:
        yield needs
        return
    slug = f"probe-{secrets.token_hex(4)}"
    with ExitStack() as stack:
        stack.callback(folders.remove_lock, needs.out, slug)
        try:
            stack.enter_context(folders.run_lock(needs.out, slug))
        except OSError as error:
            raise ClusterError(
                f"files in {needs.out} cannot be locked ({error.strerror}); choose another --out"
            ) from error
        yield replace(needs, probe=slug)


def _ask(ray: ModuleType, nodes: Sequence[Node], needs: Needs) -> list[tuple[str, Fitness]]:
    """Inspect every node; one that is lost meanwhile is left out."""
    ask = ray.remote(num_cpus=0, max_retries=0)(node.inspect)
    tasks = {
        ask.options(scheduling_strategy=on_node(ray, node["NodeID"])).remote(needs): _name(node)
        for node in nodes
    }
    done, late = ray.wait(list(tasks), num_returns=len(tasks), timeout=CHECK_TIMEOUT_S)
    if late:
        raise ClusterError(
            f"node {tasks[late[0]]} did not answer within {CHECK_TIMEOUT_S:g} s; see "
            "`ray status`, or take it out of the cluster"
        )
    found = []
    for task in done:
        try:
            found.append((tasks[task], ray.get(task)))
        except ray.exceptions.RayTaskError as error:
            raise ClusterError(
                f"node {tasks[task]} cannot use fedorbit ({_last_line(error)}); install the same "
                "fedorbit on every node"
            ) from error
        except ray.exceptions.RayError:
            continue
    return found


def _refuse_mixed_kernels(found: Sequence[tuple[str, Fitness]], cells: Sequence[Cell]) -> None:
    """Kernel and PyTorch round differently: the backend must not depend on the node."""
    automatic = any(
        c.config.engine.backend == "auto" and c.config.engine.device == "cpu" for c in cells
    )
    without = [name for name, fitness in found if not fitness.has_kernel]
    if automatic and 0 < len(without) < len(found):
        raise ClusterError(
            f"node {without[0]} has no C kernel and other nodes have one, so that results would "
            "depend on where a run is done; install the same fedorbit on all nodes, or add "
            "-o engine.backend=torch"
        )


def _alive(ray: ModuleType) -> list[Node]:
    return [node for node in ray.nodes() if node["Alive"]]


def _room(node: Node, resources: ResourcesSection) -> int:
    """Count as Ray does, in ten-thousandths: ten runs of 0.1 GPUs fit on one."""
    wanted = {"CPU": _parts(resources.cpus), "GPU": _parts(resources.gpus)}
    return min(_parts(_amount(node, kind)) // parts for kind, parts in wanted.items() if parts)


def _parts(amount: float) -> int:
    return round(amount * 10_000)


def _amount(node: Node, resource: str) -> float:
    return float(node["Resources"].get(resource, 0.0))


def _name(node: Node) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def _last_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[-1]
