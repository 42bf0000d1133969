"""CPU time per trained image of every method: the C kernel against PyTorch, and against FedAvg.

Every registered method plays the same few rounds: five orbits of four satellites, always in view,
with generated images of 32 x 32, on one worker and one thread of PyTorch. All methods take turns
with both backends. Time is CPU time of whole rounds, aggregation included, without evaluation. An
image counts once for each gradient that is taken of it, as in a run's records: two models or
several passes are more images. What is left above FedAvg is what a method does with vectors.
Usage: python benchmarks/per_method.py [repeats] [method ...]
"""

import sys
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from statistics import median

import numpy as np
import torch
from alternating import alternate, ratios, spread

from fedorbit.config import load_config
from fedorbit.learning.engine import LocalEngine
from fedorbit.methods import METHODS, make_method
from fedorbit.methods.base import Method
from fedorbit.orbits.plan import plan_of_slots
from fedorbit.simulation.world import World, build_world

BACKENDS = ("kernel", "torch")
ROUNDS = 2
REFERENCE = "fedavg"
CHANGES = [
    "constellation.planes=5",
    "constellation.satellites_per_plane=4",
    f"run.rounds={ROUNDS}",
    "run.links=ideal",
    "network.isl=assumed",
    "data.name=synthetic",
    "data.synthetic.size=32",
    "data.synthetic.samples=1600",  # a fifth is for tests: one batch of 64 per satellite
    "training.epochs=2",
    "engine.workers=1",
]


def world_of(backend: str) -> World:
    """Return the small world of all methods; every orbit is in view in every round."""
    world = build_world(load_config("quickstart", [*CHANGES, f"engine.backend={backend}"]))
    visible = np.ones_like(world.schedule.visible)
    stations = np.arange(len(world.config.stations)) == 0
    in_contact = visible[:, world.partition.orbit_of_satellite, None] & stations
    plan = plan_of_slots(in_contact, world.config.schedule.round_s)
    schedule = replace(world.schedule, visible=visible)
    return replace(world, schedule=schedule, plan=plan, active_plan=plan)


def play(method: Method, world: World, engine: LocalEngine) -> int:
    """Play all rounds; return how many images were trained on."""
    fleet = world.fleet(engine, method.needs)
    state = method.start(fleet)
    for t in range(ROUNDS):
        state = method.round(state, fleet.at(t))
    return fleet.ledger.samples_trained


def main(repeats: int, names: list[str]) -> None:
    torch.set_num_threads(1)
    worlds = {backend: world_of(backend) for backend in BACKENDS}
    engines = {
        backend: LocalEngine(world.trainer(), world.data, world.config.seed, 1)
        for backend, world in worlds.items()
    }
    images: dict[str, int] = {}

    def work(name: str, backend: str) -> None:
        images[name] = play(make_method(name, {}), worlds[backend], engines[backend])

    contestants: dict[str, Callable[[], object]] = {
        f"{name} {backend}": partial(work, name, backend) for name in names for backend in BACKENDS
    }
    try:
        seconds = alternate(contestants, repeats)
    finally:
        for engine in engines.values():
            engine.close()
    per_image = {
        contestant: [s / images[contestant.split()[0]] * 1e6 for s in each]
        for contestant, each in seconds.items()
    }
    print(f"CPU time per image trained, {repeats} repeats, median (range)")
    print(
        "method         images    kernel us  PyTorch us  PyTorch / kernel        kernel / FedAvg's"
    )
    for name in names:
        kernel, pytorch = (per_image[f"{name} {backend}"] for backend in BACKENDS)
        print(
            f"{name:12} {images[name]:8,}  {median(kernel):11.1f} {median(pytorch):11.1f}  "
            f"{spread(ratios(pytorch, kernel)):23} "
            f"{spread(ratios(kernel, per_image[f'{REFERENCE} kernel']))}",
            flush=True,
        )


if __name__ == "__main__":
    others = [name for name in sys.argv[2:] or METHODS if name != REFERENCE]
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5, [REFERENCE, *others])
