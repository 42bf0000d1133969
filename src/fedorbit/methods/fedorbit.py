"""FedOrbit: every orbit trains in every round, classes go to those who own them.

Bashir, Dagiuklas and Iqbal, "FedOrbit: Adaptive Personalized Federated Learning for Non-IID LEO
Satellite Constellations".

    symbol           here
    w_l^{f,p}        features of `model[l]`, the orbit's personal extractor
    w^c              classifier of `model[l]`; with ideal links the same for all orbits
    w_l, q_l         `uploaded[l]`, `quality[l]`: the GS's last news of orbit l
    tau_l, sigma_l   `fleet.dark_rounds`: rounds since orbit l was in view; both count the same
    s_kc, a_lc       class strength and affinity, from the fleet's counts and from `counts[l]`,
                     those of orbit l when it uploaded last
    beta             similarity of the orbits' classes, `data/similarity.py`

Departures from the paper
- beta is computed from smoothed histograms (`similarity_smoothing`); 0 is the literal equation.
- `eq:m_blend` read literally blends the old extractor; all personal extractors then stay equal for
  ever. Default is `blend="own"`: the extractor after this round's training.
- fc2 has no class rows: averaged by samples in the orbit, by n_l rho^sigma at the GS.
- A class without samples keeps its row: in an orbit the one it started from, at the GS the global.
- Where no satellite moved an element, the elementwise weights are the samples.
- An orbit without samples trains nothing and has q_l = 0. Where time or power on board is short,
  q_l is what was done: the mean over the orbit's samples of the epochs that they were trained.
- With causal links, orbits out of view exchange nothing with the GS: it goes on with their last
  upload, and they with what they have on board.
- With `continuous = false`, orbits out of view neither train nor exchange anything, whatever the
  links are: blending untrained extractors in every round would wear them down to their mean.
- An orbit that has left stays in the aggregation with its last upload and counts, at rho^sigma;
  its effort q_l is 0 with ideal links, and that of its last upload with causal ones.
"""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedorbit.data.similarity import SIMILARITY_SMOOTHING, similarity_coefficient
from fedorbit.learning.engine import Program
from fedorbit.learning.jobs import Trained
from fedorbit.learning.parameters import Vector
from fedorbit.methods.base import Method, State, weighted_mean, with_launched
from fedorbit.methods.effort import EffortSchedule, Work
from fedorbit.methods.fleet import Fleet


class FedOrbit(EffortSchedule, Method):
    """Continuous training, class-aware aggregation, personal feature extractors."""

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
    blend: Literal["own", "literal"] = Field("own", description="which extractor is blended")

    def start(self, fleet: Fleet) -> State:
        """Everybody has w(0); the GS has heard of nobody."""
        w = fleet.initial_model()
        everywhere = np.tile(w, (fleet.orbits, 1))
        return {
            "model": everywhere,
            "global": w,
            "uploaded": everywhere.copy(),
            "quality": np.zeros(fleet.orbits),
            "counts": np.zeros((fleet.orbits, fleet.classes), dtype=np.int64),
        }

    def round(self, state: State, t: int, fleet: Fleet) -> State:
        """Run Algorithm 1."""
        state = with_launched(state, t, fleet, "model")
        visible, tau = fleet.visible(t), fleet.dark_rounds(t)
        programs, planned, quality = {}, {}, fleet.orbit_samples(t) * 1.0
        for orbit in fleet.present(t):
            start = state["model"][orbit]  # eq:m_plane_model
            work, rate = self.scheduled_work(orbit, t, fleet), fleet.plan.rate(t)
            if orbit in visible:
                rate = self.dampened(rate, int(tau[orbit]), fleet.tau_max)
            elif not self.continuous:
                work = Work(0, 1)
            programs[orbit] = self._train_orbit(fleet, orbit, t, start, work, rate)
            planned[orbit] = work.epochs * work.intra_rounds
        after = {**state, "model": state["model"].copy()}
        for orbit, model in fleet.run(programs).items():
            after["model"][orbit] = model
            if self.quality_weights and quality[orbit]:
                quality[orbit] = fleet.effort(orbit, t, planned[orbit])  # eq:m_quality_weight
        # Who did not train has no news to tell: without dark training, those in view meet alone.
        if meeting := fleet.reachable(t) if self.continuous else visible:
            self._meet_at_ground(state, after, quality, meeting, t, fleet)
        return after

    def dampened(self, rate: float, tau: int, tau_max: int) -> float:
        """eta_l: a smaller rate after a longer absence (`eq:m_dampen`).

        Who was away altogether can have missed more than tau_max rounds, and counts as tau_max.
        """
        return rate / (1.0 + self.kappa * min(tau, tau_max) / max(tau_max, 1))

    def similarity(self, t: int, fleet: Fleet) -> float:
        """Beta (`eq:m_beta`) of the orbits that are there, or the fixed one."""
        if self.beta is not None:
            return self.beta
        counts = fleet.orbit_class_counts(t)[fleet.present(t)]
        return similarity_coefficient(counts, self.similarity_smoothing)

    def _train_orbit(
        self, fleet: Fleet, orbit: int, t: int, start: Vector, work: Work, rate: float
    ) -> Program[Vector]:
        model = start
        for intra_round in range(work.intra_rounds if work.epochs else 0):
            trained = yield fleet.jobs(
                orbit,
                t,
                model,
                epochs=work.epochs,
                rate=rate,
                intra_round=intra_round,
                intra_rounds=work.intra_rounds,
            )
            model = self._aggregate_orbit(fleet, orbit, t, model, trained)
            del trained  # before the next ones arrive
        return model

    def _aggregate_orbit(
        self, fleet: Fleet, orbit: int, t: int, start: Vector, trained: list[Trained]
    ) -> Vector:
        """Combine an orbit's satellites; `start` is the model they all started from."""
        if not trained:
            return start
        satellites = fleet.trainers(orbit, t)
        models = np.stack([result.model for result in trained])
        samples = fleet.samples(t)[satellites]
        combined = weighted_mean(list(models), samples, otherwise=start)
        if self.magnitude_features:
            features = fleet.layout.features
            combined[features] = mean_by_magnitude(
                models[:, features], start[features], combined[features]
            )
        if self.class_rows:
            strength = fleet.class_counts(t)[satellites]
            _set_rows(combined, fleet, models, strength, otherwise=start)  # eq:m_intra_classifier
        return combined

    def _meet_at_ground(
        self,
        before: State,
        after: State,
        quality: NDArray[Any],
        meeting: list[int],
        t: int,
        fleet: Fleet,
    ) -> None:
        """Upload, aggregate at the GS, and blend in every orbit that takes part."""
        after |= {key: before[key].copy() for key in ("uploaded", "quality", "counts")}
        if fleet.links == "ideal" and self.continuous:
            after["quality"] = quality  # known of everybody, and 0 of those who are away
        for orbit in meeting:
            after["uploaded"][orbit] = fleet.upload(t, orbit, after["model"][orbit])
            after["quality"][orbit] = quality[orbit]
            after["counts"][orbit] = fleet.orbit_class_counts(t)[orbit]
        sigma = fleet.dark_rounds(t + 1)
        after["global"] = self._aggregate_at_ground(before["global"], after, sigma, fleet)

        features, beta = fleet.layout.features, np.float32(self.similarity(t, fleet))
        own = after["model"] if self.blend == "own" else before["model"]
        model = after["model"].copy()
        for orbit in meeting:
            received = fleet.download(t, orbit, after["global"])
            personal = (1 - beta) * own[orbit, features] + beta * received[features]  # eq:m_blend
            model[orbit] = received
            model[orbit, features] = personal
        after["model"] = model

    def _aggregate_at_ground(
        self, w: Vector, news: State, sigma: NDArray[Any], fleet: Fleet
    ) -> Vector:
        """Combine the last news of all orbits; `w` is kept where nobody has a say.

        Of an orbit that never uploaded there is none: its counts and quality are 0.
        """
        uploads, counts = news["uploaded"], news["counts"]
        fresh = self.rho**sigma
        combined = weighted_mean(list(uploads), counts.sum(axis=1) * fresh, otherwise=w)
        features = fleet.layout.features
        combined[features] = weighted_mean(  # eq:m_gs_average
            list(uploads[:, features]), news["quality"], otherwise=w[features]
        )
        if self.class_rows:
            # a_lc is the orbit's share of class c; the denominator cancels in the mean.
            affinity = counts * fresh[:, None]
            _set_rows(combined, fleet, uploads, affinity, otherwise=w)  # eq:m_gs_classifier
        return combined

    def models(self, state: State) -> Vector:
        """Every orbit uses its personal extractor with the classifier it received last."""
        return state["model"]

    def facts(self, state: State, t: int, fleet: Fleet) -> dict[str, Any]:
        """Tell beta."""
        return {"beta": self.similarity(t, fleet)}


def mean_by_magnitude(models: Vector, start: Vector, otherwise: Vector) -> Vector:
    """Average every element by how far each satellite moved it (`eq:m_intra_features`)."""
    moved = np.abs(models - start)
    total = moved.sum(axis=0)
    weighted = np.einsum("kp,kp->p", moved, models)
    return np.divide(weighted, total, out=otherwise.copy(), where=total > 0)


def _set_rows(
    target: Vector, fleet: Fleet, models: Vector, weights: NDArray[Any], otherwise: Vector
) -> None:
    """Average row c of the last layer by `weights[:, c]`; rows nobody has stay as they were."""
    rows = fleet.layout.class_rows
    totals = weights.sum(axis=0)
    owned = totals > 0
    shares = weights / np.where(owned, totals, 1.0)
    mean = np.einsum("kc,kcw->cw", shares, models[:, rows], dtype=np.float64)
    target[rows] = np.where(owned[:, None], mean, otherwise[rows])
