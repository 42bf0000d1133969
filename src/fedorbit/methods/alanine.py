"""ALANINE: personalised models of orbits that exchange with each other, without a server, pruned.

Zhao et al., "ALANINE: A Novel Decentralized Personalized Federated Learning For Heterogeneous LEO
Satellite Constellation", 2024. Known to us are the abstract and an outline: that satellites
federate without a server, that models are personal, and that models are pruned to save computing
and traffic. **All equations below are ours**; results are those of a method of this structure, not
of the authors' code.

    symbol   here
    x_i      shared model of unit i (an orbit, or a satellite), which the others receive
    z_i      personal model, which is used
    s_ij     similarity of two shared models, between 0 and 1
    m_i      mask of the parameters that unit i keeps

In every round a unit trains x_i (1), sends it to all units that it reaches, and mixes what has
arrived (2, 3). z_i follows x_i as in Ditto (4).

    (1)  x_i <- LocalSGD of F_i from x_i, on m_i alone
    (2)  s_ij = exp(-d_ij / temperature),  d_ij = |x_i - x_j|^2 / (|x_i - w(0)| |x_j - w(0)|)
    (3)  x_i <- (1 - rho) x_i + rho sum_j n_j s_ij x_j / sum_j n_j s_ij,  s_ii = 1, over i itself
         and the `peers` units of largest s_ij
    (4)  z_i <- LocalSGD of F_i(z) + lambda/2 |z - x_i|^2 from z_i, x_i as the round begins
    (5)  m_i: the largest |x_i|, as many as 1 - sparsity(t) allows, and the last layer

Sparsity is a staircase of `prune_every` rounds under a cubic curve from 0 in round `warm_up` to
`final_sparsity` in round `prune_until`. What is pruned is 0, is neither trained nor sent, and never
comes back. A message has the kept values and the mask, a bit per parameter; values that a peer has
pruned are taken as the receiver's own.

Departures: the authors first train a super-resolution network in the same way, so that images of
all satellites become alike. Our datasets have one resolution, so that this part is left out. (2),
(3), (5) and the curve are our choice, as is that personal models are pruned with the shared one.
Models travel by store and forward. A unit sends the model that it holds to each other unit once, as
soon as a first link exists. A copy counts once, when its receiver has trained next, and of
several from one peer the newest: to keep all last copies would take memory of units x units x P.
With `relays = "any"` stations pass models on as any node does, but hold none; otherwise no byte
touches the ground. Routes are those of the plan as flown: what would be lost with a satellite on
its way is not sent. A launched orbit begins with w(0): no server could load a newer one. `unit =
"satellite"`: every satellite has an x and a z of its own, state is of [K, P], an orbit uses the
mean of its satellites' z by samples, and training delays no message, also where it takes longer
than a round. Pruning brings models closer to each other, and so raises s_ij, whatever the data.
"""

import math
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part
from fedorbit.learning.rules import Sgd
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.peers import collect, rows_of_orbits, spread, units_of
from fedorbit.methods.pruning import prunable, prune, staircase
from fedorbit.methods.steps import blend, distance, train_orbit, weighted_mean


class Alanine(Method):
    """Orbits mix the shared models of similar orbits, and keep personal ones."""

    label: ClassVar[str] = "ALANINE"
    family: ClassVar[Family] = "space"

    unit: Literal["orbit", "satellite"] = Field("orbit", description="unit with a model of its own")
    rho: float = Field(0.5, ge=0, le=1, description="share of the mean in the mixture")
    temperature: float = Field(
        1.0, gt=0, description="rate at which weights fall with the distance of models"
    )
    peers: int | None = Field(
        None, ge=0, description="number of most similar units that count; unset: all"
    )
    personal: bool = Field(True, description="use personal models; false: the shared ones")
    lambda_: float = Field(
        0.1, ge=0, alias="lambda", description="pull of personal models toward the shared one"
    )
    final_sparsity: float = Field(0.5, ge=0, lt=1, description="share pruned in the end; 0: none")
    warm_up: int = Field(20, ge=0, description="rounds before the first pruning")
    prune_every: int = Field(10, ge=1, description="rounds between two prunings")
    prune_until: int = Field(120, ge=1, description="round in which the final sparsity is reached")
    relays: Literal["any", "satellites"] = Field(
        "satellites", description="relays of models: satellites alone, or stations too"
    )

    @property
    def needs(self) -> Needs:
        """One model or two, one after the other."""
        return Needs(passes=1 + self.personal, exchanged=1 + self.personal)

    def start(self, fleet: Fleet) -> State:
        """All units have w(0), shared and personal, and all of its parameters."""
        units = fleet.orbits if self.unit == "orbit" else fleet.satellites
        x = np.tile(fleet.initial_model(), (units, 1))
        state = {
            "shared": x,
            "mask": np.ones(x.shape, dtype=np.bool_),
            "trained": np.zeros(units, dtype=np.int64),  # n_i: samples behind x_i
            "sent": np.ones((units, units), dtype=np.bool_),  # x_i, to j
        }
        if self.personal:
            state["personal"] = x.copy()
        if self.unit == "satellite":
            samples = np.zeros(units, dtype=np.int64)
            state |= {"orbit": fleet.orbit_of_satellite.copy(), "samples": samples}
        return state

    def round(self, state: State, now: Now) -> State:
        """Train, prune, send to all that can be reached, and mix what has arrived."""
        after = {name: array.copy() for name, array in state.items()}
        x, mask, n, sent = (after[name] for name in ("shared", "mask", "trained", "sent"))
        units, w0 = units_of(now, self.unit), now.fleet.initial_model()
        ended = self._train(after, now)  # (1), (4)
        for i, samples in ended.items():
            n[i], sent[i] = samples, not samples  # a model without samples counts nowhere
            if samples:
                self._prune(after, i, now)
        for i in units:
            others = {j: members for j, members in units.items() if j == i or not sent[i, j]}
            how: dict[str, Any] = {"part": _part(mask[i]), "announce": True, "samples": int(n[i])}
            by_servers = self.relays == "any"
            reached = spread(now, i, others, x[i], when="now", by_servers=by_servers, **how)
            sent[i, list(reached)] = True
        for i in [i for i in units if i in ended]:
            mail = collect(now, units[i])
            copies = {i: x[i], **{j: letter.into(x[i]) for j, letter in mail.items()}}
            counts = {i: int(n[i]), **{j: int(m.about["samples"]) for j, m in mail.items()}}
            weights = self.weights(i, copies, counts, w0)
            models = [copies[j] for j in weights]
            mean = weighted_mean(models, np.array(list(weights.values())), otherwise=x[i])
            x[i] = np.where(mask[i], blend(x[i], mean, self.rho), np.float32(0))  # (3)
            now.note(peers=len(weights) - 1, sparsity=1.0 - float(mask[i].mean()))
        if self.unit == "satellite":
            after["samples"] = now.samples.copy()
        return after

    def weights(
        self, i: int, models: dict[int, Vector], samples: dict[int, int], w0: Vector
    ) -> dict[int, float]:
        """Return n_j s_ij of unit i and its most similar peers, in the order of units (2)."""
        others = [j for j in models if j != i]
        s = {j: similarity(models[i], models[j], w0, self.temperature) for j in others}
        chosen = sorted(others, key=lambda j: (-s[j], j))[: self.peers]
        return {j: samples[j] * (1.0 if j == i else s[j]) for j in sorted([i, *chosen])}

    def _train(self, after: State, now: Now) -> dict[int, int]:
        """Train x and z; return the samples behind the models of units that have ended it."""
        x, z = after["shared"], after.get("personal")
        part = [_part(mask) for mask in after["mask"]]
        tasks = {i: (x[i], Sgd(part=part[i])) for i in self._trainers(now)}
        if z is not None:
            pulled = {i: Sgd(anchor=x[i], pull=self.lambda_, part=part[i]) for i in tasks}
            tasks |= {~i: (z[i], rule) for i, rule in pulled.items()}
        if self.unit == "orbit":
            ended = now.orbits.run(
                {
                    key: train_orbit(now, max(key, ~key), start, rule=rule, purpose=int(key < 0))
                    for key, (start, rule) in tasks.items()
                }
            )
            counts = now.orbits.trained_samples
            samples = {i: int(counts[i]) for i in sorted(ended) if i >= 0}
        else:
            jobs = [
                now.job(max(key, ~key), start, rule=rule, purpose=int(key < 0))
                for key, (start, rule) in tasks.items()
            ]
            ended = dict(zip(tasks, (done.model for done in now.train(jobs)), strict=True))
            samples = {k: int(now.samples[k]) * (k in tasks) for k in now.satellites}
        for key, model in ended.items():
            (x if key >= 0 else after["personal"])[max(key, ~key)] = model
        return samples

    def _trainers(self, now: Now) -> list[int]:
        """Units that train in this round."""
        if self.unit == "orbit":
            return now.orbits.active
        return [k for orbit in now.orbits.active for k in now.orbits.trainers(orbit)]

    def _prune(self, after: State, i: int, now: Now) -> None:
        """Renew the mask of a unit if more is to be pruned by now, and prune its models (5)."""
        mask = after["mask"][i]
        prune(mask, after["shared"][i], prunable(now.fleet.layout), self.sparsity(now.t))
        for name in {"shared", "personal"} & after.keys() if not mask.all() else ():
            after[name][i, ~mask] = 0.0

    def sparsity(self, t: int) -> float:
        """Share of the parameters that is pruned in round t."""
        share = staircase(t, self.warm_up, self.prune_until, self.prune_every)
        return self.final_sparsity * (1.0 - (1.0 - share) ** 3)

    def models(self, state: State) -> Vector:
        """Every orbit uses its personal model, or the mean of those of its satellites."""
        z = state["personal" if self.personal else "shared"]
        if self.unit == "orbit":
            return z
        means = []
        for mine in rows_of_orbits(state["orbit"]):
            evenly = weighted_mean(z[mine], np.ones(len(mine)), otherwise=z[mine[0]])
            means.append(weighted_mean(z[mine], state["samples"][mine], otherwise=evenly))
        return np.array(means)


def similarity(a: Vector, b: Vector, w0: Vector, temperature: float) -> float:
    """Return s of (2); a model that is w(0) is like no other."""
    apart, *moved = (distance(*pair) for pair in ((a, b), (a, w0), (b, w0)))
    if apart == 0.0:
        return 1.0
    scale = moved[0] * moved[1]
    return math.exp(-(apart**2) / scale / temperature) if scale > 0.0 else 0.0


def _part(mask: Any) -> Part | None:
    """Return a mask as a part of a model; None if it is all of it."""
    return None if mask.all() else mask.copy()
