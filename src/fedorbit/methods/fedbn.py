"""FedBN: FedAvg that keeps normalisation layers where they are.

Li et al., "FedBN: Federated Learning on Non-IID Features via Local Batch Normalization", 2021.

    symbol   here
    b_l      scales, shifts and statistics of the normalisation layers of orbit l: never leave it
    phi      all other parameters, which alone travel

    (1)  (phi_k, b_k) = LocalSGD of F_k from (phi, b_l), E_base epochs
    (2)  phi_l = sum_k n_k phi_k / n_l,  b_l <- sum_k n_k b_k / n_l
    (3)  phi <- sum_l n_l phi_l / sum_l n_l, over the orbits that have trained

Inference with the pair (phi, b_l). `keeps = "statistics"`: scales and shifts are averaged too, as
in SiloBN (Andreux et al., "Siloed Federated Learning for Multi-Centric Histopathology Datasets",
2020).

Departures: the layers belong to an orbit, whose satellites average them by samples. GroupNorm and
LayerNorm count as normalisation, too. An orbit that is launched has those of w(0).
"""

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.errors import ModelError
from fedorbit.fleet import Fleet, Now
from fedorbit.learning.parameters import ParameterLayout, Vector
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.steps import average_at_ground, hand_out, load_launched, train_orbit


class FedBN(MatchedEffort):
    """Average all but the normalisation layers, which stay in their orbits."""

    label: ClassVar[str] = "FedBN"
    family: ClassVar[Family] = "personalised"

    keeps: Literal["layers", "statistics"] = Field(
        "layers", description="kept in the orbit: normalisation layers, or their statistics alone"
    )

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0). What stays in orbits is in `global` that of w(0)."""
        if self.shared(fleet.layout).all():
            raise ModelError(
                f"FedBN has nothing to keep in orbits: the model has no {self.keeps} to normalise; "
                'choose one that has, such as model.name = "resnet" with model.options.norm = '
                '"batch"'
            )
        w = fleet.initial_model()
        return {"global": w, "model": np.tile(w, (fleet.orbits, 1))}

    def shared(self, layout: ParameterLayout) -> NDArray[np.bool_]:
        """Return the mask of what is averaged."""
        if self.keeps == "layers":
            return ~layout.normalisation
        return np.arange(layout.size) >= layout.statistics.stop

    def round(self, state: State, now: Now) -> State:
        """Train orbits from what is shared and what is their own, and average what is shared."""
        state = load_launched(state, now, "model")
        shared, orbits = self.shared(now.fleet.layout), self.participants(now)
        w, model = state["global"].copy(), state["model"].copy()
        phi, received = w[shared], model[:, shared]
        hand_out(phi, received, now, orbits)
        model[:, shared] = received
        programs = {o: train_orbit(now, o, model[o], self.work(o, now)) for o in orbits}
        trained = now.orbits.run(programs, upload=True)
        if trained:
            phi = average_at_ground(now, {o: y[shared] for o, y in trained.items()}, phi)
            w[shared] = phi
            hand_out(phi, received, now, now.orbits.reachable)
        for orbit, y in trained.items():
            model[orbit] = y
        model[:, shared] = received
        return {"global": w, "model": model}

    def models(self, state: State) -> Vector:
        """Every orbit uses what it received last, with its own normalisation."""
        return state["model"]
