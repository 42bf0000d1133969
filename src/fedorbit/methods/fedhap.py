"""FedHAP: platforms as servers, and models that are merged along chains of satellites.

Elmahallawy and Luo, "FedHAP: Fast Federated Learning for LEO Constellations Using Collaborative
HAPs", 2022. Known to us from its abstract: platforms (HAPs) as distributed servers in a hierarchy,
with a dissemination and an aggregation algorithm. All below it is recalled or our own.

HAPs send w to all satellites that they see. Each passes it on to its next neighbour along the
orbit, in one direction, up to the next satellite in view. All train. Partial models p, of n_p
samples, follow the same chains, as many as satellites of the orbit were in view. The end of a chain
hands p to a HAP.

    (1)  u_k = LocalSGD of F_k from w
    (2)  p <- (1 - g) p + g u_k,  g = n_k / (n_k + n_p),  n_p <- n_p + n_k, at each satellite
    (3)  w <- sum_p n_p p / sum_p n_p, when all orbits are in

    state                     here
    sent, has, trained        [satellite]: attempt (see `synchronous`) of which a HAP has sent it w,
                              it has w, and it has trained
    joined                    [satellite]: attempt in which it awaits no p of its neighbour any more
    partial, partial_samples  [satellite, P]: p on board, or w as long as there is none; n_p
    first, next               [satellite]: where p begins; where w was passed on to, or -1

Departures
- Recalled: chains in one direction; the epoch that waits for all orbits. The paper's g is a ratio
  of sample counts; with ours p is the exact mean by samples, so that an epoch is one of FedAvg.
- w goes ahead of p, so that the satellites of a chain train at the same time. Each hop still
  carries both. HAPs are one, so that the roles of source and sink change nothing.
- The end of a chain hands p to a HAP by the earliest route, which is the next satellite in view
  where satellites of an orbit are linked. Where the way to the next neighbour leads through a
  server, there is no chain: the server sends w itself. Where no way is left to a neighbour that has
  received w, it begins a chain of its own; it is assumed to have this information.
- A HAP drops a partial model that holds a satellite which it has already. The numbers of a chain's
  satellites, its first and last, are facts of a message and not counted.
- Satellites without samples are in no chain. One without power passes on what it has.
"""

from typing import Any, ClassVar

import numpy as np

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.forwarding import (
    arrivals,
    deliveries,
    forward,
    in_view,
    to_servers,
    train_from,
)
from fedorbit.methods.global_model import orbit_of, take
from fedorbit.methods.steps import blend
from fedorbit.methods.synchronous import Ints, SynchronousEpochs


class FedHAP(SynchronousEpochs):
    """Merge models along the orbit, from one satellite in view to the next."""

    label: ClassVar[str] = "FedHAP"

    def start(self, fleet: Fleet) -> State:
        """No satellite has anything."""
        numbers = ("sent", "has", "trained", "joined", "partial_samples", "first", "next")
        return {
            **super().start(fleet),
            **{name: np.zeros(fleet.satellites, dtype=np.int64) for name in numbers},
            "partial": np.tile(fleet.initial_model(), (fleet.satellites, 1)),
        }

    def round(self, state: State, now: Now) -> State:
        """Merge along chains, average what HAPs have, and send out the next version."""
        s = self.opened(state, now)
        for done in now.finished():
            k, attempt = done.satellite, done.about["attempt"]
            if self.is_current(s, now, k, attempt):
                self._merge(s, k, done.model, int(now.samples[k]) if done.trained.steps else 0)
                s["trained"][k] = attempt
                self._pass_on(s, now, k)
        self._deliver(s, now)
        for mail in arrivals(now):
            if mail.about["attempt"] == s["attempt"][orbit_of(now, mail.source)]:
                satellites = self._chain(s, now, mail)
                if not s["is_in"][satellites].any():  # else it is a duplicate
                    self.bring_in(s, mail.payload, int(mail.about["samples"]), satellites)
        self.close(s, now)
        for k, server in in_view(now).items():
            orbit = orbit_of(now, k)
            self.begins(s, now, orbit)
            attempt = s["attempt"][orbit]
            lacks = attempt not in (s["has"][k], s["sent"][k])
            if self.is_idle(s, now, orbit) or (lacks and self.is_current(s, now, k, attempt)):
                s["sent"][k] = attempt
                self.hand_out(s, now, server, k)
        self._deliver(s, now)
        return s

    def _deliver(self, s: State, now: Now) -> None:
        """Take what arrives at satellites: partial models, and w, which they pass on and train."""
        received = []
        for mail in deliveries(now):
            k, attempt = mail.target, mail.about["attempt"]
            if "first" in mail.about:
                self._join(s, now, mail)
                continue
            take(s, now, mail)
            if self.is_current(s, now, k, attempt) and s["has"][k] != attempt:
                s["has"][k], s["first"][k] = attempt, k
                s["partial"][k], s["partial_samples"][k] = mail.payload, 0
                if mail.source in now.servers:
                    s["joined"][k] = attempt  # a chain begins
                self._spread(s, now, mail)
                received.append(mail)
        train_from(now, received)

    def _spread(self, s: State, now: Now, mail: Mail) -> None:
        """Pass w on to the next satellite of the orbit, unless a HAP has sent it there."""
        k, crew = mail.target, self._crew(s, now, mail.target)
        after = int(crew[(np.searchsorted(crew, k) + 1) % len(crew)])
        has_it = after == k or s["sent"][after] == mail.about["attempt"]
        how: dict[str, Any] = {**mail.about, "through_servers": False}
        passed = not has_it and forward(now, k, after, mail.payload, **how)
        s["next"][k] = after if passed else -1

    def _join(self, s: State, now: Now, mail: Mail) -> None:
        """Merge a partial model of the neighbour, or hand it to a HAP where its chain ends."""
        k, attempt = mail.target, mail.about["attempt"]
        if attempt != s["attempt"][orbit_of(now, k)]:
            return
        ends = s["joined"][k] == attempt or s["has"][k] != attempt  # it has not come through here
        s["joined"][k] = attempt
        if ends:
            to_servers(now, k, mail.payload, **mail.about)
            return
        self._merge(s, k, mail.payload, int(mail.about["samples"]))
        s["first"][k] = mail.about["first"]
        self._pass_on(s, now, k)

    def _merge(self, s: State, k: int, model: Vector, samples: int) -> None:
        """p <- (1 - g) p + g u, g being the model's share of the samples, (2)."""
        if samples:
            share = samples / (s["partial_samples"][k] + samples)
            s["partial"][k] = blend(s["partial"][k], model, float(share))
            s["partial_samples"][k] += samples

    def _pass_on(self, s: State, now: Now, k: int) -> None:
        """Pass p on along the chain once it is complete here, or hand it to a HAP at its end."""
        attempt, after = int(s["attempt"][orbit_of(now, k)]), int(s["next"][k])
        if not s["trained"][k] == s["joined"][k] == attempt:
            return
        chain = {"first": int(s["first"][k]), "last": k, "samples": int(s["partial_samples"][k])}
        about: dict[str, Any] = {"attempt": attempt, **chain}
        if after >= 0 and forward(now, k, after, s["partial"][k], **about):
            return
        to_servers(now, k, s["partial"][k], **about)
        if after >= 0 and s["joined"][after] != attempt:  # there is no way to it any more
            s["joined"][after] = attempt
            self._pass_on(s, now, after)

    def _crew(self, s: State, now: Now, satellite: int) -> Ints:
        """Satellites of an orbit that take part, in their order."""
        mine = now.fleet.orbit_of_satellite == orbit_of(now, satellite)
        return np.flatnonzero(s["crew"] & mine)

    def _chain(self, s: State, now: Now, mail: Mail) -> Ints:
        """Satellites whose models a partial model holds: from its first to its last, in order."""
        crew = self._crew(s, now, mail.source)
        first, last = np.searchsorted(crew, (mail.about["first"], mail.about["last"]))
        return np.roll(crew, -first)[: (last - first) % len(crew) + 1]
