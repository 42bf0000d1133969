"""FedAvg in three tiers: satellites, orbits, ground station.

McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data", 2017.
Satellites of a visible orbit train E_base epochs, the orbit averages by samples
(`eq:intra_orbit`), the ground station averages the visible orbits by samples
(`eq:fedavg_global`). Nothing changes in a round without a visible orbit, unless `effort` says so.

Departures: none.
"""

import numpy as np

from fedorbit.learning.engine import Program
from fedorbit.learning.parameters import Vector
from fedorbit.learning.rules import PLAIN, Rule
from fedorbit.methods.base import State, weighted_mean, with_launched
from fedorbit.methods.effort import MatchedEffort, Work, base_work
from fedorbit.methods.fleet import Fleet


class FedAvg(MatchedEffort):
    """Average the visible orbits' models by samples."""

    def start(self, fleet: Fleet) -> State:
        """Everybody has w(0)."""
        w = fleet.initial_model()
        return {"global": w, "received": np.tile(w, (fleet.orbits, 1))}

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Train orbits from the global model and average them."""
        state = with_launched(state, t, fleet, "received")
        orbits = self.participants(t, fleet)
        received = receive_global(state, t, fleet, orbits)
        programs = {}
        for orbit in orbits:
            w, work = received[orbit], self.work(orbit, t, fleet)
            programs[orbit] = train_orbit(fleet, orbit, t, w, work, rule=self.local(w))
        trained = fleet.run(programs)
        return average_at_ground(state, t, fleet, received, trained)

    def local(self, w: Vector) -> Rule:
        """How satellites train, given the global model: here by LocalSGD and nothing else."""
        return PLAIN

    def models(self, state: State) -> Vector:
        """Every orbit uses the global model it received last."""
        return state["received"]


def train_orbit(
    fleet: Fleet,
    orbit: int,
    t: int,
    start: Vector,
    work: Work | None = None,
    purpose: int = 0,
    rule: Rule = PLAIN,
) -> Program[Vector]:
    """Let every satellite train from the orbit model and average by samples (`eq:intra_orbit`)."""
    model = start
    epochs, intra_rounds = work or base_work(fleet)
    for intra_round in range(intra_rounds if epochs else 0):
        trained = yield fleet.jobs(
            orbit,
            t,
            model,
            epochs=epochs,
            rate=fleet.plan.rate(t),
            intra_round=intra_round,
            intra_rounds=intra_rounds,
            purpose=purpose,
            rule=rule,
        )
        weights = fleet.samples(t)[fleet.trainers(orbit, t)]
        model = weighted_mean([result.model for result in trained], weights, otherwise=model)
        del trained  # before the next ones arrive
    return model


def receive_global(state: State, t: int, fleet: Fleet, orbits: list[int]) -> Vector:
    """Send the global model to those of the orbits that do not hold it yet."""
    received = state["received"].copy()
    for orbit in orbits:
        if not np.array_equal(received[orbit], state["global"]):
            received[orbit] = fleet.download(t, orbit, state["global"])
    return received


def average_at_ground(
    state: State,
    t: int,
    fleet: Fleet,
    received: Vector,
    trained: dict[int, Vector],
    recipients: list[int] | None = None,
) -> State:
    """Average the uploaded orbit models by samples (`eq:fedavg_global`) and hand the mean out.

    To all orbits in reach, since they use it; or to the recipients alone. Samples of satellites
    that could not train, for want of time or power, have no weight.
    """
    orbits = sorted(trained)
    uploads = [fleet.upload(t, orbit, trained[orbit]) for orbit in orbits]
    w = weighted_mean(uploads, fleet.trained_samples(t)[orbits], otherwise=state["global"])
    after = {**state, "global": w, "received": received}
    if orbits:
        recipients = fleet.reachable(t) if recipients is None else recipients
        after["received"] = receive_global(after, t, fleet, recipients)
    return after
