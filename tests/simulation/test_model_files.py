"""Models of runs: what is loaded and exported answers as the run's own evaluation did."""

import json
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import fedorbit as fo
from fedorbit.documents import digest, sealed
from fedorbit.errors import ModelError, RunError
from fedorbit.learning.lenet import LeNet
from fedorbit.learning.parameters import Vector
from fedorbit.methods import Fleet, Method, Now, State
from fedorbit.simulation.evaluation import held_out
from fedorbit.simulation.manifest import read_manifest, stored_config
from fedorbit.simulation.model_files import load_model, save_model
from fedorbit.simulation.records import method_folder, read_records
from fedorbit.simulation.world import World, build_world
from tests.simulation.test_runs import small

OF_SATELLITES = "tests.simulation.test_model_files:OneEach"
METHODS = ["centralised", "fedorbit", OF_SATELLITES]
"""One model for everyone, one per orbit, and one per satellite."""


class OneEach(Method):
    """Every satellite trains a model of its own."""

    serves: ClassVar = "satellite"

    def start(self, fleet: Fleet) -> State:
        return {"w": np.tile(fleet.initial_model(), (fleet.satellites, 1))}

    def round(self, state: State, now: Now) -> State:
        jobs = [now.job(k, state["w"][k]) for k in now.satellites]
        trained = now.train(jobs)
        return {"w": np.stack([done.model for done in trained])}

    def models(self, state: State) -> Vector:
        return state["w"]


@pytest.fixture(autouse=True)
def _trusted() -> None:
    fo.allow_code("tests.simulation.test_model_files")


@pytest.fixture(scope="module", params=["kernel", "torch"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    fo.allow_code("tests.simulation.test_model_files")
    folder = tmp_path_factory.mktemp("models") / request.param
    data = {"synthetic": {"classes": 4, "samples": 400, "size": 16}}
    config = small(
        data=data, training={"epochs": 2}, run={"rounds": 6, "method": METHODS},
        engine={"backend": request.param},
    )  # fmt: skip
    return fo.run(config, folder).folder


@pytest.fixture(scope="module")
def world(run: Path) -> World:
    return build_world(stored_config(run))


@pytest.mark.parametrize(
    ("method", "serves"), [*zip(METHODS, ["everyone", "orbit", "satellite"], strict=True)]
)
def test_models_repeat_the_counts_of_the_record(
    run: Path, world: World, tmp_path: Path, method: str, serves: str
) -> None:
    """Of the run's folder and of an exported file: as many right answers, exactly."""
    right, samples = np.zeros(3, np.int64), np.zeros(3, np.int64)
    test, orbits = held_out(world, serves)
    for client, (part, orbit) in enumerate(zip(test, orbits, strict=True)):
        place = {"satellite": client} if serves == "satellite" else {"orbit": client}
        model = load_model(run, method=method, **place)
        file = save_model(model, tmp_path / "model.safetensors")
        found = load_model(file).predict(world.dataset.images[part])
        assert (found == model.predict(world.dataset.images[part])).all()
        right[orbit] += (found == world.dataset.labels[part]).sum()
        samples[orbit] += len(part)
    recorded = read_records(method_folder(run, method))[-1]["orbit_accuracy"]
    assert (100.0 * right / samples).tolist() == recorded
    assert len(set(recorded)) > 1  # something was learned, differently


def test_an_exported_file_is_a_state_dict_with_a_card(
    run: Path, world: World, tmp_path: Path
) -> None:
    model = load_model(run, 1, method="fedorbit")
    file = save_model(model, tmp_path / "model.safetensors")
    body = LeNet(16, 16, 3, 4)
    body.load_state_dict({k: torch.from_numpy(v) for k, v in load_file(file).items()})
    with safe_open(file, "numpy") as opened:
        card = json.loads(opened.metadata()["fedorbit"])
    assert card["classes"] == list(world.dataset.class_names)
    assert (card["method"], card["serves"], card["rounds"]) == ("fedorbit", "orbit 1", 6)
    images = world.dataset.images[:5]
    pixels = torch.from_numpy(
        images.astype(np.float32) * np.float32(card["scale"]) + np.float32(card["shift"])
    )
    with torch.no_grad():
        by_hand = body(pixels.permute(0, 3, 1, 2))
    assert torch.equal(by_hand, model(torch.from_numpy(np.array(images))).detach())
    shares = model.probabilities(images)
    assert shares == pytest.approx(torch.softmax(by_hand.double(), 1).numpy())
    assert model.probabilities(images[:0]).shape == (0, 4)
    with pytest.raises(
        ModelError, match=r"uint8 of shape \(n, 16, 16, 3\), as they are stored, got float"
    ):
        model.predict(images.astype(np.float32))


def test_onnx_gives_the_same_logits(run: Path, world: World, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript", reason="the extra onnx is not installed")
    runtime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    model = load_model(run, method="centralised")
    file = save_model(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    images = np.array(world.dataset.images[:37])
    [logits] = session.run(["logits"], {"images": images})
    expected = model(torch.from_numpy(images)).detach().numpy()
    assert logits == pytest.approx(expected, abs=1e-5)
    assert (logits.argmax(axis=1) == model.predict(images)).all()
    card = json.loads(session.get_modelmeta().custom_metadata_map["fedorbit"])
    assert card["classes"] == list(world.dataset.class_names)


def test_one_model_serves_an_orbit_and_its_satellites(run: Path) -> None:
    of_orbit = load_model(run, 1, method="fedorbit").named_arrays()
    of_satellite = load_model(
        run, satellite=3, method="fedorbit"
    ).named_arrays()  # two in each orbit
    assert all((of_orbit[name] == of_satellite[name]).all() for name in of_orbit)
    assert load_model(run, 2, method="centralised").card.serves == "everyone"


@pytest.mark.parametrize(
    ("choice", "sentence"),
    [
        ({}, "several methods; choose one with --method: centralised, fedorbit, tests"),
        ({"method": "ditto"}, "no method 'ditto'; choose one"),
        ({"method": "fedorbit"}, "a model for each of 3 orbits; choose one with --orbit, from 0 to 2"),
        ({"method": "fedorbit", "orbit": 3}, "orbit must be from 0 to 2 in this run, got 3"),
        ({"method": "centralised", "satellite": -1}, "satellite must be from 0 to 5 in this run, got -1"),
        ({"method": OF_SATELLITES, "orbit": 1}, "--satellite, from 0 to 5; orbit 1 has 2 to 3"),
        ({"method": "centralised", "orbit": 1, "satellite": 2}, "both chosen; leave one out"),
    ],
)  # fmt: skip
def test_what_is_chosen_must_exist(run: Path, choice: dict, sentence: str) -> None:
    with pytest.raises(RunError, match=sentence):
        load_model(run, **choice)


def test_a_run_that_lacks_its_standardisation_gives_the_same_model(
    run: Path, tmp_path: Path
) -> None:
    """World files of earlier versions: the standardisation is computed from the data."""
    old = tmp_path / "old"
    shutil.copytree(run, old)
    world = json.loads((old / "world.json").read_text())
    del world["input"]
    (old / "world.json").write_text(json.dumps(world))
    manifest = json.loads((old / "run.json").read_text())
    # A run's name follows from its manifest, and its checkpoints carry it: none is left.
    manifest["files"]["world.json"] = digest((old / "world.json").read_bytes())
    manifest.pop("sha256")
    (old / "run.json").write_text(json.dumps(sealed(manifest)))
    run_id = read_manifest(old).method_id("centralised")
    for file in (old / "centralised").glob("checkpoint-*.json"):
        document = json.loads(file.read_text())
        document.pop("sha256")
        file.write_text(json.dumps(sealed({**document, "run_id": run_id})))
    assert load_model(old, method="centralised").card == load_model(run, method="centralised").card


def test_copies_without_checkpoints_have_no_model(run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("checkpoint-*"))
    with pytest.raises(
        RunError, match="has no checkpoint, and so no model: copies by `study export`"
    ):
        load_model(copy, method="centralised")
    with pytest.raises(RunError, match=r"holds no run: it has no config\.toml"):
        load_model(tmp_path)


def test_files_that_are_no_models_are_refused(run: Path, tmp_path: Path) -> None:
    model = load_model(run, method="centralised")
    good = save_model(model, tmp_path / "good.safetensors")
    with pytest.raises(ModelError, match=r"ends with '.pt'; allowed are .safetensors and .onnx"):
        save_model(model, tmp_path / "model.pt")
    with pytest.raises(RunError, match="is neither the folder of a run nor a file"):
        load_model(tmp_path / "none.safetensors")
    with pytest.raises(
        RunError, match="is one model; an orbit, satellite or method is chosen of a run"
    ):
        load_model(good, 1)
    with pytest.raises(ModelError, match="is written for other programs, such as onnxruntime"):
        load_model(tmp_path / "model.onnx")
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(good.read_bytes()[:100])
    with pytest.raises(ModelError, match="cannot be used as a model"):
        load_model(bad)
    save_file(load_file(good), bad)
    with pytest.raises(ModelError, match="it has no card in its metadata"):
        load_model(bad)
    card = json.loads(model.card.to_json())
    for changes, sentence in (
        ({"classes": ["one", "two"]}, "its parameters are not those of lenet"),
        ({"scale": [1.0]}, "scale has 1 values for 3 channels"),
        ({"kept_bands": [1], "file_bands": 3}, "kept_bands has 1 values for 3 channels"),
        ({"kept_bands": [1, 2, 4], "file_bands": 3}, "kept_bands has 4, but files have 3 bands"),
        ({"dtype": "object"}, "dtype"),
    ):
        save_file(load_file(good), bad, {"fedorbit": json.dumps({**card, **changes})})
        with pytest.raises(ModelError, match=sentence):
            load_model(bad)
    save_file(
        load_file(good), bad, {"fedorbit": json.dumps({**card, "model": "evil:Net", "layer": "x"})}
    )
    with pytest.raises(ModelError, match="if you trust it, add --allow-code evil"):
        load_model(bad)
