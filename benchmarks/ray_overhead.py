"""Overhead of Ray: the same jobs by the local engine and as tasks of a Ray cluster, in turn.

One round of satellites with 16, 128 and 1024 images each (synthetic 32x32, LeNet, five epochs) is
trained by as many local threads as there are CPUs and by Ray, alternately, and the ratio of the
times is printed; the bits are compared, too. First on one node with all CPUs of this machine, then
on two nodes of one CPU each against two threads. Beside the ratio: jobs per second, bytes per
round between driver and workers (models out, once per orbit, and back, once per satellite), and
the driver's peak memory, in a process of its own per line.
Usage: python benchmarks/ray_overhead.py [repeats] [satellites]
"""

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
from alternating import alternate, ratios, spread

from fedorbit.cluster import QUIET, ray_cluster
from fedorbit.config import Config
from fedorbit.learning.engine import Engine, LocalEngine, Program
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.simulation.world import World, build_world

SAMPLES = (16, 128, 1024)
SATELLITES_PER_ORBIT = 16
EPOCHS = 5
MIB = 2**20


def world_of(satellites: int, samples: int) -> World:
    """Return a world in which every satellite has the same number of images."""
    config = Config.model_validate(
        {
            "constellation": {"planes": 1, "satellites_per_plane": satellites},
            "data": {"synthetic": {"samples": max(2 * samples, 2000)}},
            "engine": {"kind": "ray"},
        }
    )
    world = build_world(config)
    # Satellites may share images here: what they cost is the same.
    everything, rng = world.data.everything, np.random.default_rng(0)
    parts = tuple(rng.choice(everything, samples, replace=False) for _ in range(satellites))
    images = world.data.images.copy()  # as the local engine has them
    return replace(world, data=replace(world.data, parts=parts, images=images))


def orbit(number: int, start: Vector) -> Program[Vector]:
    """Train the satellites of one orbit and average them."""
    first = number * SATELLITES_PER_ORBIT
    trained = yield [
        LocalJob(first + place, start, EPOCHS, 0.01, key=(0,))
        for place in range(SATELLITES_PER_ORBIT)
    ]
    return np.mean([result.model for result in trained], axis=0)


def one_round(engine: Engine, world: World) -> dict[int, Vector]:
    orbits = len(world.data.parts) // SATELLITES_PER_ORBIT
    return engine.run({number: orbit(number, world.initial_model) for number in range(orbits)})


@contextmanager
def cluster_of(nodes: int) -> Iterator[str | None]:
    """Start nodes of one CPU each; one node is what Ray starts by itself, with all CPUs."""
    if nodes == 1:
        yield None
        return
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False}
    )
    try:
        for _ in range(nodes - 1):
            cluster.add_node(num_cpus=1)
        yield cluster.address
    finally:
        cluster.shutdown()


def measure(nodes: int, samples: int, satellites: int, repeats: int) -> dict[str, float | str]:
    """Measure one line; in a process of its own, for the sake of its peak memory."""
    world = world_of(satellites, samples)
    with cluster_of(nodes) as address, ray_cluster(address), world.engine() as remote:
        workers, found = remote.workers, one_round(remote, world)
        # Before this process trains itself.
        peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        local = LocalEngine(world.trainer(), world.data, world.config.seed, workers)
        expected = one_round(local, world)
        assert all(np.array_equal(expected[key], found[key]) for key in expected), "the same bits"
        seconds = alternate(
            {"local": lambda: one_round(local, world), "ray": lambda: one_round(remote, world)},
            repeats,
            clock=time.perf_counter,
        )
        local.close()
    model_bytes = 4 * world.spec.layout.size
    orbits = satellites // SATELLITES_PER_ORBIT
    per_job_ms = [
        1e3 * (ray - alone) * workers / satellites
        for ray, alone in zip(seconds["ray"], seconds["local"], strict=True)
    ]
    return {
        "ratio": spread(ratios(seconds["ray"], seconds["local"])),
        "per_job_ms": spread(per_job_ms),
        "jobs_per_s": satellites / min(seconds["ray"]),
        "round_bytes": model_bytes * (orbits + satellites),
        "peak_bytes": peak_bytes,
    }


def in_own_process(*arguments: int) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "measure", *map(str, arguments)],
        env={**os.environ, **QUIET},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    )
    measured: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return measured


def main(repeats: int, satellites: int) -> None:
    print(
        "nodes  images  Ray / local              ms per job more          jobs/s   MB/round  "
        "driver's peak"
    )
    for nodes in (1, 2):
        for samples in SAMPLES:
            row = in_own_process(nodes, samples, satellites, repeats)
            print(
                f"{nodes:5}  {samples:6}  {row['ratio']:23}  {row['per_job_ms']:23}  "
                f"{row['jobs_per_s']:7.0f}  {row['round_bytes'] / 1e6:8.1f}  "
                f"{row['peak_bytes'] / MIB:5.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    given = sys.argv[1:]
    if given[:1] == ["measure"]:
        print(json.dumps(measure(*map(int, given[1:]))))
    else:
        numbers = [int(number) for number in given] + [5, 128][len(given) :]
        main(*numbers)
