"""Training within a slot and longer, satellite by satellite."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.fleet import Now
from fedorbit.fleet.keeping import Keeper
from fedorbit.learning.jobs import batch_order
from fedorbit.learning.rules import Coupled, Sgd
from fedorbit.learning.rules.base import Rule, TorchJob, Trained
from fedorbit.testing import EVENTS, fleet_of, reloaded, small_world
from fedorbit.testing.playing import Snapshot

ALWAYS = np.ones((6, 3), dtype=bool)


def test_every_satellite_has_a_job_of_its_own() -> None:
    """Start, rule and rate of each are its own, and no exchange is implied."""
    world = small_world()
    trainer = world.trainer()
    with fleet_of(world) as fleet:
        now = fleet.at(1)
        starts = [fleet.initial_model() + np.float32(0.01 * k) for k in range(6)]
        jobs = [
            now.job(
                k, starts[k], epochs=1 + k % 2, rate=0.01 * (k + 1), rule=Sgd(starts[0], 0.1 * k)
            )
            for k in range(6)
        ]
        trained = now.train(jobs)
        for job, result in zip(jobs, trained, strict=True):
            expected = trainer.train(job, batch_order(world.data, job, 0)).model
            np.testing.assert_array_equal(result.model, expected)
        samples = now.samples
        assert fleet.ledger.samples_trained == sum(
            job.epochs * samples[job.satellite] for job in jobs
        )
        assert fleet.ledger.epochs == [2, 2, 2]  # the longest of each orbit
        assert fleet.ledger.isl_bytes == 0
        now.orbits.exchange(0)
        assert fleet.ledger.isl_bytes == 2 * 4 * fleet.layout.size


def test_a_job_takes_the_runs_epochs_and_rate_unless_told() -> None:
    with fleet_of(small_world()) as fleet:
        job = fleet.at(3).job(2, fleet.initial_model())
        assert (job.epochs, job.rate, job.key) == (1, 0.01 * 0.998**3, (3, 0, 0))


def test_an_inactive_satellite_cannot_train() -> None:
    with fleet_of(small_world(events=EVENTS)) as fleet:
        now = fleet.at(2)
        job = now.job(0, fleet.initial_model())
        for train in (now.train, now.begin):
            with pytest.raises(ModelError, match=r"satellite 0 cannot train in round 2: it is not"):
                train([job])
        assert fleet.ledger.samples_trained == 0


def test_without_a_speed_a_job_has_ended_in_the_next_slot() -> None:
    with fleet_of(small_world()) as fleet:
        w = fleet.initial_model()
        fleet.at(1).begin([fleet.at(1).job(k, w) for k in (3, 1)], about=[{"n": 3}, {"n": 1}])
        assert fleet.at(1).finished() == []
        assert fleet.at(1).is_busy(3)
        one, three = fleet.at(2).finished()
        assert (one.satellite, one.about, one.begun) == (1, {"n": 1}, 1)
        assert (three.satellite, three.about) == (3, {"n": 3})
        np.testing.assert_array_equal(one.update, one.model - w)
        assert one.update.any()
        assert not fleet.at(2).is_busy(3)
        assert fleet.at(3).finished() == []


def begin(now: Now, satellite: int, **changes: object) -> None:
    now.begin([now.job(satellite, now.fleet.initial_model(), **changes)])


def test_a_job_takes_as_long_as_its_satellite_needs() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    # An epoch takes 400 s on satellite 0 and 100 s on satellite 1; a slot is 300 s.
    seconds = [400.0, 100.0, *[1.0] * 4]
    speeds = [size / s for size, s in zip(sizes, seconds, strict=True)]
    with fleet_of(small_world(onboard={"samples_per_s": speeds})) as fleet:
        begin(fleet.at(0), 0)
        begin(fleet.at(0), 1, epochs=2)
        begin(fleet.at(0), 0)  # after the first
        ended = {t: [(d.satellite, d.end_s) for d in fleet.at(t).finished()] for t in range(4)}
        assert ended == {
            0: [],
            1: [(1, pytest.approx(200.0))],
            2: [(0, pytest.approx(400.0))],
            3: [(0, pytest.approx(800.0))],
        }


def test_a_job_begins_after_what_its_satellite_does_within_the_slot() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    speeds = [size / 100.0 for size in sizes]  # an epoch takes 100 s
    with fleet_of(small_world(onboard={"samples_per_s": speeds})) as fleet:
        now = fleet.at(1)
        now.train([now.job(0, fleet.initial_model(), epochs=5)])
        begin(now, 0)
        begin(now, 2)
        # Slot 1 begins at 300 s.
        ends = [job["end_s"] for job in fleet.saved()[0]["jobs"]]
        assert ends == [pytest.approx(300.0 + 500.0 + 100.0), pytest.approx(300.0 + 100.0)]


def test_a_job_on_some_of_the_samples_is_counted_by_its_images() -> None:
    """One batch is not an epoch; several of them may be."""
    world = small_world(ALWAYS, onboard={"samples_per_s": 1e6, "deadline": True})
    half = len(world.partition.train[0]) // 2
    assert half > 1
    with fleet_of(world) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        [trained] = now.train([now.job(0, w, samples=half)])
        assert trained.steps == -(-half // world.config.training.batch)
        assert fleet.ledger.samples_trained == half
        assert fleet.ledger.epochs == [0, 0, 0]
        now.train([now.job(2, w, epochs=5, samples=len(world.partition.train[2]) // 2 + 1)])
        assert fleet.ledger.epochs[1] in (2, 3)
        assert fleet.onboard is not None
        told = fleet.onboard.record()
        assert told["epochs_asked"] == told["epochs_done"] == fleet.ledger.epochs
        begin(now, 4, samples=half)
        fleet.at(1)
        assert fleet.ledger.epochs[2] == 0


def test_a_battery_cuts_what_is_begun() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    energy = {"battery_wh": 1.0, "solar_w": 0.0, "training_w": 1.0, "initial_charge": 1.0}
    # 3600 J pay for three epochs of 1000 s.
    onboard = {"samples_per_s": [size / 1000.0 for size in sizes], "energy": energy}
    with fleet_of(small_world(onboard=onboard)) as fleet:
        begin(fleet.at(0), 0, epochs=5)
        begin(fleet.at(0), 0, epochs=1)
        kept = fleet.saved()[0]
        assert [job["steps"] > 0 for job in kept["jobs"]] == [True, False]
        assert [job["epochs"] for job in kept["jobs"]] == [3, 0]
        assert kept["jobs"][0]["end_s"] == pytest.approx(3000.0)
        assert (kept["onboard"]["asked"], kept["onboard"]["done"]) == (6, 0)  # not yet
        begin(fleet.at(0), 1, epochs=1)  # ends at 1000 s
        fleet.at(3)
        assert fleet.saved()[0]["onboard"]["done"] == 1


def test_work_is_counted_in_the_slot_in_which_it_ends() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    speeds = [size / 400.0 for size in sizes]  # an epoch takes 400 s, a slot is 300 s
    world = small_world(events=EVENTS, onboard={"samples_per_s": speeds})
    with fleet_of(world) as fleet:
        begin(fleet.at(0), 0)  # ends at 400 s
        begin(fleet.at(0), 0)  # lost at 600 s, and so is this
        begin(fleet.at(0), 2, epochs=2)  # ends at 800 s
        begin(fleet.at(0), 3)
        counted = []
        for t in range(6):
            saved = reloaded(Snapshot(t, {}, *fleet.saved()))
            fleet.restore(saved.world, saved.arrays)
            fleet.at(t)
            fleet.at(t)  # counts nothing again
            counted.append((fleet.ledger.samples_trained, list(fleet.ledger.epochs)))
    first = sizes[0] + sizes[3]
    assert counted == [
        (0, [0, 0, 0]),
        (first, [1, 1, 0]),
        *[(first + 2 * sizes[2], [1, 3, 0])] * 4,
    ]


def test_epochs_of_an_orbit_are_those_of_its_busiest_satellite() -> None:
    """In whichever calls its satellites are asked; satellites work side by side."""
    epochs = {0: 2, 1: 3, 4: 1}
    for calls in ([[0, 1, 4]], [[0], [1], [4]], [[1, 0], [4]]):
        with fleet_of(small_world()) as fleet:
            now, w = fleet.at(0), fleet.initial_model()
            for call in calls:
                now.train([now.job(k, w, epochs=epochs[k]) for k in call])
            assert fleet.ledger.epochs == [3, 0, 1]
            now.train([now.job(0, w, epochs=2, purpose=1)])  # satellite 0 has done 4 now
            assert fleet.ledger.epochs == [4, 0, 1]
            later = fleet.at(1)
            later.train([later.job(1, w)])
            assert fleet.ledger.epochs == [5, 0, 1]


def test_time_on_board_does_not_depend_on_how_jobs_are_grouped() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    seconds = [100.0, 60.0, 50.0, 20.0, 10.0, 5.0]
    speeds = [size / s for size, s in zip(sizes, seconds, strict=True)]
    for calls in ([[0, 1, 2, 3]], [[0], [1], [2], [3]], [[3, 1], [2, 0]]):
        with fleet_of(small_world(onboard={"samples_per_s": speeds})) as fleet:
            now, w = fleet.at(0), fleet.initial_model()
            for call in calls:
                now.train([now.job(k, w) for k in call])
            fleet.onboard.begin(1)
            assert fleet.onboard.record()["onboard_s"] == [100.0, 50.0, 0.0]


def test_what_an_inactive_satellite_has_finished_stays_on_board() -> None:
    with fleet_of(small_world(events=EVENTS)) as fleet:
        begin(fleet.at(2), 2)
        assert [fleet.at(t).finished() for t in (3, 4)] == [[], []]  # orbit 1 has left
        assert [done.satellite for done in fleet.at(5).finished()] == [2]


def test_satellites_of_several_orbits_are_limited_each_by_its_own_clock() -> None:
    """A batch of jobs may belong to several orbits, and a deadline cuts each of them alone."""
    sizes = [len(part) for part in small_world(ALWAYS).partition.train]
    seconds = [100.0, 1.0, 200.0, 1.0, 400.0, 1.0]
    speeds = [size / s for size, s in zip(sizes, seconds, strict=True)]
    hurry = {"samples_per_s": speeds, "deadline": True}
    with fleet_of(small_world(ALWAYS, onboard=hurry)) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        trained = now.train([now.job(k, w, epochs=4) for k in (4, 2, 0)])
        done = [fleet.onboard.done_per_sample(orbit, sizes[2 * orbit]) for orbit in range(3)]
        assert done == [3, 1, 0]  # of 300 s
        assert [result.steps > 0 for result in trained] == [False, True, True]


def test_what_is_under_way_survives_a_checkpoint() -> None:
    world = small_world(ALWAYS)
    with fleet_of(world) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        jobs = [now.job(0, w, rule=Coupled(w, 0.25)), now.job(1, w), now.job(2, w + 1)]
        now.begin(jobs, about=[{"base": k} for k in range(3)])
        now.send(6, 3, w, note="hello")
        saved = reloaded(Snapshot(1, {}, *fleet.saved()))
        expected, mail = fleet.at(1).finished(), fleet.at(1).inbox(3)
    # Two starts, three models, two values that a rule adds to its model, and a message.
    assert len(saved.arrays) == 8
    with fleet_of(world) as fleet:
        fleet.restore(saved.world, saved.arrays)
        again = fleet.at(1).finished()
        for one, other in zip(expected, again, strict=True):
            assert (one.satellite, one.begun, one.end_s, one.about) == (
                other.satellite, other.begun, other.end_s, other.about,
            )  # fmt: skip
            assert one.trained.steps == other.trained.steps
            np.testing.assert_array_equal(one.update, other.update)
        extra = again[0].trained.extra
        assert extra["alpha"] == expected[0].trained.extra["alpha"]
        assert isinstance(extra["alpha"], float)
        np.testing.assert_array_equal(extra["personal"], expected[0].trained.extra["personal"])
        [letter] = fleet.at(1).inbox(3)
        assert letter.about == mail[0].about
        np.testing.assert_array_equal(letter.payload, w)
        assert fleet.ledger.saved() == saved.world["ledger"]


@dataclass(frozen=True, eq=False)
class Counting(Rule):
    """Adds values of several types to its result."""

    def with_torch(self, job: TorchJob) -> Trained:
        noted = {"loss": np.float32(0.1), "share": np.array(0.5), "seen": np.int32(3), "done": True}
        return Trained(job.start + 1, 1, {**noted, "drift": np.ones(2)})

    def untouched(self) -> dict[str, Any]:
        return {}


@pytest.mark.filterwarnings("ignore:the kernel has no Counting")
def test_what_is_under_way_cannot_be_changed_from_outside() -> None:
    """A checkpoint in memory is what a stop writes: a method must not be able to change it."""
    world = small_world(ALWAYS)
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        now.begin([now.job(0, fleet.initial_model(), rule=Counting())], about=[{"base": 1}])
        now.send(6, 3, fleet.initial_model(), note="hello")
        snapshot = Snapshot(1, {}, *fleet.saved())
        for saved in (snapshot, reloaded(snapshot)):
            fleet.restore(saved.world, saved.arrays)
            [done], [mail] = fleet.at(1).finished(), fleet.at(1).inbox(3)
            for array in (done.start, done.model, done.trained.extra["drift"], mail.payload):
                with pytest.raises(ValueError, match="read-only"):
                    array += 1
            done.about["base"], mail.about["note"] = 2, "changed"
            assert saved.world["jobs"][0]["about"] == {"base": 1}
            assert saved.world["mail"][0]["about"] == {"note": "hello"}


@pytest.mark.filterwarnings("ignore:the kernel has no Counting")
def test_the_types_of_what_a_rule_adds_do_not_depend_on_a_resume() -> None:
    world = small_world(ALWAYS)
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        now.begin([now.job(0, fleet.initial_model(), rule=Counting())])
        saved = reloaded(Snapshot(1, {}, *fleet.saved()))
        [first] = fleet.at(1).finished()
        fleet.restore(saved.world, saved.arrays)
        [again] = fleet.at(1).finished()
    types = {name: type(value) for name, value in first.trained.extra.items()}
    assert types == {name: type(value) for name, value in again.trained.extra.items()}
    assert types == {
        "loss": float, "share": float, "seen": int, "done": bool, "drift": np.ndarray,
    }  # fmt: skip


def test_only_arrays_of_the_same_bits_are_shared() -> None:
    keeper, zero = Keeper(), np.zeros(3, dtype=np.float32)
    kept = keeper.keep(zero)
    other = keeper.keep(np.ones(3, dtype=np.float32))
    assert keeper.keep(zero.copy()) is kept  # not only with the last one
    assert keeper.keep(np.ones(3, dtype=np.float32)) is other
    assert np.signbit(keeper.keep(-zero)).all()
    assert keeper.keep(zero.astype(np.float64)).dtype == np.float64


def test_an_inactive_satellite_trains_nothing() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    speeds = [size / 400.0 for size in sizes]  # an epoch takes 400 s, a slot is 300 s
    world = small_world(events=EVENTS, onboard={"samples_per_s": speeds})
    with fleet_of(world) as fleet:
        begin(fleet.at(1), 0)  # lost after 300 s of it
        begin(fleet.at(1), 0)
        begin(fleet.at(2), 2)  # away from 900 s to 1500 s
        saved = reloaded(Snapshot(3, {}, *fleet.saved()))
        assert [job["end_s"] for job in saved.world["jobs"]] == [None, None, pytest.approx(1600.0)]
    with fleet_of(world) as fleet:
        fleet.restore(saved.world, saved.arrays)
        assert [fleet.at(t).finished() for t in range(3, 6)] == [[], [], []]
        assert fleet.at(5).is_busy(0)
        assert fleet.at(5).is_busy(2)


def test_a_satellite_does_one_thing_at_a_time() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    for onboard in (None, {"samples_per_s": [size / 400.0 for size in sizes]}):
        with fleet_of(small_world(onboard=onboard)) as fleet:
            begin(fleet.at(0), 0)
            now = fleet.at(0)
            before = fleet.ledger.samples_trained
            with pytest.raises(
                ModelError, match=r"satellite 0 cannot train within round 0: it has"
            ):
                now.train([now.job(0, fleet.initial_model())])
            assert fleet.ledger.samples_trained == before
            now.train([now.job(1, fleet.initial_model())])
            later = fleet.at(2)  # it has ended, collected or not
            later.train([later.job(0, fleet.initial_model())])
            assert [done.satellite for done in later.finished()] == [0]


def test_what_cannot_be_begun_is_refused_before_it_is_trained() -> None:
    with fleet_of(small_world()) as fleet:
        now, w = fleet.at(0), fleet.initial_model()
        with pytest.raises(ModelError, match=r"has 1 jobs and 2 notes in `about`"):
            now.begin([now.job(0, w)], about=[{}, {}])
        with pytest.raises(ModelError, match=r"base = nan cannot be noted"):
            now.begin([now.job(0, w)], about=[{"base": float("nan")}])
        with pytest.raises(ModelError, match=r"samples of all satellites cannot be begun"):
            now.begin(now.pooled_jobs(w, epochs=1))
        assert fleet.ledger.samples_trained == 0
        assert not now.is_busy(0)


def test_a_job_begins_when_its_model_has_arrived() -> None:
    """600 s of training that begin at 299 s end in the third slot, not as the second does."""
    world = small_world(np.ones((6, 3), dtype=bool), onboard={"samples_per_s": 0.05})
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        k = int(np.argmax(now.samples))
        training_s = now.training_s(k)
        slots = int(training_s // 300.0) + 1
        late_s = 300.0 * slots - training_s + 1.0
        assert 0.0 < late_s < 300.0
        now.begin([now.job(k, fleet.initial_model())], after_s=[late_s])
        ended = next(t for t in range(1, 6) if fleet.at(t).finished())
        assert ended == slots + 1


def test_slots_of_a_training_are_counted_from_its_begin() -> None:
    """A satellite that trains for two rounds of 300 s, to rounding, or for none."""
    world = small_world(np.ones((2, 3), dtype=bool))
    with fleet_of(world) as fleet:
        assert fleet.at(0).training_slots(0) == 1  # without a speed it takes no time
    n = len(world.partition.train[0])
    world = small_world(np.ones((2, 3), dtype=bool), onboard={"samples_per_s": n / 600.0})
    with fleet_of(world) as fleet:
        now = fleet.at(0)
        assert now.training_s(0) == pytest.approx(600.0)
        assert [now.training_slots(0, work=w) for w in (0.1, 0.5, 0.51, 1.0, 2.0)] == [
            1,
            1,
            2,
            2,
            4,
        ]
        assert [now.training_slots(0, further_s=s) for s in (1.0, 300.0, 301.0)] == [3, 3, 4]
