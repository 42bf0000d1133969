"""FedSN: satellites train sub-networks as wide as they can, the ground aggregates in time.

Lin et al., "FedSN: A Federated Learning Framework over Heterogeneous LEO Satellite Networks", 2025.
We know its abstracts only: one server, satellites that differ in computing, memory and link rate,
sub-structures sized to them, and pseudo-synchronous aggregation, scheduled to make up for
staleness. **The rules below are in kind recalled, and in detail our own.**

    symbol   here
    r_k      `width[k]`, P(r) parameters: see `methods/widths.py`, `learning/subnetworks.py`
    B        `buffer` [K, P], each satellite's newest update; n_k of those in it in `buffer_samples`
    s_k      versions that an update is behind as it is aggregated
    q_k      n_k (1 + s_k)^-alpha

    (1)  u_k = LocalSGD of F_k from w on the sub-network of width r_k, with all else zero
    (2)  w_p <- sum_k q_k u_kp / sum_k q_k, over k in B that kept entry p; others stay
    (3)  B is aggregated when sum_B n_k >= quota n, or when the next update that would raise it is
         predicted to be later than `patience_s` from now: contacts are known in advance
    (4)  k in B takes part again with a newer w, or from a later contact on even without one; its
         later update then replaces the earlier

A satellite in contact downloads w. The block of channels that it keeps of each hidden layer begins
anywhere (`window = "shifted"`), drawn for each layer, by seed, satellite and download: every weight
is trained somewhere. Or all begin at the first channel (`"static"`), as in HeteroFL.

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
from fedorbit.learning.parts import Mask
from fedorbit.learning.rules import Sgd
from fedorbit.methods.base import State
from fedorbit.methods.global_model import advance, discount
from fedorbit.methods.visits import (
    AWAY,
    FREE,
    SENT,
    SatelliteClients,
    arrivals,
    begin_training,
    open_slot,
    send_finished,
    send_model,
)
from fedorbit.methods.widths import fitting_widths, mask_of, size_of

Width = Annotated[float, Field(gt=0, le=1)]
Megabytes = Annotated[float, Field(gt=0)]


class FedSN(SatelliteClients):
    """Aggregate sub-networks that satellites train, when enough are in or none comes soon."""

    label: ClassVar[str] = "FedSN"

    capability: list[Width] = Field(
        [], description="r_k of the satellites, repeated in order; none: the largest that fits"
    )
    memory_mb: list[Megabytes] = Field(
        [], description="memory of the satellites, repeated in order; none: no limit"
    )
    window: Literal["shifted", "static"] = Field(
        "shifted", description="channels of a sub-network: drawn anew, or always the first"
    )
    alpha: float = Field(0.5, ge=0, le=10, description="rate at which stale updates lose weight")
    quota: float = Field(0.6, ge=0, le=1, description="share of samples that is aggregated at once")
    patience_s: float = Field(5730.0, ge=0, description="longest wait for the next update")
    inference: Literal["whole", "own"] = Field(
        "whole", description="an orbit's model: all of w, or its widest satellite's sub-network"
    )

    def start(self, fleet: Fleet) -> State:
        """B is empty, and widths are known."""
        if self.capability:
            width = np.resize(np.array(self.capability, dtype=np.float64), fleet.satellites)
        else:
            width = fitting_widths(fleet, self.memory_mb, whole_down=self.inference == "whole")
        numbers = ("buffer_samples", "buffer_version", "buffer_download", "downloads", "ready")
        return {
            **super().start(fleet),
            "width": width,
            "buffer": np.zeros((fleet.satellites, fleet.layout.size), dtype=np.float32),
            **{name: np.zeros(fleet.satellites, dtype=np.int64) for name in numbers},
        }

    def round(self, state: State, now: Now) -> State:
        """Collect updates, aggregate if it is time, and send the newest model out."""
        s, contacts = open_slot(state, now)
        for done in now.finished():
            k = done.satellite
            arrival = send_finished(s, now, done, done.model, part=self._mask(s, now, k))
            if arrival is not None:
                s["ready"][k] = arrival
            elif s["visit"][k] != AWAY:
                s["visit"][k] = SENT  # it came to nothing: not again in this visit
        for k, mail in arrivals(s, now).items():
            s["buffer"][k] = mail.into(np.zeros_like(s["global"]))
            s["buffer_samples"][k], s["buffer_version"][k] = now.samples[k], s["base"][k]
            s["buffer_download"][k] = s["downloads"][k]
        now.note(buffer=float(np.count_nonzero(s["buffer_samples"])))
        if s["buffer_samples"].any() and self._is_time(s, now):
            self._aggregate(s, now)
        for contact in contacts:
            k = contact.satellite
            is_new = s["base"][k] < s["version"] or s["visit"][k] != SENT  # (4)
            if s["stage"][k] == FREE and is_new:
                s["downloads"][k] += 1
                part = self._mask(s, now, k) if self.inference == "own" else None
                arrival = send_model(s, now, contact, part=part)
                if arrival is not None:
                    s["ready"][k] = arrival + self._slots(s, now, k)
        begin_training(
            s, now, lambda mail: [self._job(s, now, mail)], lambda k: self._serves(s, now, k)
        )
        return s

    def _is_time(self, s: State, now: Now) -> bool:
        """Return whether B is to be aggregated, (3)."""
        if s["buffer_samples"].sum() >= self.quota * now.samples.sum():
            return True
        latest_s = now.t * now.fleet.round_s + self.patience_s
        awaited = np.flatnonzero((now.samples > 0) & (s["buffer_samples"] == 0)).tolist()
        return not any(self._arrival_s(s, now, k) <= latest_s for k in awaited)

    def _arrival_s(self, s: State, now: Now, k: int) -> float:
        """Predict when the next update of a satellite arrives; infinity if never."""
        next_contact, ready = now.fleet.topology.next_contact, int(s["ready"][k])
        if s["stage"][k] == FREE:
            if (download := next_contact(now.t, k)) is None:
                return math.inf
            ready = int(download.begin_s // now.fleet.round_s) + self._slots(s, now, k)
        upload = next_contact(max(ready, now.t + 1), k)
        return math.inf if upload is None else upload.begin_s

    def _aggregate(self, s: State, now: Now) -> None:
        """Average what is in B entry by entry, (2), and empty it."""
        total, mass = np.zeros((2, len(s["global"])))
        for k in np.flatnonzero(s["buffer_samples"]).tolist():
            kept = self._mask(s, now, k, int(s["buffer_download"][k]))
            staleness = int(s["version"] - s["buffer_version"][k])
            q = np.float64(s["buffer_samples"][k] * discount(staleness, self.alpha))
            mass += q if kept is None else q * kept
            total += q * s["buffer"][k]  # zero where it is not kept
            now.note(staleness=staleness)
        w = np.divide(total, mass, out=s["global"].astype(np.float64), where=mass > 0)
        advance(s, now, w.astype(np.float32))
        s["buffer_samples"][:], s["buffer"][:] = 0, 0.0

    def _job(self, s: State, now: Now, mail: Mail) -> LocalJob:
        """Return the training of a satellite's part of a model, (1)."""
        mask = self._mask(s, now, mail.target)
        model = mail.into(np.zeros_like(s["global"]))
        if mask is None:
            return now.job(mail.target, model)
        rule = Sgd(part=mask, work=self._work(s, now, mail.target))
        return now.job(mail.target, np.where(mask, model, np.float32(0.0)), rule=rule)

    def _serves(self, s: State, now: Now, k: int) -> bool:
        """Return whether the orbit of a satellite uses what this one receives."""
        by_orbit = now.fleet.orbit_of_satellite
        mates = (by_orbit == by_orbit[k]) & (now.samples > 0)
        return self.inference == "whole" or s["width"][k] >= s["width"][mates].max(initial=0.0)

    def _slots(self, s: State, now: Now, k: int) -> int:
        """Return how many slots after its begin the training of a satellite has ended."""
        return now.training_slots(k, work=self._work(s, now, k))

    def _work(self, s: State, now: Now, k: int) -> float:
        """Return the share P(r_k) / P."""
        return size_of(now.fleet, float(s["width"][k])) / now.fleet.layout.size

    def _mask(self, s: State, now: Now, k: int, download: int | None = None) -> Mask | None:
        """Return what a satellite keeps of a download, the last; None if that is everything."""
        number = int(s["downloads"][k]) if download is None else download
        key = (k, number) if self.window == "shifted" else None
        return mask_of(now.fleet, float(s["width"][k]), key)

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report how often w was aggregated, and how wide sub-networks are."""
        return {**super().facts(state, now), "mean_width": float(state["width"].mean())}
