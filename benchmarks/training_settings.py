"""Cost of views and log-priors in local training: CPU time with them over that without.

One satellite of EuroSAT's size, one epoch, batch 64; orientations and shifts are drawn anew in
every job, as in a run. Taken in turn, for the kernel and for PyTorch on one thread.
Usage: python benchmarks/training_settings.py [repeats]
"""

import sys
from dataclasses import replace
from functools import partial

import torch
from alternating import alternate, ratios, spread
from kernel_speed import SHAPES, satellite

from fedorbit.learning.augmentation import Augmentation
from fedorbit.learning.backends import make_trainer
from fedorbit.learning.calibration import log_priors
from fedorbit.learning.engine import do_job
from fedorbit.learning.jobs import LocalJob, SgdSettings
from fedorbit.learning.models import model_spec

SETTINGS = {
    "log-prior": (False, 0, True),
    "orientations": (True, 0, False),
    "shifts": (False, 4, False),
    "all": (True, 4, True),
}


def main(repeats: int) -> None:
    torch.set_num_threads(1)
    print("CPU time, ratio to none, median (range)")
    for name, (size, channels, classes) in SHAPES.items():
        plain = satellite(size, channels, classes)
        spec = model_spec("lenet", None, (size, size, channels), classes)
        job = LocalJob(0, spec.initial_vector(0), epochs=1, rate=0.01, key=(0,))
        priors = log_priors(plain.labels, (*plain.parts, plain.everything), classes)
        kinds = {"none": plain} | {
            setting: replace(
                plain,
                augmentation=Augmentation(orientations=turned, shift=shift),
                log_priors=priors if calibrated else None,
            )
            for setting, (turned, shift, calibrated) in SETTINGS.items()
        }
        for backend in ("kernel", "torch"):
            trainer = make_trainer(backend, spec, plain, SgdSettings(), "cpu")
            work = {kind: partial(do_job, trainer, data, job, 0) for kind, data in kinds.items()}
            seconds = alternate(work, repeats)
            for setting in SETTINGS:
                found = spread(ratios(seconds[setting], seconds["none"]))
                print(f"{name:30} {backend:7} {setting:13} {found}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 9)
