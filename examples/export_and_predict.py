"""Prepare images from Python, train on them, export the model of one orbit, and classify with it.

The same on the command line: `fedorbit data prepare`, `run`, `export` and `predict`.
"""

from pathlib import Path

import numpy as np

import fedorbit as fo

COLOURS = {"forest": (40, 110, 50), "sea": (30, 70, 130), "sand": (190, 170, 120)}
changes = ["data.name=three-covers", "run.method=['fedavg', 'fedorbit']"]
changes += ["training.batch=8", "run.rounds=60"]


def samples() -> list[tuple[np.ndarray, int]]:
    """Return pairs of image and label; any dataset of PyTorch is such a list, too."""
    rng = np.random.default_rng(0)
    means = list(COLOURS.values()) * 100
    pixels = (rng.normal(mean, 40, (32, 32, 3)).clip(0, 255).astype(np.uint8) for mean in means)
    return [(image, index % 3) for index, image in enumerate(pixels)]


def main(folder: Path = Path("example")) -> None:
    """Write the run, figures and the model into a folder."""
    dataset = fo.prepare("three-covers", samples(), class_names=list(COLOURS))
    result = fo.run(fo.load_config("quickstart", changes), folder / "run")
    print({run.method: round(run.summary["accuracy"], 1) for run in result.runs})
    result.plot_accuracy().savefig(folder / "accuracy.png")
    result.plot_confusion("fedorbit").savefig(folder / "confusion.png")

    model = result.model(orbit=2, method="fedorbit")  # takes images as they are stored
    file = fo.save_model(model, folder / "orbit-2.safetensors")  # or .onnx
    model = fo.load_model(file)  # anywhere, without the run
    for shares in model.probabilities(dataset.images[:3]):
        print(dict(zip(model.classes, shares.round(2).tolist(), strict=True)))
    right = model.predict(dataset.images) == dataset.labels
    print(f"{right.mean():.1%} of all images are classified right")


if __name__ == "__main__":
    main()
