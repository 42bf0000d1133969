"""Asynchronous FL over the air: satellites transmit at once, and the channel adds their updates.

Huang et al., asynchronous federated learning over the air with high-altitude platforms, 2024.
We know its abstract only: several platforms aggregate, satellites in view of one transmit
together (over-the-air computation), asynchronously, and which of them do is a trade of quantity
against distortion. **The equations are standard over-the-air computation, and decided by us**, the
search for the trade included; those of a transmission are in `fleet/superposition.py`.

    symbol    here
    delta_k   `update[k]` [K, P]: u_k - b_k, what satellite k has trained and not transmitted
    s_k, a_k  versions of w since k received b_k, and n_k (1 + s_k)^-alpha
    g_h, A_h  what server h receives: the weighted mean of its S with noise, and the sum of a_k

    (1)  SNR_k = 10^{snr_db / 10} (1000 km / range)^2;  with `fading` times |z|^2 / (kappa + 1),
         z = sqrt(kappa) + a complex normal number of variance 1,  kappa = 10
    (2)  w <- w + eta_g sum_h A_h g_h / sum_h A_h

At every instant each server h chooses its S among the satellites in view that have an update. The
rest keep their updates, and grow stale. A satellite in view of several servers belongs to the one
that receives it best. After (2) satellites without an update receive w, digitally, and train for as
long as it takes.

Departures: all equations, see above. Instants are the begin of every round, and the last moment
before a satellite with an update sets. The range is the shortest of the contact, 1,000 km where the
plan has none; the phase is aligned. The means and deviations that scale the signals are known
without cost, and so is |mean|, which no server could have before the transmission. Where noise is
strong, the criterion leaves out satellites with many samples, which need the largest amplitude, and
updates that oppose the others, which make |mean| small: with classes of their own, they then count
too rarely. `mu = 0` has all of them transmit. A transmission takes P / (2 B) s, whatever the number
of satellites, and counts as 4 P bytes. `fading` is Rician, kappa being 10 dB, drawn for each
instant, satellite and server. Energy of transmitters is not modelled. Models are sent after all
instants of a round, also to satellites whose contact ends before.
"""

import math
from typing import ClassVar

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Now, Pass, Signal
from fedorbit.methods.base import State
from fedorbit.methods.global_model import advance, discount
from fedorbit.methods.visits import (
    FREE,
    SENDING,
    SatelliteClients,
    begin_training,
    has_sent,
    open_slot,
    send_model,
)
from fedorbit.randomness import generator

REFERENCE_KM = 1000.0
RICIAN_K = 10.0
"""Power of the direct path over that of all others: 10 dB."""


class AirFL(SatelliteClients):
    """Add updates up in the air, from the satellites for which quantity is worth the noise."""

    label: ClassVar[str] = "AirFL"

    snr_db: float = Field(20.0, ge=-100, le=1000, description="signal to noise at 1,000 km")
    fading: bool = Field(False, description="Rician fading, K = 10 dB")
    mu: float = Field(1.0, ge=0, le=1e6, description="price of noise; 0: all transmit")
    alpha: float = Field(0.5, ge=0, le=10, description="rate at which stale updates lose weight")
    server_rate: float = Field(1.0, gt=0, le=10, description="eta_g, step of the global model")
    bandwidth_mhz: float = Field(20.0, gt=0, description="B: 2 B values are sent per second")

    def start(self, fleet: Fleet) -> State:
        """No satellite has an update."""
        shape = fleet.satellites, fleet.layout.size
        return {**super().start(fleet), "update": np.zeros(shape, dtype=np.float32)}

    def round(self, state: State, now: Now) -> State:
        """Aggregate over the air at every instant of the round, and send the newest model out."""
        s, contacts = open_slot(state, now)
        for done in now.finished():
            k = done.satellite
            if done.trained.steps:
                s["update"][k], s["stage"][k] = done.update, SENDING
            else:  # it came to nothing: begin again
                s["base"][k], s["stage"][k] = -1, FREE
        passes, seconds = now.passes(), now.fleet.layout.size / (2e6 * self.bandwidth_mhz)
        for at_s in self._instants(s, now, passes, seconds):
            here = [p for p in passes if p.begin_s <= at_s <= p.end_s - seconds]
            self._aggregate(s, now, here, at_s, seconds)
        for contact in contacts:
            if (
                s["stage"][contact.satellite] == FREE
                and s["base"][contact.satellite] < s["version"]
            ):
                send_model(s, now, contact)
        begin_training(s, now, lambda mail: [now.job(mail.target, mail.payload)])
        return s

    def _instants(self, s: State, now: Now, passes: list[Pass], seconds: float) -> list[float]:
        """Return the moments of transmission: as the slot begins, and before satellites set."""
        begin_s, end_s = now.t * now.fleet.round_s, (now.t + 1) * now.fleet.round_s
        last_s = {p.end_s - seconds for p in passes if s["stage"][p.satellite] == SENDING}
        return [begin_s, *sorted(moment for moment in last_s if begin_s < moment < end_s)]

    def _aggregate(self, s: State, now: Now, here: list[Pass], at_s: float, seconds: float) -> None:
        """Transmit from satellites to the server that receives each best, and move w, (2)."""
        step, mass = np.zeros(len(s["global"])), 0.0
        for server, signals in sorted(self._signals(s, now, here, at_s).items()):
            received = now.superpose(
                server,
                signals,
                at_s=at_s,
                seconds=seconds,
                mu=self.mu,
                total=float(now.samples.sum()),
            )
            step += np.float64(received.weight) * received.mean  # in double precision
            mass += received.weight
            for k in received.satellites:
                now.note(staleness=float(s["version"] - s["base"][k]))
                s["update"][k] = 0.0
            has_sent(s, received.satellites)
            now.note(transmitters=len(received.satellites))
            if math.isfinite(received.distortion):
                now.note(distortion=received.distortion)
        if mass:
            advance(s, now, (s["global"] + self.server_rate * step / mass).astype(np.float32))

    def _signals(
        self, s: State, now: Now, here: list[Pass], at_s: float
    ) -> dict[int, dict[int, Signal]]:
        """Return what satellites have to transmit, by the server that receives each best."""
        best: dict[int, tuple[float, int]] = {}
        for p in here:
            if s["stage"][p.satellite] == SENDING:
                heard = self._snr(now, p, at_s), -p.server
                best[p.satellite] = max(heard, best.get(p.satellite, heard))
        signals: dict[int, dict[int, Signal]] = {}
        for k, (snr, server) in sorted(best.items()):
            a = float(now.samples[k] * discount(s["version"] - s["base"][k], self.alpha))
            signals.setdefault(-server, {})[k] = Signal(s["update"][k], a, snr)
        return signals

    def _snr(self, now: Now, contact: Pass, at_s: float) -> float:
        """Return the signal to noise ratio of a satellite at a server, (1)."""
        range_km = REFERENCE_KM if math.isnan(contact.range_km) else contact.range_km
        snr = 10.0 ** (self.snr_db / 10.0) * (REFERENCE_KM / range_km) ** 2
        if self.fading:
            moment = round(1e3 * at_s)  # milliseconds name the instant
            rng = generator(now.fleet.seed, "fading", moment, contact.satellite, contact.server)
            h = math.sqrt(RICIAN_K) + complex(*rng.normal(0.0, math.sqrt(0.5), 2))
            snr *= abs(h) ** 2 / (RICIAN_K + 1.0)
        return snr
