"""SCAFFOLD: control variates take the drift out of local training.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", 2020.

    symbol     here
    c_k        control of satellite k: the mean gradient of its last training, by (2)
    c_l, c     means of the controls by samples: of an orbit as it uploaded last, and of all
    tau_k      steps of a job
    a(tau)     [tau - rho (1 - rho^tau) / (1 - rho)] / (1 - rho), rho the momentum: the sum of the
               weights that momentum gives to the gradients of a job

    (1)  y_k = LocalSGD of F_k from w, with c - c_k added to every gradient
    (2)  c_k <- c_k - c + (w - y_k) / (eta a(tau_k))
    (3)  y_l = sum_k n_k y_k / n_l,  c_l = sum_k n_k c_k / sum_k n_k
    (4)  w <- w + eta_g (sum_l n_l y_l / sum_l n_l - w),  c = sum_l n_l c_l / sum_l n_l

Inference at the global model received last. A satellite keeps c_k. Its orbit receives w and c, and
uploads y_l and c_l: twice the traffic of FedAvg. The ground keeps the last c_l of every orbit, not
increments, so that no rounding adds up and satellites may come and go; with constant samples this
is the paper's rule.

Departures: (2) is the paper's option II with a(tau) instead of tau, since with momentum
displacement / (eta tau) is no mean gradient; option I, a further pass over all data, is left out.
Means are by samples. `unheard = "ignore"`: c averages over the satellites that have trained, and
the first training of a satellite is not corrected; the paper's zeros ("zero") mean that satellites
which never trained have no gradient. `clients = "orbit"`: one control per orbit, for fleets whose
controls would not fit into memory; a is then the mean of a(tau_k) by samples, and c_l is uploaded
as well, since after several intra-orbit rounds the ground cannot derive it. With several
intra-orbit rounds c stays as it was received, and c_k is renewed after each of them.
"""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.fleet import Fleet, Needs, Now, Phase
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule, Sgd
from fedorbit.methods.base import Family, State
from fedorbit.methods.effort import MatchedEffort
from fedorbit.methods.steps import (
    average_at_ground,
    blend,
    effective_steps,
    hand_out,
    load_launched,
    mean_by_samples,
    norm,
    train_orbit,
    weighted_mean,
    with_statistics,
)

Result = tuple[Vector, NDArray[Any], NDArray[Any], Vector, int]
"""Result of an orbit: y, clients with a control, their controls, c_l, and the samples of c_l."""


class Scaffold(MatchedEffort):
    """FedAvg whose local gradients are corrected for drift."""

    label: ClassVar[str] = "SCAFFOLD"
    family: ClassVar[Family] = "global"

    server_rate: float = Field(1.0, gt=0, le=10, description="eta_g, step of the ground's model")
    unheard: Literal["ignore", "zero"] = Field(
        "ignore", description="control of satellites that never trained: none, or zero"
    )
    clients: Literal["satellite", "orbit"] = Field(
        "satellite", description="unit with a control of its own"
    )

    @property
    def needs(self) -> Needs:
        """A model is trained; satellites exchange it, and their controls."""
        return Needs(exchanged=2 if self.clients == "satellite" else 1)

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0); all controls are zero."""
        fleet.plan.require_sgd("SCAFFOLD")
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        clients = fleet.satellites if self.clients == "satellite" else fleet.orbits
        return {
            "global": w,
            "received": everywhere,
            "received_control": np.zeros_like(everywhere),
            "control": np.zeros((clients, len(w)), dtype=np.float32),
            "heard": np.zeros(clients, dtype=np.bool_),
            "uploaded": np.zeros_like(everywhere),
            "uploaded_samples": np.zeros(fleet.orbits, dtype=np.int64),
        }

    def round(self, state: State, now: Now) -> State:
        """Train orbits with corrected gradients, average their models and their controls."""
        state = load_launched(state, now, "received")
        state = {name: array.copy() for name, array in state.items()}
        w, received, orbits = state["global"], state["received"], self.participants(now)
        hand_out(w, received, now, orbits)
        hand_out(self.mean_control(state, now), state["received_control"], now, orbits)
        programs = {orbit: self._train(state, now, orbit) for orbit in orbits}
        trained = now.orbits.run(programs, upload=True)
        models = {orbit: result[0] for orbit, result in trained.items()}
        mean = average_at_ground(now, models, w)
        for orbit, (_, heard, controls, c_l, samples) in trained.items():
            state["control"][heard], state["heard"][heard] = controls, True
            if samples:
                state["uploaded"][orbit] = now.orbits.upload(orbit, c_l)
                state["uploaded_samples"][orbit] = samples
        state["global"] = w = with_statistics(now, blend(w, mean, self.server_rate), mean)
        if trained:
            hand_out(w, received, now, now.orbits.reachable)
        return state

    def mean_control(self, state: State, now: Now) -> Vector:
        """Return c, from the last uploads of the orbits that are active, (4)."""
        heard = np.where(now.orbits.samples > 0, state["uploaded_samples"], 0)
        mean = weighted_mean(state["uploaded"], heard, np.zeros_like(state["global"]))
        if self.unheard == "ignore" or not heard.any():
            return mean
        active = np.minimum(heard, now.orbits.samples)  # satellites may be lost since the upload
        return mean * np.float32(active.sum() / now.samples.sum())

    def _train(self, state: State, now: Now, orbit: int) -> Program[Result]:
        """Train an orbit, and renew its controls after every intra-orbit round."""
        c, uploaded = state["received_control"][orbit], state["uploaded"][orbit]
        clients = self._clients(orbit, now.orbits.satellites(orbit))
        control = {k: state["control"][k] for k in clients if state["heard"][k]}
        # c holds nothing of satellites without an upload before this round.
        known = set(control) if self.unheard == "ignore" else set(clients)
        corrections: dict[int, Vector] = {}  # one of each client, whose satellites share it

        def correction(client: int) -> Vector:
            if client not in corrections:
                c_k = control.get(client, np.zeros_like(c)) if client in known else c
                corrections[client] = c - c_k
            return corrections[client]

        def rule(satellite: int) -> Rule:
            wanted = correction(satellite if self.clients == "satellite" else orbit)
            return Sgd(correction=wanted) if wanted.any() else PLAIN

        def renew(now: Now, orbit: int, start: Vector, trained: list[Trained]) -> Vector:
            of_satellite = dict(zip(now.orbits.trainers(orbit), trained, strict=True))
            for client, satellites in self._clients(orbit, list(of_satellite)).items():
                results, samples = [of_satellite[k] for k in satellites], now.samples[satellites]
                steps = [effective_steps(r.steps, now.fleet.plan.momentum) for r in results]
                if any(steps):
                    y = weighted_mean([r.model for r in results], samples, otherwise=start)
                    eta_a = np.float32(now.rate * np.average(steps, weights=samples))
                    control[client] = (start - y) / eta_a - correction(client)  # c_k, (2)
                    control[client][now.fleet.layout.statistics] = 0.0
            corrections.clear()
            return mean_by_samples(now, orbit, start, trained)

        start, work = state["received"][orbit], self.work(orbit, now)
        to_come = [Phase()] if self.clients == "satellite" else []  # the exchange of controls
        y = yield from train_orbit(
            now, orbit, start, work, rule=rule, combine=renew, to_come=to_come
        )
        heard = [client for client in clients if client in control]
        if heard and self.clients == "satellite":
            now.orbits.exchange(orbit)
        samples = np.array([now.samples[clients[k]].sum() for k in heard], dtype=np.int64)
        controls = np.array([control[k] for k in heard], dtype=np.float32).reshape(-1, len(c))
        c_l = weighted_mean(controls, samples, otherwise=uploaded)
        return y, np.array(heard, dtype=np.int64), controls, c_l, int(samples.sum())

    def _clients(self, orbit: int, satellites: list[int]) -> dict[int, list[int]]:
        """Return the clients of an orbit, each with its satellites."""
        if self.clients == "orbit":
            return {orbit: satellites} if satellites else {}
        return {satellite: [satellite] for satellite in satellites}

    def models(self, state: State) -> Vector:
        """Every orbit uses the global model it received last."""
        return state["received"]

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report the norms of the controls, which show a divergence."""
        largest = max(norm(control) for control in state["control"])
        mean = norm(self.mean_control(state, now))
        return {"control_norm": mean, "largest_control_norm": largest}
