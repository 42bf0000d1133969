"""FedLEO with sink scheduling: one satellite of each orbit uploads for all, in the first window.

Elmahallawy and Luo, "Optimizing Federated Learning in LEO Satellite Constellations via Intra-Plane
Model Propagation and Sink Satellite Scheduling", 2023. Not the FedLEO of Zhai et al., which has no
server. Known to us from its abstract and a part of its parameters: the structure is the paper's,
the equations below are recalled or our own.

    epoch    a server gives w to the first satellite of an orbit that it sees, which floods the
             orbit; all train; all send their models to the sink, which uploads their mean by
             samples in a window of its own; when all orbits are in, w = sum n_l w_l / n
    t_j      when satellite j can send its model: arrival of w, and training
    ready_k  max_j (arrival at k of what j sends at t_j)
    sink     the k whose upload ends first: a window with the server in which, after ready_k, the
             seconds of a model are left. With equal ends the longer window, then the lower number

Departures
- Recalled: flooding in both directions; the sink's rule; weights by samples. Light takes no time.
- Ours: `sink = "longest"` (the longest window that begins within `period_s` of the orbit being
  ready) and "first" (the satellite that received w) for comparison; the orbit sends w from the
  first satellite to each other by its earliest route, so that hops which routes share count more
  than once; without any window left the first satellite is the sink.
- t_j is a begin of a slot: results are collected then. Without a speed on board training takes one.
- Predicted windows and routes are those of the plan as flown: a loss to come is known to the sink's
  choice. A sink without a window left ends the attempt of its orbit (see `synchronous`).
"""

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.forwarding import arrivals, deliveries, forward, in_view, train_from
from fedorbit.methods.global_model import orbit_of, take
from fedorbit.methods.synchronous import Ints, SynchronousEpochs


class Upload(NamedTuple):
    """A window in which a satellite could upload; the earlier is the smaller."""

    end_s: float
    """When a model that leaves as early as possible is at the server."""
    shortness_s: float
    """Minus the length of the window, from that departure on."""
    satellite: int
    begin_s: float


class FedLEOSink(SynchronousEpochs):
    """Average each orbit at the satellite that can upload first."""

    label: ClassVar[str] = "FedLEO (sink)"

    sink: Literal["earliest", "longest", "first"] = Field(
        "earliest", description="which satellite uploads: soonest, in the longest window, receiver"
    )
    period_s: float = Field(7600.0, gt=0, le=1e6, description='how far "longest" looks ahead')

    def start(self, fleet: Fleet) -> State:
        """No orbit has a sink."""
        return {
            **super().start(fleet),
            "sink": np.full(fleet.orbits, -1),
            "gathered": np.zeros(fleet.satellites, dtype=np.bool_),
            "sum": np.zeros((fleet.orbits, fleet.layout.size)),
            "samples": np.zeros(fleet.orbits, dtype=np.int64),
        }

    def round(self, state: State, now: Now) -> State:
        """Gather at sinks, upload, average, and hand out the next version."""
        s = self.opened(state, now)
        for done in now.finished():
            k, attempt = done.satellite, done.about["attempt"]
            if not self.is_current(s, now, k, attempt):
                continue
            sink, samples = int(s["sink"][orbit_of(now, k)]), int(now.samples[k])
            if not done.trained.steps:
                s["is_in"][k] = True  # without power it sits out
            elif k == sink:
                self._gather(s, now, k, done.model, samples)
            else:
                forward(now, k, sink, done.model, attempt=attempt, samples=samples)
        self._deliver(s, now)
        self._upload(s, now)
        for mail in arrivals(now):
            orbit = orbit_of(now, mail.source)
            if mail.about["attempt"] == s["attempt"][orbit]:
                in_mean = s["gathered"] & (now.fleet.orbit_of_satellite == orbit)
                self.bring_in(s, mail.payload, int(mail.about["samples"]), np.flatnonzero(in_mean))
        self.close(s, now)
        given = set[int]()
        for k, server in in_view(now).items():
            orbit = orbit_of(now, k)
            if orbit not in given and (self.begins(s, now, orbit) or self.is_idle(s, now, orbit)):
                given.add(orbit)
                self.hand_out(s, now, server, k)
        self._deliver(s, now)
        return s

    def end_attempts(self, state: State, now: Now, orbits: Ints) -> None:
        """End attempts, and drop what sinks have gathered in them."""
        super().end_attempts(state, now, orbits)
        state["gathered"][np.isin(now.fleet.orbit_of_satellite, orbits)] = False
        state["sum"][orbits], state["samples"][orbits] = 0.0, 0

    def _deliver(self, s: State, now: Now) -> None:
        """Take what arrives: models to gather at sinks, and w, from which satellites train."""
        received = []
        for mail in deliveries(now):
            k, source, attempt = mail.target, mail.source, mail.about["attempt"]
            if "samples" in mail.about:
                if self.is_current(s, now, source, attempt) and not s["gathered"][source]:
                    self._gather(s, now, source, mail.payload, int(mail.about["samples"]))
                continue
            take(s, now, mail)
            if source in now.servers and attempt == s["attempt"][orbit_of(now, k)]:
                self._flood(s, now, mail)
            if self.is_current(s, now, k, attempt):
                received.append(mail)
        train_from(now, received)

    def _gather(self, s: State, now: Now, satellite: int, model: Vector, samples: int) -> None:
        """Add a satellite's model to those that the sink of its orbit has."""
        orbit = orbit_of(now, satellite)
        s["sum"][orbit] += float(samples) * model
        s["samples"][orbit] += samples
        s["gathered"][satellite] = True

    def _upload(self, s: State, now: Now) -> None:
        """Send the means of orbits that are complete, each in the sink's next window."""
        awaited = now.fleet.orbit_of_satellite[s["crew"] & ~s["gathered"] & ~s["is_in"]]
        for orbit in np.setdiff1d(np.flatnonzero(s["samples"]), awaited).tolist():
            sink, samples, arrival = int(s["sink"][orbit]), int(s["samples"][orbit]), None
            mean = (s["sum"][orbit] / samples).astype(np.float32)  # w_l
            about: dict[str, Any] = {"attempt": int(s["attempt"][orbit]), "samples": samples}
            windows = [
                (u.end_s, server) for server in now.servers for u in uploads(now, sink, server)
            ]
            if windows:
                arrival = now.send(sink, min(windows)[1], mean, wait=True, **about)
            if arrival is None:  # the sink has no contact any more: another may have
                self.end_attempts(s, now, np.array([orbit]))
            s["sum"][orbit], s["samples"][orbit] = 0.0, 0

    def _flood(self, s: State, now: Now, mail: Mail) -> None:
        """Choose the sink from predicted windows, and pass w on to all satellites of the orbit."""
        first, orbit = mail.target, orbit_of(now, mail.target)
        mates = now.orbits.satellites(orbit)
        trainers = [k for k in mates if s["crew"][k]]
        s["sink"][orbit] = self.choose_sink(now, first, mates, trainers)
        for mate in mates:
            if mate != first:
                about: dict[str, Any] = mail.about
                forward(now, first, mate, mail.payload, **about)

    def choose_sink(
        self, now: Now, first: int, mates: Sequence[int], trainers: Sequence[int]
    ) -> int:
        """Return the satellite that is to upload for an orbit whose first satellite has w now."""
        if self.sink == "first":
            return first
        ready_s = ready(now, first, mates, trainers)
        found = [
            upload
            for k in mates
            for server in now.servers
            for upload in uploads(now, k, server, ready_s[k], self.period_s)
        ]
        if not found:
            return first
        soonest = min(found)
        if self.sink == "earliest":
            return soonest.satellite
        by_s = max(min(ready_s.values()) + self.period_s, soonest.begin_s)
        within = (upload for upload in found if upload.begin_s <= by_s)
        return min(within, key=lambda u: (u.shortness_s, u.end_s, u.satellite)).satellite


def ready(now: Now, first: int, mates: Sequence[int], trainers: Sequence[int]) -> dict[int, float]:
    """Predict ready_k: when each satellite could have all models of its orbit, in seconds."""
    round_s, sent = now.fleet.round_s, now.ways(first)
    ready_s = np.full(len(mates), now.t * round_s)
    for j in trainers:
        if not np.isfinite(sent.arrival_s[j]):
            return dict.fromkeys(mates, np.inf)
        ended_s = sent.arrival_s[j] + now.training_s(j)
        slot = max(int(sent.arrival_s[j] // round_s) + 1, int(np.ceil(ended_s / round_s)))  # t_j
        ready_s = np.maximum(ready_s, now.ways(j, slot * round_s).arrival_s[list(mates)])
    return dict(zip(mates, ready_s.tolist(), strict=True))


def uploads(
    now: Now, satellite: int, server: int, after_s: float = 0.0, period_s: float = 0.0
) -> Iterator[Upload]:
    """Yield the next window in which a satellite can upload a model, and those of a period."""
    needs_s, until_s = now.transfer_s(satellite, server), after_s + period_s
    if not np.isfinite(after_s):
        return
    while (window := now.window(satellite, server, needs_s, after_s)) is not None:
        length_s = window.end_s - window.begin_s
        yield Upload(window.begin_s + needs_s, -length_s, satellite, window.begin_s)
        if (after_s := window.end_s) > until_s:
            return
