"""FedLEO: all-reduce within orbits and across them, without a server; data are offloaded before.

Zhai et al., "FedLEO: An Offloading-Assisted Decentralized Federated Learning Framework for Low
Earth Orbit Satellite Networks", IEEE TMC 23(5), 2024; not the FedLEO of Elmahallawy and Luo, which
schedules sinks. All equations are the paper's, as are the numbers of the offloading.

Before the first round satellites give samples to faster neighbours, see `offloading`; D_k are those
that satellite k has then. In a round

    (1)  u_k = LocalSGD of F_k from w, tau epochs
    (2)  w_l = sum_k D_k u_k / D_l, ring all-reduce of each orbit: 2 (N - 1) sends of P/N by each
    (3)  w = sum_l D_l w_l / D, ring all-reduce of satellites of equal number over all L orbits

and all have w. `scope = "orbit"`: (3) is left out, and every orbit has a model of its own.

Departures. U of the offloading has t_a - t_b: the paper prints t_b - t_a, which would choose the
slowest neighbour against its own text; `literal` restores it. Speeds are those on board, and rates
of links those of `link_rates`, or else the paper's radio; without speeds training takes no time and
nothing is offloaded. Neighbours are satellites with a link as the run begins. The time of the
offloading itself is spent before round 0.

A *unit* is an orbit where its satellites always reach each other, otherwise a satellite. Results go
from every unit to all others by the earliest routes, on which stations may relay (the paper's may,
across the seam). A unit has w when it has all results, the round ends when all units have, and the
next begins with the next slot from then on. With ideal links that is one round in every slot. What
is sent costs what rings cost: two pieces of P/U for each of U units, times the rings side by side.
Where units are satellites, that is one ring over all, and state is of [K, P].

A launched orbit has the newest model on board. An active unit that does not hold it, such as one
that comes back, takes part with no samples, and trains when it has received one. Where units have
left or joined and some cannot have all results any more, all begin anew. A unit out of reach for
the rest of the plan stops all of them: the paper has no rule for it. An orbit uses the newest model
that any of its satellites has.
"""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from fedorbit.fleet import Fleet, Move, Now
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.effort import Work
from fedorbit.methods.offloading import Offloading
from fedorbit.methods.peers import Rings, Units, collect, rows_of_orbits, spread, units_of
from fedorbit.methods.steps import NEVER, train_orbit, weighted_mean

BITS_PER_BYTE = 8


class FedLEO(Method):
    """Average all satellites in every round, over links between satellites."""

    label: ClassVar[str] = "FedLEO"
    family: ClassVar[Family] = "space"

    scope: Literal["all", "orbit"] = Field("all", description="average: of all, or of each orbit")
    offload: bool = Field(True, description="give samples to faster neighbours before round 0")
    planned_rounds: int = Field(100, ge=1, description="M, rounds that the offloading plans for")
    waiting_s: float = Field(0.3, ge=0, description="t_w, seconds of a round besides training")
    kappa: float = Field(0.0, ge=0, description="weight of the divergence; more offloads more")
    pi: float = Field(0.0, ge=0, description="weight of differing classes in choosing neighbours")
    literal: bool = Field(False, description="choose neighbours by the equation as printed")
    isl_mbps: float = Field(
        245.8, gt=0, description="rate for samples where link_rates has none: 20 MHz, 5 W, g = 1000"
    )

    def offloading(self, fleet: Fleet) -> Sequence[Move]:
        """Return what satellites give to faster neighbours, if they have speeds."""
        if not self.offload or fleet.onboard is None:
            return ()
        hardware = fleet.onboard.hardware
        mbps = self.isl_mbps if hardware.isl_mbps is None else hardware.isl_mbps
        terms = Offloading(
            epochs=fleet.plan.epochs,
            speeds=hardware.samples_per_s,
            link=1e6 * mbps / (BITS_PER_BYTE * fleet.sample_bytes),
            rounds=self.planned_rounds,
            waiting_s=self.waiting_s,
            kappa=self.kappa,
            pi=self.pi,
            literal=self.literal,
        )
        neighbours = [fleet.topology.neighbours(0, k) for k in range(fleet.satellites)]
        return terms.plan(fleet.rosters.at(0).class_counts, neighbours)

    def start(self, fleet: Fleet) -> State:
        """All units have w(0), version 0, and no round is under way."""
        is_orbit = self._unit(fleet) == "orbit"
        orbit = np.arange(fleet.orbits) if is_orbit else fleet.orbit_of_satellite.copy()
        w, units = np.tile(fleet.initial_model(), (len(orbit), 1)), len(orbit)
        return {
            "orbit": orbit,
            "model": w,
            "version": np.zeros(units, dtype=np.int64),
            "trained": w.copy(),  # what a unit adds to the round under way
            "samples": np.zeros(units, dtype=np.int64),  # D behind it
            "ready": np.full(units, NEVER),  # slot in which a unit has all results
            "taking_part": np.zeros(units, dtype=np.bool_),  # until it has w
            "begun": np.zeros(units, dtype=np.bool_),  # units of the round under way
            "rounds": np.array(0),  # begun so far
            "target": np.array(0),  # version that the round under way leads to
        }

    def round(self, state: State, now: Now) -> State:
        """Average where all results have arrived, and begin the next round when all have them."""
        after = {name: array.copy() for name, array in state.items()}
        if self.scope == "orbit":
            self._train(now.orbits.active, after, now)  # (1), (2)
            after["model"] = after["trained"].copy()
            return after
        units = units_of(now, self._unit(now.fleet))
        launched = np.isin(after["orbit"], now.orbits.launched)
        newest = int(after["version"].argmax())
        after["model"][launched] = after["model"][newest]  # before the launch, without a link
        after["version"][launched] = after["version"][newest]
        self._finish(after, units, now)
        waiting = [u for u in units if after["taking_part"][u]]
        changed = np.flatnonzero(after["begun"]).tolist() != sorted(units)
        if not waiting or (changed and any(after["ready"][u] == NEVER for u in waiting)):
            self._begin(after, units, now)
            self._finish(after, units, now)
        now.note(version=int(after["version"].max()))
        return after

    def _begin(self, after: State, units: Units, now: Now) -> None:
        """Train (1), average within orbits (2) where they are units, and send the results."""
        for members in units.values():
            collect(now, members)  # of a round that was given up
        here = sorted(units)
        newest = max((int(after["version"][u]) for u in here), default=0)
        after["trained"], after["samples"] = after["model"].copy(), np.zeros_like(after["samples"])
        self._train([u for u in here if after["version"][u] == newest], after, now)
        after["rounds"] += 1
        after["target"][...] = after["version"].max() + 1
        for name in ("taking_part", "begun"):
            after[name][:] = False
            after[name][here] = True
        after["ready"][here] = now.t
        slot_s, numbers = now.fleet.round_s, {"round": int(after["rounds"])}
        for u in here:
            trained_s = now.t * slot_s + max(now.busy_s(k) for k in units[u])
            how: dict[str, Any] = {"samples": int(after["samples"][u]), **numbers}
            how["channel"] = Rings(len(here), rings=len(units[u]))
            slots = spread(now, u, units, after["trained"][u], start_s=trained_s, **how)
            if now.fleet.links != "ideal":
                slots[u] = int(np.ceil(trained_s / slot_s))
            for other, slot in slots.items():
                after["ready"][other] = max(after["ready"][other], slot)

    def _train(self, trainers: list[int], after: State, now: Now) -> None:
        """Train units from w, each an orbit or a satellite."""
        w, u, n = (after[name] for name in ("model", "trained", "samples"))
        if self._unit(now.fleet) == "orbit":
            work = Work(now.fleet.plan.epochs, 1)
            programs = {orbit: train_orbit(now, orbit, w[orbit], work) for orbit in trainers}
            for orbit, model in now.orbits.run(programs).items():
                u[orbit], n[orbit] = model, now.orbits.trained_samples[orbit]
            return
        able = {k for orbit in now.orbits.active for k in now.orbits.trainers(orbit)}
        satellites = [k for k in trainers if k in able]
        results = now.train([now.job(k, w[k]) for k in satellites])
        for k, result in zip(satellites, results, strict=True):
            u[k], n[k] = result.model, now.samples[k] if result.steps else 0

    def _finish(self, after: State, units: Units, now: Now) -> None:
        """Average all results (3) in units that have them."""
        for u, members in units.items():
            if not after["taking_part"][u] or after["ready"][u] > now.t:
                continue
            mail, number = collect(now, members), after["rounds"]
            results = {
                j: (letter.payload, int(letter.about["samples"]))
                for j, letter in mail.items()
                if letter.about["round"] == number  # not of one that was given up
            }
            results[u] = after["trained"][u], int(after["samples"][u])
            models, samples = zip(*(results[j] for j in sorted(results)), strict=True)
            after["model"][u] = weighted_mean(models, np.array(samples), after["model"][u])
            after["version"][u], after["taking_part"][u] = after["target"], False

    def _unit(self, fleet: Fleet) -> Literal["orbit", "satellite"]:
        """Return what has a model of its own."""
        is_routed = fleet.aggregations is not None
        return "satellite" if is_routed and self.scope == "all" else "orbit"

    def models(self, state: State) -> Vector:
        """Every orbit uses the newest model that any of its satellites has."""
        rows = rows_of_orbits(state["orbit"])
        newest = [mine[state["version"][mine].argmax()] for mine in rows]
        return np.asarray(state["model"][newest])
