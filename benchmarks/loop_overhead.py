"""What the loop around local training costs: a whole run against bare LocalSGD, alternately.

Both on one worker, in samples per CPU second of this process. The run aggregates, evaluates every
round, writes records and checkpoints; bare LocalSGD trains one satellite after the other and does
nothing else. Usage: python benchmarks/loop_overhead.py [dataset] [rounds] [repeats]
"""

import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch

from fedorbit.config import load_config
from fedorbit.learning.jobs import LocalJob, batch_order
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.simulation.loop import NobodyWatches, run_rounds
from fedorbit.simulation.world import World, build_world


def samples_per_second_of_a_run(world: World) -> float:
    with tempfile.TemporaryDirectory() as folder:
        begin = time.process_time()
        summary = run_rounds(world, "fedorbit", FedOrbit(), Path(folder), NobodyWatches())
        return summary["samples_trained"] / (time.process_time() - begin)


def samples_per_second_bare(world: World, samples: int) -> float:
    trainer, done, t = world.trainer(), 0, 0
    begin = time.process_time()
    while done < samples:
        for satellite, part in enumerate(world.data.parts):
            job = LocalJob(satellite, world.initial_model, 2, 0.01, (t,))
            trainer.train(job, batch_order(world.data, job, 0))
            done += 2 * len(part)
        t += 1
    return done / (time.process_time() - begin)


def main(dataset: str, rounds: int, repeats: int) -> None:
    torch.set_num_threads(1)
    changes = [f"data.name={dataset}", f"run.rounds={rounds}", "engine.workers=1"]
    world = build_world(load_config("paper", changes))
    ratios = []
    for _ in range(repeats):
        whole = samples_per_second_of_a_run(world)
        bare = samples_per_second_bare(world, 100_000)
        ratios.append(whole / bare)
        print(f"whole run / bare LocalSGD: {whole / bare:.3f}", flush=True)
    print(f"median {median(ratios):.3f}: the loop costs {100 * (1 - median(ratios)):.1f} %")


if __name__ == "__main__":
    defaults = ["eurosat", "5", "3"]
    given = sys.argv[1:]
    name, rounds, repeats = given + defaults[len(given) :]
    main(name, int(rounds), int(repeats))
