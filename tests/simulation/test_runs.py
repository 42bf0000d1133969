"""Runs and their folders: resume, checkpoints, refusals, records."""

import errno
import itertools
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.config import Config
from fedorbit.documents import sealed
from fedorbit.errors import ConfigError, ModelError, RunError
from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.jobs import LocalJob, Trained
from fedorbit.methods.fedavg import FedAvg
from fedorbit.results.reading import read_results
from fedorbit.simulation import checkpoint, loop, runs
from fedorbit.simulation.records import headline, method_id, read_records

ROUNDS = 8


def small(**changes: object) -> Config:
    values = {
        "constellation": {"planes": 3, "satellites_per_plane": 2},
        "schedule": {"rounds": 40},
        "data": {"synthetic": {"classes": 4, "samples": 120, "size": 16}},
        "training": {"epochs": 1},
        "run": {"rounds": ROUNDS, "method": ["fedavg", "fedorbit"]},
        "engine": {"checkpoint_every": 3, "workers": 2},
    }
    for key, value in changes.items():
        values[key] = {**values.get(key, {}), **value} if isinstance(value, dict) else value
    return Config.model_validate(values)


def newest_checkpoint(folder: Path) -> checkpoint.Checkpoint:
    """The newest checkpoint of a method."""
    run_id = method_id(folder)
    assert run_id is not None
    newest = checkpoint.load_newest(folder, run_id)
    assert newest is not None
    return newest


def timeless(records: list[dict]) -> list[dict]:
    return [{k: v for k, v in record.items() if k != "seconds"} for record in records]


@pytest.fixture
def whole(tmp_path: Path) -> fo.RunResult:
    return fo.run(small(), tmp_path / "whole")


class StopAfter(loop.SilentRunProgress):
    """Stops a run after so many rounds of a method, as Ctrl-C would."""

    def __init__(self, method: str, t: int) -> None:
        self.method, self.t, self.now = method, t, ""

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        self.now = method

    def round_done(self, t: int, record: dict | None) -> None:
        if (self.now, t) == (self.method, self.t):
            signal.raise_signal(signal.SIGINT)


def test_a_run_leaves_records_and_summaries(whole: fo.RunResult) -> None:
    assert {p.name for p in whole.folder.iterdir()} >= {
        "config.toml", "world.json", "run.json", "fedavg", "fedorbit",
    }  # fmt: skip
    for run in whole.runs:
        records = run.records
        assert [record["round"] for record in records] == list(range(ROUNDS))
        for record in records:
            assert len(record["orbit_accuracy"]) == len(record["orbit_loss"]) == 3
            known = [a for a in record["orbit_accuracy"] if a is not None]
            assert record["accuracy"] == pytest.approx(np.mean(known))
            assert record["spread"] == pytest.approx(max(known) - min(known))
        assert {k: run.summary[k] for k in ("accuracy", "spread", "per_orbit")} == headline(records)
        assert run.summary["samples_trained"] == records[-1]["samples_trained"]
        assert run.summary["rounds"] == ROUNDS
    fedavg, fedorbit = (run.summary for run in whole.runs)
    assert fedavg["to_ground_vs_fedavg"] == fedorbit["to_ground_vs_fedavg"] == 1.0
    assert fedorbit["samples_trained"] > fedavg["samples_trained"] > 0
    stored = fo.load_config(whole.folder / "config.toml")
    assert runs.differing_keys(stored, small()) in ([], ["engine.backend"])
    assert stored.engine.backend in ("kernel", "torch")  # "auto" is resolved: it rounds differently


def test_the_summary_tells_similarity_and_blend_apart(tmp_path: Path) -> None:
    config = small(run={"rounds": 1}, methods={"fedorbit": {"beta": 0.25}})
    fedavg, fedorbit = (run.summary for run in fo.run(config, tmp_path / "run").runs)
    assert 0.0 < fedavg["similarity"] == fedorbit["similarity"] != 0.25
    assert fedorbit["beta"] == 0.25
    assert "beta" not in fedavg  # it blends nothing


def test_the_table_is_flat_and_complete(whole: fo.RunResult) -> None:
    rows = whole.table()
    assert len(rows) == 2 * ROUNDS
    assert {type(v) for row in rows for v in row.values()} <= {int, float, str, type(None)}
    assert rows[0]["method"] == "fedavg"
    assert {"round", "accuracy", "spread", "orbit_accuracy_2", "epochs_0", "seconds"} <= rows[
        0
    ].keys()


def test_two_runs_give_the_same_records(whole: fo.RunResult, tmp_path: Path) -> None:
    again = fo.run(small(engine={"workers": 1, "checkpoint_every": 100}), tmp_path / "again")
    for one, other in zip(whole.runs, again.runs, strict=True):
        assert timeless(one.records) == timeless(other.records)
    other_seed = fo.run(small(seed=1), tmp_path / "seed")
    assert timeless(other_seed.runs[0].records) != timeless(whole.runs[0].records)


@pytest.mark.parametrize("isl", ["line-of-sight", "none"])
@pytest.mark.filterwarnings("ignore:. of . orbits never aggregate")
def test_resumes_with_aggregations_under_way(tmp_path: Path, isl: str) -> None:
    """Results that orbits have not yet brought together are read back from a checkpoint's files."""
    run = {"links": "physical", "rounds": 12, "method": ["fedorbit"]}
    config = small(run=run, network={"isl": isl}, constellation={"satellites_per_plane": 4})
    whole = fo.run(config, tmp_path / "whole").runs[0]
    with pytest.raises(fo.StopRequested):
        fo.run(config, tmp_path / "stopped", progress=StopAfter("fedorbit", 5))
    assert newest_checkpoint(tmp_path / "stopped" / "fedorbit").spent["cycles"]
    again = fo.resume(tmp_path / "stopped").runs[0]
    assert timeless(again.records) == timeless(whole.records)
    assert (again.summary["isl"], again.summary["unlinked_orbits"]) == (isl, [])


@pytest.mark.parametrize(
    ("method", "t"), [("fedavg", 0), ("fedavg", 4), ("fedorbit", 2), ("fedorbit", 6)]
)
def test_stopped_and_resumed_is_as_if_never_stopped(
    whole: fo.RunResult, tmp_path: Path, method: str, t: int
) -> None:
    folder = tmp_path / "stopped"
    with pytest.raises(fo.StopRequested):
        fo.run(small(), folder, progress=StopAfter(method, t))
    assert len(read_records(folder / method)) == t + 1
    result = fo.resume(folder)
    for one, other in zip(whole.runs, result.runs, strict=True):
        assert timeless(one.records) == timeless(other.records)
        assert one.summary["accuracy"] == other.summary["accuracy"]
        newest = [newest_checkpoint(run.folder) for run in (one, other)]
        for key, value in newest[0].state.items():
            np.testing.assert_array_equal(value, newest[1].state[key])
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_stopped_while_others_train(
    whole: fo.RunResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train, calls = LocalEngine._train, itertools.count()

    def interrupted(engine: LocalEngine, jobs: list[LocalJob]) -> list[Trained]:
        if next(calls) == 20:
            os.kill(os.getpid(), signal.SIGINT)
        return train(engine, jobs)

    monkeypatch.setattr(LocalEngine, "_train", interrupted)
    folder = tmp_path / "stopped"
    with pytest.raises(fo.StopRequested):
        fo.run(small(run={"method": ["fedorbit"]}), folder)
    kept = newest_checkpoint(folder / "fedorbit")
    assert 0 < kept.rounds_done == len(read_records(folder / "fedorbit")) < ROUNDS
    assert timeless(fo.resume(folder).runs[0].records) == timeless(whole.runs[1].records)


def test_a_script_can_catch_a_stop_and_learns_the_folder(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as stop:
        fo.run(small(), tmp_path / "stopped", progress=StopAfter("fedavg", 1))
    assert isinstance(stop.value, fo.StopRequested)
    assert stop.value.folder == tmp_path / "stopped"
    assert stop.value.signal_number == signal.SIGINT


@pytest.mark.parametrize("again", [signal.SIGINT, signal.SIGTERM])
def test_a_second_stop_does_not_spoil_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: int
) -> None:
    def impatient(folder: Path, run: str, done: checkpoint.Checkpoint) -> None:
        signal.raise_signal(again)
        checkpoint.save(folder, run, done)

    monkeypatch.setattr(loop, "save", impatient)
    with pytest.raises(fo.StopRequested):
        fo.run(small(), tmp_path / "stopped", progress=StopAfter("fedavg", 1))
    assert newest_checkpoint(tmp_path / "stopped" / "fedavg").rounds_done == 2
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Breaks(loop.SilentRunProgress):
    def round_done(self, t: int, record: dict | None) -> None:
        if t == 4:
            raise ZeroDivisionError


def test_an_error_keeps_the_rounds_done(whole: fo.RunResult, tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        fo.run(small(), tmp_path / "broken", progress=Breaks())
    assert newest_checkpoint(tmp_path / "broken" / "fedavg").rounds_done == 5
    result = fo.resume(tmp_path / "broken")
    for one, other in zip(whole.runs, result.runs, strict=True):
        assert timeless(one.records) == timeless(other.records)


def test_a_full_disk_does_not_hide_the_error_but_is_told_on_a_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, run: str, done: checkpoint.Checkpoint) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(loop, "save", full)
    config = small(engine={"checkpoint_every": 100})
    with pytest.raises(ZeroDivisionError):
        fo.run(config, tmp_path / "broken", progress=Breaks())
    with pytest.raises(OSError, match="no space"):
        fo.run(config, tmp_path / "stopped", progress=StopAfter("fedavg", 1))


def test_resuming_what_is_done_does_nothing(whole: fo.RunResult) -> None:
    before = {p: p.stat().st_mtime_ns for p in whole.folder.rglob("*.jsonl")}
    again = fo.resume(whole.folder)
    assert [r.summary for r in again.runs] == [r.summary for r in whole.runs]
    assert {p: p.stat().st_mtime_ns for p in whole.folder.rglob("*.jsonl")} == before


def stopped_run(folder: Path) -> Path:
    with pytest.raises(fo.StopRequested):
        fo.run(small(run={"method": "fedavg"}), folder, progress=StopAfter("fedavg", 6))
    assert [p.name for p in sorted((folder / "fedavg").glob("checkpoint-*"))] == [
        "checkpoint-00000006.json", "checkpoint-00000006.safetensors",
        "checkpoint-00000007.json", "checkpoint-00000007.safetensors",
    ]  # fmt: skip
    return folder / "fedavg"


@pytest.mark.parametrize(
    "damage", ["truncate tensors", "flip a bit", "break json", "lose tensors", "change a number"]
)
def test_a_damaged_checkpoint_falls_back_to_the_one_before(
    whole: fo.RunResult, tmp_path: Path, damage: str
) -> None:
    target = stopped_run(tmp_path / "stopped")
    tensors, vouch = (target / f"checkpoint-00000007.{e}" for e in ("safetensors", "json"))
    content = tensors.read_bytes()
    match damage:
        case "truncate tensors":
            tensors.write_bytes(content[:-100])
        case "flip a bit":
            tensors.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        case "break json":
            vouch.write_text("{")
        case "lose tensors":
            tensors.unlink()
        case "change a number":
            fields = json.loads(vouch.read_text())
            vouch.write_text(json.dumps({**fields, "records_bytes": fields["records_bytes"] - 100}))
    with (
        pytest.warns(UserWarning, match=r"damaged checkpoint checkpoint-00000007.*00000006"),
        pytest.raises(fo.StopRequested),
    ):
        fo.resume(tmp_path / "stopped", progress=StopAfter("fedavg", 7))
    # The damaged one makes no room for itself: the two that are kept are whole.
    assert newest_checkpoint(target).rounds_done == 8
    (target / "checkpoint-00000008.json").unlink()
    assert newest_checkpoint(target).rounds_done in (6, 7)
    result = fo.resume(tmp_path / "stopped")
    assert timeless(result.runs[0].records) == timeless(whole.runs[0].records)


def test_what_a_kill_left_half_written_is_removed(tmp_path: Path) -> None:
    target = stopped_run(tmp_path / "stopped")
    leftover = target / ".checkpoint-00000008.abcd1234.partial.safetensors"
    leftover.write_bytes(b"half")
    fo.resume(tmp_path / "stopped")
    assert not leftover.exists()


def test_a_run_that_diverges_ends_all_the_same(tmp_path: Path) -> None:
    wild = {"rate": 100.0, "clip_norm": 0.0, "epochs": 20}
    with np.errstate(all="ignore"):
        result = fo.run(small(run={"method": "apfl", "rounds": 4}, training=wild), tmp_path / "w")
    assert result.runs[0].records[-1]["orbit_loss"].count(None) > 0


def test_no_whole_checkpoint_is_an_error(tmp_path: Path) -> None:
    target = stopped_run(tmp_path / "stopped")
    for tensors in target.glob("*.safetensors"):
        tensors.write_bytes(b"")
    with pytest.raises(RunError, match="no checkpoint is whole"):
        fo.resume(tmp_path / "stopped")


@pytest.mark.parametrize("found", [1, 2, 4])
def test_a_checkpoint_of_another_version_is_no_damage(
    tmp_path: Path, found: int, recwarn: pytest.WarningsRecorder
) -> None:
    target = stopped_run(tmp_path / "stopped")
    path = target / "checkpoint-00000007.json"
    document = json.loads(path.read_text())
    del document["sha256"], document["arrays_bytes"], document["format"]  # as format 1 was
    path.write_text(json.dumps(sealed(document if found == 1 else {**document, "format": found})))
    with pytest.raises(RunError) as refused:
        fo.resume(tmp_path / "stopped")
    assert str(refused.value) == (
        f"{path} was written by another version of fedorbit: its format is {found}, this version "
        "reads 3; resume with the version that wrote it, or run again in another folder"
    )
    assert path.exists()  # for the version that wrote it
    assert read_results(tmp_path / "stopped", "fedavg").records and not recwarn


def test_records_cut_short_are_an_error(tmp_path: Path) -> None:
    target = stopped_run(tmp_path / "stopped")
    (target / "records.jsonl").write_text("")
    with pytest.raises(RunError, match=r"records\.jsonl was damaged .*not what its checkpoint"):
        fo.resume(tmp_path / "stopped")


def test_a_damaged_summary_is_an_error_and_can_be_made_again(whole: fo.RunResult) -> None:
    before, path = whole.runs[0].summary, whole.runs[0].folder / "summary.json"
    path.write_text("{")
    with pytest.raises(
        RunError, match=r"summary\.json was damaged .*; remove it and `fedorbit run"
    ):
        fo.resume(whole.folder)
    path.unlink()
    again = fo.resume(whole.folder).runs[0].summary
    for summary in (before, again):
        del summary["provenance"]["commit"]  # of a checkout that may be worked in
    assert again == before


def test_damaged_records_are_an_error(whole: fo.RunResult) -> None:
    (whole.runs[0].folder / "records.jsonl").write_text("{}\n{\n")
    with pytest.raises(RunError, match=r"records\.jsonl was damaged .*line 1.*run this config"):
        fo.resume(whole.folder)


def test_records_of_a_finished_run_that_were_cut_are_an_error(whole: fo.RunResult) -> None:
    path, rounds = whole.runs[0].folder / "records.jsonl", len(whole.runs[0].records)
    path.write_bytes(path.read_bytes()[:-1])  # the last line has no end
    with pytest.raises(RunError, match=rf"ends after {rounds - 1} of {rounds} rounds"):
        fo.resume(whole.folder)


def test_another_configuration_is_refused_with_the_keys(tmp_path: Path) -> None:
    stopped_run(tmp_path / "stopped")
    other = small(run={"method": "fedavg", "links": "causal"}, training={"rate": 0.1})
    with pytest.raises(RunError, match=r"differs in run\.links, training\.rate;"):
        fo.resume(tmp_path / "stopped", other)
    # How it is run may differ.
    same = small(run={"method": "fedavg"}, engine={"workers": 1, "checkpoint_every": 1})
    fo.resume(tmp_path / "stopped", same)


def test_a_folder_in_use_is_refused(whole: fo.RunResult, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="already holds a run; go on with `fedorbit run --resume"):
        fo.run(small(), whole.folder)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="in use and holds no run"):
        fo.run(small(), tmp_path / "other")
    with pytest.raises(RunError, match="holds no run to resume"):
        fo.resume(tmp_path / "other")


def test_two_processes_do_not_share_a_folder(tmp_path: Path) -> None:
    class TryAgain(loop.SilentRunProgress):
        def round_done(self, t: int, record: dict | None) -> None:
            with pytest.raises(RunError, match="another process runs in"):
                fo.resume(tmp_path / "busy")

    fo.run(small(run={"method": "fedavg", "rounds": 2}), tmp_path / "busy", progress=TryAgain())


def test_the_next_free_folder_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = small(run={"method": "local", "rounds": 1})
    assert [fo.run(config).folder for _ in range(2)] == [Path("runs/1"), Path("runs/2")]


def test_evaluate_every_few_rounds(tmp_path: Path) -> None:
    result = fo.run(small(run={"method": "fedorbit", "evaluate_every": 3}), tmp_path / "sparse")
    records = result.runs[0].records
    assert [record["round"] for record in records] == [2, 5, 7]  # and always the last
    every = fo.run(small(run={"method": "fedorbit"}), tmp_path / "every").runs[0].records
    assert records[1]["accuracy"] == every[5]["accuracy"]
    assert records[1]["epochs"] == np.sum([r["epochs"] for r in every[3:6]], axis=0).tolist()


def test_models_that_did_not_change_are_not_evaluated_again(tmp_path: Path, monkeypatch) -> None:
    evaluated = []
    original = LocalEngine.evaluate

    def counting(self, models, samples, offsets):
        evaluated.append(len(models))
        return original(self, models, samples, offsets)

    monkeypatch.setattr(LocalEngine, "evaluate", counting)
    result = fo.run(small(run={"method": "fedavg"}), tmp_path / "run")
    for count, record in zip(evaluated[1:], result.runs[0].records[1:], strict=True):
        assert (count > 0) == bool(record["visible"])
    assert 0 in evaluated


def test_a_wrong_method_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no method"):
        fo.run(small(run={"method": "fedavgg"}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_method_of_ones_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "examples")
    name = "trimmed_mean:TrimmedMean"
    fo.allow_code("trimmed_mean")
    config = small(run={"method": name}, methods={name: {"trim": 0}})
    result = fo.run(config, tmp_path / "run")
    assert result.runs[0].folder.name == "trimmed_mean-TrimmedMean"
    # Untrimmed and unweighted is still FedAvg where a single orbit is in view.
    module = sys.modules["trimmed_mean"]
    assert issubclass(module.TrimmedMean, fo.Method)
    assert not issubclass(module.TrimmedMean, FedAvg)
    assert fo.load_config(result.folder / "config.toml").methods == {name: {"trim": 0}}


def test_a_state_is_only_data(whole: fo.RunResult) -> None:
    """No pickle anywhere: a checkpoint is tensors and JSON."""
    for run in whole.runs:
        for file in run.folder.glob("checkpoint-*.json"):
            assert json.loads(file.read_text())["rounds_done"] <= ROUNDS
        for file in run.folder.glob("checkpoint-*.safetensors"):
            assert file.read_bytes()[8:9] == b"{"


def test_method_folder_names_are_safe() -> None:
    assert runs.method_folder(Path("a"), "../x:Y").parent == Path("a")


EVENTS = [
    {"round": 2, "kind": "leave", "orbit": 1},
    {"round": 3, "kind": "leave", "satellite": 0},
    {"round": 5, "kind": "join", "orbit": 2},
    {"round": 6, "kind": "join", "orbit": 1},
]
PRESENT = [[0, 1], [0, 1], [0], [0], [0], [0, 2], [0, 1, 2], [0, 1, 2]]


def test_records_and_summary_tell_of_events(tmp_path: Path) -> None:
    result = fo.run(small(events=EVENTS), tmp_path / "run")
    for run in result.runs:
        assert [record["present"] for record in run.records] == PRESENT
        for record, present in zip(run.records, PRESENT, strict=True):
            assert set(record["visible"]) <= set(present)
            accuracies = record["orbit_accuracy"]
            assert [o for o in range(3) if accuracies[o] is not None] == present
            assert [o for o in range(3) if record["orbit_loss"][o] is not None] == present
            there = [accuracies[o] for o in present]
            assert record["accuracy"] == pytest.approx(np.mean(there))
            assert record["spread"] == pytest.approx(max(there) - min(there))
        assert run.summary["events"] == EVENTS
    assert [row["present_orbits"] for row in result.table()[:ROUNDS]] == [len(p) for p in PRESENT]
    assert fo.load_config(result.folder / "config.toml").events == small(events=EVENTS).events


def test_without_events_records_do_not_speak_of_them(whole: fo.RunResult) -> None:
    for run in whole.runs:
        assert "events" not in run.summary
        assert not any("present" in record for record in run.records)


@pytest.mark.parametrize("t", [1, 2, 4, 5])
def test_a_run_resumes_across_events(tmp_path: Path, t: int) -> None:
    config = small(events=EVENTS, run={"method": "fedorbit", "links": "causal"})
    never_stopped = fo.run(config, tmp_path / "whole").runs[0]
    with pytest.raises(fo.StopRequested):
        fo.run(config, tmp_path / "stopped", progress=StopAfter("fedorbit", t))
    resumed = fo.resume(tmp_path / "stopped").runs[0]
    assert timeless(resumed.records) == timeless(never_stopped.records)
    with pytest.raises(RunError, match="differs in events"):
        fo.resume(tmp_path / "stopped", small(run={"method": "fedorbit", "links": "causal"}))


def test_an_event_of_nobody_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    nobody = {"round": 2, "kind": "leave", "satellite": 6}
    with pytest.raises(ConfigError, match=r"events\.0\.satellite must be below 6"):
        fo.run(small(events=[nobody]), tmp_path / "run")
    assert not (tmp_path / "run").exists()
