"""Messages over links in records: each over a contact of the plan, none forgotten."""

import json
from pathlib import Path

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


def test_a_record_has_a_sample_of_very_many_hops() -> None:
    ledger, resumed = Ledger(), Ledger()
    for number in range(10 * MOST_HOPS + 1):
        at_s = 10 * MOST_HOPS - number + 0.9
        ledger.book("isl", (0, 0), 4, hop=(at_s, 1, 2))
        if number == 2 * MOST_HOPS + 7:
            resumed.restore(ledger.saved())
        elif number > 2 * MOST_HOPS + 7:
            resumed.book("isl", (0, 0), 4, hop=(at_s, 1, 2))
        assert len(ledger.hops) <= MOST_HOPS
    # 3,001 are more than 8 x 300: every 16th of them is kept, and they are booked last to first.
    assert ledger.recorded_hops() == [[3000 - 16 * n, 1, 2] for n in reversed(range(188))]
    assert resumed.hops == ledger.hops and resumed.hops_seen == ledger.hops_seen == 3001
    ledger.book("isl", (0, 0), 4, linked=False, hop=(0.0, 1, 2))
    assert ledger.hops_seen == 3001
    ledger.start_record()
    assert ledger.recorded_hops() == []
