"""Number of runs that fit on a cluster, and refused nodes; Ray is a stand-in here."""

from types import SimpleNamespace
from typing import Any

import pytest

from fedorbit.errors import ClusterError, ConfigError
from fedorbit.studies import OnRay, load_study
from fedorbit.studies.ray.executor import ray_executor
from fedorbit.studies.ray.node import Fitness
from fedorbit.studies.ray.nodes import _refuse_mixed_kernels, runs_at_once
from fedorbit.studies.schema import ResourcesSection


def node(alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": resources}


@pytest.mark.parametrize(
    ("cpus", "gpus", "runs"),
    [
        (1, 0, 4 + 9),
        (2, 0, 2 + 4),  # two of a node of 4, four of a node of 9
        (5, 0, 1),
        (10, 0, 0),
        (1, 1, 1),  # the node of 4 cores has the only GPU
        (1, 0.1, 4),  # ten would fit on the GPU, four on the cores
        (1, 0.3, 3),
    ],
)
def test_room(cpus: int, gpus: float, runs: int) -> None:
    nodes = [node(CPU=4, GPU=1), node(CPU=9), node(False, CPU=64), node(memory=1e9)]
    ray: Any = SimpleNamespace(nodes=lambda: nodes)
    assert runs_at_once(ray, ResourcesSection(cpus=cpus, gpus=gpus)) == runs


def test_a_tenth_of_a_gpu_fits_ten_times() -> None:
    ray: Any = SimpleNamespace(nodes=lambda: [node(CPU=64, GPU=1)])
    assert runs_at_once(ray, ResourcesSection(gpus=0.1)) == 10


def test_who_trains_must_not_depend_on_the_node() -> None:
    cells = load_study("ablation", quick=True).runs
    mixed = [("a", Fitness("", True)), ("b", Fitness("", False))]
    with pytest.raises(ClusterError, match=r"node b has no C kernel .*engine\.backend=torch"):
        _refuse_mixed_kernels(mixed, cells)
    _refuse_mixed_kernels(mixed[:1], cells)
    _refuse_mixed_kernels(mixed[1:], cells)
    settled = load_study("ablation", quick=True, overrides=["engine.backend=torch"]).runs
    _refuse_mixed_kernels(mixed, settled)


@pytest.mark.parametrize("gpus", [1.5, 0.00001])
def test_gpus_come_whole_or_as_a_part_of_one(tmp_path: Any, gpus: float) -> None:
    study = load_study("ablation", quick=True)
    with (
        pytest.raises(ConfigError, match="a whole number or a part of one, got 1 and"),
        ray_executor(study, tmp_path, study.runs, OnRay(gpus=gpus), None),
    ):
        pass
