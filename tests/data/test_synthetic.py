"""The synthetic chips: reproducible, balanced, and separable by texture rather than by colour."""

from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from fedorbit.data.synthetic import (
    SyntheticChunk,
    SyntheticSpec,
    _draw_class,
    _drift,
    class_names,
    generate,
)
from fedorbit.errors import ConfigError


def draw(spec: SyntheticSpec) -> SyntheticChunk:
    (whole,) = generate(spec, chunk=max(spec.samples, 1))
    return whole


@pytest.fixture(scope="module")
def default_chips() -> SyntheticChunk:
    return draw(SyntheticSpec(samples=2000))


def mean_colour(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    return np.asarray(images.mean(axis=(1, 2)))


def colour_and_texture(images: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Mean colour, and the log contrast of the grey image between pixels 1, 2, 4 and 8 apart."""
    grey = images.mean(axis=3)
    contrasts = [
        np.log1p(np.abs(np.diff(grey[:, ::step, ::step], axis=axis)).mean(axis=(1, 2)))
        for step in (1, 2, 4, 8)
        for axis in (1, 2)
    ]
    dark, bright = np.percentile(grey, (2, 98), axis=(1, 2)) - np.median(grey, axis=(1, 2))
    return np.column_stack([mean_colour(images), *contrasts, dark, bright])


def nearest_centroid_accuracy(features: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
    """Fit on the first four fifths, in whitened coordinates, and score on the rest."""
    fit = len(labels) * 4 // 5
    classes = range(labels.max() + 1)
    centroids = np.stack([features[:fit][labels[:fit] == c].mean(0) for c in classes])
    within = np.cov((features[:fit] - centroids[labels[:fit]]).T)
    whiten = np.linalg.inv(np.linalg.cholesky(within)).T
    offsets = (features[fit:, None] - centroids) @ whiten
    return float(np.mean((offsets**2).sum(-1).argmin(1) == labels[fit:]))


def separation(one: NDArray[np.float64], other: NDArray[np.float64]) -> float:
    """Largest difference of the mean features of two groups, in standard errors."""
    error = np.sqrt(one.var(0) / len(one) + other.var(0) / len(other))
    return float(np.max(np.abs(one.mean(0) - other.mean(0)) / error))


@pytest.mark.parametrize("chunk", [1, 7, 256, 300, 10_000])
def test_bytes_do_not_depend_on_the_chunk_size(chunk: int) -> None:
    spec = SyntheticSpec(samples=600, size=8, classes=23)
    whole = draw(spec)
    parts = list(generate(spec, chunk=chunk))
    assert [len(part.labels) for part in parts[:-1]] == [chunk] * (len(parts) - 1)
    assert 0 < len(parts[-1].labels) <= chunk
    for column in ("images", "labels", "latitude_deg", "longitude_deg"):
        joined = np.concatenate([getattr(part, column) for part in parts])
        np.testing.assert_array_equal(joined, getattr(whole, column))


def test_seeds_differ() -> None:
    one, other = (draw(SyntheticSpec(samples=20, size=8, seed=seed)) for seed in (0, 1))
    assert np.mean(one.images == other.images) < 0.2
    assert not np.array_equal(one.latitude_deg, other.latitude_deg)


def test_samples_do_not_repeat() -> None:
    """Neither within a block of samples nor between blocks."""
    chips = draw(SyntheticSpec(classes=1, samples=600, size=8))
    assert len(np.unique(chips.images.reshape(600, -1), axis=0)) == 600


@pytest.mark.parametrize(("classes", "samples"), [(10, 600), (7, 600), (45, 40), (1, 5)])
def test_classes_are_balanced(classes: int, samples: int) -> None:
    labels = draw(SyntheticSpec(classes=classes, samples=samples, size=8)).labels
    counts = np.bincount(labels, minlength=classes)
    assert len(counts) == classes
    assert counts.sum() == samples
    assert counts.max() - counts.min() <= 1


def test_order_is_mixed(default_chips: SyntheticChunk) -> None:
    """Any run and any stride of the samples holds all classes, so that naive splits work."""
    for part in (default_chips.labels[:200], default_chips.labels[-200:]):
        assert len(np.unique(part)) == 10
    assert len(np.unique(default_chips.labels[::10])) == 10


@pytest.mark.parametrize(
    "spec",
    [
        SyntheticSpec(classes=1, samples=5, channels=17, size=9),
        SyntheticSpec(classes=1000, samples=300, channels=1, size=8),
        SyntheticSpec(classes=3, samples=5, channels=32, size=256),
        SyntheticSpec(classes=45, samples=44, channels=2, size=31),
    ],
)
def test_shapes_and_types(spec: SyntheticSpec) -> None:
    chips = draw(spec)
    assert chips.images.shape == (spec.samples, spec.size, spec.size, spec.channels)
    assert chips.images.dtype == np.uint8
    assert chips.images.flags.c_contiguous
    assert chips.labels.shape == chips.latitude_deg.shape == chips.longitude_deg.shape
    assert chips.labels.dtype == np.int64
    assert chips.latitude_deg.dtype == chips.longitude_deg.dtype == np.float64
    # A silent NaN would come out as a black chip, a wrong scale as a black or white one.
    assert np.all(chips.images.std(axis=(1, 2, 3)) > 1)
    assert np.all((chips.images > 0).mean(axis=(1, 2, 3)) > 0.5)


def test_no_samples_no_chunks() -> None:
    assert list(generate(SyntheticSpec(samples=0))) == []


@pytest.mark.parametrize(
    "wrong", [{"classes": 0}, {"classes": 1001}, {"channels": 33}, {"size": 7}, {"samples": -1}]
)
def test_impossible_specs_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        SyntheticSpec(**wrong)


def test_impossible_chunks_are_refused() -> None:
    with pytest.raises(ConfigError, match="chunk"):
        next(generate(SyntheticSpec(), chunk=0))


def test_class_names() -> None:
    names = class_names(SyntheticSpec(classes=30))
    assert names[:4] == ["Annual crop", "Forest", "Grassland", "Highway"]
    assert names[4:10] == ["Industrial", "Pasture", "Orchard", "Residential", "River", "Lake"]
    assert names[22] == "Cover 23"
    assert len(set(names)) == 30
    assert class_names(SyntheticSpec(classes=3)) == names[:3]


def test_a_class_looks_the_same_whatever_the_number_of_classes() -> None:
    """Feature means of a class agree within sampling error, and differ from other classes'."""
    features = []
    for classes in (24, 30):
        chips = draw(SyntheticSpec(classes=classes, samples=60 * classes, size=16))
        features.append(
            [colour_and_texture(chips.images[chips.labels == c]) for c in range(20, 24)]
        )
    few, many = features
    for c in range(4):
        assert separation(few[c], many[c]) < 4.5
        assert min(separation(few[c], many[other]) for other in range(4) if other != c) > 6


@pytest.mark.parametrize("index", [3, 23])
def test_class_parameters_depend_on_seed_and_class_alone(index: int) -> None:
    few, many = (_draw_class(SyntheticSpec(classes=n), index) for n in (24, 1000))
    for one, other in zip(few, many, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(few.log_mean, _draw_class(SyntheticSpec(seed=1), index).log_mean)


def test_coordinates(default_chips: SyntheticChunk) -> None:
    latitude_deg, longitude_deg = default_chips.latitude_deg, default_chips.longitude_deg
    assert np.all(np.abs(latitude_deg) <= 60)
    assert np.all(np.abs(longitude_deg) <= 180)
    european = (latitude_deg >= 35) & (latitude_deg <= 60)
    european &= (longitude_deg >= -10) & (longitude_deg <= 30)
    assert 0.65 < european.mean() < 0.95


def test_classes_have_their_own_geography(default_chips: SyntheticChunk) -> None:
    """The share of a class that lies in one region varies far more than by chance."""
    southern = default_chips.latitude_deg < 43
    shares = [southern[default_chips.labels == c].mean() for c in range(10)]
    chance = np.sqrt(southern.mean() * (1 - southern.mean()) / 200)
    assert np.std(shares) > 2 * chance


def test_signature_drifts_with_geography() -> None:
    """One class in far regions differs by many standard errors, within a region by few."""
    chips = draw(SyntheticSpec(classes=1, samples=1500, size=8))
    colour = mean_colour(chips.images)
    # Regions are compact and far apart, so rounding to 10 degrees of longitude tells most apart.
    region = np.round(chips.longitude_deg / 10)
    groups = [colour[region == r] for r in np.unique(region) if np.sum(region == r) >= 60]
    assert len(groups) >= 4
    within = [separation(group[::2], group[1::2]) for group in groups]
    between = [separation(one, other) for one, other in combinations(groups, 2)]
    assert np.mean(between) > 2.5 * np.mean(within)
    assert np.max(between) > 10


def test_drift_is_smooth_across_the_date_line() -> None:
    latitude_deg = np.array([48.0, 48.01, 10.0, 10.0])
    longitude_deg = np.array([11.0, 11.0, 179.99, -179.99])
    field = _drift(0, latitude_deg, longitude_deg, axes=5)
    assert np.abs(field[0] - field[1]).max() < 0.01
    assert np.abs(field[2] - field[3]).max() < 0.01
    assert np.abs(field[0] - field[2]).max() > 0.2


def test_texture_separates_classes_that_colour_does_not(default_chips: SyntheticChunk) -> None:
    labels = default_chips.labels
    by_colour = nearest_centroid_accuracy(mean_colour(default_chips.images), labels)
    by_both = nearest_centroid_accuracy(colour_and_texture(default_chips.images), labels)
    assert 0.2 < by_colour < 0.6
    assert by_both > by_colour + 0.2
    assert by_both < 0.95
