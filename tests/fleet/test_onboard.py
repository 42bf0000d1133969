"""Time and energy on board, worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedorbit.activity import Activity
from fedorbit.errors import RunError
from fedorbit.fleet import Needs, Onboard
from fedorbit.hardware import Hardware, Power
from fedorbit.learning.jobs import Ahead, LocalJob
from fedorbit.learning.rules import Coupled, Sgd
from fedorbit.methods import Method, make_method
from fedorbit.methods.fedorbit import FedOrbit
from fedorbit.testing import (
    SCARCE_POWER,
    SCARCE_TIME,
    assert_same,
    fleet_of,
    play,
    small_world,
    snapshots,
)

ORBIT_OF_SATELLITE = np.array([0, 0, 1])
SAMPLES = np.array([10, 20, 40])
SPEEDS = np.array([1.0, 4.0, 2.0])
PASS_S = (10.0, 5.0, 20.0)
MODEL = np.zeros(3, dtype=np.float32)


def power(**changes: Any) -> Power:
    """Two watts, so that a pass costs 20, 10 and 40 J; the Sun brings 15, 0 and 50 J in round 0."""
    sunlit_s = np.array([[30.0, 0.0, 100.0], [100.0, 100.0, 100.0]], dtype=np.float32)
    values = {"battery_j": 100.0, "initial_j": 50.0, "solar_w": 0.5, "training_w": 2.0}
    return Power(**{**values, "sunlit_s": sunlit_s, **changes})


def onboard_of(activity: Activity | None = None, **hardware: Any) -> Onboard:
    return Onboard(
        Hardware(SPEEDS, round_s=100.0, **hardware),
        SAMPLES,
        ORBIT_OF_SATELLITE,
        activity or Activity.always(3),
        parameters=31_250,
    )


def jobs(
    epochs: int, *satellites: int, to_come: int = 0, t: int = 0, **more: Any
) -> list[LocalJob]:
    """`to_come`: trainings like this one that follow."""

    def job(satellite: int) -> LocalJob:
        one_each = to_come * int(SAMPLES[satellite])
        ahead = Ahead(wanted=epochs * one_each, least=one_each)
        return LocalJob(satellite, MODEL, epochs, 0.1, (t, 0, 0), to_come=ahead, **more)

    return [job(satellite) for satellite in satellites]


def granted(onboard: Onboard, *wave: list[LocalJob]) -> list[list[int]]:
    given = iter(onboard.grant([job for group in wave for job in group]))
    return [[next(given).epochs for _ in group] for group in wave]


# --- Time ---------------------------------------------------------------------------------------


def test_an_orbit_takes_as_long_as_its_slowest_satellite() -> None:
    onboard = onboard_of()
    assert granted(onboard, jobs(3, 0, 1), jobs(6, 2)) == [[3, 3], [6]]  # nothing limits
    granted(onboard, jobs(1, 0, 1))
    onboard.begin(1)
    # Orbit 0: satellite 0 takes 3 x 10 s, then 10 s. Orbit 1: 6 x 20 s, longer than a round.
    assert onboard.record() == {"onboard_s": [40.0, 120.0]}
    onboard.start_record()
    granted(onboard, jobs(2, 2, t=1))
    onboard.begin(2)
    assert onboard.record() == {"onboard_s": [0.0, 40.0]}
    told = onboard.summary()
    assert told["longest_s"] == [40.0, 120.0]
    assert told["busy_rounds"] == [1, 2]
    assert told["late_rounds"] == [0, 1]
    assert told["late_share"] == pytest.approx(1 / 3)
    assert told["samples_per_s"] == [1.0, 2.0, 4.0]
    assert "epochs_asked" not in told


def test_exchanging_models_takes_time() -> None:
    # 125 kB are 1 Mbit: half a second at 2 Mbit/s, out and back between two satellites.
    onboard = onboard_of(isl_mbps=2.0)
    granted(onboard, jobs(3, 0, 1), jobs(1, 2))
    onboard.exchange(0, values=31_250, others=1)
    granted(onboard, jobs(1, 0, 1, rule=Coupled(MODEL, 0.5)))  # two models: 2 x 10 s and 2 x 1 s
    onboard.exchange(0, values=62_500, others=1)
    onboard.begin(1)
    assert onboard.record() == {"onboard_s": [31.0 + 22.0, 20.0]}


def test_a_part_that_is_a_network_of_its_own_takes_its_share_of_the_time() -> None:
    onboard = onboard_of(deadline=True, power=power())
    half, plain = Sgd(part=slice(1, 3), work=0.5), Sgd(part=slice(1, 3))
    [job] = jobs(2, 0, rule=half)
    assert onboard.training_s(job) == 10.0  # of 20 s
    assert onboard.training_s(replace(job, rule=plain)) == 20.0
    # 50 J pay for five halves of a pass, or for two passes; 100 s for five passes of satellite 2.
    assert granted(onboard, jobs(6, 0, rule=half)) == [[5]]
    assert granted(onboard_of(power=power()), jobs(6, 0)) == [[2]]
    assert granted(onboard_of(deadline=True), jobs(12, 2, rule=half)) == [[10]]
    assert job.images(10) == job.work(10) * 2 == 20  # samples are trained on all the same


def test_a_deadline_cuts_to_whole_epochs() -> None:
    onboard = onboard_of(deadline=True)
    # 100 s: 10, 20 and 5 passes, to the point.
    assert granted(onboard, jobs(12, 0, 1), jobs(6, 2)) == [[10, 12], [5]]
    onboard.exchange(0, values=31_250, others=1)
    assert granted(onboard, jobs(1, 0, 1)) == [[0, 0]]  # the orbit waited for satellite 0
    onboard.begin(1)
    assert onboard.summary()["late_rounds"] == [0, 0]
    assert onboard.record()["epochs_done"] == [22, 5]


def test_a_deadline_leaves_time_to_exchange_models() -> None:
    # Of 100 s, exchanges of 20 s each are kept free: 2 x 1 Mbit at 0.1 Mbit/s.
    onboard = onboard_of(deadline=True, isl_mbps=0.1)
    with onboard.exchange_to_come(0, values=2 * 31_250, others=1):
        assert granted(onboard, jobs(6, 0, 1, to_come=1)) == [[3, 6]]  # 60 s in two halves
    onboard.exchange(0, values=31_250, others=1)
    with onboard.exchange_to_come(0, values=31_250, others=1):
        assert granted(onboard, jobs(6, 0, 1)) == [[3, 6]]  # 30 + 20 s are over, 50 - 20 are left
    onboard.exchange(0, values=31_250, others=1)
    onboard.begin(1)
    assert onboard.record()["onboard_s"] == [100.0, 0.0]


def test_no_time_is_kept_for_an_exchange_that_does_not_follow() -> None:
    onboard = onboard_of(deadline=True, isl_mbps=0.1)
    assert granted(onboard, jobs(12, 0), jobs(30, 1)) == [[10], [20]]


def test_satellites_work_side_by_side_however_they_are_asked() -> None:
    """Of an orbit and of several, in one call, in two, and in any order."""
    asked = [jobs(3, 0), jobs(4, 1), jobs(2, 2)]
    for calls in ([asked], [[group] for group in asked], [asked[::-1]], [asked[1:], asked[:1]]):
        onboard = onboard_of(deadline=True)
        for wave in calls:
            granted(onboard, *wave)
        # Satellite 1 has 100 - 4 x 5 s left and does 16 more epochs; satellite 0 does 7.
        assert granted(onboard, jobs(20, 0, 1)) == [[7, 16]]
        onboard.begin(1)
        assert onboard.record()["onboard_s"] == [100.0, 40.0]


def test_an_exchange_lets_all_of_an_orbit_wait_for_the_slowest() -> None:
    onboard = onboard_of(isl_mbps=2.0)
    granted(onboard, jobs(3, 0), jobs(1, 1))  # 30 s and 5 s
    onboard.exchange(0, values=31_250, others=1)  # 1 s
    granted(onboard, jobs(2, 1))  # 10 s
    granted(onboard, jobs(1, 0))  # beside them
    onboard.begin(1)
    assert onboard.record()["onboard_s"] == [31.0 + 10.0, 0.0]


def test_who_cannot_do_one_epoch_in_a_round_sits_out() -> None:
    slow = Hardware(np.array([0.09, 4.0, 2.0]), 100.0, deadline=True)
    onboard = Onboard(slow, SAMPLES, ORBIT_OF_SATELLITE, Activity.always(3), 1)
    assert onboard.able(0).tolist() == [False, True, True]  # 10 / 0.09 s
    unhurried = Onboard(
        Hardware(slow.samples_per_s, 100.0),
        SAMPLES,
        ORBIT_OF_SATELLITE,
        Activity.always(3),
        4,
    )
    assert unhurried.able(0).all()


# --- Energy -------------------------------------------------------------------------------------


def test_charges_are_spent_and_filled() -> None:
    onboard = onboard_of(power=power())
    # 50 J pay for 2.5, 5 and 1.25 passes.
    assert granted(onboard, jobs(3, 0, 1), jobs(3, 2)) == [[2, 3], [1]]
    onboard.begin(1)
    # 50 - 40 + 15, 50 - 30 + 0, 50 - 40 + 50.
    assert onboard.saved()["charge_j"] == [25.0, 20.0, 60.0]
    told = onboard.record()
    assert told["charge_lowest"] == [0.2, 0.6]
    assert told["charge_mean"] == [0.225, 0.6]
    assert told["epochs_done"] == [5, 1]
    assert onboard.summary()["lowest_charge"] == [0.1, 0.1]  # 10 J were left in either orbit
    onboard.begin(2)
    assert onboard.saved()["charge_j"] == [75.0, 70.0, 100.0]  # full is full


def test_who_cannot_pay_one_epoch_sits_out() -> None:
    onboard = onboard_of(power=power(initial_j=15.0))
    assert onboard.able(0).tolist() == [False, True, False]
    # A round of the Sun later: 30, 15 and 65 J; seen from round 0 and when it is there.
    assert onboard.able(1).tolist() == [True, True, True]
    onboard.begin(1)
    assert onboard.able(1).tolist() == [True, True, True]
    assert onboard.able(0).all()  # is over


def test_who_can_never_train() -> None:
    assert onboard_of().never_able() == []
    assert onboard_of(deadline=True, isl_mbps=0.025).never_able() == []  # 80 s to exchange models
    slow_links = {"deadline": True, "isl_mbps": 0.02}  # 100 s
    assert onboard_of(**slow_links).never_able() == [0, 1]
    # The first is alone in its orbit from round 5 on, and has nobody to exchange models with.
    alone_later = Activity(np.array([0, 5]), np.array([[1, 1, 1], [1, 0, 1]], dtype=bool))
    assert onboard_of(alone_later, **slow_links).never_able() == [1]
    nobody_third = Activity(np.array([0]), np.array([[1, 1, 0]], dtype=bool))
    assert onboard_of(nobody_third, power=power(battery_j=15.0, initial_j=0.0)).never_able() == [0]

    assert onboard_of(power=power(battery_j=30.0, initial_j=30.0)).never_able() == [2]
    assert onboard_of(power=power(initial_j=0.0)).never_able() == []  # the Sun brings enough
    # Passes of 40, 20 and 80 J; the Sun brings 32.5, 25 and 50 J in all.
    dim = power(initial_j=0.0, solar_w=0.25, training_w=4.0)
    assert onboard_of(power=dim).never_able() == [0, 2]


def test_scarce_passes_are_divided_evenly() -> None:
    full = power(initial_j=100.0)
    # Satellite 0 can pay 5 passes. Two intra-orbit rounds of 4: 2 and, with what is left, 3.
    onboard = onboard_of(power=full)
    assert granted(onboard, jobs(4, 0, to_come=1)) == [[2]]
    assert granted(onboard, jobs(4, 0)) == [[3]]
    # Two models side by side: 2 epochs each, and one pass is saved.
    onboard = onboard_of(power=full)
    assert granted(onboard, jobs(4, 0), jobs(4, 0)) == [[2], [2]]
    onboard.begin(1)
    assert onboard.saved()["charge_j"][0] == 20.0 + 15.0
    # Half a pass in either intra-orbit round would be none: one now, none later.
    onboard = onboard_of(power=power(initial_j=30.0))
    assert granted(onboard, jobs(4, 0, to_come=1)) == [[1]]
    assert granted(onboard, jobs(4, 0)) == [[0]]
    # One pass is not enough for two models; it is saved for a better round.
    assert granted(onboard_of(power=power(initial_j=30.0)), jobs(4, 0), jobs(4, 0)) == [[0], [0]]
    # A job that trains two models at once: 2 epochs are 4 passes.
    assert granted(onboard_of(power=full), jobs(4, 0, rule=Coupled(MODEL, 0.5))) == [[2]]
    # Whoever has enough is not cut.
    assert granted(onboard_of(power=full), jobs(4, 0, 1), jobs(1, 0, 1)) == [[4, 4], [1, 1]]


def test_one_epoch_of_each_training_is_within_the_limits() -> None:
    """55 s, or as many times 2 J, are 5 passes of 10 s: for 10 epochs and for 1 epoch."""
    in_time = Onboard(
        Hardware(SPEEDS, round_s=55.0, deadline=True),
        SAMPLES,
        ORBIT_OF_SATELLITE,
        Activity.always(3),
        parameters=1,
    )
    assert granted(in_time, jobs(10, 0), jobs(1, 0)) == [[4], [1]]
    in_time.begin(1)
    assert in_time.record()["onboard_s"] == [50.0, 0.0]
    charged = onboard_of(power=power(battery_j=200.0, initial_j=110.0))
    assert granted(charged, jobs(1, 0), jobs(10, 0)) == [[1], [4]]
    charged.begin(1)
    assert charged.saved()["charge_j"][0] == 110.0 - 100.0 + 15.0


def test_trainings_that_follow_get_an_epoch_each() -> None:
    """Satellite 0 can do 10 passes; 9 epochs now and 3 later are of different kinds."""
    later = Ahead(wanted=3 * 4 * 10, least=4 * 10)  # three epochs of four gradients
    [job] = jobs(9, 0)
    onboard = onboard_of(deadline=True)
    # One epoch each is 1 + 4 passes; of the 5 that are left, 8 / (8 + 8) are for this one.
    assert [job.epochs for job in onboard.grant([replace(job, to_come=later)])] == [1 + 2]
    # Where not each can have one, those that begin have it.
    onboard = onboard_of(power=power(initial_j=80.0))
    assert [job.epochs for job in onboard.grant([replace(job, to_come=later)])] == [1]


def test_batches_are_part_of_what_a_method_needs() -> None:
    # A pass takes 10, 5 and 20 s; four batches of at most 15 samples take 40, 15 and 30 s.
    needs = Needs(passes=1, batches=4)
    for round_s, able in ((19.0, [0, 0, 0]), (20.0, [0, 1, 0]), (50.0, [1, 1, 1])):
        hardware = Hardware(SPEEDS, round_s, deadline=True)
        onboard = Onboard(
            hardware, SAMPLES, ORBIT_OF_SATELLITE, Activity.always(3), 1, needs, batch=15
        )
        assert onboard.able(0).tolist() == able


def test_epochs_of_a_part_of_the_samples_count_by_images() -> None:
    onboard = onboard_of(deadline=True)
    granted(onboard, jobs(3, 1, samples=8))  # 24 of 20 samples: one whole epoch
    granted(onboard, jobs(1, 0, samples=4), jobs(2, 0, samples=99))  # none, and two
    onboard.begin(0)
    assert onboard.record()["epochs_done"] == [1 + 2, 0]
    assert onboard.done_per_sample(0, orbit_samples=30) == (24 + 4 + 20) / 30


def test_the_scarcer_of_time_and_power_decides() -> None:
    onboard = onboard_of(power=power(), deadline=True)
    assert granted(onboard, jobs(30, 0, 1), jobs(30, 2)) == [[2, 5], [1]]
    onboard = onboard_of(power=power(initial_j=1e6, battery_j=1e6), deadline=True)
    assert granted(onboard, jobs(30, 0, 1), jobs(30, 2)) == [[10, 20], [5]]


def test_who_is_away_is_not_charged() -> None:
    activity = Activity(np.array([0, 1]), np.array([[0, 1, 1], [1, 1, 1]], dtype=bool))
    onboard = onboard_of(activity, power=power())
    onboard.begin(2)
    assert onboard.saved()["charge_j"] == [100.0, 100.0, 100.0]
    onboard = onboard_of(activity, power=power())
    onboard.begin(1)
    assert onboard.saved()["charge_j"] == [50.0, 50.0, 100.0]


def test_batteries_of_those_who_are_away_are_not_told() -> None:
    """A satellite that is lost with an empty battery would be its orbit's emptiest for ever."""
    gone = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=bool)
    onboard = onboard_of(Activity(np.array([0, 1, 2]), gone), power=power(solar_w=0.0))
    granted(onboard, jobs(2, 0), jobs(1, 1))
    told = []
    for t in (1, 2, 3):
        onboard.begin(t)
        told.append((onboard.record()["charge_lowest"][0], onboard.record()["charge_mean"][0]))
    # 10 and 40 J are left of 100; then 40 alone; of an orbit that is away what it has on board.
    assert told == [(0.1, 0.25), (0.4, 0.4), (0.1, 0.25)]


def test_time_goes_forward() -> None:
    onboard = onboard_of(power=power())
    onboard.begin(2)
    with pytest.raises(RunError, match="round 1 is over on board, round 2 is going on"):
        onboard.begin(1)


def test_what_is_saved_is_a_copy() -> None:
    onboard = onboard_of(power=power())
    saved = onboard.saved()
    onboard.ask(0, 0, epochs=6)
    granted(onboard, jobs(3, 0, 1))
    onboard.begin(1)
    assert saved["charge_j"] == [50.0] * 3
    assert saved["asked"] == 0
    assert onboard.saved()["asked"] == 6
    other = onboard_of(power=power())
    other.restore(saved)
    other.begin(1)
    assert saved["round"] == 0


# --- A fleet with batteries -----------------------------------------------------------------------


def draining(world_speeds: list[float]) -> dict[str, Any]:
    """Batteries that pay for a minute of training, never filled, and some satellites too slow."""
    energy = {"battery_wh": 1.0, "solar_w": 0.0, "training_w": 1.0, "initial_charge": 1.0}
    return {"samples_per_s": world_speeds, "energy": energy}


@pytest.mark.parametrize("name", ["local", "fedavg", "fedprox", "apfl", "ditto"])
def test_a_satellite_without_power_is_as_good_as_away(name: str) -> None:
    """To the bit, as far as models go: it neither trains nor has a weight."""
    method = make_method(name, {})
    sizes = [len(part) for part in small_world().partition.train]
    idle = max(range(2), key=lambda k: sizes[k])
    speeds = [1e-6 if k == idle else 1e6 for k in range(6)]
    without_power = play(method, small_world(onboard=draining(speeds)))
    away = play(method, small_world(events=[{"round": 0, "kind": "leave", "satellite": idle}]))
    for one, other in zip(without_power, away, strict=True):
        assert_same(one, other)


@pytest.mark.parametrize("name", ["apfl", "ditto"])
@pytest.mark.parametrize("scarce", ["power", "time"])
def test_who_has_enough_for_one_of_two_models_sits_out(name: str, scarce: str) -> None:
    """Cut to nothing, it would return the models it got and dilute the means with them."""
    method = make_method(name, {})
    sizes = [len(part) for part in small_world().partition.train]
    idle = max(range(2), key=lambda k: sizes[k])
    enough_s = 3600.0 if scarce == "power" else 300.0  # of 1 Wh at 1 W, or of a round
    speeds = [sizes[k] / (0.7 * enough_s) if k == idle else 1e6 for k in range(6)]
    onboard = {"power": draining(speeds), "time": {"samples_per_s": speeds, "deadline": True}}
    scarcely = play(method, small_world(onboard=onboard[scarce]))
    away = play(method, small_world(events=[{"round": 0, "kind": "leave", "satellite": idle}]))
    for one, other in zip(scarcely, away, strict=True):
        assert_same(one, other)


def test_fedorbit_when_time_is_short() -> None:
    """Round 0 of FedOrbit, everybody in view: one epoch in each of two intra-orbit rounds."""
    always = np.ones((1, 3), dtype=bool)
    sizes = np.array([len(part) for part in small_world(always).partition.train])
    assert (sizes > 0).all()
    pass_s = np.array([60.0, 200.0, 60.0, 400.0, 60.0, 100.0])
    hurry = {"samples_per_s": (sizes / pass_s).tolist(), "deadline": True}
    with fleet_of(small_world(always, onboard=hurry)) as fleet:
        after = FedOrbit().round(FedOrbit().start(fleet), fleet.at(0))
        assert fleet.onboard is not None
        fleet.onboard.begin(1)
        told, ledger = fleet.onboard.record(), fleet.ledger
    # Of 300 s, satellite 1 needs 200 for one epoch, and satellite 0 then has time for another.
    # Satellite 3 cannot do a single one; of the others nothing is cut.
    done = np.array([2, 1, 2, 0, 2, 2])
    assert told["onboard_s"] == [260.0, 120.0, 200.0]
    assert told["epochs_asked"] == [4, 4, 4]
    assert told["epochs_done"] == done.reshape(3, 2).sum(axis=1).tolist()
    assert ledger.samples_trained == int((done * sizes).sum())
    assert ledger.epochs == [2, 2, 2]
    # q_l is the effort that was made (FedOrbit): epochs per sample.
    effort = (done * sizes).reshape(3, 2).sum(axis=1) / sizes.reshape(3, 2).sum(axis=1)
    np.testing.assert_allclose(after["quality"], effort)
    assert effort[0] < 2
    assert effort[1] < 2
    assert effort[2] == 2


def test_weights_at_the_ground_are_those_who_trained() -> None:
    sizes = [len(part) for part in small_world().partition.train]
    speeds = [1e-6, 1e6, 1e-6, 1e-6, 1e6, 1e6]
    with fleet_of(small_world(onboard=draining(speeds))) as fleet:
        assert fleet.at(0).orbits.trained_samples.tolist() == [sizes[1], 0, sizes[4] + sizes[5]]
        assert fleet.at(0).orbits.samples.tolist() == [sum(sizes[k : k + 2]) for k in (0, 2, 4)]
    with fleet_of(small_world()) as fleet:
        assert fleet.at(0).orbits.trained_samples.tolist() == fleet.at(0).orbits.samples.tolist()


@pytest.mark.parametrize(
    "method", [make_method(n, {}) for n in ("fedavg", "apfl", "ditto", "fedorbit")]
)
def test_the_small_worlds_limits_bite(method: Method) -> None:
    """The conformance suite says nothing about limits that nobody feels."""
    for onboard in (SCARCE_POWER, SCARCE_TIME):
        last = snapshots(method, small_world(onboard=onboard))[-1].world["onboard"]
        assert 0 < last["done"] < last["asked"]
