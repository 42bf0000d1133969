"""Statistics of bands against NumPy's own."""

import numpy as np
import pytest

from fedorbit.data import statistics
from tests.data.tiff_fixtures import scene


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_statistics_of_bands(dtype, monkeypatch):
    images = np.stack([scene(seed, bands=3) for seed in range(9)]).astype(dtype)
    monkeypatch.setattr(statistics, "_SLAB_BYTES", 2 * images[0].nbytes)  # several pieces
    for channel, found in enumerate(statistics.band_statistics(images)):
        values = images[..., channel].astype(np.float64)
        assert (found.lowest, found.highest) == (values.min(), values.max())
        assert found.mean == pytest.approx(values.mean(), rel=1e-12)
        assert found.deviation == pytest.approx(values.std(), rel=1e-12)
