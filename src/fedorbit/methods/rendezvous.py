"""Rendezvous: models travel over the links that exist, and train where they are. Ours.

Satellites of neighbouring planes see each other every few minutes, those of one orbit often never,
and the ground sees each a few times a day. So there is no server, and no orbit that waits for its
slowest route. Each orbit o starts one model, which goes from satellite to satellite, of any orbit,
and meets at each the model that the last visitor has left there.

    symbol       here
    x, u, m      model that travels, its momentum, and the slots of training that it has in it
    v_k, m_k     model that was left at satellite k, and the slots in it; m_k = 0: none yet
    d            slots since the last visit of the model, `every` or more
    s_ok         similarity of orbit o and satellite k: the cosine of their shares of classes
    a_k          slots since the model was at k, at most a tour: `every` times the satellites
    r_k          whole slots until it could be there by the earliest route

    (1)  at satellite k:  x <- v_k + c (x - v_k),  m <- m_k + c (m - m_k),  c = m / (m + m_k)
    (2)  y = LocalSGD of F_k from x, d `epochs` epochs (d at most 10)
    (3)  u <- momentum u + (y - x),  x <- x + u,  m <- m + d;  v_k <- x,  m_k <- m
    (4)  x, u and m go to the satellite of the largest s_ok a_k / max(r_k, every), by the earliest
         route; arriving within 10 slots, to none that has a model, is sent one, or has no samples
    (5)  v_k goes to the first active satellite of the orbit of k by the earliest route; an orbit
         uses the mean of the newest v that this one has of each of its satellites

A model that trains at one place after the other (cyclical weight transfer, Chang et al. 2018)
forgets. (1) prevents it, since what was left behind was trained elsewhere as well: it is the mean
of models of the same age, favours the more trained one, and keeps newcomers from pulling others
back. This is gossip averaging (Boyd et al. 2006) of which only the receiver continues. With as few
models as orbits, each takes more steps one after the other, for the same effort, than one model per
satellite would. (4) spans data on which one model is best and data on which each orbit is best
alone: where classes are the same everywhere models go where they are soonest, and where orbits have
none in common, each stays with its orbit, and others only relay it. (3) is SlowMo's momentum (Wang
et al. 2020), which has to travel: left at the satellites it would be too old.

It is meant for `training.calibrate`, with which satellites of different classes agree on
P(image | class), and for `training.augment` and `training.running_mean`; it runs without.

Positions are known in advance, and class counts as in FedOrbit. Both determine where models are and
how long they have trained, so no message about this is needed. Losses are known, too. Where time or
power on board is short, m counts the slots of training that were requested. Routes lead over
stations as well, and over links within orbits where these are assumed; with ideal links every
satellite is reached at once. A model is lost with the satellite that has it, or that it is sent to:
its orbit starts another from what its first free satellite has. So it does if no model has been
there for a tour, and its own, wherever it is, ends. Routes are those as flown, and contain losses
to come; they are those of one model, so that over slow links x and u together may take longer.
"""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.fleet import Fleet, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.steps import with_statistics

MOST_SLOTS = 10
"""Slots on the way at most, which the next visit makes up for."""


class Rendezvous(Method):
    """Models travel from satellite to satellite, and average with what the last one left there."""

    family: ClassVar[Family] = "space"

    epochs: int = Field(8, ge=1, le=1000, description="E, epochs of a model per slot")
    every: int = Field(
        2, ge=1, le=MOST_SLOTS, description="slots from one visit to the next, at least"
    )
    momentum: float = Field(0.8, ge=0, lt=1, description="of a model, over its visits")
    per_orbit: int = Field(1, ge=1, le=1000, description="models that each orbit starts")
    meet: bool = Field(True, description="average with the model that was left at a satellite")
    similarity: bool = Field(True, description="prefer satellites of the classes of the orbit")

    def start(self, fleet: Fleet) -> State:
        """Return w(0) for all; models begin at the first satellites of their orbits."""
        w, satellites = fleet.initial_model(), fleet.satellites
        of_orbits = [np.flatnonzero(fleet.orbit_of_satellite == o) for o in range(fleet.orbits)]
        at = np.array([ks[i % len(ks)] for ks in of_orbits for i in range(self.per_orbit)])
        return {
            "model": np.tile(w, (len(at), 1)),
            "momentum": np.zeros((len(at), w.size), dtype=np.float32),
            "trained": np.zeros(len(at)),
            "last": np.full(len(at), -self.every),  # slot of the last visit
            "at": at,  # where a model is, or is sent to; -1: lost, and all of its orbit
            "here": np.ones(len(at), dtype=np.bool_),
            "visited": np.full((len(at), satellites), -self.every * satellites),  # slots
            "left": np.tile(w, (satellites, 1)),
            "left_trained": np.zeros(satellites),
            "known": np.tile(w, (satellites, 1)),  # what the first of an orbit has of the others
            "known_slot": np.full(satellites, -1),  # slots of these
            "known_by": np.full(satellites, -1),  # satellites that have these
            "orbit": np.tile(w, (fleet.orbits, 1)),
        }

    def round(self, state: State, now: Now) -> State:
        """Receive models, train them, and send them on."""
        after = {name: array.copy() for name, array in state.items()}
        self._receive(after, now)
        self._replace(after, now)
        for i in self._train(after, now):
            self._send(i, after, now)
        for orbit in now.orbits.active:
            first, *others = now.orbits.satellites(orbit)
            known = [after["known"][k] for k in others if after["known_by"][k] == first]
            own = [after["left"][first]] if after["left_trained"][first] or not known else []
            after["orbit"][orbit] = np.mean([*own, *known], axis=0, dtype=np.float64)
        return after

    def _receive(self, after: State, now: Now) -> None:
        """Take models that have arrived to be trained (4), and those that orbits use (5)."""
        firsts = {now.orbits.satellites(orbit)[0] for orbit in now.orbits.active}
        for k, mail in [(node, mail) for node in now.satellites for mail in now.inbox(node)]:
            if "model" in mail.about:
                i = int(mail.about["model"])
                if after["at"][i] == k and after["last"][i] == mail.sent:
                    after["model"][i], after["momentum"][i] = np.split(mail.payload, 2)
                    after["here"][i] = True
            elif k in firsts:
                j = mail.source
                if after["known_by"][j] != k or mail.sent > after["known_slot"][j]:
                    after["known"][j] = mail.payload
                    after["known_slot"][j], after["known_by"][j] = mail.sent, k

    def _replace(self, after: State, now: Now) -> None:
        """Start a model anew that is lost, or whose orbit no model has visited for long."""
        for i, k in enumerate(after["at"].tolist()):
            mates = now.orbits.satellites(i // self.per_orbit)
            visited = after["visited"][:, mates].max(initial=-self._tour(now))
            is_alone = k not in mates and now.t - visited > self._tour(now)
            if k not in now.satellites or (mates and is_alone):
                after["here"][i] = bool(mates)
                after["at"][i] = k = min(mates, key=lambda k: (k in after["at"], k), default=-1)
                after["model"][i], after["momentum"][i] = after["left"][k], 0
                after["trained"][i], after["last"][i] = after["left_trained"][k], now.t - self.every

    def _tour(self, now: Now) -> int:
        """Return the slots in which a model could visit all satellites."""
        return self.every * now.fleet.satellites

    def _train(self, after: State, now: Now) -> list[int]:
        """Average models with those left at their satellites, and train them (1 to 3)."""
        due = np.flatnonzero(after["here"] & (now.t - after["last"] >= self.every)).tolist()
        slots = np.minimum(now.t - after["last"], MOST_SLOTS).tolist()
        jobs = []
        for i in due:
            k, m = int(after["at"][i]), after["trained"]
            x, v, m_k = after["model"][i], after["left"][k], after["left_trained"][k]
            if self.meet and m_k:
                c = m[i] / (m[i] + m_k)
                x += np.float32(1 - c) * (v - x)
                m[i] += (1 - c) * (m_k - m[i])
            jobs.append(now.job(k, x.copy(), epochs=self.epochs * slots[i], purpose=i))
        for i, job, trained in zip(due, jobs, now.train(jobs), strict=True):
            k = job.satellite
            after["visited"][i, k] = now.t
            if trained.steps:
                moved = trained.model + np.float32(self.momentum) * after["momentum"][i]
                after["model"][i] = with_statistics(now, moved, trained.model)
                after["momentum"][i] = after["model"][i] - job.start
                after["trained"][i] += slots[i]
                after["left"][k], after["left_trained"][k] = after["model"][i], after["trained"][i]
            after["last"][i] = now.t
        return due

    def _send(self, i: int, after: State, now: Now) -> None:
        """Send a model on (4), and a copy to the first satellite of the orbit it is in (5)."""
        ideal, k, active = now.fleet.links == "ideal", int(after["at"][i]), np.array(now.satellites)
        ways = None if ideal else now.ways(k)

        def send(j: int, vector: Vector, **about: Any) -> bool:
            route = ways.through(j) if ways else ()
            return now.send(k, j, vector, route=route, wait=not ideal, **about) is not None

        first = now.orbits.satellites(int(now.fleet.orbit_of_satellite[k]))[0]
        if k != first and after["left_trained"][k]:
            send(first, after["left"][k])
        arrival_s = ways.arrival_s[active] if ways else now.t * now.fleet.round_s
        slots = arrival_s / now.fleet.round_s - now.t
        age = np.minimum(now.t - after["visited"][i, active], self._tour(now))
        worth = age / np.maximum(np.floor(slots), self.every)
        if self.similarity:
            mine = now.orbits.class_counts[i // self.per_orbit]
            worth *= similarities(mine, now.class_counts[active])
        taken = np.isin(active, after["at"]) | (now.samples[active] == 0)
        worth[taken | (slots > MOST_SLOTS)] = 0
        j = int(active[np.argmax(worth)])
        load = np.concatenate((after["model"][i], after["momentum"][i]))
        if worth.max() > 0 and send(j, load, model=i):
            after["at"][i], after["here"][i] = j, False

    def models(self, state: State) -> Vector:
        """Every orbit uses the mean of its satellites' models, as its first one knows them."""
        return state["orbit"]


def similarities(one: NDArray[Any], others: NDArray[Any]) -> NDArray[np.float64]:
    """Return the cosines of shares of classes, with half a sample more of each."""
    a, b = one + 0.5, others + 0.5
    return np.asarray(b @ a / np.sqrt((a @ a) * (b * b).sum(axis=1)), dtype=np.float64)
