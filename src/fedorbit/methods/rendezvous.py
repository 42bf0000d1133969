"""Rendezvous: satellites of different planes average their models when they meet. Ours.

Satellites of neighbouring planes see each other every few minutes, those of one orbit often never,
and the ground sees each a few times a day. So there is neither a server nor an orbit's aggregation:
every satellite k trains a model of its own in every slot, and meets one other in it.

    symbol   here
    w_k      model of satellite k
    u_k      momentum of satellite k, over slots
    m_k      slots of training that w_k has in it

    (1)  y_k = LocalSGD of F_k from w_k, `epochs` epochs
    (2)  u_k <- momentum u_k + (y_k - w_k),  w_k <- w_k + u_k,  m_k <- m_k + 1
    (3)  matching: of all links of the slot, in the order of the last meeting of their ends, the
         longest ago first, each whose ends are both still without a partner
    (4)  w_i <- w_i + m_j / (m_i + m_j) (w_j - w_i),  m_i <- max(m_i, m_j), so for both at once

Two of equal m take their mean (4), which leaves the mean over all satellites as it is: the satellites
agree as in any gossip averaging (Boyd et al. 2006). A step counts as often as an orbit or class has
samples, since (1) takes steps by samples, so that the mean is not weighted once more. m keeps a
newcomer, or one that was away, from pulling others back: with m = 0 it takes over what it meets.
(2) is SlowMo's momentum (Wang et al. 2020), which local training lacks that begins anew in every
slot. Without it the few steps of a slot lead nowhere near as far.

What makes one model serve orbits of different classes is `training.calibrate`: satellites then agree
on P(image | class), and each orbit adds the log-prior of its own classes. The other settings that
it is meant for are `training.augment` and `training.running_mean`. It runs without them.

Positions are known in advance, so every satellite finds the matching (3) by itself. An exchange is
one model each way, whatever the orbit. Where links within orbits are assumed, satellites of one orbit
meet too; with ideal links any two. The ground takes no part. An orbit uses the model of the
satellite that has most samples; with running means, its mean over the last slots.
"""

from itertools import combinations
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, State


class Rendezvous(Method):
    """Satellites train on their own and take the mean of two models when they meet."""

    family: ClassVar[Family] = "space"

    epochs: int = Field(2, ge=1, le=1000, description="E, epochs of a slot")
    momentum: float = Field(0.9, ge=0, lt=1, description="mu, of a satellite over slots")
    every: int = Field(1, ge=1, le=1000, description="slots from one meeting to the next")

    def start(self, fleet: Fleet) -> State:
        """All satellites have w(0); none has met another."""
        model, satellites = np.tile(fleet.initial_model(), (fleet.satellites, 1)), fleet.satellites
        return {
            "model": model,
            "velocity": np.zeros_like(model),
            "trained": np.zeros(satellites, dtype=np.int64),
            "met": np.full((satellites, satellites), -1, dtype=np.int32),
            "lead": np.zeros(fleet.orbits, dtype=np.int64),
        }

    def round(self, state: State, now: Now) -> State:
        """Train every satellite, match those that have a link, and average in pairs."""
        w, u, m, met = (state[name].copy() for name in ("model", "velocity", "trained", "met"))
        training = [k for k in now.satellites if now.samples[k]]
        results = now.train([now.job(k, w[k], epochs=self.epochs) for k in training])
        for k, y in zip(training, results, strict=True):
            if y.steps:
                u[k] = self.momentum * u[k] + (y.model - w[k])  # (2)
                w[k] += u[k]
                m[k] += 1
        wait = now.fleet.links != "ideal"
        for i, j, route in self._pairs(met, now) if now.t % self.every == 0 else []:
            now.send(i, j, w[i], route=route, wait=wait, trained=int(m[i]))
            now.send(j, i, w[j], route=route[::-1], wait=wait, trained=int(m[j]))
            met[i, j] = met[j, i] = now.t
        for k in now.satellites:
            for mail in now.inbox(k):
                theirs = int(mail.about["trained"])
                share = theirs / (m[k] + theirs) if m[k] + theirs else 0.5
                w[k] += np.float32(share) * (mail.payload - w[k])  # (4)
                m[k] = max(m[k], theirs)
        lead = state["lead"].copy()
        for orbit in now.orbits.active:
            lead[orbit] = max(now.orbits.satellites(orbit), key=lambda k: int(now.samples[k]))
        return {"model": w, "velocity": u, "trained": m, "met": met, "lead": lead}

    def _pairs(self, met: Vector, now: Now) -> list[tuple[int, int, list[int]]]:
        """Match satellites (3); each pair with the stations in between, if they need any."""
        pairs, free = [], set(now.satellites)
        links = _links(now)
        for i, j in sorted(links, key=lambda link: (int(met[link]), link)):
            if i in free and j in free:
                pairs.append((i, j, links[i, j]))
                free -= {i, j}
        return pairs

    def models(self, state: State) -> Vector:
        """Every orbit uses the model of one of its satellites."""
        return state["model"][state["lead"]]


def _links(now: Now) -> dict[tuple[int, int], list[int]]:
    """Return pairs that can meet in this slot, with the servers in between."""
    if now.fleet.links == "ideal":
        return dict.fromkeys(combinations(now.satellites, 2), [])
    server = {contact.satellite: contact.server for contact in now.contacts()}
    by_ground = combinations(sorted(server), 2)
    links = {(i, j): list(dict.fromkeys((server[i], server[j]))) for i, j in by_ground}
    return links | dict.fromkeys(now.links(), [])
