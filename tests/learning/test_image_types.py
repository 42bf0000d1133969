"""Images of 16 bits: exact statistics, and a backend that takes them."""

from fractions import Fraction

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.learning import kernel
from fedorbit.learning.backends import resolve_backend
from fedorbit.learning.jobs import standardisation

SHAPE = (16, 16, 2)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_moments_of_integers_are_exact(dtype):
    top = np.iinfo(dtype).max
    rng = np.random.default_rng(0)
    images = rng.integers(top - 3, top, (150, 4, 5, 2), dtype=dtype, endpoint=True)
    samples = rng.permutation(150)[:130]
    scale, shift = standardisation(images, samples)
    for channel in range(2):
        values = [int(value) for value in images[samples, :, :, channel].ravel()]
        mean = Fraction(sum(values), len(values))
        variance = Fraction(sum(value**2 for value in values), len(values)) - mean**2
        deviation = float(variance) ** 0.5
        assert scale[channel] == np.float32(1 / deviation)
        assert shift[channel] == np.float32(-float(mean) / deviation)


def test_the_backend_trains_the_type_of_the_images():
    """The kernel, where it is built and takes the type; PyTorch otherwise."""
    for dtype in map(np.dtype, ("uint8", "uint16", "float32")):
        assert resolve_backend("torch", "lenet", "cpu", SHAPE, dtype) == "torch"
        assert resolve_backend("auto", "lenet", "cpu", SHAPE, dtype) in ("kernel", "torch")


@pytest.mark.skipif(bool(kernel.unavailable_reason()), reason="the C kernel is not built here")
def test_the_kernel_itself_says_what_it_takes():
    assert resolve_backend("auto", "lenet", "cpu", SHAPE, np.dtype(np.uint8)) == "kernel"
    assert resolve_backend("auto", "lenet", "cpu", SHAPE, np.dtype(np.complex64)) == "torch"
    with pytest.raises(ModelError, match=r"cannot be used: images must be .*, got complex64"):
        resolve_backend("kernel", "lenet", "cpu", SHAPE, np.dtype(np.complex64))
