"""A method in one short file: the ground station averages by coordinate-wise trimmed mean.

Run it from the folder of this file, beside FedAvg, without touching fedorbit:

    fedorbit run -o 'run.method=["fedavg", "trimmed_mean:TrimmedMean"]'
"""

import numpy as np
from pydantic import Field

from fedorbit.methods import Fleet, Method, Now, State
from fedorbit.methods.steps import hand_out, train_orbit


class TrimmedMean(Method):
    """Drop the extremes of every parameter before averaging the visible orbits."""

    trim: int = Field(1, ge=0, description="how many values to drop at each end")

    def start(self, fleet: Fleet) -> State:
        """All orbits have the first model."""
        w = fleet.initial_model()
        return {"global": w, "received": np.tile(w, (fleet.orbits, 1))}

    def round(self, state: State, now: Now) -> State:
        """Train what is in view, trim, average, hand out."""
        visible, received = now.orbits.visible, state["received"].copy()
        hand_out(state["global"], received, now, visible)
        programs = {o: train_orbit(now, o, received[o]) for o in visible}
        trained = now.orbits.run(programs, upload=True)  # perhaps begun in an earlier round
        if not trained:
            return {**state, "received": received}
        uploads = np.sort([now.orbits.upload(o, trained[o]) for o in sorted(trained)], axis=0)
        trim = min(self.trim, (len(uploads) - 1) // 2)
        w = uploads[trim : len(uploads) - trim].mean(axis=0, dtype=np.float64).astype(np.float32)
        hand_out(w, received, now, now.orbits.reachable)
        return {"global": w, "received": received}

    def models(self, state: State) -> np.ndarray:
        """Every orbit uses the model it received last."""
        return state["received"]
