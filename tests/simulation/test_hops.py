"""Messages over links in records: each over a contact of the plan, none forgotten."""

import json
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.fleet.ledger import MOST_HOPS, Ledger
from tests.simulation.test_runs import StopAfter, newest_checkpoint, timeless

SMALL = ["data.synthetic.samples=200", "data.synthetic.size=16", "run.rounds=12"]


@pytest.mark.parametrize("method", ["fedavg", "fedasync", "asyncfleo", "rendezvous"])
def test_every_message_passes_over_a_contact(method: str, tmp_path: Path) -> None:
    config = fo.load_config("quickstart", [*SMALL, f'run.method=["{method}"]'])
    [run] = fo.run(config, tmp_path / "run").runs
    hops = [hop for record in run.records for hop in record.get("hops", [])]
    assert len(hops) == sum(messages for _, _, messages, _ in run.summary["transfers"]) > 0
    plan = json.loads((tmp_path / "run" / "world.json").read_text())["contacts"]
    columns = [plan[key] for key in ("first", "second", "begin_s", "end_s")]
    contacts: dict[frozenset[int], list[tuple[float, float]]] = {}
    for first, second, begin_s, end_s in zip(*columns, strict=True):
        contacts.setdefault(frozenset((first, second)), []).append((begin_s, end_s))
    for second, source, target in hops:  # a record has whole seconds
        ends = contacts[frozenset((source, target))]
        assert any(begin_s - 1 <= second <= end_s for begin_s, end_s in ends)


def test_ideal_links_name_no_satellites(tmp_path: Path) -> None:
    config = fo.load_config("quickstart", [*SMALL, "run.links=ideal", 'run.method=["fedavg"]'])
    [run] = fo.run(config, tmp_path / "run").runs
    assert not any("hops" in record for record in run.records)


def test_a_resumed_run_records_the_hops_of_all_its_rounds(tmp_path: Path) -> None:
    """Records are of five rounds each, and the stop is in between."""
    settings = [*SMALL, "run.evaluate_every=5", 'run.method=["fedasync"]']
    config = fo.load_config("quickstart", settings)
    whole = fo.run(config, tmp_path / "whole").runs[0]
    with pytest.raises(fo.StopRequested):
        fo.run(config, tmp_path / "stopped", progress=StopAfter("fedasync", 7))
    assert newest_checkpoint(tmp_path / "stopped" / "fedasync").spent["ledger"]["hops"]
    again = fo.resume(tmp_path / "stopped").runs[0]
    assert timeless(again.records) == timeless(whole.records)
    assert [record["round"] for record in again.records if record.get("hops")] == [4, 9, 11]


@pytest.mark.parametrize("per_message", [1, 2, 3, 5])
def test_a_record_has_an_even_sample_of_very_many_hops(per_message: int) -> None:
    """Booked last to first, of messages over the same number of links each."""
    ledger, resumed = Ledger(), Ledger()
    for number in range(10 * MOST_HOPS):
        hop = (10 * MOST_HOPS - number - 0.1, number % per_message, 9)
        ledger.book("isl", (0, 0), 4, hop=hop)
        if number == 2 * MOST_HOPS + 7:
            resumed.restore(json.loads(json.dumps(ledger.saved())))
        elif number > 2 * MOST_HOPS + 7:
            resumed.book("isl", (0, 0), 4, hop=hop)
        assert len(ledger.hops.kept) <= MOST_HOPS
    assert resumed.hops == ledger.hops and ledger.hops.seen == 3000
    kept = np.array(ledger.hops.recorded())
    assert len(kept) == pytest.approx(3000 / 16, abs=3)  # more than 8 x 300: every 16th
    assert (np.diff(kept[:, 0]) > 0).all()
    for column, parts in ((kept[:, 0] // 600, 5), (kept[:, 1], per_message)):
        assert np.bincount(column) == pytest.approx([len(kept) / parts] * parts, abs=4)
    ledger.book("isl", (0, 0), 4, linked=False, hop=(0.0, 1, 2))
    assert ledger.hops.seen == 3000
    ledger.start_record()
    assert ledger.hops.recorded() == []
