"""FedSat and FedAsync: satellites train between visits, the server aggregates each at once.

Razmi, Matthiesen, Dekorsy and Popovski, "Ground-Assisted Federated Learning in LEO Satellite
Constellations", 2022; the schedule is of their sequel, "Scheduling for Ground-Assisted Federated
Learning in LEO Satellite Constellations", 2022. The equations are those of both papers.

    symbol    here
    u_k       model that satellite k trained last; `last[k]` at the server, with weight n_k
    b_k       model that it started from
    dt        seconds from sending b_k to processing u_k;  T_o: `period_s`
    a', A     `share` and `decay` / T_o;  eps: `slack`

    (1)  u_k = LocalSGD of F_k(u) + lambda/2 |u - b_k|^2 from b_k, lambda = `pull`
    (2)  FedSat:    w <- w - (n_k / n) (u_k' - u_k), u_k' what k contributed before; this is
                    w = sum_k n_k u_k / sum_k n_k over the last contributions
    (3)  FedAsync:  w <- (1 - a) w + a u_k,  a = a' / (1 + A max(dt - (1 + eps) T_o, 0))

At the rise of k, and when its training ends in view, k uploads u_k, the server aggregates, and k
leaves with w. `FedAsync` is a baseline of the same paper. With `schedule`, a satellite whose next
visit is long enough to receive, train and send within it takes no model along now.

Departures
- Until all have reported, n is the samples of those that have (seen in code of others only; not in
  the paper): the first model has no share in w. What a lost satellite contributed stays.
- `update = "delta"`, w <- w + (n_k / n) (u_k - b_k), is how others have written FedSat.
- The unit of the printed A is unclear; here A T_o = 5, `decay`. One T_o serves all shells.
- Rounds are slots: a job ends by the beginning of a round, and visits that begin at the same moment
  or are under way as a round begins are one event: all upload, then all receive. With `schedule`,
  seconds of training and of both messages are rounded up to rounds.
- A model that is taken along, and whose training ends in the same visit, is sent at once, also with
  `schedule`; the sequel sends one update per visit.
- A satellite without samples takes no part. Epochs, batch and rate are the run's.

State of one model per satellite, `last`, with `update = "replace"` alone.
"""

from abc import abstractmethod
from itertools import groupby
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.fleet import Contact, Finished, Fleet, Mail, Now
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule, Sgd
from fedorbit.methods.base import State
from fedorbit.methods.global_model import advance
from fedorbit.methods.steps import blend
from fedorbit.methods.visits import (
    FREE,
    SENT,
    SatelliteClients,
    arrivals,
    begin_training,
    open_slot,
    send_finished,
    send_model,
)


class Visiting(SatelliteClients):
    """Aggregate whatever a visiting satellite brings, at once."""

    schedule: bool = Field(
        False, description="wait for the next visit where it is long enough to train within it"
    )
    pull: float = Field(0.0, ge=0, le=1000, description="lambda, pull toward the model received")

    @abstractmethod
    def aggregated(self, s: State, now: Now, mail: Mail, moment_s: float) -> Vector:
        """Return the global model with the update of one satellite in it."""

    def round(self, state: State, now: Now) -> State:
        """Follow the visits of the slot by time: upload, aggregate, receive, train."""
        s, contacts = open_slot(state, now, "last")
        for done in now.finished():
            send_finished(s, now, done, self.upload(done))
        arrived = arrivals(s, now)
        if arrived and "last" in s:
            s["last"] = s["last"].copy()  # only now, since it may be large
        for moment_s, visiting in groupby(contacts, key=lambda contact: contact.begin_s):
            visitors = list(visiting)
            for k in [c.satellite for c in visitors if c.satellite in arrived]:
                now.note(staleness=int(s["version"] - s["base"][k]))
                advance(s, now, self.aggregated(s, now, arrived[k], moment_s))
            for contact in visitors:
                if s["stage"][contact.satellite] == FREE and self.departs(s, now, contact):
                    send_model(s, now, contact, sent_s=moment_s)
        begin_training(s, now, lambda m: [now.job(m.target, m.payload, rule=self.local(m.payload))])
        return s

    def upload(self, done: Finished) -> Vector:
        """Return what a satellite sends of its result: u_k."""
        return done.model

    def local(self, received: Vector) -> Rule:
        """Return the local rule: SGD, pulled toward what was received, (1)."""
        return Sgd(anchor=received, pull=self.pull) if self.pull else PLAIN

    def departs(self, s: State, now: Now, contact: Contact) -> bool:
        """Return whether a satellite receives a model now; otherwise it does in its next visit."""
        if not self.schedule:
            return True
        k, server = contact.satellite, contact.server
        exchange_s = now.transfer_s(server, k) + now.transfer_s(k, server)
        slots = now.training_slots(k, further_s=exchange_s)
        this, following = _visit_slots(now.visits_ahead()[:, k])
        has_time = this > slots and s["visit"][k] != SENT
        return has_time or following <= slots

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report how many updates there were."""
        return {"updates": int(state["version"])}


class FedSat(Visiting):
    """Replace a satellite's contribution to the mean whenever it brings a new one."""

    label: ClassVar[str] = "FedSat"

    update: Literal["replace", "delta"] = Field(
        "replace", description="replace a satellite's last contribution, or add its difference"
    )

    def start(self, fleet: Fleet) -> State:
        """No satellite has contributed."""
        state = super().start(fleet)
        if self.update == "delta":
            return state
        shape = fleet.satellites, len(state["global"])
        return {
            **state,
            "last": np.zeros(shape, dtype=np.float32),
            "weight": np.zeros(fleet.satellites, dtype=np.int64),
            "total": np.zeros(shape[1]),
        }

    def upload(self, done: Finished) -> Vector:
        """Return u_k, or the difference."""
        return done.model if self.update == "replace" else done.update

    def aggregated(self, s: State, now: Now, mail: Mail, moment_s: float) -> Vector:
        """Replace what k contributed last, (2)."""
        k, n_k = mail.source, int(now.samples[mail.source])
        if self.update == "delta":
            return np.asarray(s["global"] + np.float32(n_k / now.samples.sum()) * mail.payload)
        last, weight, total = s["last"], s["weight"], s["total"]
        total += n_k * mail.payload.astype(np.float64) - weight[k] * last[k].astype(np.float64)
        last[k], weight[k] = mail.payload, n_k
        return (total / weight.sum()).astype(np.float32)


class FedAsync(Visiting):
    """Mix every update into the global model, the less the longer it was under way."""

    label: ClassVar[str] = "FedAsync"

    share: float = Field(0.5, gt=0, le=1, description="a', share of an update in time")
    decay: float = Field(5.0, ge=0, description="A T_o, decline of the share of late updates")
    slack: float = Field(0.01, ge=0, description="eps, lateness that is forgiven, in periods")
    period_s: float = Field(5740.0, gt=0, description="T_o, period of an orbit (that of 550 km)")

    def aggregated(self, s: State, now: Now, mail: Mail, moment_s: float) -> Vector:
        """Mix u_k in by a share that falls with dt, (3)."""
        late = (moment_s - float(mail.about["sent_s"])) / self.period_s - (1.0 + self.slack)
        return blend(s["global"], mail.payload, self.share / (1.0 + self.decay * max(late, 0.0)))


def _visit_slots(ahead: NDArray[np.bool_]) -> tuple[int, int]:
    """Return how many slots the visit under way will last, and the next; 0 if there is none."""
    changes = np.flatnonzero(np.diff(ahead.astype(np.int8), prepend=0, append=0))
    lengths: list[int] = np.diff(changes)[::2].tolist()
    return lengths[0], lengths[1] if len(lengths) > 1 else 0
