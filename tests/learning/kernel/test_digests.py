"""Results of the kernel to the last bit: what it learns to do later must not change what it did.

The digests are those of the library before it could repeat a batch, move an anchor or look ahead.
The order of all sums is fixed and no compiler may fuse or reorder them, so that one thing is left
that may differ between machines: `expf`, which is the C library's.
"""

import hashlib
import platform
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedorbit.learning.kernel import LenetKernel
from tests.learning.kernel.cases import needs_kernel

SHAPE, CLASSES, SAMPLES = (18, 21, 3), 5, 70
STANDARD: dict[str, Any] = {
    "scale": np.array([0.01, 0.02, 0.015], np.float32),
    "shift": np.array([-1.0, -2.5, -2.0], np.float32),
}
SETTINGS: dict[str, Any] = {
    "batch": 16,
    "rate": 0.05,
    "momentum": 0.9,
    "weight_decay": 5e-3,
    "clip_norm": 0.5,
}
DIGESTS = {
    "plain": "ebfdf32e4452e28c",
    "floats": "ebfdf32e4452e28c",
    "one large batch": "3ae1fca36000174f",
    "single samples": "73a67a79a18de335",
    "no clip": "f22716ccf19fe51a",
    "pull": "4fa8a07ed6550a5c",
    "correction": "2ccf72fdfd27bdaa",
    "classifier": "732982074af85ba2",
    "mask": "7d3eeb2a81ea50fe",
    "everything": "55b82fef4ab795bc",
    "apfl": "e4db893b86fb7c6f",
}


def bits(count: int, key: int) -> NDArray[np.uint64]:
    """Numbers from 0 to 2^24 - 1, by arithmetic alone: generators differ between releases."""
    x = np.arange(1, count + 1, dtype=np.uint64) + np.uint64(key) * np.uint64(2**32)
    for _ in range(2):
        x = (x ^ (x >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
    return x >> np.uint64(40)


def uniform(count: int, key: int, width: float) -> NDArray[np.float32]:
    return ((bits(count, key) / 2**23 - 1) * width).astype(np.float32)


def digest(*arrays: NDArray[Any]) -> str:
    return hashlib.sha256(b"".join(array.tobytes() for array in arrays)).hexdigest()[:16]


def results(kernel: LenetKernel, name: str) -> tuple[NDArray[Any], ...]:
    size = kernel.parameters
    images = (bits(SAMPLES * np.prod(SHAPE), 0) % 256).astype(np.uint8).reshape(SAMPLES, *SHAPE)
    labels = (bits(SAMPLES, 1) % CLASSES).astype(np.int64)
    order = np.argsort(bits(2 * SAMPLES, 2).reshape(2, SAMPLES), axis=1, kind="stable")
    start, mask = uniform(size, 3, 0.15), bits(size, 6) % 3 > 0
    pull = {"anchor": start + uniform(size, 4, 0.1), "pull": 0.3}
    correction = {"correction": uniform(size, 5, 0.01)}
    if name == "apfl":
        w, v, alpha = kernel.train_apfl(
            images, labels, order, w=start, v=pull["anchor"], alpha=0.3, **STANDARD, **SETTINGS
        )
        return w, v, np.array([alpha])
    options: dict[str, dict[str, Any]] = {
        "one large batch": {"batch": 66},
        "single samples": {"batch": 1},
        "no clip": {"clip_norm": None},
        "pull": pull,
        "correction": correction,
        "classifier": {"begin": size - 5 * 85 - 84 * 121},
        "mask": {"mask": mask},
        "everything": {**pull, **correction, "begin": 456, "end": size - 3, "mask": mask},
    }
    given: Any = images.astype(np.float32) if name == "floats" else images
    arguments = SETTINGS | options.get(name, {})
    return (kernel.train(given, labels, order, start=start, **STANDARD, **arguments),)


@needs_kernel
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another expf than that of glibc")
@pytest.mark.parametrize("name", DIGESTS)
def test_every_bit_is_as_it_was(name: str) -> None:
    found = results(LenetKernel(*SHAPE, CLASSES), name)
    assert all(np.isfinite(array).all() for array in found)
    assert digest(*found) == DIGESTS[name]
