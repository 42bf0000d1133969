"""Look inside an orbit while FedOrbit trains: what its satellites know, and what their mean knows.

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
from fedorbit.learning.engine import Engine
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.methods import Fleet
from fedorbit.methods.base import weighted_mean
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.simulation.world import World, build_world


class Watcher:
    """Tells what models know of the classes of one orbit."""

    def __init__(self, world: World, engine: Engine, orbit: int) -> None:
        self.orbit, self._engine = orbit, engine
        samples = world.partition.test[orbit]
        labels = world.dataset.labels[samples]
        self._test = {int(c): samples[labels == c] for c in np.unique(labels)}
        self._names = world.dataset.class_names

    def tell(
        self, fleet: Fleet, t: int, start: Vector, trained: list[Trained], mean: Vector
    ) -> None:
        """Print what is known before and after the training of a round."""
        satellites, models = fleet.trainers(self.orbit, t), [result.model for result in trained]
        features = fleet.layout.features
        print(f"round {t}: {self._recall(start)}")
        for satellite, model in zip(satellites, models, strict=True):
            owned = " + ".join(str(fleet.class_counts(t)[satellite][c]) for c in self._test)
            moved = np.abs(model[features] - start[features]).sum()
            known = self._recall(model)
            print(f"  satellite {satellite}, {owned} images, moved {moved:.0f}: {known}")
        by_samples = weighted_mean(models, fleet.samples(t)[satellites], otherwise=start)
        print(f"  mean by samples: {self._recall(by_samples)}")
        print(f"  FedOrbit's mean: {self._recall(mean)}", flush=True)

    def _recall(self, model: Vector) -> str:
        answers = self._engine.evaluate([model] * len(self._test), list(self._test.values()))
        return ", ".join(
            f"{self._names[c]} {100 * right / len(samples):.0f} %"
            for (c, samples), (right, _) in zip(self._test.items(), answers, strict=True)
        )


def main() -> None:
    """Run FedOrbit and tell of one orbit."""
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
            def _aggregate_orbit(
                self, fleet: Fleet, orbit: int, t: int, start: Vector, trained: list[Trained]
            ) -> Vector:
                mean = super()._aggregate_orbit(fleet, orbit, t, start, trained)
                if orbit == watcher.orbit and trained:
                    watcher.tell(fleet, t, start, trained, mean)
                return mean

        method, fleet = Watched(**config.methods.get("fedorbit", {})), world.fleet(engine)
        state = method.start(fleet)
        for t in range(arguments.rounds):
            state = method.round(state, t, fleet)


if __name__ == "__main__":
    main()
