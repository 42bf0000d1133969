"""LocalSGD of one satellite: the C kernel against PyTorch, and against one core's sgemm.

PyTorch is our own tuned LocalSGD (channels_last, pool before ReLU, batches gathered by index), on
one thread. Both do the same call: one satellite, five epochs (E_base), batch 64. Times are CPU
seconds, taken in turn. The last column counts the arithmetic of a direct convolution (forward,
gradient of the weights, gradient of the inputs) per second, as a fraction of what a large
single-precision matrix product reaches on the same core; fast convolution and skipped zeros let the
kernel do with less.
Usage: python benchmarks/kernel_speed.py [repeats]
"""

import sys
from functools import partial

import numpy as np
import torch
from alternating import alternate, ratios, spread

from fedorbit.data.synthetic import SyntheticSpec, generate
from fedorbit.learning.jobs import LocalJob, SgdSettings, TrainingData, batch_order, standardisation
from fedorbit.learning.kernel_trainer import KernelTrainer
from fedorbit.learning.models import model_spec
from fedorbit.learning.torch_trainer import TorchTrainer

SHAPES = {  # pixels per side, channels, classes: the paper's three datasets
    "EuroSAT 3x64x64, 10 classes": (64, 3, 10),
    "RESISC45 3x32x32, 45 classes": (32, 3, 45),
    "So2Sat 10x32x32, 10 classes": (32, 10, 10),
}
SAMPLES = 1080
"""Training samples of one of 20 satellites with EuroSAT."""
EPOCHS = 5
GEMM_SIDE, GEMMS = 1024, 20


def step_flops(size: int, channels: int, classes: int) -> float:
    """Floating-point operations of training on one sample, convolutions done directly."""
    out1 = size - 4
    out2 = out1 // 2 - 4
    features = 16 * (out2 // 2) ** 2
    conv1 = out1**2 * 6 * 25 * channels
    others = out2**2 * 16 * 25 * 6 + features * 120 + 120 * 84 + 84 * classes
    # Two operations per multiplication; three passes, but the image's gradient is not needed.
    return 2.0 * (2 * conv1 + 3 * others)


def satellite(size: int, channels: int, classes: int) -> TrainingData:
    """Generated land cover: how much of a backward pass is zero depends on the images."""
    [chunk] = generate(SyntheticSpec(classes, SAMPLES, size, channels), chunk=SAMPLES)
    everything = np.arange(SAMPLES)
    scale, shift = standardisation(chunk.images, everything)
    return TrainingData(chunk.images, chunk.labels, scale, shift, (everything,), everything)


def main(repeats: int) -> None:
    torch.set_num_threads(1)
    square = torch.rand(GEMM_SIDE, GEMM_SIDE)
    product = torch.empty_like(square)
    print("CPU time, median (range)         PyTorch / kernel        kernel's share of sgemm")
    for name, (size, channels, classes) in SHAPES.items():
        data = satellite(size, channels, classes)
        spec = model_spec("lenet", None, (size, size, channels), classes)
        kernel = KernelTrainer(spec, data, SgdSettings())
        pytorch = TorchTrainer(spec, data, SgdSettings(), "cpu")
        job = LocalJob(0, spec.initial_vector(0), epochs=EPOCHS, rate=0.01, key=(0,))
        order = batch_order(data, job, 0)
        seconds = alternate(
            {
                "kernel": partial(kernel.train, job, order),
                "pytorch": partial(pytorch.train, job, order),
                "sgemm": lambda: [torch.mm(square, square, out=product) for _ in range(GEMMS)],
            },
            repeats,
        )
        speed_up = ratios(seconds["pytorch"], seconds["kernel"])
        flops_of_gemm = GEMMS * 2.0 * GEMM_SIDE**3
        flops = EPOCHS * SAMPLES * step_flops(size, channels, classes)
        shares = [flops / flops_of_gemm * r for r in ratios(seconds["sgemm"], seconds["kernel"])]
        print(f"{name:32} {spread(speed_up):23} {spread(shares)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
