"""A run's folder is one thing: whatever is changed in it is found, and nothing outside is reached."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
import safetensors.numpy

import fedorbit as fo
from fedorbit.config.files import dumps
from fedorbit.config.schema import ElementsSection
from fedorbit.documents import digest, sealed
from fedorbit.errors import FedOrbitError, ModelError, RunError
from fedorbit.methods.fedavg import FedAvg
from fedorbit.report.runfiles import read_runs
from fedorbit.results.reading import finished
from fedorbit.simulation.records import (
    RENAMED,
    RecordFile,
    method_id,
    read_records,
    read_summary,
)
from tests.orbits.element_files import made_satellite, tle_text
from tests.simulation.test_runs import StopAfter, small, timeless

ROUNDS = 6
CONFIG = small(run={"method": ["fedavg"], "rounds": ROUNDS}, engine={"checkpoint_every": 2})


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run."""
    with pytest.MonkeyPatch.context() as patched:
        folder = tmp_path_factory.mktemp("whole")
        patched.setenv("FEDORBIT_CACHE", str(folder / "cache"))
        return fo.run(CONFIG, folder / "run").folder


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    """A copy of it, to be damaged."""
    return Path(shutil.copytree(whole, tmp_path / "run"))


def unfinish(run: Path, rounds: int = 4) -> Path:
    """Make it a run that was killed after some rounds."""
    (run / "fedavg" / "summary.json").unlink()
    for path in (run / "fedavg").glob(f"checkpoint-{ROUNDS:08d}.*"):
        path.unlink()
    return run


def replace(file: str, old: str, new: str) -> Callable[[Path], None]:
    def change(run: Path) -> None:
        text = (run / file).read_text()
        assert old in text
        (run / file).write_text(text.replace(old, new, 1))

    return change


def drop_line(run: Path) -> None:
    path = run / "fedavg" / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[3:]))


def nudge_accuracy(run: Path) -> None:
    path = run / "fedavg" / "summary.json"
    summary = json.loads(path.read_text())
    path.write_text(json.dumps({**summary, "accuracy": summary["accuracy"] + 1.0}))


CHANGES = {
    "seed": (replace("config.toml", "seed = 0", "seed = 1"), "seed was 0 and is 1"),
    "rate": (replace("config.toml", "rate = 0.01", "rate = 0.02"), "training.rate was 0.01 and"),
    "no key": (replace("config.toml", "momentum = 0.9", "# momentum"), "training.momentum was 0.9"),
    "manifest": (replace("run.json", '"seed": 0', '"seed": 1'), r"run\.json was damaged"),
    "world": (replace("world.json", '"tau_max":', '"tau_min":'), r"world\.json was damaged"),
    "record": (replace("fedavg/records.jsonl", '"round":2', '"round":3'), "line 3: it does not"),
    "a line": (drop_line, "line 3: it does not follow the line before"),
    "summary": (nudge_accuracy, "does not fit its checksum"),
    "no manifest": (lambda run: (run / "run.json").unlink(), r"run\.json is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_a_change_is_found_by_resume_report_and_table(run: Path, what: str) -> None:
    change, message = CHANGES[what]
    change(run)
    for reader in (fo.resume, lambda folder: read_runs([folder])):
        with pytest.raises(RunError, match=message if what != "no manifest" else r"run\.json"):
            reader(run)
    if what not in ("seed", "rate", "no key"):  # a table compares the configuration, see studies
        with pytest.raises(RunError, match=message):
            finished(run, "fedavg")


def test_a_changed_checkpoint_is_a_warning_where_nothing_depends_on_it(run: Path) -> None:
    path = run / "fedavg" / f"checkpoint-{ROUNDS:08d}.safetensors"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    for reader in (lambda: read_runs([run]), lambda: finished(run, "fedavg")):
        with pytest.warns(UserWarning, match="its arrays do not fit their checksum"):
            reader()


@pytest.mark.parametrize("what", ["seed", "rate", "record", "a line", "no manifest"])
def test_no_mixture_is_resumed(run: Path, what: str) -> None:
    change, _ = CHANGES[what]
    before = (run / "fedavg" / "records.jsonl").read_bytes()
    change(unfinish(run))
    changed = (run / "fedavg" / "records.jsonl").read_bytes()
    with pytest.raises(RunError):
        fo.resume(run)
    assert (run / "fedavg" / "records.jsonl").read_bytes() == changed
    assert (changed == before) == (what not in ("record", "a line"))


def test_a_checkpoint_of_another_run_is_not_used(run: Path, tmp_path: Path) -> None:
    other = fo.run(small(seed=3, run={"method": ["fedavg"], "rounds": ROUNDS}), tmp_path / "other")
    for path in (run / "fedavg").glob("checkpoint-*"):
        path.unlink()
    for path in (other.folder / "fedavg").glob("checkpoint-*"):
        shutil.copy(path, run / "fedavg" / path.name)
    unfinish(run)
    for path in (other.folder / "fedavg").glob("checkpoint-*"):
        shutil.copy(path, run / "fedavg" / path.name)
    with pytest.raises(RunError, match="belongs to another run"):
        fo.resume(run)


def test_files_of_another_method_of_the_run_are_not_used(tmp_path: Path) -> None:
    methods = {"method": ["fedavg", "fedprox"], "rounds": 3}
    run = fo.run(small(run=methods), tmp_path / "run").folder
    shutil.rmtree(run / "fedprox")
    shutil.copytree(run / "fedavg", run / "fedprox")
    for reader in (fo.resume, lambda folder: read_runs([folder])):
        with pytest.raises(RunError, match=r"fedprox.summary\.json .*belongs to another run"):
            reader(run)
    (run / "fedprox" / "summary.json").unlink()
    with pytest.raises(RunError, match="belongs to another run or method"):
        fo.resume(run)
    for path in (run / "fedprox").glob("checkpoint-*"):
        path.unlink()
    with pytest.raises(RunError, match="line 1: it does not follow"):
        read_runs([run])


def test_facts_that_a_summary_cannot_hold_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FedAvg, "facts", lambda *arguments: {"per_satellite": {11: 1, 2: 0.5}})
    fo.run(small(run={"method": ["fedavg"], "rounds": 1}), tmp_path / "well")
    assert fo.resume(tmp_path / "well").runs[0].summary["per_satellite"] == {"11": 1, "2": 0.5}
    monkeypatch.setattr(FedAvg, "facts", lambda *arguments: {"beta": [1.0]})
    with pytest.raises(ModelError, match=r"beta.*the method's `facts`"):
        fo.run(small(run={"method": ["fedavg"], "rounds": 1}), tmp_path / "ill")


def test_a_state_of_other_arrays_is_refused(run: Path) -> None:
    unfinish(run)
    newest = max((run / "fedavg").glob("checkpoint-*.json"))
    state = safetensors.numpy.load_file(newest.with_suffix(".safetensors"))
    renamed = safetensors.numpy.save({f"x{name}": array for name, array in state.items()})
    newest.with_suffix(".safetensors").write_bytes(renamed)
    document = json.loads(newest.read_text())
    del document["sha256"]
    document |= {"arrays_sha256": digest(renamed), "arrays_bytes": len(renamed)}
    newest.write_text(json.dumps(sealed(document)))
    with pytest.raises(RunError, match="does not hold the state of this method"):
        fo.resume(run)


def test_execution_settings_may_change(run: Path) -> None:
    replace("config.toml", "checkpoint_every = 2", "checkpoint_every = 3")(unfinish(run))
    with pytest.warns(UserWarning, match="engine.checkpoint_every was 2 and is 3"):
        result = fo.resume(run)
    assert result.runs[0].summary["rounds"] == ROUNDS
    again = ["engine.workers=2", "engine.checkpoint_every=2"]
    with pytest.warns(UserWarning, match="engine.checkpoint_every"):
        assert fo.resume(run, overrides=again).runs[0].summary["rounds"] == ROUNDS


def test_a_start_that_was_killed_goes_on(run: Path, whole: Path) -> None:
    """Between the configuration and the manifest nothing has been trained."""
    shutil.rmtree(run / "fedavg")
    for name in ("run.json", "world.json"):
        (run / name).unlink()
    result = fo.resume(run)
    assert timeless(result.runs[0].records) == timeless(read_records(whole / "fedavg"))


def test_a_run_of_format_1_is_reported_and_not_resumed(run: Path) -> None:
    (run / "run.json").unlink()
    target = run / "fedavg"
    summary = json.loads((target / "summary.json").read_text())
    del summary["integrity"]
    (target / "summary.json").write_text(json.dumps(summary))
    lines = [json.loads(line) for line in (target / "records.jsonl").read_text().splitlines()]
    for line in lines:
        del line["chain"]
    (target / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    [method] = read_runs([run])
    assert method.summary is not None and len(method.records) == ROUNDS
    found = finished(run, "fedavg")
    assert found is not None
    assert found.summary == method.summary
    with pytest.raises(RunError, match="cannot be resumed: it has records and no run"):
        fo.resume(run)


def test_old_names_are_read_under_the_new_ones(run: Path, whole: Path) -> None:
    """Records and summary of format 2, chained and sealed with the names of an earlier version."""
    target = run / "fedavg"
    old_names = {new: old for old, new in RENAMED.items()}

    def renamed(document: dict) -> dict:
        return {old_names.get(key, key): value for key, value in document.items()}

    run_id, records = method_id(target), read_records(target)
    assert run_id is not None
    (target / "records.jsonl").unlink()
    file = RecordFile(target, run_id, 0, run_id)
    for record in records:
        file.append(renamed(record))
    file.close()
    summary = renamed(json.loads((target / "summary.json").read_text()))
    del summary["sha256"]
    summary["integrity"]["records"] = file.chain
    (target / "summary.json").write_text(json.dumps(sealed(summary)))
    for name in ("records.jsonl", "summary.json"):
        assert "gs_uplink_bytes" in (target / name).read_text()
    assert read_records(target) == records
    assert read_summary(target) == read_summary(whole / "fedavg")


# --- Other shapes ---------------------------------------------------------------------------------

FILES = (
    "config.toml", "run.json", "world.json", "fedavg/summary.json", "fedavg/records.jsonl",
    "fedavg/checkpoint-00000006.json",
)  # fmt: skip
SHAPES = {
    "list": b"[]\n", "null": b"null\n", "number": b"5\n", "text": b'"x"\n', "object": b"{}\n",
    "NaN": b'{"round": NaN}\n', "infinity": b'{"round": 1e999}\n', "empty": b"",
    "deep": b"[" * 1500 + b"]" * 1500 + b"\n", "deeper keys": b"a." * 1500 + b"a = 1\n",
    "NUL": b"\0\n", "no UTF-8": b"\xff\xfe\n", "digits": b"[" + b"9" * 5000 + b"]\n",
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("file", FILES)
def test_another_shape_is_a_sentence(run: Path, file: str, shape: str) -> None:
    is_checkpoint = "checkpoint" in file
    if is_checkpoint:
        (run / "fedavg" / "summary.json").unlink()
    (run / file).write_bytes(SHAPES[shape])
    if is_checkpoint:  # the one before is good
        with pytest.warns(UserWarning, match="damaged checkpoint checkpoint-00000006"):
            assert len(fo.resume(run).runs[0].records) == ROUNDS
        return
    for reader in (fo.resume, lambda folder: read_runs([folder])):
        with pytest.raises(FedOrbitError) as refused:
            reader(run)
        assert Path(file).name in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize("file", [*FILES[:-1], "fedavg", "tensorboard"])
@pytest.mark.parametrize("kind", ["fifo", "link", "endless link", "socket"])
def test_links_and_devices_are_refused_unread(run: Path, file: str, kind: str) -> None:
    outside = run.parent / "outside"
    outside.write_text("precious")
    path = run / file
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(outside)
        case "endless link":
            path.symlink_to(path)
        case "socket":
            with socket.socket(socket.AF_UNIX) as listening:
                os.chdir(path.parent)
                listening.bind(path.name)
    with pytest.raises(RunError, match="is not followed in the folder of a run"):
        fo.resume(run)
    with pytest.raises(RunError, match=r"is not followed in the folder of a run|holds no run"):
        read_runs([run])
    assert outside.read_text() == "precious"


# --- What a folder may not decide -----------------------------------------------------------------


def test_connections_are_the_users_to_decide(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        address = f"127.0.0.1:{server.getsockname()[1]}"
        config = fo.load_config(
            "quickstart",
            ["data.synthetic.samples=200", "tracking.mlflow=true",
             f"tracking.mlflow_uri=http://{address}", "engine=ray",
             f"engine.ray_address={address}"],
        )  # fmt: skip
        (tmp_path / "sent").mkdir()
        (tmp_path / "sent" / "config.toml").write_text(dumps(config))
        for overrides, asked in (
            ([], "tracking.mlflow_uri"),
            (["tracking.mlflow=false"], "engine.ray_address"),
            (["tracking.mlflow=true", "engine=local"], "tracking.mlflow_uri"),
            (["engine.kind=local"], "tracking.mlflow"),
            (["tracking={tensorboard=false}", "engine=local"], "tracking.mlflow_uri"),
            (["tracking.mlflow=false", "engine={workers=1}"], "engine.ray_address"),
            (["tracking.mlflow=false", f"engine.ray_address={address}"], "engine.kind"),
        ):
            with pytest.raises(RunError, match=f"asks for connections.*{asked}"):
                fo.resume(tmp_path / "sent", overrides=overrides)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_element_sets_come_from_the_folder_alone(tmp_path: Path) -> None:
    elements = tmp_path / "satellites.tle"
    elements.write_text(tle_text([(f"S{n}", made_satellite(n, 90.0 * n)) for n in (1, 2)]))
    section = ElementsSection(kind="elements", file=elements)
    config = small(run={"method": ["local"], "rounds": 2})
    config = config.model_copy(update={"constellation": section})
    run = fo.run(config, tmp_path / "run").folder
    manifest = json.loads((run / "run.json").read_text())
    assert set(manifest["files"]) == {"world.json", "elements.tle"}
    text = (run / "elements.tle").read_text()
    (run / "elements.tle").write_text(text.replace("S1", "S9", 1))  # a name: still element sets
    for reader in (fo.resume, lambda folder: read_runs([folder]), lambda f: finished(f, "local")):
        with pytest.raises(RunError, match=r"elements\.tle was damaged .*SHA-256"):
            reader(run)
    (run / "elements.tle").write_text(text)
    for name in ("run.json", "world.json"):
        (run / name).unlink()
    shutil.rmtree(run / "local")
    replace("config.toml", 'file = "elements.tle"', f'file = "{elements}"')(run)
    with pytest.raises(RunError, match=r"outside of the run's folder"):
        fo.resume(run)


def test_leftovers_of_kills_are_removed(run: Path) -> None:
    left = [
        run / ".accuracy.1234abcd.partial.png",
        run / "fedavg" / ".summary.1234abcd.partial.json",
    ]
    for path in left:
        path.write_text("half")
    fo.resume(run)
    assert not any(path.exists() for path in left)


def test_stops_later_than_the_last_record_change_nothing(tmp_path: Path, whole: Path) -> None:
    with pytest.raises(fo.StopRequested):
        fo.run(CONFIG, tmp_path / "stopped", progress=StopAfter("fedavg", 2))
    result = fo.resume(tmp_path / "stopped")
    assert timeless(result.runs[0].records) == timeless(read_records(whole / "fedavg"))
