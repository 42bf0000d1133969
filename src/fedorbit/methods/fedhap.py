"""FedHAP: platforms as servers, and models that are merged along chains of satellites.

Elmahallawy and Luo, "FedHAP: Fast Federated Learning for LEO Constellations Using Collaborative
HAPs", 2022. Known to us from its abstract: platforms (HAPs) as distributed servers in a hierarchy,
with a dissemination and an aggregation algorithm. All below it is recalled or our own.

    epoch    HAPs send w to all satellites that they see; each passes it on to its next neighbour
             along the orbit, in one direction, up to the next satellite in view; all train;
             partial models follow the same chains, and every satellite merges its own:
             p <- (1 - g) p + g u_k,  g = n_k / (n_k + n of p)
             the end of a chain hands p to a HAP; when all orbits are in, w = sum n_p p / n
    chains   as many as satellites of the orbit were in view

    took, own, fed    [satellite]: attempt of which it has w, has trained, and needs no partial
                      model of its neighbour any more
    partial, held     [satellite, P]: p on board, or w as long as there is none; its samples
    chain, next       [satellite]: where p begins; where w was passed on to, or -1
    sent              [satellite]: attempt of which a HAP has sent it w

Departures
- Recalled: chains in one direction; the epoch that waits for all orbits. The paper's g is a ratio
  of sample counts; with ours p is the exact mean by samples, so that an epoch is one of FedAvg.
- w goes ahead of p, so that the satellites of a chain train at the same time. Each hop still
  carries both.
- HAPs that are linked are one, at no cost, so that the roles of source and sink change nothing.
  Servers that have no link to the first one take no part.
- Who hands p to a HAP: the end of a chain, by the earliest route, which is the next satellite in
  view where satellites of an orbit are linked. Where the way to the next neighbour leads through
  a server, there is no chain: the server sends w itself.
- A HAP drops a partial model that holds a satellite which it has already. The numbers of a chain's
  satellites, its first and last, are facts of a message and not counted.
- `wait` as a number is ours: it closes an epoch with those that are in.
- Satellites without samples are in no chain. One without power passes on what it has.
- A lost satellite ends the attempt of its orbit, which is known at once: see `versions`. What is
  late for a closed epoch is dropped.

The state holds a model for each satellite.
"""

from typing import ClassVar

import numpy as np

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, State
from fedorbit.methods.steps import blend
from fedorbit.methods.versions import (
    Ints,
    SynchronousEpochs,
    along_orbit,
    arrivals,
    deliveries,
    forward,
    in_view,
    orbit_of,
    take,
    to_servers,
)


class FedHAP(SynchronousEpochs):
    """Merge models along the orbit, from one satellite in view to the next."""

    label: ClassVar[str] = "FedHAP"
    family: ClassVar[Family] = "space"

    def start(self, fleet: Fleet) -> State:
        """No satellite has anything."""
        numbers = ("took", "own", "fed", "held", "chain", "next", "sent")
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
                s["own"][k] = attempt
                self._pass_on(s, now, k)
        self._deliver(s, now)
        for mail in arrivals(now):
            if mail.about["attempt"] == s["attempt"][orbit_of(now, mail.source)]:
                satellites = self._chain(s, now, mail)
                if not s["is_in"][satellites].any():  # else it is a duplicate
                    self.bring_in(s, mail.payload, int(mail.about["samples"]), satellites)
        self.close(s, now)
        self._hand_out(s, now)
        self._deliver(s, now)
        return s

    def _hand_out(self, s: State, now: Now) -> None:
        """Send w to all satellites in view that take part and have it from no other."""
        for k, server in in_view(now).items():
            orbit, version = orbit_of(now, k), int(s["version"])
            self.begins(s, now, orbit)
            attempt = int(s["attempt"][orbit])
            lacks = attempt not in (s["took"][k], s["sent"][k])
            idle = not now.orbits.samples[orbit] and s["received_version"][orbit] < version
            if idle or (lacks and self.is_current(s, now, k, attempt)):
                s["sent"][k] = attempt
                now.send(server, k, s["global"], wait=True, version=version, attempt=attempt)

    def _deliver(self, s: State, now: Now) -> None:
        """Take what arrives at satellites: w, and partial models."""
        jobs, about, after_s = list[LocalJob](), [], []
        for mail in deliveries(now):
            k, attempt = mail.target, mail.about["attempt"]
            if "first" in mail.about:
                self._join(s, now, mail)
                continue
            take(s, now, mail)
            if not self.is_current(s, now, k, attempt) or s["took"][k] == attempt:
                continue
            s["took"][k], s["partial"][k], s["held"][k], s["chain"][k] = attempt, mail.payload, 0, k
            if mail.source in now.servers:
                s["fed"][k] = attempt  # a chain begins
            self._spread(s, now, mail)
            jobs.append(now.job(k, mail.payload))
            about.append({"attempt": attempt})
            after_s.append(mail.arrival_s)
        now.begin(jobs, about, after_s)

    def _spread(self, s: State, now: Now, mail: Mail) -> None:
        """Pass w on to the next satellite of the orbit, unless a HAP has sent it there."""
        k, crew = mail.target, self._crew(s, now, mail.target)
        after = int(crew[(np.searchsorted(crew, k) + 1) % len(crew)])
        has_it = after == k or s["sent"][after] == mail.about["attempt"]
        passed = not has_it and along_orbit(now, k, after, mail.payload, **mail.about)
        s["next"][k] = after if passed else -1

    def _join(self, s: State, now: Now, mail: Mail) -> None:
        """Merge a partial model of the neighbour, or hand it to a HAP where its chain ends."""
        k, attempt = mail.target, mail.about["attempt"]
        if attempt != s["attempt"][orbit_of(now, k)]:
            return
        ends = s["fed"][k] == attempt or s["took"][k] != attempt  # it has not come through here
        s["fed"][k] = attempt
        if ends:
            to_servers(now, k, mail.payload, **mail.about)
            return
        self._merge(s, k, mail.payload, int(mail.about["samples"]))
        s["chain"][k] = mail.about["first"]
        self._pass_on(s, now, k)

    def _merge(self, s: State, k: int, model: Vector, samples: int) -> None:
        """p <- (1 - g) p + g u, g being the model's share of the samples."""
        if samples:
            share = samples / (s["held"][k] + samples)
            s["partial"][k] = blend(s["partial"][k], model, float(share))
            s["held"][k] += samples

    def _pass_on(self, s: State, now: Now, k: int) -> None:
        """Pass p on along the chain once it is complete here, or hand it to a HAP at its end."""
        attempt, after = int(s["attempt"][orbit_of(now, k)]), int(s["next"][k])
        if not s["own"][k] == s["fed"][k] == attempt:
            return
        chain = {"first": int(s["chain"][k]), "last": k, "samples": int(s["held"][k])}
        about = {"attempt": attempt, **chain}
        if after < 0 or not forward(now, k, after, s["partial"][k], **about):
            to_servers(now, k, s["partial"][k], **about)

    def _crew(self, s: State, now: Now, satellite: int) -> Ints:
        """Satellites of an orbit that take part, in their order."""
        mine = now.fleet.orbit_of_satellite == orbit_of(now, satellite)
        return np.flatnonzero(s["crew"] & mine)

    def _chain(self, s: State, now: Now, mail: Mail) -> Ints:
        """Satellites whose models a partial model holds: from its first to its last, in order."""
        crew = self._crew(s, now, mail.source)
        first, last = np.searchsorted(crew, (mail.about["first"], mail.about["last"]))
        return np.roll(crew, -first)[: (last - first) % len(crew) + 1]
