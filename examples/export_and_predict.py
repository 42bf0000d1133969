"""Train two small methods, export the model of one orbit, and classify images with it.

The same on the command line: `fedorbit run`, `fedorbit export` and `fedorbit predict`.
"""

from pathlib import Path

import numpy as np

import fedorbit as fo

changes = ["run.rounds=6", 'run.method=["fedavg", "fedorbit"]', "data.synthetic.samples=600"]


def main(folder: Path = Path("example")) -> None:
    """Write the run and the model into a folder."""
    result = fo.run(fo.load_config("quickstart", changes), folder / "run")
    print({run.method: round(run.summary["accuracy"], 1) for run in result.runs})
    result.plot_accuracy().savefig(folder / "accuracy.png")
    result.plot_confusion("fedorbit").savefig(folder / "confusion.png")

    model = result.model(orbit=2, method="fedorbit")  # takes images as they are stored
    file = fo.save_model(model, folder / "orbit-2.safetensors")  # or .onnx
    model = fo.load_model(file)  # anywhere, without the run
    height, width, channels = model.card.image_shape
    images = np.zeros((2, height, width, channels), dtype=model.card.dtype)
    for shares in model.probabilities(images):
        print(dict(zip(model.classes, shares.round(2).tolist(), strict=True)))


if __name__ == "__main__":
    main()
