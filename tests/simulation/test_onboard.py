"""Runs of satellites with clocks, batteries and slow links."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.build import build_constellation, build_places
from fedorbit.config import Config
from fedorbit.errors import ConfigError
from fedorbit.orbits.contacts import find_contacts
from fedorbit.orbits.service import Service
from fedorbit.orbits.visibility import Schedule, round_times_s
from fedorbit.simulation.provenance import config_hash, what_counts
from fedorbit.simulation.world import (
    build_world,
    model_bytes,
    warn_of_short_contacts,
)
from fedorbit.testing import assert_same
from tests.simulation.test_runs import StopAfter, newest_checkpoint, small, timeless

ENERGY = {"battery_wh": 0.01, "solar_w": 0.02, "training_w": 10.0, "initial_charge": 0.5}
SCARCE = {"samples_per_s": 10.0, "speed_spread": 0.5, "deadline": True, "energy": ENERGY}
some_never_train = pytest.mark.filterwarnings("ignore:.* satellites never train")
NEW_KEYS = {"onboard_s", "epochs_asked", "epochs_done", "charge_lowest", "charge_mean"}


@some_never_train
def test_records_and_summary_tell_of_the_hardware(tmp_path: Path) -> None:
    plain = fo.run(small(), tmp_path / "plain")
    clocked = fo.run(small(onboard={"samples_per_s": 10.0}), tmp_path / "clocked")
    scarce = fo.run(small(onboard=SCARCE), tmp_path / "scarce")
    for one, other, cut in zip(plain.runs, clocked.runs, scarce.runs, strict=True):
        assert not NEW_KEYS & one.records[0].keys()
        assert "onboard" not in one.summary
        # A clock adds its time and changes nothing else.
        bare = [{k: v for k, v in r.items() if k != "onboard_s"} for r in other.records]
        assert timeless(bare) == timeless(one.records)
        assert other.records[0].keys() - one.records[0].keys() == {"onboard_s"}
        assert cut.records[0].keys() - one.records[0].keys() == NEW_KEYS
        told = cut.summary["onboard"]
        for key in ("epochs_asked", "epochs_done"):
            assert told[key] == sum(sum(record[key]) for record in cut.records)
        assert told["epochs_done"] < told["epochs_asked"]
        assert told["late_share"] in (0.0, None)
        longest = np.max([record["onboard_s"] for record in cut.records], axis=0)
        np.testing.assert_allclose(told["longest_s"], longest, atol=1e-3)
        for record in cut.records:
            for low, mean in zip(record["charge_lowest"], record["charge_mean"], strict=True):
                assert 0.0 <= low <= mean <= 1.0
        assert {"onboard_s_0", "charge_mean_2"} <= scarce.table()[0].keys()


@some_never_train
def test_a_record_covers_the_rounds_since_the_last(tmp_path: Path) -> None:
    every = fo.run(small(onboard=SCARCE), tmp_path / "every").runs[1].records
    few = fo.run(small(onboard=SCARCE, run={"evaluate_every": 3}), tmp_path / "few").runs[1].records
    assert [record["round"] for record in few] == [2, 5, 7]
    for record, begin in zip(few, (0, 3, 6), strict=True):
        part = every[begin : record["round"] + 1]
        longest = np.max([r["onboard_s"] for r in part], axis=0)
        assert record["onboard_s"] == longest.tolist()
        done = np.sum([r["epochs_done"] for r in part], axis=0)
        assert record["epochs_done"] == done.tolist()
        assert record["charge_lowest"] == part[-1]["charge_lowest"]


def test_a_run_knows_how_many_models_its_method_trains(tmp_path: Path) -> None:
    """Time for one of Ditto's two models is as good as time for none."""
    sizes = [len(part) for part in build_world(small()).partition.train]
    slow = int(np.argmax(sizes))
    states = []
    for pass_s in (200.0, 400.0):  # of a round of 300 s
        speeds = [size / pass_s if k == slow else 1e6 for k, size in enumerate(sizes)]
        hurry = {"samples_per_s": speeds, "deadline": True}
        config = small(run={"method": "ditto"}, onboard=hurry)
        with pytest.warns(UserWarning, match="1 of 6 satellites never train"):
            newest = newest_checkpoint(fo.run(config, tmp_path / f"{pass_s:.0f}").runs[0].folder)
        assert newest is not None
        states.append(newest.state)
    assert_same(*states)


@some_never_train
@pytest.mark.parametrize("t", [1, 3, 6])
def test_stopped_and_resumed_with_the_same_charges(tmp_path: Path, t: int) -> None:
    config = small(onboard=SCARCE, run={"method": ["ditto", "fedorbit"]})
    whole = fo.run(config, tmp_path / "whole")
    with pytest.raises(fo.StopRequested):
        fo.run(config, tmp_path / "stopped", progress=StopAfter("fedorbit", t))
    resumed = fo.resume(tmp_path / "stopped")
    for one, other in zip(whole.runs, resumed.runs, strict=True):
        assert timeless(one.records) == timeless(other.records)
        assert one.summary["onboard"] == other.summary["onboard"]


def test_what_is_left_out_does_not_count() -> None:
    """Hashes of configurations without these tables are those of a time without them."""
    assert not {"onboard", "link_rates"} & what_counts(small()).keys()
    assert config_hash(small()) == config_hash(small(onboard=None, link_rates=None))
    assert "share" not in what_counts(small())["data"]
    assert config_hash(small(data={"share": 1.0})) == config_hash(small())
    for changes in (
        {"onboard": {"samples_per_s": 1.0}},
        {"link_rates": {"to_ground_mbps": 1.0}},
        {"data": {"share": 0.5}},
    ):
        assert config_hash(small(**changes)) != config_hash(small())


# --- Links with rates -----------------------------------------------------------------------------


def slow(exchange_s: float, **changes: object) -> Config:
    """A configuration in which one model up and one down take so many seconds together."""
    config = small(schedule={"rounds": 200}, **changes)
    mbps = 2 * 8 * model_bytes(config) / 1e6 / exchange_s
    rates = {"to_ground_mbps": mbps, "from_ground_mbps": mbps}
    return small(schedule={"rounds": 200}, link_rates=rates, **changes)


def test_rounds_that_are_too_short_for_a_model_do_not_serve() -> None:
    config = slow(200.0)
    world, without = build_world(config), build_world(small(schedule={"rounds": 200}))
    assert model_bytes(config) == 4 * world.spec.layout.size
    # Counted from the contacts one by one; two satellites of an orbit 180 degrees apart never
    # meet one station at the same time, so that contacts of an orbit do not overlap.
    contacts = find_contacts(build_constellation(config), build_places(config), 200, 300.0)
    seconds = np.zeros((200, 3))
    for orbit, rise_s, set_s in zip(contacts.orbit, contacts.rise_s, contacts.set_s, strict=True):
        for t in range(int(rise_s // 300.0), min(int(set_s // 300.0), 199) + 1):
            seconds[t, orbit] += min(set_s, 300.0 * (t + 1)) - max(rise_s, 300.0 * t)
    expected = without.schedule.visible & (seconds >= 200.0)
    np.testing.assert_array_equal(world.schedule.visible, expected)
    assert 0 < expected.sum() < without.schedule.visible.sum()
    assert world.tau_max >= without.tau_max
    assert world.service is not None
    assert world.service.exchange_s == pytest.approx(200.0)


def test_everything_follows_from_the_rounds_that_serve(tmp_path: Path) -> None:
    config = slow(200.0, run={"rounds": 60, "links": "causal", "evaluate_every": 20})
    result = fo.run(config, tmp_path / "slow")
    world = build_world(config)
    served = int(world.schedule.visible[:60].sum())
    for run in result.runs:
        assert run.summary["to_ground_bytes"] == served * model_bytes(config)
        assert run.summary["to_ground_vs_fedavg"] == 1.0
        assert run.summary["tau_max"] == world.tau_max
        assert run.summary["service"]["served_rounds"] == world.schedule.visible_rounds.tolist()
        assert run.summary["service"]["in_view_rounds"] > run.summary["service"]["served_rounds"]


def test_orbits_that_can_never_exchange_a_model() -> None:
    with pytest.raises(ConfigError, match=r"no orbit can exchange a model .* 301\.0 s are needed"):
        build_world(slow(301.0))
    in_view = Schedule(round_times_s(2, 300.0), np.array([[1, 1, 0, 1], [1, 0, 0, 1]], dtype=bool))
    seconds = np.array([[90.0, 20.0, 0.0, 10.0], [80.0, 300.0, 0.0, 30.0]])
    with pytest.warns(UserWarning) as caught:
        warn_of_short_contacts(Service(in_view, seconds, exchange_s=40.0))
    # Orbit 1 has its long contact in a round that finds it out of view; orbit 2 is never in view.
    [message] = [str(warning.message) for warning in caught]
    assert message.startswith(
        "2 of 3 orbits that come into view are never so for long enough to exchange a model "
        "(1, 3): 40.0 s are needed; raise the rates in link_rates"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_short_contacts(Service(in_view, seconds, exchange_s=10.0))


@pytest.mark.parametrize("method", ["fedavg", "ditto"])
def test_a_run_warns_of_satellites_that_can_never_train(method: str, tmp_path: Path) -> None:
    onboard = {"samples_per_s": 0.01, "deadline": True}
    said = (
        r"of 6 satellites never train \(\d.*\): one epoch does not fit into a round; "
        r"raise onboard\.samples_per_s or schedule\.round_s$"
    )
    with pytest.warns(UserWarning, match=said):
        fo.run(small(onboard=onboard, run={"method": method}), tmp_path / "slow")
    fo.run(small(onboard=onboard, run={"method": "centralised"}), tmp_path / "not on board")


def test_a_run_without_power_says_what_would_help(tmp_path: Path) -> None:
    energy = {"battery_wh": 1.0, "solar_w": 0.0, "training_w": 5.0, "initial_charge": 0.0}
    onboard = {"samples_per_s": 10.0, "energy": energy}
    said = (
        r"one epoch takes more charge than they ever have; raise .* or what onboard\.energy gives$"
    )
    with pytest.warns(UserWarning, match=said):
        fo.run(small(onboard=onboard), tmp_path / "dark")
