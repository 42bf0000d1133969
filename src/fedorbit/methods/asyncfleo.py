"""AsyncFLEO: asynchronous epochs; of orbits with similar data the fresh models alone count.

Elmahallawy and Luo, "AsyncFLEO: Asynchronous Federated Learning for LEO Satellite Constellations
with High-Altitude Platforms", 2022. Known to us from its abstract: platforms (HAPs) in a ring, each
the centre of a star of satellites; propagation of models, grouping of satellites, a discount of
stale models. All equations below are recalled or our own.

    symbol    here
    v, v_k    version of w; that of the model which satellite k trained from
    u_k, n_k  `buffer[k]`, `buffer_samples[k]`: what k has trained, and on how many samples
    S         models that count

    (1)  u_k = LocalSGD of F_k from w of version v_k
    (2)  d_o = |sum_k n_k u_k / sum_k n_k - w(0)|, over the first models of orbit o; sorted by d,
         orbits are one group up to a gap above `group_gap` (max d - min d)
    (3)  S: of a group with fresh models (v_k = v) these, of any other group its stale ones
    (4)  w <- (1 - gamma) w + gamma sum_S n_k u_k / sum_S n_k,  v <- v + 1,
         gamma = sum_S n_k r_k / sum_all n_k,  r_k = (v_k + 1) / (v + 1)

HAPs send w to all satellites that they see. A satellite that receives a version it lacks passes it
on to both neighbours in its orbit, and trains. What it has trained goes over the orbit to a
satellite in view and to a HAP. An epoch ends, with (2) to (4), after `epoch_s`, or with models of a
`quota` of the satellites, if there is any.

Departures
- Recalled: propagation in both directions; groups by d_o; the selection; gamma as a discount.
- Ours: when an epoch ends; `group_gap`; d_o from the models that are there when the orbit is first
  aggregated; + 1 in r_k, so that version 0 counts; models that are not selected are dropped, and a
  newer one of the same satellite replaces the older, so that gamma is at most 1.
- HAPs are one: the ring, and the roles of source and sink, change nothing.
- A satellite that trains continues; then it begins with the newest version, once it has it.
  No satellite passes on what a HAP has sent to its neighbour, nor by way of a server.

    state                   here
    has, model, arrived_s   [satellite]: newest version that it has received, w of it, and when
    sent, trained           [satellite]: version that a HAP has sent it, and that it trained last
    buffer_version          [satellite]: v_k of what is in the buffer; -1 without
    began, distance         slot of the last aggregation; [orbit]: d_o, -1 before it is known
"""

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.methods.base import State
from fedorbit.methods.forwarding import arrivals, deliveries, forward, in_view, to_servers
from fedorbit.methods.global_model import GlobalModel, advance, at_begin, orbit_of, take
from fedorbit.methods.steps import blend, distance, weighted_mean

Ints = NDArray[np.int64]
NONE = -1
"""The version of what was never received, or of a place in the buffer that is empty."""


class AsyncFLEO(GlobalModel):
    """Aggregate what has arrived, fresh models before stale ones of the same group."""

    label: ClassVar[str] = "AsyncFLEO"

    epoch_s: float = Field(3600.0, gt=0, le=1e9, description="seconds after which an epoch ends")
    quota: float = Field(0.5, gt=0, le=1, description="share of satellites that also ends it")
    group_gap: float = Field(
        0.25, ge=0, le=1, description="gap between two groups, share of the range of d"
    )

    def start(self, fleet: Fleet) -> State:
        """No satellite has version 0, and the buffer is empty."""
        k, models = fleet.satellites, (fleet.satellites, fleet.layout.size)
        return {
            **super().start(fleet),
            "began": np.array(0),
            "distance": np.full(fleet.orbits, -1.0),
            **{name: np.full(k, NONE) for name in ("sent", "has", "trained", "buffer_version")},
            **{name: np.zeros(models, dtype=np.float32) for name in ("model", "buffer")},
            "arrived_s": np.zeros(k),
            "buffer_samples": np.zeros(k, dtype=np.int64),
        }

    def round(self, state: State, now: Now) -> State:
        """Collect models, aggregate when an epoch ends, propagate the newest version, train."""
        s = at_begin(state, now)
        for done in now.finished():
            k, version = done.satellite, done.about["version"]
            if done.trained.steps:
                to_servers(now, k, done.model, version=version, samples=int(now.samples[k]))
        for mail in arrivals(now):
            k, version = mail.source, mail.about["version"]
            if version > s["buffer_version"][k]:
                s["buffer"][k], s["buffer_version"][k] = mail.payload, version
                s["buffer_samples"][k] = mail.about["samples"]
        if self.is_due(s, now):
            self._aggregate(s, now)
        version = int(s["version"])
        for k, server in in_view(now).items():
            if max(s["has"][k], s["sent"][k]) < version:
                s["sent"][k] = version
                now.send(server, k, s["global"], wait=True, version=version)
        for mail in deliveries(now):
            if mail.about["version"] > s["has"][mail.target]:
                self._propagate(s, now, mail)
        self._train(s, now)
        return s

    def is_due(self, s: State, now: Now) -> bool:
        """Return whether an epoch ends: there is a model, and time or number is up."""
        arrived = int((s["buffer_version"] > NONE).sum())
        enough = arrived >= self.quota * np.count_nonzero(now.samples)
        late = (now.t - s["began"]) * now.fleet.round_s >= self.epoch_s
        return bool(arrived and (enough or late))

    def _aggregate(self, s: State, now: Now) -> None:
        """Make the next version of the models that count (4), and empty the buffer."""
        arrived = s["buffer_version"] > NONE
        self._measure(s, now, arrived)
        group = groups(s["distance"], self.group_gap)[now.fleet.orbit_of_satellite]
        chosen = selected(s["buffer_version"], int(s["version"]), group)  # S
        n, v_k = s["buffer_samples"][chosen], s["buffer_version"][chosen]
        everyone = np.maximum(now.samples, np.where(arrived, s["buffer_samples"], 0)).sum()
        gamma = float(discounted(n, v_k, int(s["version"])) / everyone)
        for version in v_k.tolist():
            now.note(staleness=int(s["version"]) - version)
        now.note(buffer=int(arrived.sum()), gamma=gamma)
        mean = weighted_mean([s["buffer"][k] for k in chosen], n, otherwise=s["global"])
        advance(s, now, blend(s["global"], mean, gamma))
        s["began"][...], s["buffer_version"][:] = now.t, NONE

    def _measure(self, s: State, now: Now, arrived: NDArray[np.bool_]) -> None:
        """Note d_o of orbits whose first models have arrived, (2)."""
        first_model, by_orbit = now.fleet.initial_model(), now.fleet.orbit_of_satellite
        for orbit in np.unique(by_orbit[arrived]).tolist():
            if s["distance"][orbit] < 0:
                mine = np.flatnonzero(arrived & (by_orbit == orbit))
                n = s["buffer_samples"][mine]
                mean = weighted_mean([s["buffer"][k] for k in mine], n, otherwise=first_model)
                s["distance"][orbit] = distance(mean, first_model)

    def _propagate(self, s: State, now: Now, mail: Mail) -> None:
        """Take a version that a satellite lacks, and pass it on in both directions of its orbit."""
        k, version = mail.target, mail.about["version"]
        take(s, now, mail)
        s["has"][k], s["model"][k], s["arrived_s"][k] = version, mail.payload, mail.arrival_s
        mates = now.orbits.satellites(orbit_of(now, k))
        place = mates.index(k)
        for mate in sorted({mates[place - 1], mates[(place + 1) % len(mates)]} - {k, mail.source}):
            if s["sent"][mate] < version:
                forward(now, k, mate, mail.payload, through_servers=False, version=version)

    def _train(self, s: State, now: Now) -> None:
        """Begin with the newest version that each satellite has, where it has nothing to do."""
        waiting = (s["trained"] < s["has"]) & (now.samples > 0)
        free = [k for k in np.flatnonzero(waiting).tolist() if not now.is_busy(k)]
        now.begin(
            [now.job(k, s["model"][k]) for k in free],
            about=[{"version": int(s["has"][k])} for k in free],
            after_s=s["arrived_s"][free].tolist(),
        )
        s["trained"][free] = s["has"][free]


def groups(distance: NDArray[np.float64], gap: float) -> Ints:
    """Return the group of each orbit: sorted by d, cut where a gap exceeds a share of the range.

    An orbit without d is in no group: -1.
    """
    known = np.flatnonzero(distance >= 0)
    order = known[np.argsort(distance[known], kind="stable")]
    steps = np.diff(distance[order])
    found = np.full(len(distance), NONE)
    found[order] = np.cumsum(np.append(0, steps > gap * steps.sum()))[: len(order)]
    return found


def selected(versions: Ints, version: int, group: Ints) -> Ints:
    """Return the satellites whose models count: fresh ones, and stale ones of other groups (3)."""
    fresh, arrived = versions == version, versions > NONE
    return np.flatnonzero(fresh | (arrived & ~np.isin(group, group[fresh])))


def discounted(samples: Ints, versions: Ints, version: int) -> float:
    """Return sum n_k r_k: samples, discounted by how old the models are."""
    return float((samples * (versions + 1)).sum() / (version + 1))
