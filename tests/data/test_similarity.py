import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.spatial.distance import jensenshannon

from fedorbit.data.partition import Dirichlet, Split
from fedorbit.data.similarity import (
    class_histograms,
    jensen_shannon_distances,
    similarity_coefficient,
)

counts_of_orbits = st.tuples(st.integers(1, 7), st.integers(1, 12)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 1000))
)


@given(counts=counts_of_orbits, smoothing=st.sampled_from([0.0, 0.1, 0.5, 1.0]))
def test_distances_are_those_of_scipy(counts, smoothing: float) -> None:
    histograms = class_histograms(counts, smoothing)
    np.testing.assert_allclose(histograms.sum(axis=1), 1.0)
    ours = jensen_shannon_distances(histograms)
    for i, p in enumerate(histograms):
        for j, q in enumerate(histograms):
            # SciPy's own rounding may give the root of -1e-17 for equal histograms: nan.
            theirs = np.nan_to_num(jensenshannon(p, q, base=2))
            assert ours[i, j] == pytest.approx(theirs, abs=1e-7)


@given(counts=counts_of_orbits)
def test_beta_is_the_mean_over_pairs(counts) -> None:
    histograms = class_histograms(counts)
    pairs = [
        1.0 - np.nan_to_num(jensenshannon(histograms[i], histograms[j], base=2))
        for i in range(len(counts))
        for j in range(i)
    ]
    expected = np.mean(pairs) if pairs else 1.0
    assert similarity_coefficient(counts) == pytest.approx(expected, abs=1e-7)


def test_worked_by_hand() -> None:
    # Two disjoint orbits of two classes, smoothed at 0.1: p = (0.95, 0.05), q = (0.05, 0.95),
    # m = (0.5, 0.5); both divergences are 1 - H(0.05) with H(0.05) = 0.2864 bits.
    entropy = -(0.05 * np.log2(0.05) + 0.95 * np.log2(0.95))
    expected = 1.0 - np.sqrt(1.0 - entropy)
    assert similarity_coefficient([[7, 0], [0, 3]]) == pytest.approx(expected, abs=1e-12)
    assert similarity_coefficient([[7, 0], [0, 3]], smoothing=0.0) == 0.0
    assert similarity_coefficient([[2, 4], [1, 2]]) == pytest.approx(1.0)


def test_the_published_values() -> None:
    # Five orbits with two of ten classes each: published 0.11.
    disjoint = np.kron(np.eye(5, dtype=int), [100, 100])
    assert similarity_coefficient(disjoint) == pytest.approx(0.105, abs=5e-4)
    # Dirichlet(0.5) over ten classes: published 0.44, here the mean over many draws.
    labels = np.repeat(np.arange(10), 2000)
    split = Split(np.arange(len(labels)), np.arange(0))
    orbit_of_satellite = np.repeat(np.arange(5), 4)
    betas = [
        similarity_coefficient(
            Dirichlet(0.5)
            .deal(labels, 10, split, orbit_of_satellite, seed)
            .orbit_counts(labels, 10)
        )
        for seed in range(60)
    ]
    assert np.mean(betas) == pytest.approx(0.445, abs=0.015)


def test_an_orbit_without_samples_is_uniform_and_finite() -> None:
    histograms = class_histograms([[0, 0, 0, 0], [1, 1, 1, 1]])
    np.testing.assert_allclose(histograms, 0.25)
    assert similarity_coefficient([[0, 0], [5, 0]]) == pytest.approx(
        similarity_coefficient([[1, 1], [5, 0]])
    )
    assert similarity_coefficient([[3, 4]]) == 1.0


def test_memory_does_not_grow_with_pairs_times_classes() -> None:
    counts = np.random.default_rng(0).integers(0, 100, (600, 50))
    tracemalloc.start()
    beta = similarity_coefficient(counts)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # All pairs with all classes at once would take 600 x 600 x 50 x 8 bytes = 144 MB per array.
    assert peak_bytes < 20e6
    distances = jensen_shannon_distances(class_histograms(counts))
    assert beta == pytest.approx(1.0 - distances[np.triu_indices(600, k=1)].mean(), abs=1e-12)
