"""TensorBoard, MLflow and Weights & Biases, the real packages, read back by their own readers."""

import errno
import json
import shutil
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.config import Config
from fedorbit.errors import RunError, TrackingError
from fedorbit.simulation import loop, runs
from fedorbit.simulation.provenance import config_hash, source_commit
from fedorbit.simulation.records import read_records
from fedorbit.simulation.tracking import Tracking
from tests.patience import wait_until
from tests.simulation.test_runs import ROUNDS, StopAfter, small, timeless

# SQLAlchemy 2.1 warns of what MLflow does while it is imported; users do not see it.
pytestmark = pytest.mark.filterwarnings("ignore:.*noload.*:DeprecationWarning")

needs_tensorboard = pytest.mark.skipif(
    find_spec("tensorboard") is None, reason="needs fedorbit[tensorboard]"
)
TENSORBOARD = {"tensorboard": True}


def mlflow_client(uri: str) -> Any:
    return pytest.importorskip("mlflow", reason="needs fedorbit[mlflow]").MlflowClient(uri)


@pytest.fixture(scope="module")
def empty_database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An MLflow database without runs; to create one takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        path = tmp_path_factory.mktemp("mlflow") / "empty.db"
        mlflow_client(f"sqlite:///{path}")
    return path


@pytest.fixture
def mlflow_uri(empty_database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    return f"sqlite:///{shutil.copy(empty_database, tmp_path / 'mlflow.db')}"


def on_mlflow(uri: str) -> dict[str, Any]:
    return {"mlflow": True, "mlflow_uri": uri}


def scalars(run: Path, method: str) -> dict[str, list[tuple[int, float]]]:
    """Read an event file as TensorBoard does: (step, value) per tag."""
    accumulator = accumulated(run, method)
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)]
        for tag in accumulator.Tags()["scalars"]
    }


def accumulated(run: Path, method: str) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    everything = {"scalars": 0}
    return EventAccumulator(str(run / "tensorboard" / method), everything).Reload()


def mlflow_run(uri: str, run: Path, method: str) -> Any:
    told = json.loads((run / method / "mlflow.json").read_text())
    return mlflow_client(uri).get_run(told["run_id"])


def mlflow_history(uri: str, run: Path, method: str) -> dict[str, list[tuple[int, float]]]:
    logged, client = mlflow_run(uri, run, method), mlflow_client(uri)
    return {
        key: sorted((m.step, m.value) for m in client.get_metric_history(logged.info.run_id, key))
        for key in logged.data.metrics
    }


def expected(run: Path, method: str) -> dict[str, list[tuple[int, float]]]:
    """Return the values that a finished method must have logged, from its records alone."""
    records = read_records(run / method)
    columns: dict[str, list[tuple[int, float]]] = {}
    for r in records:
        losses = [loss for loss in r["orbit_loss"] if loss is not None]
        row = {
            "accuracy": r["accuracy"],
            "spread": r["spread"],
            "loss": sum(losses) / len(losses),
            "orbit_accuracy/0": r["orbit_accuracy"][0],
            "orbit_accuracy/1": r["orbit_accuracy"][1],
            "orbit_accuracy/2": r["orbit_accuracy"][2],
            "samples_trained": r["samples_trained"],
            "bytes/to_ground": r["to_ground_bytes"],
            "bytes/from_ground": r["from_ground_bytes"],
            "bytes/isl": r["isl_bytes"],
            "bytes/unlinked": r["unlinked_bytes"],
            "visible_orbits": len(r["visible"]),
        }
        for key, value in row.items():
            if value is not None:
                columns.setdefault(key, []).append((r["round"], value))
    summary = json.loads((run / method / "summary.json").read_text())
    last = records[-1]["round"]
    columns["summary/accuracy"] = [(last, summary["accuracy"])]
    columns["summary/spread"] = [(last, summary["spread"])]
    columns["summary/balanced_accuracy"] = [(last, summary["balanced_accuracy"])]
    columns["summary/macro_f1"] = [(last, summary["macro_f1"])]
    for orbit, accuracy in enumerate(summary["per_orbit"]):
        if accuracy is not None:
            columns[f"summary/orbit_accuracy/{orbit}"] = [(last, accuracy)]
    return columns


def as_float32(columns: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    return {
        key: [(step, float(np.float32(value))) for step, value in entries]
        for key, entries in columns.items()
    }


def assert_logged(actual: dict[str, list], wanted: dict[str, list]) -> None:
    """Every step once, every value to the last bits (a mean may be rounded differently)."""
    assert actual.keys() == wanted.keys()
    for key, entries in wanted.items():
        assert [step for step, _ in actual[key]] == [step for step, _ in entries], key
        np.testing.assert_allclose(
            [value for _, value in actual[key]], [value for _, value in entries], rtol=1e-15
        )


def assert_both_logged(uri: str, run: Path, method: str) -> None:
    wanted = expected(run, method)
    assert_logged(scalars(run, method), as_float32(wanted))
    assert_logged(mlflow_history(uri, run, method), wanted)


@needs_tensorboard
def test_both_log_what_is_recorded(mlflow_uri: str, tmp_path: Path) -> None:
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    folder = tmp_path / "run"
    settings = {**TENSORBOARD, **on_mlflow(mlflow_uri), "mlflow_experiment": "orbits"}
    config = small(run={"evaluate_every": 3}, tracking=settings)
    fo.run(config, folder)
    for method in ("fedavg", "fedorbit"):
        assert [step for step, _ in scalars(folder, method)["accuracy"]] == [2, 5, 7]
        assert_both_logged(mlflow_uri, folder, method)

        logged = mlflow_run(mlflow_uri, folder, method)
        assert logged.info.status == "FINISHED"
        assert logged.info.run_name == f"run/{method}"
        assert logged.data.params.items() >= {
            "method": method, "training.rate": "0.01", "constellation.planes": "3",
            "stations.0.name": "London", "seed": "0",
        }.items()  # fmt: skip
        assert not [key for key in logged.data.params if key.startswith("tracking")]
        tags = logged.data.tags
        assert tags["fedorbit.fedorbit"] == fo.__version__
        assert tags["fedorbit.config_hash"] == config_hash(fo.load_config(folder / "config.toml"))
        assert tags.get("fedorbit.commit") == source_commit()

        texts = accumulated(folder, method)
        [text] = texts.Tensors("provenance/text_summary")
        assert tags["fedorbit.config_hash"] in text.tensor_proto.string_val[0].decode()
        begun = texts.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
        told = HParamsPluginData.FromString(begun).session_start_info.hparams
        assert told["training.rate"].number_value == 0.01
        assert told["method"].string_value == method
    experiment = mlflow_client(mlflow_uri).get_experiment_by_name("orbits")
    assert len(mlflow_client(mlflow_uri).search_runs([experiment.experiment_id])) == 2


@needs_tensorboard
@pytest.mark.parametrize("killed", [False, True])
def test_a_resumed_run_goes_on_in_the_same_one(
    mlflow_uri: str, tmp_path: Path, killed: bool
) -> None:
    folder = tmp_path / "run"
    tracking = {**TENSORBOARD, **on_mlflow(mlflow_uri)}
    config = small(run={"method": "fedavg"}, engine={"checkpoint_every": 4}, tracking=tracking)
    with pytest.raises(fo.StopRequested):
        fo.run(config, folder, progress=StopAfter("fedavg", 6))
    before = mlflow_run(mlflow_uri, folder, "fedavg")
    assert before.info.status == "KILLED"
    assert [step for step, _ in scalars(folder, "fedavg")["accuracy"]] == [0, 1, 2, 3, 4, 5]
    if killed:  # without the last checkpoint, rounds 4 and 5 are done again
        for path in (folder / "fedavg").glob("checkpoint-00000007.*"):
            path.unlink()
    with pytest.raises(RunError, match=r"asks for connections.*tracking.mlflow = true"):
        fo.resume(folder)
    fo.resume(folder, config)
    after = mlflow_run(mlflow_uri, folder, "fedavg")
    assert after.info.run_id == before.info.run_id
    assert after.info.status == "FINISHED"
    assert_both_logged(mlflow_uri, folder, "fedavg")


@needs_tensorboard
def test_event_files_of_a_kill_at_the_worst_moment_are_read_once(tmp_path: Path) -> None:
    """A start writes the new event file, then removes the old one; in between there are two."""
    folder = tmp_path / "run"
    config = small(run={"method": "fedavg"}, tracking=TENSORBOARD)
    with pytest.raises(fo.StopRequested):
        fo.run(config, folder, progress=StopAfter("fedavg", 4))
    [old] = (folder / "tensorboard" / "fedavg").iterdir()
    kept = old.read_bytes()
    fo.resume(folder)
    [new] = (folder / "tensorboard" / "fedavg").iterdir()
    assert new != old
    old.with_name("events.out.tfevents.0000000001.old").write_bytes(kept)
    assert_logged(scalars(folder, "fedavg"), as_float32(expected(folder, "fedavg")))


@needs_tensorboard
def test_a_tracker_that_comes_late_is_told_everything(mlflow_uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with pytest.raises(fo.StopRequested):
        fo.run(small(), folder, progress=StopAfter("fedorbit", 3))
    changes = {"tracking": {**TENSORBOARD, **on_mlflow(mlflow_uri)}}
    fo.resume(folder, small(**changes))
    for method in ("fedavg", "fedorbit"):  # the one was done, the other half done
        assert_both_logged(mlflow_uri, folder, method)
    fo.resume(folder, small(**changes))  # and again: nothing is there twice
    for method in ("fedavg", "fedorbit"):
        assert_both_logged(mlflow_uri, folder, method)


def test_a_deleted_mlflow_run_is_made_again(mlflow_uri: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    config = small(run={"method": "fedavg", "rounds": 2}, tracking=on_mlflow(mlflow_uri))
    fo.run(config, folder)
    first = mlflow_run(mlflow_uri, folder, "fedavg").info.run_id
    mlflow_client(mlflow_uri).delete_run(first)
    fo.resume(folder, config)
    assert mlflow_run(mlflow_uri, folder, "fedavg").info.run_id != first
    assert_logged(mlflow_history(mlflow_uri, folder, "fedavg"), expected(folder, "fedavg"))


def drop_table(database: Path, table: str) -> None:
    """Make the real store fail."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {table}")


class LosesItsDatabase(loop.SilentRunProgress):
    """Takes away MLflow's table of metrics on the way."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def round_done(self, t: int, record: dict | None) -> None:
        if t == 2:
            drop_table(self._path, "metrics")


@needs_tensorboard
def test_a_run_survives_a_tracker_that_fails(
    mlflow_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.utils.tensorboard import SummaryWriter

    add_scalar, full = SummaryWriter.add_scalar, [True]

    def add_scalar_until_full(self: Any, tag: str, value: float, step: int, *rest: Any) -> None:
        if step >= 4 and full:
            raise OSError(errno.ENOSPC, "No space left on device")
        add_scalar(self, tag, value, step, *rest)

    monkeypatch.setattr(SummaryWriter, "add_scalar", add_scalar_until_full)
    folder, tracking = tmp_path / "run", {**TENSORBOARD, **on_mlflow(mlflow_uri)}
    with pytest.warns(UserWarning) as warned:
        result = fo.run(
            small(tracking=tracking), folder, progress=LosesItsDatabase(tmp_path / "mlflow.db")
        )
    sentences = [str(w.message) for w in warned]
    assert Counter(s.split(" failed (")[0] for s in sentences) == {"MLflow": 1, "TensorBoard": 1}
    for sentence in sentences:
        assert "the run goes on without it" in sentence
        assert f"`fedorbit run --resume {folder}` tells it later" in sentence
        assert "\n" not in sentence
    plain = fo.run(small(), tmp_path / "plain")
    for one, other in zip(result.runs, plain.runs, strict=True):
        assert timeless(one.records) == timeless(other.records)

    full.clear()
    fo.resume(folder, small(tracking=TENSORBOARD))
    for method in ("fedavg", "fedorbit"):
        assert_logged(scalars(folder, method), as_float32(expected(folder, method)))


def test_a_tracker_that_fails_at_the_start_is_an_error(mlflow_uri: str, tmp_path: Path) -> None:
    mlflow_client(mlflow_uri)  # connects, and so looks for the tables, before one is taken away
    drop_table(tmp_path / "mlflow.db", "runs")
    folder, config = tmp_path / "run", small(tracking=on_mlflow(mlflow_uri))
    with pytest.raises(
        TrackingError, match=r"MLflow failed at the start \(.*runs.*--resume .*/run`"
    ):
        fo.run(config, folder)
    assert read_records(folder / "fedavg") == []
    fo.resume(folder, small())
    assert len(read_records(folder / "fedavg")) == ROUNDS


def test_a_tracker_that_fails_at_the_start_is_not_asked_again(tmp_path: Path) -> None:
    """It would fail again while the run is being cleaned up, which would then stop half-way."""

    class Broken(loop.SilentRunProgress):
        def begin(self, method: str, rounds_done: int, rounds: int) -> None:
            raise OSError(errno.ENOSPC, "no space left")

        def end(self) -> None:
            raise OSError(errno.ENOSPC, "no space left")

    watchers = Tracking(loop.SilentRunProgress(), {"Broken": lambda _: Broken()}, small(), tmp_path)
    with pytest.raises(TrackingError, match=r"Broken failed at the start \(OSError: .* no space"):
        watchers.begin("fedavg", 0, ROUNDS)
    watchers.end()


@pytest.mark.parametrize("package", ["tensorboard", "mlflow", "wandb"])
def test_a_missing_package_is_named_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        TrackingError, match=rf"pip install '{package}.*', or -o tracking\.{package}=false"
    ):
        fo.run(small(tracking={package: True}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_server_that_is_not_there_is_said_at_once(
    mlflow_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://me:secret@localhost:1")
    with pytest.raises(
        TrackingError, match=r"MLflow cannot log to .*http://localhost:1.*; check"
    ) as told:
        fo.run(small(tracking={"mlflow": True}), tmp_path / "run")
    assert "secret" not in str(told.value)
    assert not (tmp_path / "run").exists()


def test_two_processes_may_create_the_database_at_once(mlflow_uri: str, tmp_path: Path) -> None:
    script = (
        "from fedorbit.simulation.tracking.mlflow import MlflowServer; "
        f"print(MlflowServer('sqlite:///{tmp_path / 'new.db'}', 'orbits').experiment_id)"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", script],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    answers = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert answers[0][0] == answers[1][0]


@pytest.fixture
def wandb_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("wandb", reason="needs fedorbit[wandb]")
    for key in ("WANDB_DIR", "WANDB_CACHE_DIR", "WANDB_CONFIG_DIR", "WANDB_DATA_DIR"):
        monkeypatch.setenv(key, str(tmp_path))
    return tmp_path / "wandb"


OFFLINE = {"wandb": True, "wandb_mode": "offline", "wandb_project": "orbits"}


def wandb_records(folder: Path, run: Path, method: str) -> tuple[dict[str, Any], dict[str, list]]:
    """Read the one offline folder of a method: settings, and (step, value) by name."""
    run_id = json.loads((run / method / "wandb.json").read_text())["run_id"]
    [file] = folder.glob(f"offline-run-*-{run_id}*/*.wandb")
    columns, about = {}, {}
    wait_until(lambda: _scanned(file, about, columns))
    return about, columns


def _scanned(file: Path, about: dict[str, Any], columns: dict[str, list]) -> bool:
    """Read a file that another process may be writing; return whether it was whole."""
    from wandb.proto.wandb_internal_pb2 import Record
    from wandb.sdk.internal.datastore import DataStore

    about.clear()
    columns.clear()
    store = DataStore()
    store.open_for_scan(str(file))
    while (content := store.scan_data()) is not None:
        record = Record.FromString(content)
        if record.WhichOneof("record_type") == "run":
            about |= {item.key: json.loads(item.value_json) for item in record.run.config.update}
            about |= {"name": record.run.display_name, "project": record.run.project}
        if record.WhichOneof("record_type") == "exit":
            about["exit"] = record.exit.exit_code
        for item in record.summary.update:
            key = item.key or item.nested_key[0]
            if key.startswith("summary/"):
                columns[key] = [json.loads(item.value_json)]
        row = {item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for key in row.keys() - {"_step", "_runtime", "_timestamp"}:
            columns.setdefault(key, []).append((row["_step"], row[key]))
    store.close()
    return "exit" in about


def test_wandb_logs_what_is_recorded(wandb_folder: Path, tmp_path: Path) -> None:
    """A stopped and resumed run is in one folder, every step once."""
    folder, config = tmp_path / "run", small(run={"method": "fedavg"}, tracking=OFFLINE)
    with pytest.raises(fo.StopRequested):
        fo.run(config, folder, progress=StopAfter("fedavg", 4))
    about, columns = wandb_records(wandb_folder, folder, "fedavg")
    assert about["exit"] == 1
    assert [step for step, _ in columns["accuracy"]] == [0, 1, 2, 3]
    with pytest.raises(RunError, match=r"asks for connections.*-o tracking.wandb=false to do"):
        fo.resume(folder)
    fo.resume(folder, config)
    about, columns = wandb_records(wandb_folder, folder, "fedavg")
    assert (about["exit"], about["name"], about["project"]) == (0, "run/fedavg", "orbits")
    assert (about["training.rate"], about["method"]) == (0.01, "fedavg")
    assert about["fedorbit.config_hash"] == config_hash(fo.load_config(folder / "config.toml"))
    wanted = expected(folder, "fedavg")
    headline = {
        key: [value for _, value in wanted.pop(key)] for key in list(wanted) if "summary" in key
    }
    assert {key: columns.pop(key) for key in list(columns) if "summary" in key} == headline
    assert_logged(columns, wanted)


def test_tracking_is_no_part_of_what_a_run_is(tmp_path: Path) -> None:
    plain, tracked = small(), small(tracking={**TENSORBOARD, "mlflow_experiment": "other"})
    assert config_hash(plain) == config_hash(tracked)
    assert runs.differing_keys(plain, tracked) == []
    assert Config.model_validate(tracked.model_dump()) == tracked
    with pytest.raises(RunError, match="differs in seed;"):
        fo.run(small(run={"rounds": 1, "method": "local"}), tmp_path / "run")
        fo.resume(tmp_path / "run", small(run={"rounds": 1, "method": "local"}, seed=1))
