"""FedOrbit: every orbit trains in every round, class rows are weighted by class ownership.

Bashir, Dagiuklas and Iqbal, "FedOrbit: Adaptive Personalized Federated Learning for Non-IID LEO
Satellite Constellations".

    symbol           here
    w_l^{f,p}        features of `model[l]`, the orbit's personal extractor
    w^c              classifier of `model[l]`; with ideal links the same for all orbits
    w_l              model of orbit l after (4); at the GS its last upload, `uploaded[l]`
    tau_l, sigma_l   rounds since orbit l was in view, and since its last upload; with ideal
                     and causal links both count the same
    q_l              `effort[l]` on board, `quality[l]` at the GS: R_intra E_l, or E_dark
    s_kc, a_lc       class strength: samples of class c at satellite k; affinity: the share of orbit
                     l in all samples of class c, from `counts[l]`, those of its last upload
    p_l              shares of the classes in orbit l;  eps is `similarity_smoothing`

    (1)  in view, R_intra times:  E_l = floor(min(E_max, E_base + s_e tau_l)) epochs at the rate
                                  eta_l = eta / (1 + kappa min(tau_l, tau_max) / tau_max)
         out of view, once:       E_dark epochs at the rate eta
    (2)  w_k = LocalSGD of F_k from w, the orbit's model, at first [w_l^{f,p}, w^c]
    (3)  orbit, each feature:  w_l = sum_k |w_k - w| w_k / sum_k |w_k - w|
    (4)  orbit, row c:         w_lc = sum_k s_kc w_kc / sum_k s_kc
    (5)  GS, features:         w^f = sum_l q_l w_l^f / sum_l q_l
    (6)  GS, row c:            w_c = sum_l a_lc rho^{sigma_l} w_lc / sum_l a_lc rho^{sigma_l}
    (7)  beta = 1 - the mean, over pairs of active orbits, of the Jensen-Shannon distance of p_l
         and p_m (base 2), after  p_l <- (1 - eps) p_l + eps / C
    (8)  w_l^{f,p} <- (1 - beta) w_l^f + beta w^f

Departures from the paper
- p_l is smoothed in (7); `similarity_smoothing = 0` is the literal equation.
- (8) read literally blends the old extractor; all personal extractors then stay equal for ever.
  Default is `blend="own"`: the extractor after this round's training.
- fc2 has no class rows: averaged by samples in the orbit, by n_l rho^sigma at the GS.
- A class without samples keeps its row: in an orbit the one it started from, at the GS the global.
- Where no satellite moved an element, the elementwise weights are the samples.
- An orbit without samples trains nothing and has q_l = 0. Where time or power on board is short,
  q_l is what was done: the mean over the orbit's samples of the epochs that they were trained.
- With causal links, orbits out of view exchange nothing with the GS: the GS uses their last
  upload, and they use what they have on board.
- With physical links an orbit trains anew when its last aggregation has ended. It meets the GS once
  per result (`result`, `met`: rounds of the last one, and after the last meeting), also while the
  next aggregation is under way. When that one ends, the orbit puts its new result in the place of
  the old one in the mean that it received, by its share in it, and blends then: the same as if it
  had met the GS with the new result. The shares travel with w: a few values, not counted.
- With `continuous = false`, orbits out of view neither train nor exchange anything, whatever the
  links are: blending untrained extractors in every round would wear them down to their mean.
- An orbit that has left stays in the aggregation with its last upload and counts, at rho^sigma;
  its effort q_l is 0 with ideal links, and that of its last upload with causal ones.
"""

from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.data.similarity import SIMILARITY_SMOOTHING, similarity_coefficient
from fedorbit.fleet import Fleet, Now
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Family, Method, State
from fedorbit.methods.effort import EffortSchedule
from fedorbit.methods.steps import load_launched, mean_by_samples, train_orbit, weighted_mean


class FedOrbit(EffortSchedule, Method):
    """Continuous training, class-aware aggregation, personal feature extractors."""

    family: ClassVar[Family] = "personalised"

    rho: float = Field(0.95, gt=0, le=1, description="staleness factor of classifier rows")
    kappa: float = Field(0.5, ge=0, le=1000, description="return-rate dampening; 0: off")
    continuous: bool = Field(True, description="orbits out of view train too, and take part")
    class_rows: bool = Field(True, description="aggregate rows by class ownership, not by samples")
    magnitude_features: bool = Field(
        True, description="aggregate an orbit's features by update magnitude, not by samples"
    )
    quality_weights: bool = Field(
        True, description="weight orbits' features by training effort, not by samples"
    )
    beta: float | None = Field(None, ge=0, le=1, description="fixed blend; unset: from the classes")
    similarity_smoothing: float = Field(
        SIMILARITY_SMOOTHING,
        ge=0,
        le=1,
        description="share of the uniform histogram in beta; 0: the literal equation",
    )
    blend: Literal["own", "literal"] = Field("own", description="extractor that is blended")

    def start(self, fleet: Fleet) -> State:
        """All orbits have w(0); the GS has an upload of none."""
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        return {
            "model": everywhere,
            "global": w,
            "uploaded": everywhere.copy(),
            "quality": np.zeros(fleet.orbits),
            "effort": np.zeros(fleet.orbits),
            "result": np.full(fleet.orbits, -1),
            "met": np.zeros(fleet.orbits, dtype=np.int64),
            **self._late_state(fleet, everywhere),
            "counts": np.zeros((fleet.orbits, fleet.classes), dtype=np.int64),
        }

    def _late_state(self, fleet: Fleet, everywhere: Vector) -> State:
        """Return the state of orbits whose results come after a meeting; physical links alone."""
        orbits = fleet.orbits if fleet.aggregations is not None else 0
        return {
            "trained": everywhere[:orbits].copy(),
            "received": everywhere[:orbits].copy(),
            "share": np.zeros((orbits, 2 + fleet.classes), dtype=np.float32),
        }

    def round(self, state: State, now: Now) -> State:
        """Run Algorithm 1."""
        state = load_launched(state, now, "model")
        model, result, samples = state["model"].copy(), state["result"].copy(), now.orbits.samples
        q = np.where(samples > 0, state["effort"], 0.0)  # an orbit that is away has none
        training = now.orbits.active if self.continuous else now.orbits.visible
        programs = {o: self._train(now, o, state["model"][o]) for o in training}
        late = {name: state[name].copy() for name in ("trained", "received", "share")}
        for orbit, (trained, effort, begun) in now.orbits.run(programs).items():
            met_since = state["met"][orbit] > begun
            model[orbit] = self._late(state, orbit, trained, now) if met_since else trained
            if len(late["trained"]):
                late["trained"][orbit] = trained
            weighted = self.quality_weights and samples[orbit] > 0
            q[orbit] = effort if weighted else samples[orbit]  # q_l
            result[orbit] = now.t
        if now.fleet.links == "ideal" and self.continuous:
            meeting = now.orbits.active
        else:  # with a result that the GS has not seen
            meeting = [o for o in now.orbits.in_contact if result[o] >= state["met"][o]]
        known = self._meet_at_ground({**state, **late}, model, q, meeting, now)
        return {**state, **late, "model": model, "effort": q, "result": result, **known}

    def _late(self, state: State, orbit: int, trained: Vector, now: Now) -> Vector:
        """Return the model of an orbit that has met the GS since its aggregation began."""
        share = self._spread(state["share"][orbit], now)
        w = state["received"][orbit] + share * (trained - state["uploaded"][orbit])
        return self._blended(trained, state["model"][orbit], w, self.similarity(now), now)

    def _spread(self, share: Vector, now: Now) -> Vector:
        """Return the share of an orbit in every value of w: features, common layers, class rows."""
        layout, whole = now.fleet.layout, np.empty(now.fleet.layout.size, dtype=np.float32)
        whole[:] = share[1]
        whole[layout.features] = share[0]
        if self.class_rows:
            whole[layout.class_rows] = share[2:, None]
        return whole

    def _blended(self, own: Vector, before: Vector, w: Vector, beta: float, now: Now) -> Vector:
        """Return w with the personal extractor of an orbit (8)."""
        f, share, model = now.fleet.layout.features, np.float32(beta), w.copy()
        model[f] = (1 - share) * (own if self.blend == "own" else before)[f] + share * w[f]
        return model

    def _train(self, now: Now, orbit: int, start: Vector) -> Program[tuple[Vector, float, int]]:
        """Return w_l and q_l of an orbit that trains its model (1 to 4), and t."""
        work, rate = self.scheduled_work(orbit, now), self.rate(orbit, now)
        combine = self.aggregate_orbit
        model = yield from train_orbit(now, orbit, start, work, rate=rate, combine=combine)
        return model, now.orbits.effort(orbit, work.epochs * work.intra_rounds), now.t

    def rate(self, orbit: int, now: Now) -> float:
        """eta_l: dampened for an orbit in view."""
        if orbit not in now.orbits.visible:
            return now.rate
        return self.dampened(now.rate, int(now.orbits.dark_rounds()[orbit]), now.fleet.tau_max)

    def dampened(self, rate: float, tau: int, tau_max: int) -> float:
        """eta_l: a smaller rate after a longer absence (1).

        An inactive orbit can have missed more than tau_max rounds, which count as tau_max.
        """
        return rate / (1.0 + self.kappa * min(tau, tau_max) / max(tau_max, 1))

    def similarity(self, now: Now) -> float:
        """Beta (7) of the active orbits, or the fixed one."""
        if self.beta is not None:
            return self.beta
        counts = now.orbits.class_counts[now.orbits.active]
        return similarity_coefficient(counts, self.similarity_smoothing)

    def aggregate_orbit(
        self, now: Now, orbit: int, start: Vector, trained: list[Trained]
    ) -> Vector:
        """Combine an orbit's satellites; `start` is the model they all started from."""
        if not trained:
            return start
        combined = mean_by_samples(now, orbit, start, trained)
        models, f = np.stack([result.model for result in trained]), now.fleet.layout.features
        if self.magnitude_features:
            combined[f] = mean_by_magnitude(models[:, f], start[f], combined[f])
        if self.class_rows:
            strength = now.class_counts[now.orbits.trainers(orbit)]
            _set_rows(combined, now, models, strength, otherwise=start)  # (4)
        return combined

    def _meet_at_ground(
        self, state: State, model: Vector, q: NDArray[Any], meeting: list[int], now: Now
    ) -> State:
        """Upload, aggregate at the GS, and blend in every orbit that takes part, in `model`."""
        if not meeting:
            return {}
        uploaded, counts, met = (state[name].copy() for name in ("uploaded", "counts", "met"))
        received, share, over_routes = state["received"], state["share"], len(state["trained"]) > 0
        # With ideal links the effort of all orbits is known, and 0 of inactive ones.
        quality = q if now.fleet.links == "ideal" and self.continuous else state["quality"].copy()
        own = state["trained"] if over_routes else model
        for orbit in meeting:
            uploaded[orbit] = now.orbits.upload(orbit, own[orbit])
            quality[orbit], counts[orbit] = q[orbit], now.orbits.class_counts[orbit]
        met[meeting] = now.t + 1
        unseen = now.orbits.dark_rounds(after=1) if now.fleet.links == "ideal" else now.t + 1 - met
        fresh = self.rho**unseen  # rho^sigma_l
        w = self._aggregate_at_ground(state["global"], uploaded, quality, counts, fresh, now)
        beta = self.similarity(now)
        for orbit in meeting:
            w_l = now.orbits.download(orbit, w)
            model[orbit] = self._blended(own[orbit], state["model"][orbit], w_l, beta, now)
            if over_routes:
                received[orbit], share[orbit] = w_l, _shares(orbit, quality, counts, fresh)
        return {
            "global": w,
            "uploaded": uploaded,
            "quality": quality,
            "counts": counts,
            "met": met,
        }

    def _aggregate_at_ground(
        self,
        w: Vector,
        uploaded: Vector,
        quality: NDArray[Any],
        counts: NDArray[Any],
        fresh: NDArray[Any],
        now: Now,
    ) -> Vector:
        """Combine the last uploads of all orbits; `w` is kept where none has a weight.

        Of an orbit that never uploaded there is none: its counts and quality are 0.
        """
        f = now.fleet.layout.features
        combined = weighted_mean(uploaded, counts.sum(axis=1) * fresh, otherwise=w)
        combined[f] = weighted_mean(uploaded[:, f], quality, otherwise=w[f])  # (5)
        if self.class_rows:
            # a_lc is the orbit's share of class c; the denominator cancels in the mean.
            affinity = counts * fresh[:, None]
            _set_rows(combined, now, uploaded, affinity, otherwise=w)  # (6)
        return combined

    def models(self, state: State) -> Vector:
        """Every orbit uses its personal extractor with the classifier it received last."""
        return state["model"]

    def facts(self, state: State, now: Now) -> dict[str, Any]:
        """Report beta."""
        return {"beta": self.similarity(now)}


def _shares(
    orbit: int, quality: NDArray[Any], counts: NDArray[Any], fresh: NDArray[Any]
) -> NDArray[Any]:
    """Return the share of an orbit in the GS's means: of features, common layers, every class."""
    weights = np.column_stack((quality, counts.sum(axis=1) * fresh, counts * fresh[:, None]))
    totals = weights.sum(axis=0)
    return np.asarray(weights[orbit] / np.where(totals > 0, totals, 1.0), dtype=np.float32)


def mean_by_magnitude(models: Vector, start: Vector, otherwise: Vector) -> Vector:
    """Average every element by how far each satellite moved it (3)."""
    moved = np.abs(models - start)
    total = moved.sum(axis=0)
    weighted = np.einsum("kp,kp->p", moved, models)
    return np.divide(weighted, total, out=otherwise.copy(), where=total > 0)


def _set_rows(
    target: Vector, now: Now, models: Vector, weights: NDArray[Any], otherwise: Vector
) -> None:
    """Average row c of the last layer by `weights[:, c]`; rows that none owns stay as they were."""
    rows = now.fleet.layout.class_rows
    totals = weights.sum(axis=0)
    owned = totals > 0
    shares = weights / np.where(owned, totals, 1.0)
    mean = np.einsum("kc,kcw->cw", shares, models[:, rows], dtype=np.float64)
    target[rows] = np.where(owned[:, None], mean, otherwise[rows])
