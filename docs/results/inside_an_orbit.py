"""Print what satellites of an orbit recognise while FedOrbit trains, and what their mean does.

    python docs/results/inside_an_orbit.py --orbit 2 --rounds 14 -o partition.scheme=pathological

Per round, or per intra-orbit round where there are several (orbits in view have two), it prints for
every class of the orbit the share of its test images that are recognised: by the model that the
orbit starts with, by each satellite after training, by their mean weighted by samples, and by the
mean that FedOrbit takes. Beside each satellite stands how far it moved its features, summed over
all elements, each of which FedOrbit weights by its own movement.
"""

import argparse

import numpy as np

import fedorbit as fo
from fedorbit.fleet import Now
from fedorbit.learning.engine import Engine
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.methods.steps import mean_by_samples
from fedorbit.simulation.world import World, build_world


class Watcher:
    """Prints what models recognise of the classes of one orbit."""

    def __init__(self, world: World, engine: Engine, orbit: int) -> None:
        self.orbit, self._engine = orbit, engine
        samples = world.partition.test[orbit]
        labels = world.dataset.labels[samples]
        self._test = {int(c): samples[labels == c] for c in np.unique(labels)}
        self._names = world.dataset.class_names

    def tell(self, now: Now, start: Vector, trained: list[Trained], mean: Vector) -> None:
        """Print recall before and after the training of a round."""
        features = now.fleet.layout.features
        print(f"round {now.t}: {self._recall(start)}")
        for satellite, result in zip(now.orbits.trainers(self.orbit), trained, strict=True):
            owned = " + ".join(str(now.class_counts[satellite][c]) for c in self._test)
            moved = np.abs(result.model[features] - start[features]).sum()
            known = self._recall(result.model)
            print(f"  satellite {satellite}, {owned} images, moved {moved:.0f}: {known}")
        by_samples = mean_by_samples(now, self.orbit, start, trained)
        print(f"  mean by samples: {self._recall(by_samples)}")
        print(f"  FedOrbit's mean: {self._recall(mean)}", flush=True)

    def _recall(self, model: Vector) -> str:
        answers = self._engine.evaluate([model] * len(self._test), list(self._test.values()))
        return ", ".join(
            f"{self._names[c]} {100 * right / len(samples):.0f} %"
            for (c, samples), (right, _) in zip(self._test.items(), answers, strict=True)
        )


def main() -> None:
    """Run FedOrbit and print one orbit."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("config", nargs="?", default="paper", help="a preset or a TOML file")
    parser.add_argument("--orbit", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("-o", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    arguments = parser.parse_args()
    config = fo.load_config(arguments.config, arguments.overrides)
    world = build_world(config)
    with world.engine() as engine:
        watcher = Watcher(world, engine, arguments.orbit)

        class Watched(FedOrbit):
            def aggregate_orbit(
                self, now: Now, orbit: int, start: Vector, trained: list[Trained]
            ) -> Vector:
                mean = super().aggregate_orbit(now, orbit, start, trained)
                if orbit == watcher.orbit and trained:
                    watcher.tell(now, start, trained, mean)
                return mean

        method, fleet = Watched(**config.methods.get("fedorbit", {})), world.fleet(engine)
        state = method.start(fleet)
        for t in range(arguments.rounds):
            state = method.round(state, fleet.at(t))


if __name__ == "__main__":
    main()
