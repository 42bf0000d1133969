"""`fedorbit export` and `fedorbit predict` as a user runs them."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedorbit.build import load_dataset
from fedorbit.simulation.manifest import stored_config
from fedorbit.simulation.model_files import load_model
from tests.cli.test_run import SMALL


@pytest.fixture
def run(fedorbit, tmp_path: Path) -> Path:
    fedorbit("run", *SMALL, "-m", "fedorbit", "-o", "run.rounds=2", "--out", "run")
    return tmp_path / "run"


def test_export_and_predict(fedorbit, run: Path, tmp_path: Path) -> None:
    """Pictures of the dataset get the answers that the model gives its stored images."""
    images = load_dataset(stored_config(run)).images[:3]
    (tmp_path / "scenes").mkdir()
    for number, pixels in enumerate(images):
        Image.fromarray(pixels).save(tmp_path / "scenes" / f"{number}.png")
    wrote = fedorbit("export", "run", "--orbit", "1", "--to", "model.safetensors")
    assert "lenet of fedorbit for orbit 1 after 2 rounds" in wrote.stdout
    model = load_model(run, 1)
    shares = model.probabilities(images)
    for source in (("run", "--orbit", "1"), ("model.safetensors",)):
        answers = json.loads(fedorbit("predict", *source, "scenes", "--json", "--top", "2").stdout)
        assert [row["image"] for row in answers["images"]] == [f"scenes/{n}.png" for n in range(3)]
        for row, share in zip(answers["images"], shares, strict=True):
            best = np.argsort(-share)[:2]
            assert row["classes"] == {model.classes[c]: pytest.approx(share[c]) for c in best}
            assert row["class"] == model.classes[best[0]]
        assert answers["model"]["classes"] == list(model.classes)
    shown = fedorbit("predict", "model.safetensors", "scenes/0.png", "--top", "1").stdout
    assert model.classes[shares[0].argmax()] in shown and f"{100 * shares[0].max():.1f} %" in shown


@pytest.mark.parametrize("bands", ["3,2,1", "2"])
def test_predict_takes_the_bands_that_were_prepared(fedorbit, bands: str) -> None:
    """A model of reordered or fewer bands classifies the files that it was prepared from."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), dtype=np.uint8)
    for number, image in enumerate(pixels):
        Path("mine", f"class-{number % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(Path("mine", f"class-{number % 2}", f"{number}.png"))
    fedorbit("data", "prepare", "folder", "--source", "mine", "--size", "32", "--bands", bands)
    fedorbit("run", *SMALL, "-m", "centralised", "-o", "data.name=mine", "--out", "run")
    fedorbit("export", "run", "--to", "model.safetensors")
    shares = load_model("run").probabilities(load_dataset(stored_config(Path("run"))).images)
    for source in ("run", "model.safetensors"):
        answers = json.loads(fedorbit("predict", source, "mine", "--json").stdout)
        assert answers["model"]["kept_bands"] == [int(number) for number in bands.split(",")]
        found = [row["probability"] for row in answers["images"]]
        assert found == pytest.approx(shares.max(axis=1))


def test_wrong_choices_are_one_sentence(fedorbit, run: Path, tmp_path: Path) -> None:
    for arguments, sentence in (
        (("export", "run", "--to", "x.safetensors"), "choose one with --orbit, from 0 to 2"),
        (("export", "run", "--orbit", "0", "--to", "x.pt"), "ends with '.pt'; allowed are"),
        (("export", "none", "--to", "x.onnx"), "none is neither the folder of a run nor a file"),
        (("predict", "run", "--orbit", "0", "none.png"), "none.png cannot be read"),
    ):
        refused = fedorbit(*arguments, code=2)
        assert sentence in refused.stderr
        assert len(refused.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.glob("x.*"))


def test_the_model_of_an_unfinished_run(fedorbit) -> None:
    """That of its last checkpoint, which says after how many rounds."""
    every = ("-o", "run.rounds=2", "-o", "engine.checkpoint_every=1")
    fedorbit("run", *SMALL, "-m", "fedorbit", *every, "--out", "run")
    for file in (
        *Path("run/fedorbit").glob("checkpoint-00000002*"),
        Path("run/fedorbit/summary.json"),
    ):
        file.unlink()
    exported = json.loads(
        fedorbit("export", "run", "--orbit", "0", "--to", "x.safetensors", "--json").stdout
    )
    assert exported["model"]["rounds"] == load_model("x.safetensors").card.rounds == 1
