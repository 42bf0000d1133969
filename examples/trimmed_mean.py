"""A method in one short file: the ground station averages by coordinate-wise trimmed mean.

Run it from the folder of this file, beside FedAvg, without touching fedorbit:

    fedorbit run -o 'run.method=["fedavg", "trimmed_mean:TrimmedMean"]'
"""

import numpy as np
from pydantic import Field

from fedorbit.methods import Fleet, Method, State
from fedorbit.methods.fedavg import receive_global, train_orbit


class TrimmedMean(Method):
    """Drop the extremes of every parameter before averaging the visible orbits."""

    trim: int = Field(1, ge=0, description="how many values to drop at each end")

    def start(self, fleet: Fleet) -> State:
        """Everybody has the first model."""
        w = fleet.initial_model()
        return {"global": w, "received": np.tile(w, (fleet.orbits, 1))}

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train what is in view, trim, average, hand out."""
        visible = fleet.visible(t)
        if not visible:
            return state
        start = receive_global(state, t, fleet, visible)
        trained = fleet.run({o: train_orbit(fleet, o, t, start[o]) for o in visible})
        uploads = np.sort([fleet.upload(t, o, trained[o]) for o in visible], axis=0)
        trim = min(self.trim, (len(visible) - 1) // 2)
        w = uploads[trim : len(visible) - trim].mean(axis=0, dtype=np.float64).astype(np.float32)
        after = {"global": w, "received": start}
        return {**after, "received": receive_global(after, t, fleet, fleet.reachable(t))}

    def models(self, state: State) -> np.ndarray:
        """Every orbit uses the model it received last."""
        return state["received"]
