"""The asynchronous example: what is under way between its rounds, by hand and in whole runs."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from examples.fedsat_like import FedSatLike

import fedorbit as fo
from fedorbit.config import Config
from fedorbit.errors import RunError
from fedorbit.fleet.network import Mail, Network
from fedorbit.learning.jobs import batch_order
from fedorbit.simulation import checkpoint
from fedorbit.stopping import StopRequested
from fedorbit.testing import EVENTS, assert_same, fleet_of, small_world, snapshots
from fedorbit.user_code import allow_code
from tests.simulation.test_runs import StopAfter, newest_checkpoint, timeless

NAME = "examples.fedsat_like:FedSatLike"


def test_when_all_have_reported_once_the_model_is_their_mean() -> None:
    world = small_world(np.ones((2, 3), dtype=bool), links="causal")
    trainer, w0 = world.trainer(), world.initial_model
    played = snapshots(FedSatLike(), world)
    np.testing.assert_array_equal(played[1].state["global"], w0)  # all train, none has reported
    with fleet_of(world) as fleet:
        now, n = fleet.at(0), fleet.at(0).samples
        assert n.all()
        jobs = [now.job(k, w0) for k in range(6)]
        trained = [trainer.train(job, batch_order(world.data, job, 0)).model for job in jobs]
        expected = np.average(trained, axis=0, weights=n)
        model_bytes = 4 * fleet.layout.size
    np.testing.assert_allclose(played[2].state["global"], expected, atol=1e-6)
    assert played[2].state["version"] == 6
    assert played[2].state["staleness"] == 0 + 1 + 2 + 3 + 4 + 5  # all began with version 0
    ledger = played[2].world["ledger"]
    assert ledger["to_ground_bytes"] == 6 * model_bytes
    assert ledger["from_ground_bytes"] == 12 * model_bytes
    assert ledger["isl_bytes"] == ledger["unlinked_bytes"] == 0


def test_an_update_waits_on_board_for_the_next_contact() -> None:
    """Orbit 0 is in view in rounds 0 and 2: it trains in round 0 and has nothing to do in 1."""
    played = snapshots(FedSatLike(), small_world(links="causal"))
    under_way = [(len(s.world["jobs"]), len(s.world["mail"])) for s in played]
    assert under_way[:3] == [(0, 0), (2, 0), (0, 2)]
    assert [mail["arrival"] for mail in played[2].world["mail"]] == [2, 2]
    assert played[2].state["version"] == 0
    assert played[3].state["version"] == 2


@pytest.mark.parametrize("events", [(), EVENTS])
def test_the_model_is_the_mean_of_those_that_have_reported(
    events: Sequence[dict], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first model has no share in it, and an event does not change what was contributed."""
    world = small_world(links="causal", events=events)
    sizes, last = [len(part) for part in world.partition.train], {}
    receive = Network.receive

    def noted(network: Network, t: int, node: int) -> list[Mail]:
        arrived = receive(network, t, node)
        last.update({m.source: m.payload for m in arrived if network.topology.is_server(node)})
        return arrived

    monkeypatch.setattr(Network, "receive", noted)
    method = FedSatLike()
    with fleet_of(world) as fleet:
        state = method.start(fleet)
        for t in range(world.schedule.rounds):
            state = method.round(state, fleet.at(t))
            if last:
                mean = np.average(list(last.values()), axis=0, weights=[sizes[k] for k in last])
                np.testing.assert_allclose(state["global"], mean, atol=1e-6)
    assert len(last) >= 3


def test_over_slow_links_a_model_arrives_in_a_later_contact() -> None:
    """A model takes 400 s, up and down; contacts of 300 s are all rounds but the second."""
    seen = np.array([[1], [0], [1], [1], [1], [1], [1]], dtype=bool)
    world = small_world(seen, links="causal", satellites_per_plane=1, model_s=400.0)
    played = snapshots(FedSatLike(), world)
    changed = [
        t
        for t in range(7)
        if not np.array_equal(played[t].state["global"], played[t + 1].state["global"])
    ]
    # Down in rounds 0 and 2, trained; up with 300 s of round 3 and 100 s of round 4.
    assert changed == [4]
    assert [snapshot.state["coming"].tolist() for snapshot in played[1:5]] == [
        [True], [True], [False], [True],  # the next one, after what goes up
    ]  # fmt: skip


def configuration() -> Config:
    places = [(51.0, 0.0), (-20.0, 120.0), (40.0, -100.0), (0.0, -40.0), (10.0, 70.0)]
    return Config.model_validate(
        {
            "constellation": {"planes": 3, "satellites_per_plane": 2},
            "stations": [
                {"name": f"s{n}", "latitude_deg": latitude, "longitude_deg": longitude}
                for n, (latitude, longitude) in enumerate(places)
            ],
            "schedule": {"rounds": 40},
            "data": {"synthetic": {"classes": 4, "samples": 120, "size": 16}},
            "training": {"epochs": 1},
            "run": {"rounds": 14, "method": [NAME], "links": "causal"},
            "onboard": {"samples_per_s": 0.03},  # several rounds long
            "engine": {"checkpoint_every": 100, "workers": 2},
        }
    )


def test_a_run_continues_with_mail_and_jobs_under_way(tmp_path: Path) -> None:
    allow_code("examples")
    [whole] = fo.run(configuration(), tmp_path / "whole").runs
    assert whole.summary["updates"] > 0
    assert whole.summary["to_ground_bytes"] > 0
    seen = set()
    for stop in range(1, 13, 2):
        folder = tmp_path / f"stopped-{stop}"
        with pytest.raises(StopRequested):
            fo.run(configuration(), folder, progress=StopAfter(NAME, stop))
        [method] = [path.parent for path in folder.glob("*/checkpoint-*.json")]
        spent = newest_checkpoint(method).spent
        seen |= {key for key in ("mail", "jobs") if spent[key]}
        [resumed] = fo.resume(folder).runs
        assert timeless(resumed.records) == timeless(whole.records)
        assert_same(newest_checkpoint(method).state, newest_checkpoint(whole.folder).state)
    assert seen == {"mail", "jobs"}


def test_a_checkpoint_keeps_the_worlds_arrays_apart(tmp_path: Path) -> None:
    # What is under way may be much larger than the state.
    w, mail = np.ones(3, dtype=np.float32), np.zeros(1_000_000, dtype=np.float32)
    ledger = dict.fromkeys(
        ("samples_trained", "to_ground_bytes", "from_ground_bytes", "isl_bytes", "unlinked_bytes"),
        0,
    )
    numbers = {"source": 0, "target": 1, "sent": 0, "arrival": 1, "arrival_s": 300.0}
    hop = {"source": 0, "target": 1, "slot": 1, "linked": True}
    way = {"size": 1_000_000, "part": None, "size_bytes": 4_000_000, "hops": [hop]}
    letter = {**numbers, "payload": "mail:0", "about": {}, **way}
    spent = {"ledger": {**ledger, "epochs": [0]}, "mail": [letter], "jobs": [], "seconds": 0.0}
    chain = "0" * 64
    written = checkpoint.Checkpoint(1, {"global": w}, spent, {"mail:0": mail}, 0, chain)
    checkpoint.save(tmp_path, chain, written)
    read = checkpoint.load_newest(tmp_path, chain)
    assert read is not None
    assert read.spent == spent
    assert_same(read.state, {"global": w})
    assert_same(read.under_way, {"mail:0": mail})
    with (tmp_path / "checkpoint-00000001.safetensors").open("ab") as file:
        file.truncate(1 << 40)  # takes no room on the disk, but would in memory
    with pytest.raises(RunError, match="it has 1,099,511,627,776 bytes, allowed are 4,000,"):
        checkpoint.load_newest(tmp_path, chain)
