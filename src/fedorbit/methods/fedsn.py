"""FedSN: satellites train sub-networks as wide as they can, the ground aggregates in time.

Lin et al., "FedSN: A Federated Learning Framework over Heterogeneous LEO Satellite Networks", 2025.
Known of it are abstracts: one server, satellites that differ in computing, memory and link rate,
sub-structures sized to them, and pseudo-synchronous aggregation, scheduled to make up for
staleness. **The rules below are in kind recalled, and in detail our own.**

    symbol   here
    r_k      `width[k]`, P(r) parameters: see `methods/widths.py`, `learning/subnetworks.py`
    B        `buffer` [K, P], with `held[k]` = n_k for those in it: each satellite's newest update
    s_k      versions that an update is behind as it is aggregated
    q_k      n_k (1 + s_k)^-alpha

(1) A satellite in contact downloads w and trains its sub-network, with all else zero. The block of
    channels of each hidden layer begins anywhere (`window = "shifted"`), drawn for each layer, by
    seed, satellite and download: every weight is trained by someone. Or all begin at the first
    channel (`"static"`), as in HeteroFL.
(2) w_p <- sum over k in B that kept p of q_k u_kp / sum of their q_k; entries that none kept stay.
(3) B is aggregated when its samples reach `quota` of all, or when the next update that would raise
    them is predicted to be later than `patience_s` from now: contacts are known in advance.
(4) A satellite whose update is in B takes part again with a newer w, or from a later contact on
    even without one. Its later update then replaces the earlier.

Departures: all of (1) to (4). Time on board is counted at P(r) / P of the whole model's; in LeNet
the first convolution has a larger share of the computing than of the parameters. Both ends derive
masks from the download's number, so that none is sent. `inference = "whole"`: an orbit uses the
newest w that any of its satellites received, which means that all of w goes down, and P(r) up;
`"own"`: P(r) both ways, and the orbit uses the sub-network of its widest satellite that has data,
after the first model, which is on board since launch.
Predictions count whole rounds, and neither queues on links nor batteries. Within a round, updates
are aggregated before models are sent, whatever the order of contacts. Models other than LeNet
can be trained at width 1 only.
"""

import math
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Mail, Now
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Mask
from fedorbit.learning.rules import Sgd
from fedorbit.learning.subnetworks import HIDDEN, subnetwork_mask
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.steps import load_launched
from fedorbit.methods.widths import fitting_widths, size_of
from fedorbit.randomness import generator

Width = Annotated[float, Field(gt=0, le=1)]
Megabytes = Annotated[float, Field(gt=0)]


class FedSN(Method):
    """Aggregate sub-networks that satellites train, when enough are in or none comes soon."""

    label: ClassVar[str] = "FedSN"
    family: ClassVar[Family] = "space"

    capability: list[Width] = Field(
        [], description="r_k of the satellites, repeated in order; none: the largest that fits"
    )
    memory_mb: list[Megabytes] = Field(
        [], description="memory of the satellites, repeated in order; none: no limit"
    )
    window: Literal["shifted", "static"] = Field(
        "shifted", description="channels of a sub-network: drawn anew, or always the first"
    )
    alpha: float = Field(0.5, ge=0, le=10, description="how fast stale updates lose weight")
    quota: float = Field(0.6, ge=0, le=1, description="share of samples that is aggregated at once")
    patience_s: float = Field(5730.0, ge=0, description="longest wait for the next update")
    inference: Literal["whole", "own"] = Field(
        "whole", description="an orbit's model: all of w, or its widest satellite's sub-network"
    )

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0), and no satellite has begun."""
        w, satellites = fleet.initial_model(), fleet.satellites
        if self.capability:
            width = np.resize(np.array(self.capability, dtype=np.float64), satellites)
        else:
            width = fitting_widths(fleet, self.memory_mb, whole_down=self.inference == "whole")
        none, never = np.zeros(satellites, dtype=np.int64), np.full(satellites, -2)
        return {
            "global": w,
            "version": np.array(0),
            "received": np.tile(w, (fleet.orbits, 1)),
            "received_version": np.zeros(fleet.orbits, dtype=np.int64),
            "width": width,
            "buffer": np.zeros((satellites, len(w)), dtype=np.float32),
            "held": none.copy(),  # n_k of the updates in B
            "held_version": none.copy(),  # what they started from
            "held_download": none.copy(),  # by whose number they were cut
            "base": never.copy(),  # version of the last download
            "downloads": none.copy(),
            "busy": none.astype(np.bool_),  # from download to upload
            "ready": never.copy(),  # slot from which the update can arrive, as predicted
            "delivered": never.copy(),  # slot of the last upload
            "fetched": never.copy(),  # slot of the last download
            "met": never.copy(),  # last slot in contact
            "visit": never.copy(),  # slot in which that contact began
        }

    def round(self, state: State, now: Now) -> State:
        """Collect updates, aggregate if it is time, and send the newest model out."""
        s = {name: array.copy() for name, array in load_launched(state, now, "received").items()}
        s["received_version"][now.orbits.launched] = s["version"]
        for done in now.finished():
            k, arrival, server = done.satellite, None, now.next_server(done.satellite)
            version, number = (int(done.about[name]) for name in ("version", "download"))
            if done.trained.steps and server is not None:
                part = self._mask(s, now, k, number)
                arrival = now.send(
                    k, server, done.model, part=part, wait=True, version=version, download=number
                )
            s["busy"][k] = arrival is not None
            if arrival is None:  # it came to nothing
                s["delivered"][k] = now.t
            else:
                s["ready"][k] = arrival
        for mail in (mail for server in now.servers for mail in now.inbox(server)):
            k = mail.source
            s["buffer"][k] = mail.into(np.zeros_like(s["global"]))
            s["held"][k], s["busy"][k], s["delivered"][k] = now.samples[k], False, now.t
            s["held_version"][k] = mail.about["version"]
            s["held_download"][k] = mail.about["download"]
        now.note(buffer=float(np.count_nonzero(s["held"])))
        if s["held"].any() and self._is_time(s, now):
            self._aggregate(s, now)
        self._send_out(s, now)
        arrived = [mail for k in now.satellites for mail in now.inbox(k)]
        now.begin(
            [self._job(s, now, mail) for mail in arrived],
            about=[mail.about for mail in arrived],
            after_s=[mail.arrival_s for mail in arrived],
        )
        return s

    def _is_time(self, s: State, now: Now) -> bool:
        """Return whether B is to be aggregated, (3)."""
        if s["held"].sum() >= self.quota * now.samples.sum():
            return True
        latest_s = now.t * now.fleet.round_s + self.patience_s
        awaited = np.flatnonzero((now.samples > 0) & (s["held"] == 0)).tolist()
        return not any(self._arrival_s(s, now, k) <= latest_s for k in awaited)

    def _arrival_s(self, s: State, now: Now, k: int) -> float:
        """Predict when the next update of a satellite arrives; infinity if never."""
        topology, ready = now.fleet.topology, int(s["ready"][k])
        if not s["busy"][k]:
            begin_s = topology.next_contact_s(now.t, k)
            if begin_s == math.inf:
                return begin_s
            ready = int(begin_s // now.fleet.round_s) + self._slots(s, now, k)
        return topology.next_contact_s(max(ready, now.t + 1), k)

    def _slots(self, s: State, now: Now, k: int) -> int:
        """Return how many slots after its begin the training of a satellite has ended."""
        training_s = self._work(s, now, k) * now.training_s(k)
        return max(1, math.ceil(training_s / now.fleet.round_s))

    def _aggregate(self, s: State, now: Now) -> None:
        """Average what is in B entry by entry, (2), and empty it."""
        total, mass = np.zeros((2, len(s["global"])))
        for k in np.flatnonzero(s["held"]).tolist():
            kept = self._mask(s, now, k, int(s["held_download"][k]))
            staleness = int(s["version"] - s["held_version"][k])
            q = np.float64(s["held"][k] * (1.0 + staleness) ** -self.alpha)  # sums are double
            mass += q if kept is None else q * kept
            total += q * s["buffer"][k]  # zero where it is not kept
            now.note(staleness=staleness)
        s["global"] = np.divide(
            total, mass, out=s["global"].astype(np.float64), where=mass > 0
        ).astype(np.float32)
        s["version"] += 1
        now.note(version=float(s["version"]))
        s["held"][:], s["buffer"][:] = 0, 0.0

    def _send_out(self, s: State, now: Now) -> None:
        """Send w to satellites in contact that are free for it, (4)."""
        contacts = now.contacts()
        self._note_idle(s, now, {contact.satellite for contact in contacts})
        for contact in contacts:
            k, version = contact.satellite, int(s["version"])
            if s["met"][k] < now.t - 1:
                s["visit"][k] = now.t
            s["met"][k] = now.t
            is_new = s["base"][k] < version or s["delivered"][k] < s["visit"][k]
            if s["busy"][k] or not now.samples[k] or not is_new:
                continue
            number, part = int(s["downloads"][k]) + 1, None
            if self.inference == "own":
                part = self._mask(s, now, k, number)
            arrival = now.send(
                contact.server,
                k,
                s["global"],
                part=part,
                wait=True,
                version=version,
                download=number,
            )
            if arrival is not None:
                s["busy"][k], s["base"][k], s["downloads"][k] = True, version, number
                s["fetched"][k] = now.t
                s["ready"][k] = arrival + self._slots(s, now, k)

    def _note_idle(self, s: State, now: Now, here: set[int]) -> None:
        """Note visits that are over, and in which a satellite with samples exchanged nothing."""
        over = (s["met"] == now.t - 1) & (now.samples > 0)
        idle = over & (np.maximum(s["delivered"], s["fetched"]) < s["visit"])
        for _ in set(np.flatnonzero(idle).tolist()) - here:
            now.note(idle_visit=1)

    def _job(self, s: State, now: Now, mail: Mail) -> LocalJob:
        """Hand a model to a satellite and its orbit, and return the training of its part, (1)."""
        k, orbit = mail.target, int(now.fleet.orbit_of_satellite[mail.target])
        model = mail.into(np.zeros_like(s["global"]))
        mates = (now.fleet.orbit_of_satellite == orbit) & (now.samples > 0)
        is_widest = s["width"][k] >= s["width"][mates].max(initial=0.0)
        if mail.about["version"] > s["received_version"][orbit] and (
            self.inference == "whole" or is_widest
        ):
            s["received"][orbit], s["received_version"][orbit] = model, mail.about["version"]
        mask = self._mask(s, now, k, int(mail.about["download"]))
        if mask is None:
            return now.job(k, model)
        rule = Sgd(part=mask, work=self._work(s, now, k))
        return now.job(k, np.where(mask, model, np.float32(0.0)), rule=rule)

    def _work(self, s: State, now: Now, k: int) -> float:
        """Return the share P(r_k) / P."""
        return size_of(now.fleet, float(s["width"][k])) / now.fleet.layout.size

    def _mask(self, s: State, now: Now, k: int, download: int) -> Mask | None:
        """Return what a satellite keeps of a download; None if that is everything."""
        if s["width"][k] == 1.0:
            return None
        starts = np.zeros(len(HIDDEN), dtype=np.int64)
        if self.window == "shifted":
            starts = generator(now.fleet.seed, "sub-network", k, download).integers(0, HIDDEN)
        return subnetwork_mask(now.fleet.layout, float(s["width"][k]), starts.tolist())

    def models(self, state: State) -> Vector:
        """Every orbit uses what its satellites received last."""
        return state["received"]

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report how often w was aggregated, and how wide sub-networks are."""
        return {"aggregations": int(state["version"]), "mean_width": float(state["width"].mean())}
