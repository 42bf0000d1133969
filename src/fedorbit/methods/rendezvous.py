"""Rendezvous: satellites average their models in pairs when they meet. Ours.

Satellites of neighbouring planes see each other every few minutes, those of one orbit often never,
and the ground sees each a few times a day. So there is no server, and no orbit that waits for its
slowest route: every satellite k trains a model of its own in every slot, and meets another in
every second.

    symbol   here
    w_k      model of satellite k
    u_k      momentum of satellite k, over slots
    m_k      slots of training that w_k has in it
    pi_k     shares of classes among the samples of k, with the half of `training.calibrate`
    s_ij     similarity of two satellites, between 0 and 1

    (1)  y_k = LocalSGD of F_k from w_k, `epochs` epochs
    (2)  w_k <- y_k + momentum u_k,  u_k <- w_k - what it was before (1),  m_k <- m_k + 1
    (3)  matching, every `every` slots: of all links of the slot, in the order of the last meeting
         of their ends, the longest ago first, each whose ends are both still without a partner
    (4)  w_i <- w_i + c (w_j - w_i),  m_i <- m_i + c (m_j - m_i),  c = s_ij m_j / (m_i + m_j)
         s_ij = <pi_i, pi_j> / (|pi_i| |pi_j|); for both at once
    (5)  every `mates` slots w_k goes to the other satellites of its orbit, N in all, by the
         earliest routes; one that receives w_j: w_k <- w_k + (w_j - w_k) / N

Two of the same classes and m take their mean in (4), which leaves the mean over all satellites as
it is: gossip averaging (Boyd et al. 2006). Two without a common class leave each other alone, and
only carry what others send. So one rule spans data on which one model is best, and data on which
each orbit is best alone. (2) is SlowMo's momentum (Wang et al. 2020): the few steps of a slot begin
without any, and would lead nowhere near as far. (1) takes as many steps as a satellite has samples,
so (4) does not weight by samples again. m keeps a newcomer from pulling others back.

It is meant for `training.calibrate`, with which satellites of different classes agree on
P(image | class), and for `training.augment` and `training.running_mean`; it runs without.

Positions are known in advance, so every satellite finds the matching by itself, and counts of
classes are known as they are to FedOrbit. A meeting is one model each way. Satellites in view of
stations at the same time can meet through these; links within orbits count where they are assumed,
and any two can meet with ideal links. The first active satellite of an orbit keeps the newest model
that it has of each of the others (5); the orbit uses the mean of these and its own. Routes of (5)
are those as flown, and know of losses to come.
"""

from itertools import combinations
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.forwarding import in_view
from fedorbit.methods.peers import spread
from fedorbit.methods.steps import with_statistics


class Rendezvous(Method):
    """Satellites average in pairs when they meet, the more the more alike their classes are."""

    family: ClassVar[Family] = "space"

    epochs: int = Field(2, ge=1, le=1000, description="E, epochs of a slot")
    momentum: float = Field(0.9, ge=0, lt=1, description="of a satellite, over slots")
    every: int = Field(2, ge=0, le=100_000, description="slots between meetings; 0: none")
    mates: int = Field(10, ge=1, le=100_000, description="slots between means of an orbit")
    similarity: bool = Field(True, description="average less with satellites of other classes")

    def start(self, fleet: Fleet) -> State:
        """All satellites have w(0); none has met another."""
        w, satellites = fleet.initial_model(), fleet.satellites
        model = np.tile(w, (satellites, 1))
        return {
            "model": model,
            "momentum": np.zeros_like(model),
            "trained": np.zeros(satellites),
            "met": np.full((satellites, satellites), -1, dtype=np.int32),
            "kept": model.copy(),  # newest models that the first of an orbit has of the others
            "from": np.full(satellites, -1),  # slots of these; -1: none
            "orbit": np.tile(w, (fleet.orbits, 1)),
        }

    def round(self, state: State, now: Now) -> State:
        """Train, match and meet, and take in what has arrived."""
        after = {name: array.copy() for name, array in state.items()}
        w, m, wait = after["model"], after["trained"], now.fleet.links != "ideal"
        self._train(after, now)
        meeting = self.every > 0 and now.t % self.every == 0
        for i, j, route in self._pairs(after["met"], now) if meeting else []:
            alike = similarity(*now.class_counts[[i, j]]) if self.similarity else 1.0
            now.send(i, j, w[i], route=route, wait=wait, trained=float(m[i]), alike=alike)
            now.send(j, i, w[j], route=route[::-1], wait=wait, trained=float(m[j]), alike=alike)
            after["met"][[i, j], [j, i]] = now.t
        units = {k: [k] for k in now.satellites}
        for k in now.satellites if now.t % self.mates == self.mates - 1 else []:
            mates = now.orbits.satellites(int(now.fleet.orbit_of_satellite[k]))
            spread(now, k, {mate: units[mate] for mate in mates}, w[k], slot=now.t)  # (5)
        for k in now.satellites:
            self._take_in(k, after, now)
        for orbit in now.orbits.active:
            first, *others = now.orbits.satellites(orbit)
            known = [after["kept"][k] for k in others if after["from"][k] >= 0]
            after["orbit"][orbit] = np.mean([w[first], *known], axis=0, dtype=np.float64)
        return after

    def _train(self, after: State, now: Now) -> None:
        """Train every satellite that has samples (1, 2)."""
        w, u = after["model"], after["momentum"]
        training = [k for k in now.satellites if now.samples[k]]
        jobs = [now.job(k, w[k].copy(), epochs=self.epochs) for k in training]
        for job, trained in zip(jobs, now.train(jobs), strict=True):
            if trained.steps:
                k = job.satellite
                moved = trained.model + np.float32(self.momentum) * u[k]
                w[k] = with_statistics(now, moved, trained.model)
                u[k] = w[k] - job.start
                after["trained"][k] += 1

    def _pairs(self, met: NDArray[Any], now: Now) -> list[tuple[int, int, list[int]]]:
        """Match satellites (3); each pair with the stations in between, if it needs any."""
        pairs, free, links = [], set(now.satellites), _links(now)
        for i, j in sorted(links, key=lambda link: (int(met[link]), link)):
            if i in free and j in free:
                pairs.append((i, j, links[i, j]))
                free -= {i, j}
        return pairs

    def _take_in(self, k: int, after: State, now: Now) -> None:
        """Average what has arrived at a satellite with its own model (4, 5)."""
        w, m = after["model"], after["trained"]
        mates = now.orbits.satellites(int(now.fleet.orbit_of_satellite[k]))
        newest: dict[int, Mail] = {}
        for mail in now.inbox(k):
            if "alike" not in mail.about:
                newest[mail.source] = max(newest.get(mail.source, mail), mail, key=_slot)
                continue
            theirs = float(mail.about["trained"])
            share = theirs / (m[k] + theirs) if m[k] + theirs else 0.5
            share *= float(mail.about["alike"])
            w[k] += np.float32(share) * (mail.payload - w[k])  # (4)
            m[k] += share * (theirs - m[k])
        own = w[k].copy()
        for j, mail in sorted(newest.items()):
            w[k] += (mail.payload - own) / np.float32(len(mates))  # (5)
            if k == mates[0] and _slot(mail) > after["from"][j]:
                after["kept"][j], after["from"][j] = mail.payload, _slot(mail)

    def models(self, state: State) -> Vector:
        """Every orbit uses the mean of its satellites, as its first one knows them."""
        return state["orbit"]


def _slot(mail: Mail) -> int:
    """Return the slot of a model that a mate has sent."""
    return int(mail.about["slot"])


def similarity(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the cosine of two satellites' shares of classes."""
    a, b = (counts + 0.5 for counts in (one, other))
    return float((a * b).sum() / np.sqrt((a * a).sum() * (b * b).sum()))


def _links(now: Now) -> dict[tuple[int, int], list[int]]:
    """Return pairs that can meet in this slot, with the servers in between."""
    if now.fleet.links == "ideal":
        return {pair: [] for pair in combinations(now.satellites, 2)}
    server = in_view(now)
    by_ground = combinations(sorted(server), 2)
    links = {(i, j): list(dict.fromkeys((server[i], server[j]))) for i, j in by_ground}
    return links | {pair: [] for pair in now.links(models=2)}
