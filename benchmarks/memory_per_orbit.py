"""Peak memory of a run in models per orbit, in a large constellation.

    python benchmarks/memory_per_orbit.py --planes 1000 --rounds 2 fedavg fedorbit

Every plane has one satellite, so that the models of orbits are what counts. All of NumPy's memory
is counted (tracemalloc), from the beginning of the rounds on: states, copies, jobs, checkpoints.
"""

import argparse
import tempfile
import tracemalloc
from pathlib import Path

import fedorbit as fo
from fedorbit.config import Config
from fedorbit.simulation.loop import SilentRunProgress

STATE_MODELS = {"fedavg": 1, "fedprox": 1, "local": 1, "ditto": 2, "apfl": 2, "fedorbit": 2}
"""Models per orbit of a method's state."""


class Peak(SilentRunProgress):
    """Watches the memory that a run takes beyond what it has when its rounds begin."""

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Count from here; the first state is in memory already."""
        self._before_bytes = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()

    def end(self) -> None:
        """Keep the peak."""
        self.peak_bytes = tracemalloc.get_traced_memory()[1] - self._before_bytes


def models_per_orbit(method: str, planes: int, rounds: int, size: int) -> float:
    """Return the peak of a run in models per orbit, its first state included."""
    config = Config.model_validate(
        {
            "constellation": {"planes": planes, "satellites_per_plane": 1},
            "schedule": {"rounds": rounds},
            "data": {"synthetic": {"classes": 10, "samples": 4 * planes, "size": size}},
            "training": {"epochs": 1},
            "run": {"rounds": rounds, "method": [method]},
            "methods": {method: {"effort": "always"}} if method == "fedavg" else {},
            "engine": {"checkpoint_every": 1},
        }
    )
    watcher = Peak()
    tracemalloc.start()  # before the state, so that freeing it counts
    with tempfile.TemporaryDirectory() as folder:
        [run] = fo.run(config, Path(folder) / "run", progress=watcher).runs
    tracemalloc.stop()
    return watcher.peak_bytes / (4 * planes * run.summary["parameters"]) + STATE_MODELS[method]


def main() -> None:
    """Measure methods one after the other."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("methods", nargs="*", default=["fedavg", "fedorbit"])
    parser.add_argument("--planes", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--size", type=int, default=32, help="height and width of images")
    arguments = parser.parse_args()
    for method in arguments.methods:
        found = models_per_orbit(method, arguments.planes, arguments.rounds, arguments.size)
        print(f"{method}: {found:.2f} models per orbit at the peak", flush=True)


if __name__ == "__main__":
    main()
