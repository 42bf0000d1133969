"""A small method that relays parts of models through channels: for the conformance suite."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedorbit.fleet import Channel
from fedorbit.methods import Fleet, Method, Now, State


@dataclass(frozen=True)
class HalfAndNoise(Channel):
    """Two bytes per value, and noise."""

    def carry(self, vector: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = rng.normal(0.0, 1e-3, vector.size)
        return (vector + noise).astype(np.float16).astype(np.float32)

    def bytes(self, values: int) -> int:
        return 2 * values


class RelaysParts(Method):
    """Satellites send a slice by a neighbour to the ground, which sends a mask of it to all.

    What goes up waits for links; what goes down needs all of them in one slot.
    """

    serves: ClassVar = "satellite"

    def start(self, fleet: Fleet) -> State:
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.satellites, 1))
        return {"global": w, "received": everywhere, "trained": everywhere.copy()}

    def round(self, state: State, now: Now) -> State:
        after = {name: array.copy() for name, array in state.items()}
        ground, upper = now.servers[0], slice(len(after["global"]) // 2, None)
        mask = np.arange(len(after["global"])) % 3 == 0
        for done in now.finished():
            k = done.satellite
            after["trained"][k] = done.model
            if done.trained.steps:
                way = {"route": now.neighbours(k)[:1], "wait": True, "base": done.begun}
                now.send(k, ground, done.model, part=upper, channel=HalfAndNoise(), **way)
        for mail in now.inbox(ground):
            after["global"] = mail.into(after["global"])
        ideal, seen = now.fleet.links == "ideal", now.satellites_of()
        for k in now.satellites:
            relays = [other for other in now.neighbours(k) if ideal or other in seen]
            if relays or (k in seen and not now.neighbours(k)):  # alone, it needs no relay
                how = {"route": relays[:1], "part": mask, "announce": True}
                now.send(ground, k, after["global"], **how)
            for mail in now.inbox(k):
                after["received"][k] = mail.into(after["received"][k])
        free = [k for k in now.satellites if now.samples[k] and not now.is_busy(k)]
        now.begin([now.job(k, after["received"][k]) for k in free])
        return after

    def models(self, state: State) -> np.ndarray:
        return state["received"]
