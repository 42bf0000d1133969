"""FedLEO with sink scheduling: one satellite of each orbit uploads for all, in the first window.

Elmahallawy and Luo, "Optimizing Federated Learning in LEO Satellite Constellations via Intra-Plane
Model Propagation and Sink Satellite Scheduling", 2023. Not the FedLEO of Zhai et al., which has no
server. Known to us from its abstract and a part of its parameters: the structure is the paper's,
the equations below are recalled or our own.

A server gives w to the first satellite of an orbit that it sees, which floods the orbit. All train,
and send their models to the sink: the satellite whose upload ends first, see `sinks`. It uploads
their mean in a window of its own.

    (1)  u_k = LocalSGD of F_k from w
    (2)  w_l = sum_k n_k u_k / n_l, at the sink
    (3)  w <- sum_l n_l w_l / sum_l n_l, when all orbits are in

Departures
- Recalled: flooding in both directions; the sink's rule; weights by samples.
- Ours: `sink = "longest"` and "first" for comparison; the orbit sends w from the first satellite to
  each other by its earliest route, so that hops which routes share count more than once.
- A sink without a window left ends the attempt of its orbit (see `synchronous`).
"""

from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import State
from fedorbit.methods.forwarding import arrivals, deliveries, forward, in_view, train_from
from fedorbit.methods.global_model import orbit_of, take
from fedorbit.methods.sinks import SinkRule, choose_sink, uploads
from fedorbit.methods.synchronous import Ints, SynchronousEpochs


class FedLEOSink(SynchronousEpochs):
    """Average each orbit at the satellite that can upload first."""

    label: ClassVar[str] = "FedLEO (sink)"

    sink: SinkRule = Field(
        "earliest", description="uploading satellite: soonest, in the longest window, or receiver"
    )
    period_s: float = Field(7600.0, gt=0, le=1e6, description='horizon of "longest" in seconds')

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
            mean = (s["sum"][orbit] / samples).astype(np.float32)  # w_l, (2)
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
        rule = self.sink, self.period_s
        s["sink"][orbit] = choose_sink(now, first, mates, trainers, *rule)
        for mate in mates:
            if mate != first:
                about: dict[str, Any] = mail.about
                forward(now, first, mate, mail.payload, **about)
