"""Time and energy on board, round by round: what satellites can do, and what it costs them.

A *pass* is one gradient of each of a satellite's n_k samples; it takes n_k / speed seconds and
training_w times as many joules. In a round a satellite can do the passes that fit into the round
(with a deadline) and that its charge at the round's beginning pays for (with a battery). What the
Sun brings during a round can be spent from the next round on, so that no charge is spent before it
exists, whenever in the round the Sun shines.

- A satellite that cannot do one epoch of all that the method trains (`Method.needs`) is not among
  the trainers of the round.
- If a round asks for more passes than there are, a satellite does one epoch of each of its
  trainings, and of the other epochs the same share of each, rounded down. Trainings that follow in
  the round count (`LocalJob.to_come`). Where there is not one epoch for each of them, there is one
  for those that begin now, or none. What rounding leaves over is for later trainings, or stays in
  the battery.
- Every satellite has a clock of its own, so that it does not matter in which calls or in which
  order satellites are asked to train. Before an orbit exchanges models all of it waits for the
  slowest; time is kept free for exchanges that are announced.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.errors import RunError
from fedorbit.fleet.ledger import BYTES_PER_PARAMETER
from fedorbit.fleet.roster import Ints
from fedorbit.hardware import Floats, Hardware, transfer_s
from fedorbit.learning.jobs import LocalJob

ROUNDING = 1e-9
"""An epoch that fits but for rounding errors fits."""
LATE_S = 1e-3
"""No orbit is late by less than a millisecond."""


class Needs(NamedTuple):
    """Least work that a method requires of a satellite that trains."""

    passes: int = 1
    """Gradient evaluations per sample, for one epoch of all that it trains."""
    exchanged: float = 1.0
    """Models that it sends to the satellites of its orbit, and gets back."""
    batches: int = 0
    """Gradient evaluations of single batches, beside the passes."""


ONE_MODEL = Needs()


@dataclass
class Tally:
    """State that a checkpoint keeps: plain values, `[orbit]` except the charge."""

    round: int = 0
    """The current round."""
    charge_j: list[float] = field(default_factory=list)
    """Charge of each satellite as that round begins."""
    onboard_s: list[float] = field(default_factory=list)
    """Longest time on board in a round since the last record."""
    epochs_asked: list[int] = field(default_factory=list)
    """Epochs of all satellites requested by the method since the last record, times passes."""
    epochs_done: list[int] = field(default_factory=list)
    """Epochs of all satellites trained since the last record, times passes."""
    longest_s: list[float] = field(default_factory=list)
    """Longest time on board in a round of the run."""
    busy_rounds: list[int] = field(default_factory=list)
    """Number of rounds with training."""
    late_rounds: list[int] = field(default_factory=list)
    """Number of rounds in which training took longer than a round."""
    asked: int = 0
    """Epochs of the whole run, as in `epochs_asked`."""
    done: int = 0
    """Epochs of the whole run, as in `epochs_done`."""
    lowest_charge: list[float] = field(default_factory=list)
    """The lowest charge that any satellite had at the end of its training, share of the battery."""


class Onboard:
    """Follows clocks and batteries through the rounds, in their order."""

    def __init__(
        self,
        hardware: Hardware,
        samples: Ints,
        orbit_of_satellite: Ints,
        activity: Activity,
        parameters: int,
        needs: Needs = ONE_MODEL,
        batch: int = 1,
    ) -> None:
        """`parameters`: of the model. `needs`: of the method, of every satellite that trains.

        `batch`: samples of one batch.
        """
        self.hardware = hardware
        self._samples = samples
        self._orbit_of_satellite = orbit_of_satellite
        self._activity = activity
        self._parameters, self._needs = parameters, needs
        images = needs.passes * samples + needs.batches * np.minimum(samples, batch)
        self._needed_s: Floats = images / hardware.samples_per_s
        self._first_of_orbit = np.searchsorted(
            orbit_of_satellite, np.arange(orbit_of_satellite[-1] + 1)
        )
        orbits = len(self._first_of_orbit)
        power = hardware.power
        self._tally = Tally(
            charge_j=[power.initial_j] * len(samples) if power else [],
            longest_s=[0.0] * orbits,
            busy_rounds=[0] * orbits,
            late_rounds=[0] * orbits,
            lowest_charge=[power.initial_j / power.battery_j] * orbits if power else [],
        )
        self.start_record()
        self._start_round()

    # --- Rounds ---------------------------------------------------------------------------------

    def begin(self, t: int) -> None:
        """Proceed to round t and end the rounds before it. Does nothing if round t has begun."""
        if t < self._tally.round:
            raise RunError(
                f"round {t} is over on board, round {self._tally.round} is going on; clocks and "
                "batteries know one direction, so play rounds in their order"
            )
        while self._tally.round < t:
            self._end_round()

    def able(self, t: int) -> NDArray[np.bool_]:
        """Satellites that can train in round t; in one that is over, all."""
        if t == self._tally.round:
            return self._able
        if t < self._tally.round:
            return np.ones(len(self._samples), dtype=np.bool_)
        charge_j = self._charge_after(self._tally.round, self._charge_j, self._drawn_j)
        for between in range(self._tally.round + 1, t):
            charge_j = self._charge_after(between, charge_j, np.zeros_like(charge_j))
        return self._able_satellites(t, charge_j)

    def never_able(self) -> list[int]:
        """Satellites that can train in no round, with all the charge that they could ever have."""
        power = self.hardware.power
        charge_j: Floats = np.zeros(len(self._samples))
        if power is not None:
            sunlit_s = power.sunlit_s.sum(axis=0, dtype=np.float64)
            charge_j = np.minimum(power.initial_j + power.solar_w * sunlit_s, power.battery_j)
        there = able = np.zeros(len(self._samples), dtype=np.bool_)
        for t in self._activity.begins.tolist():
            present = self._activity.during(t)
            there, able = there | present, able | (present & self._able_satellites(t, charge_j))
        return np.flatnonzero(there & ~able & (self._samples > 0)).tolist()

    def ask(self, orbit: int, t: int, epochs: int) -> None:
        """Note epochs that a method requests of an orbit's satellites in round t, times passes."""
        self.begin(t)
        self._tally.epochs_asked[orbit] += epochs
        self._tally.asked += epochs

    def done_per_sample(self, orbit: int, orbit_samples: int) -> float:
        """Epochs per sample that an orbit has trained in this round."""
        return self._samples_trained[orbit] / orbit_samples if orbit_samples else 0.0

    def _start_round(self) -> None:
        self._charge_j: Floats = np.array(self._tally.charge_j)
        self._drawn_j: Floats = np.zeros_like(self._charge_j)
        self._clock_s: Floats = np.zeros(len(self._samples))
        self._worked_s: Floats = np.zeros(len(self._samples))
        self._reserved_s: list[list[float]] = [[] for _ in self._first_of_orbit]
        self._samples_trained = [0] * len(self._first_of_orbit)
        self._able = self._able_satellites(self._tally.round, self._charge_j)

    def _elapsed_s(self) -> list[float]:
        """Time on board of each orbit in this round: that of the satellite that ends last."""
        elapsed: list[float] = np.maximum.reduceat(self._clock_s, self._first_of_orbit).tolist()
        return elapsed

    def _end_round(self) -> None:
        tally, power = self._tally, self.hardware.power
        for orbit, elapsed_s in enumerate(self._elapsed_s()):
            tally.onboard_s[orbit] = max(tally.onboard_s[orbit], elapsed_s)
            tally.longest_s[orbit] = max(tally.longest_s[orbit], elapsed_s)
            tally.busy_rounds[orbit] += elapsed_s > 0.0
            tally.late_rounds[orbit] += elapsed_s > self.hardware.round_s + LATE_S
        if power is not None:
            left_j = np.maximum(self._charge_j - self._drawn_j, 0.0) / power.battery_j
            lowest = np.minimum.reduceat(left_j, self._first_of_orbit)
            tally.lowest_charge = np.minimum(tally.lowest_charge, lowest).tolist()
            charge_j = self._charge_after(tally.round, self._charge_j, self._drawn_j)
            tally.charge_j = charge_j.tolist()
        tally.round += 1
        self._start_round()

    def _charge_after(self, t: int, charge_j: Floats, drawn_j: Floats) -> Floats:
        """Charge at the end of round t; of satellites that are away it stays."""
        power = self.hardware.power
        if power is None or t >= len(power.sunlit_s):
            return charge_j
        charged_j = np.maximum(charge_j - drawn_j, 0.0) + power.solar_w * power.sunlit_s[t]
        there = self._activity.during(t)
        return np.where(there, np.minimum(charged_j, power.battery_j), charge_j)

    def _able_satellites(self, t: int, charge_j: Floats) -> NDArray[np.bool_]:
        """Satellites that have time and charge for what the method needs of them."""
        able = np.ones(len(self._samples), dtype=np.bool_)
        hardware, needs = self.hardware, self._needs
        if hardware.deadline:
            there = self._activity.during(t)
            in_orbit = np.add.reduceat(there.astype(np.int64), self._first_of_orbit)
            values = needs.exchanged * self._parameters
            exchange_s = self.exchange_s(values) * np.maximum(in_orbit - 1, 0)
            busy_s = self._needed_s + exchange_s[self._orbit_of_satellite]
            able &= busy_s <= hardware.round_s * (1.0 + ROUNDING)
        if hardware.power is not None:
            able &= self._needed_s * hardware.power.training_w <= charge_j * (1.0 + ROUNDING)
        return able

    # --- Training -------------------------------------------------------------------------------

    def exchange_s(self, values: float) -> float:
        """Seconds that aggregating an orbit takes for every satellite but the first: out and back.

        Values of the satellites go one after the other, as along a chain of neighbours.
        """
        return 2 * transfer_s(BYTES_PER_PARAMETER * values, self.hardware.isl_mbps)

    @contextmanager
    def exchange_to_come(self, orbit: int, values: float, others: int) -> Iterator[None]:
        """Keep time free for exchanges of an orbit that will follow, while this lasts.

        `values`: of all of them together.
        """
        reserved_s = others * self.exchange_s(values)
        of_round = self._reserved_s[orbit]
        of_round.append(reserved_s)
        try:
            yield
        finally:
            of_round.remove(reserved_s)

    def grant(self, jobs: Sequence[LocalJob]) -> list[LocalJob]:
        """Cut jobs that begin together to what satellites can do, and book time and energy.

        A satellite does its jobs one after the other, beside those of all other satellites.
        """
        rations = self._rations(jobs)
        granted = [replace(job, epochs=rations[job.satellite].of(job.epochs)) for job in jobs]
        for job in granted:
            self._draw(job)
            self._clock_s[job.satellite] += self.training_s(job)
            self._worked_s[job.satellite] += self.training_s(job)
            orbit = int(self._orbit_of_satellite[job.satellite])
            samples = int(self._samples[job.satellite])
            self._samples_trained[orbit] += job.epochs * job.samples_of_epoch(samples)
            self.count(orbit, job.whole_epochs(samples))
        return granted

    def grant_begun(self, t: int, jobs: Sequence[LocalJob]) -> list[LocalJob]:
        """Cut jobs that may take longer than a round to what batteries can pay for now.

        They are not on the round's clock: no deadline cuts them, and no orbit waits for them. Their
        energy is set aside now; their epochs are done when they end (`count`).
        """
        self.begin(t)
        granted = []
        for job in jobs:
            job = replace(job, epochs=min(job.epochs, self._affordable(job)))
            self._draw(job)
            granted.append(job)
        return granted

    def count(self, orbit: int, epochs: int) -> None:
        """Note epochs that a satellite of an orbit has done, times passes."""
        self._tally.epochs_done[orbit] += epochs
        self._tally.done += epochs

    def _affordable(self, job: LocalJob) -> int:
        """Epochs of a job that the satellite's charge pays for."""
        power, epoch_s = self.hardware.power, self.training_s(job.first_epoch())
        if power is None or not epoch_s:
            return job.epochs
        left_j = self._charge_j[job.satellite] - self._drawn_j[job.satellite]
        return int(max(left_j, 0.0) / (power.training_w * epoch_s) + ROUNDING)

    def worked_s(self, satellite: int) -> float:
        """Seconds for which a satellite has trained within this round, without waiting."""
        return float(self._worked_s[satellite])

    def training_s(self, job: LocalJob) -> float:
        """Seconds that a job takes on board."""
        return self._images_s(job.satellite, job.work(int(self._samples[job.satellite])))

    def epochs_s(self, satellite: int, epochs: int) -> float:
        """Seconds that epochs over all samples of a satellite take on board, of one pass each."""
        return self._images_s(satellite, epochs * int(self._samples[satellite]))

    def _images_s(self, satellite: int, images: float) -> float:
        return float(images / self.hardware.samples_per_s[satellite])

    def clock_s(self, satellite: int) -> float:
        """Seconds of this round for which a satellite has been busy, or has waited for others."""
        return float(self._clock_s[satellite])

    def exchange(self, orbit: int, values: int, others: int) -> None:
        """Book the time that the satellites of an orbit take to bring their values together.

        All of them wait for the slowest.
        """
        mine = self._orbit_of_satellite == orbit
        self._clock_s[mine] = self._clock_s[mine].max() + others * self.exchange_s(values)

    def _rations(self, jobs: Sequence[LocalJob]) -> dict[int, "_Ration"]:
        """Return what each satellite can do of all work requested in the rest of the round."""
        of_satellite: dict[int, list[LocalJob]] = defaultdict(list)
        for job in jobs:
            of_satellite[job.satellite].append(job)
        rations = {}
        for satellite, mine in of_satellite.items():
            samples = int(self._samples[satellite])
            now = sum(job.first_epoch().work(samples) for job in mine)
            least = now + sum(job.to_come.least for job in mine)
            wanted = sum(job.work(samples) + job.to_come.wanted for job in mine)
            rations[satellite] = _Ration.of_time(
                self._left_s(satellite),
                *(self._images_s(satellite, images) for images in (now, least, wanted)),
            )
        return rations

    def _left_s(self, satellite: int) -> float:
        """Seconds of training for which a satellite has time and charge in this round."""
        hardware, power = self.hardware, self.hardware.power
        left_s = np.inf
        if hardware.deadline:
            reserved_s = sum(self._reserved_s[int(self._orbit_of_satellite[satellite])])
            left_s = hardware.round_s - self._clock_s[satellite] - reserved_s
        if power is not None:
            left_j = self._charge_j[satellite] - self._drawn_j[satellite]
            left_s = min(left_s, left_j / power.training_w)
        return float(max(left_s, 0.0))

    def _draw(self, job: LocalJob) -> None:
        if self.hardware.power is not None:
            self._drawn_j[job.satellite] += self.hardware.power.training_w * self.training_s(job)

    # --- Records and checkpoints ------------------------------------------------------------------

    def record(self) -> dict[str, Any]:
        """Return the values of a record, since the last one; charges as shares of a battery."""
        tally, power = self._tally, self.hardware.power
        found: dict[str, Any] = {"onboard_s": [round(s, 3) for s in tally.onboard_s]}
        if self.hardware.limits:
            found |= {"epochs_asked": [*tally.epochs_asked], "epochs_done": [*tally.epochs_done]}
        if power is not None:
            shares, counted = self._charge_j / power.battery_j, self._counted()
            lowest = np.minimum.reduceat(np.where(counted, shares, np.inf), self._first_of_orbit)
            total = np.add.reduceat(np.where(counted, shares, 0.0), self._first_of_orbit)
            mean = total / np.add.reduceat(counted.astype(np.int64), self._first_of_orbit)
            found |= {
                "charge_lowest": lowest.round(6).tolist(),
                "charge_mean": mean.round(6).tolist(),
            }
        return found

    def _counted(self) -> NDArray[np.bool_]:
        """Satellites that were there in the last round; of an orbit that was away, all of them."""
        there = self._activity.during(max(self._tally.round - 1, 0))
        inhabited = np.logical_or.reduceat(there, self._first_of_orbit)
        return there | ~inhabited[self._orbit_of_satellite]

    def start_record(self) -> None:
        """Begin to count for the next record."""
        orbits = len(self._first_of_orbit)
        self._tally.onboard_s = [0.0] * orbits
        self._tally.epochs_asked, self._tally.epochs_done = [0] * orbits, [0] * orbits

    def summary(self) -> dict[str, Any]:
        """Return the values of the summary, of the whole run."""
        tally, hardware = self._tally, self.hardware
        busy, late = sum(tally.busy_rounds), sum(tally.late_rounds)
        speeds = hardware.samples_per_s
        found: dict[str, Any] = {
            "round_s": hardware.round_s,
            "samples_per_s": [float(f(speeds)) for f in (np.min, np.median, np.max)],
            "longest_s": tally.longest_s,
            "busy_rounds": tally.busy_rounds,
            "late_rounds": tally.late_rounds,
            "late_share": late / busy if busy else None,
        }
        if hardware.limits:
            found |= {"epochs_asked": tally.asked, "epochs_done": tally.done}
        if hardware.power is not None:
            found["lowest_charge"] = tally.lowest_charge
        return found

    def saved(self) -> dict[str, Any]:
        """Return what a checkpoint keeps, between two rounds."""
        return asdict(self._tally)

    def restore(self, saved: dict[str, Any]) -> None:
        """Continue from what a checkpoint kept."""
        self._tally = Tally(**deepcopy(saved))
        self._start_round()


class _Ration(NamedTuple):
    """Part of each training that a satellite can do: first epochs, and a share of later ones."""

    first: int
    share: float

    @classmethod
    def of_time(cls, can_s: float, now_s: float, least_s: float, wanted_s: float) -> "_Ration":
        """Share out seconds of training.

        `now_s` is one epoch of each training that begins, `least_s` also of each that follows, and
        `wanted_s` all epochs of all of them.
        """
        if can_s * (1.0 + ROUNDING) < least_s:
            return cls(first=int(can_s * (1.0 + ROUNDING) >= now_s), share=0.0)
        others_s = wanted_s - least_s
        return cls(first=1, share=min((can_s - least_s) / others_s, 1.0) if others_s else 1.0)

    def of(self, epochs: int) -> int:
        """Whole epochs that are left of some."""
        first = min(epochs, self.first)
        return first + int((epochs - first) * max(self.share, 0.0) + ROUNDING)
