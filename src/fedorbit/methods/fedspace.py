"""FedSpace: a semi-asynchronous server that plans its aggregations from predicted visits.

So, Hsieh, Arzani, Noghabi, Avestimehr and Chandra, "FedSpace: An Efficient Federated Learning
Framework at Satellites and Ground Stations", 2022. Of the paper only the abstract was read: that
contacts are known, and so the effect of a schedule on staleness and idleness. The search and the
inputs of the utility follow code of others, the aggregation is from memory, the rest is ours: most
of what follows is a reading, not the paper.

    symbol     here
    a_i        `schedule`, flags of the slots since the last planning
    B          the buffer: `sum` of weighted updates, and what is known of it in `contents`
    u_k, b_k   model that satellite k has trained, and the one that it started from
    v, v_k     `version`, and `base[k]`, that which satellite k has received last
    s_k, c     staleness v - v_k, and c(s) = (1 + s)^-alpha
    T          training status: mean of the training losses reported last

    (1)  if a_i = 1:  w <- w + sum_B c(s_k) n_k (u_k - b_k) / sum_B c(s_k) n_k,  v <- v + 1
    (2)  every `horizon` slots a is the best of random schedules, by the sum of U over its
         aggregations, when it is played forward over the visits to come
    (3)  U = (sum_B c(s_k) n_k / n)^p, or a prediction of F(w) - F(w') by what is known of B, and T,
         w' being w after the aggregation

In slot i, visiting satellites send what they have trained into B. After (1), visitors with an older
version receive w and train.

Departures
- (1) with alpha = 0.5 is from memory. Weights n_k are ours; `sample_weights = false` is without.
- A slot is a round. A plan covers 72, with 4 to 24 aggregations, and is the best of 1,000 (the
  paper, from memory: 24 of 15 minutes, with 4 to 8, the best of 5,000).
- `utility = "mass"`, the default and the first U of (3), is ours. It is concave, so that several
  small aggregations are worth more than a large one.
- `utility = "ridge"` stands in place of a random forest. It learns F(w) - F(w') before the run, on
  synthetic images that are dealt by the run's mix of classes, from aggregations of buffers that
  random schedules lead to (`aggregation_utility.py`). Only then satellites report a loss: that of
  the received model on a batch of their training samples, which is booked as work. Before any has,
  T is that of guessing, log C.
- Plans include the time of training, but neither that of messages, nor a lack of power, nor events.
- An update of the same satellite does not replace an older one in B.
"""

from math import isfinite, log
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from fedorbit.fleet import Fleet, Now
from fedorbit.learning.jobs import LocalJob
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import Loss
from fedorbit.methods.aggregation_schedule import (
    DISCOUNTS,
    EMPTY,
    UPDATES,
    WEIGHT,
    Flags,
    Floats,
    Outlook,
    random_schedules,
    with_updates,
)
from fedorbit.methods.aggregation_utility import (
    Regression,
    draw_trials,
    features,
    learn_utility,
    mass_utility,
)
from fedorbit.methods.base import State
from fedorbit.methods.global_model import advance, discount
from fedorbit.methods.steps import NEVER
from fedorbit.methods.visits import (
    FREE,
    SatelliteClients,
    arrivals,
    begin_training,
    open_slot,
    send_finished,
    send_model,
)
from fedorbit.randomness import generator


class FedSpace(SatelliteClients):
    """Buffer updates, and aggregate them by a schedule that weighs staleness against idleness."""

    label: ClassVar[str] = "FedSpace"

    alpha: float = Field(0.5, ge=0, le=10, description="rate at which stale updates lose weight")
    sample_weights: bool = Field(True, description="weight updates by samples, too")
    horizon: int = Field(72, ge=1, le=10_000, description="I_0, rounds of a plan")
    least: int = Field(4, ge=0, description="N_min, aggregations of a plan")
    most: int = Field(24, ge=1, description="N_max")
    candidates: int = Field(1000, ge=1, le=100_000, description="R, schedules that are tried")
    utility: Literal["mass", "ridge"] = Field(
        "mass", description="value of an aggregation: discounted samples, or a learned regression"
    )
    power: float = Field(0.5, gt=0, le=1, description="p of the mass utility")
    pairs: int = Field(500, ge=1, le=2000, description="aggregations that ridge learns from")
    versions: int = Field(10, ge=1, le=1000, description="rounds of FedAvg that ridge learns from")

    @model_validator(mode="after")
    def _check_numbers(self) -> Self:
        if self.least > self.most:
            raise ValueError(f"least must be at most `most` ({self.most}), got {self.least}")
        return self

    def start(self, fleet: Fleet) -> State:
        """The buffer is empty; what aggregations are worth is learned now, if at all."""
        state = {
            **super().start(fleet),
            "schedule": np.zeros(self.horizon, dtype=np.bool_),
            "sum": np.zeros(fleet.layout.size),
            "contents": EMPTY.copy(),
            "ready": np.full(fleet.satellites, NEVER, dtype=np.int64),
        }
        if self.utility == "ridge":
            state["measured"] = np.full(fleet.satellites, np.nan)  # on board
            state["loss"] = np.full(fleet.satellites, np.nan)  # reported
            state["ridge"] = self._learned(state, fleet)
        return state

    def round(self, state: State, now: Now) -> State:
        """Plan, buffer arrivals, aggregate if it is scheduled, and send the model to visitors."""
        s, contacts = open_slot(state, now, "ridge")
        if now.t % self.horizon == 0:
            s["schedule"] = self.plan(s, now)
        for done in now.finished():
            if "loss" in done.trained.extra:
                s["measured"][done.satellite] = done.trained.extra["loss"]
            else:
                send_finished(s, now, done, done.update, **self._report(s, done.satellite))
        for k, mail in arrivals(s, now).items():
            staleness = int(s["version"] - s["base"][k])
            self._buffer(s, mail.payload, staleness, int(now.samples[k]))
            if "loss" in mail.about:
                s["loss"][k] = mail.about["loss"]
            now.note(staleness=staleness)
        now.note(buffer=float(s["contents"][UPDATES]))
        if s["contents"][UPDATES] and self.aggregates(s, now):
            weight = s["contents"][WEIGHT if self.sample_weights else DISCOUNTS]
            advance(s, now, (s["global"] + s["sum"] / weight).astype(np.float32))  # (1)
            s["sum"], s["contents"] = np.zeros_like(s["sum"]), EMPTY.copy()
        for contact in contacts:
            k = contact.satellite
            lacks = s["stage"][k] == FREE and s["base"][k] < s["version"]
            if lacks and send_model(s, now, contact) is not None:
                s["ready"][k] = now.t + self._training_slots(now, k)
        begin_training(s, now, lambda mail: self._jobs(now, mail.target, mail.payload))
        return s

    def aggregates(self, state: State, now: Now) -> bool:
        """Return a_i, whether the buffer is aggregated in this slot."""
        return bool(state["schedule"][now.t % self.horizon])

    def plan(self, state: State, now: Now) -> Flags:
        """Return the best of random schedules for the slots to come."""
        outlook = self.outlook(state, now)
        rng = generator(now.fleet.seed, "aggregation schedules", now.t)
        numbers = self.candidates, self.least, self.most
        schedules = random_schedules(outlook.visits, *numbers, rng)
        n = int(now.samples.sum())

        def utility(contents: Floats) -> Floats:
            if self.utility == "mass":
                return mass_utility(contents, n, self.power)
            x = features(contents, n, self.status(state, now.fleet))
            return Regression.of_array(state["ridge"]).predict(x)

        best = np.zeros(self.horizon, dtype=np.bool_)
        best[: len(outlook.visits)] = outlook.best(schedules, utility)
        return best

    def outlook(self, state: State, now: Now) -> Outlook:
        """Return the server's forecast of the slots to come."""
        satellites = range(now.fleet.satellites)
        is_free = state["stage"] == FREE
        return Outlook(
            visits=now.visits_ahead(self.horizon),
            samples=now.samples,
            training_slots=np.array([self._training_slots(now, k) for k in satellites]),
            version=int(state["version"]),
            base=state["base"],
            ready=np.where(is_free, NEVER, np.maximum(state["ready"] - now.t, 0)),
            contents=state["contents"],
            alpha=self.alpha,
        )

    def status(self, state: State, fleet: Fleet) -> float:
        """Return T: the mean of what satellites have reported last."""
        reported = state["loss"][np.isfinite(state["loss"])]
        return float(reported.mean()) if len(reported) else log(fleet.classes)

    def _buffer(self, state: State, update: Vector, staleness: int, n_k: int) -> None:
        s = np.array([staleness])
        weight = discount(staleness, self.alpha) * (n_k if self.sample_weights else 1)
        state["sum"] += weight * update.astype(np.float64)
        new = np.ones(1, dtype=np.bool_)
        state["contents"] = with_updates(state["contents"], s, np.array([n_k]), self.alpha, new)

    def _jobs(self, now: Now, k: int, w: Vector) -> list[LocalJob]:
        """Return the training of a satellite; before it, its loss is measured if it is reported."""
        training = now.job(k, w)
        if self.utility == "mass":
            return [training]
        batch = now.fleet.plan.batch
        return [now.job(k, w, epochs=1, purpose=1, rule=Loss(), samples=batch), training]

    def _training_slots(self, now: Now, k: int) -> int:
        """Return after how many slots a satellite can send what it has trained."""
        if self.utility == "mass" or not now.samples[k]:
            return now.training_slots(k)
        part = min(now.fleet.plan.batch / now.samples[k], 1.0)  # of an epoch, for the loss
        return now.training_slots(k, further_s=part * now.training_s(k, epochs=1))

    def _report(self, state: State, k: int) -> dict[str, Any]:
        if self.utility == "mass" or not isfinite(loss := float(state["measured"][k])):
            return {}
        return {"loss": loss}

    def _learned(self, state: State, fleet: Fleet) -> Floats:
        """Return what a regression has learned before the run."""
        outlook = self.outlook(state, fleet.at(0))
        rng = generator(fleet.seed, "aggregations tried out")
        numbers = self.pairs, self.versions, self.least, self.most
        trials = draw_trials(outlook, *numbers, rng)
        return learn_utility(fleet, outlook, trials, self.versions, self.sample_weights).array()
