import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedorbit.data.partition import (
    Dirichlet,
    GroundTrack,
    Partition,
    Pathological,
    Split,
    official_split,
    stratified_split,
    thinned_split,
)
from fedorbit.errors import PartitionError

seeds = st.integers(0, 2**63 - 1)
alphas = st.floats(1e-6, 1e6)
label_arrays = st.integers(1, 12).flatmap(
    lambda classes: st.tuples(
        st.just(classes),
        st.lists(st.integers(0, classes - 1), max_size=300).map(lambda x: np.array(x, dtype=int)),
    )
)
constellations = st.lists(st.integers(1, 5), min_size=1, max_size=6).map(
    lambda sizes: np.repeat(np.arange(len(sizes)), sizes)
)


def assert_every_sample_once(partition: Partition, split: Split) -> None:
    dealt = np.concatenate([*partition.train, partition.unseen_train])
    np.testing.assert_array_equal(np.sort(dealt), np.sort(split.train))
    dealt = np.concatenate([*partition.test, partition.unseen_test])
    np.testing.assert_array_equal(np.sort(dealt), np.sort(split.test))


def orbit_shares(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    totals = counts.sum(axis=0)
    return counts / np.maximum(totals, 1), totals


@given(data=label_arrays, share=st.floats(0.01, 0.99), seed=seeds)
def test_a_split_is_stratified_and_complete(data, share: float, seed: int) -> None:
    classes, labels = data
    split = stratified_split(labels, share, seed)
    both = np.concatenate([split.train, split.test])
    np.testing.assert_array_equal(np.sort(both), np.arange(len(labels)))
    for label in range(classes):
        total = (labels == label).sum()
        assert abs((labels[split.test] == label).sum() - share * total) <= 0.5


def test_a_split_depends_on_the_seed_alone() -> None:
    labels = np.arange(1000) % 7
    first, again = (stratified_split(labels, 0.2, 3) for _ in range(2))
    np.testing.assert_array_equal(first.test, again.test)
    assert not np.array_equal(first.test, stratified_split(labels, 0.2, 4).test)


def test_an_official_split_leaves_the_validation_part_out() -> None:
    split = official_split(np.array([0, 1, 2, 0, 1], dtype=np.uint8))
    assert split.train.tolist() == [0, 3]
    assert split.test.tolist() == [1, 4]


@given(data=label_arrays, share=st.floats(0.01, 1.0), seed=seeds)
def test_a_thinned_split_keeps_a_share_of_every_class(data, share: float, seed: int) -> None:
    classes, labels = data
    whole = stratified_split(labels, 0.3, seed)
    thin = thinned_split(whole, labels, share, seed)
    for kept, all_samples in ((thin.train, whole.train), (thin.test, whole.test)):
        assert np.isin(kept, all_samples).all()
        np.testing.assert_array_equal(kept, np.unique(kept))
        for label in range(classes):
            total, left = ((labels[part] == label).sum() for part in (all_samples, kept))
            assert left == max(1, np.rint(share * total)) if total else left == 0
    np.testing.assert_array_equal(thinned_split(whole, labels, share, seed).train, thin.train)


def test_a_share_of_all_is_all_and_another_seed_keeps_others() -> None:
    labels = np.arange(1000) % 7
    whole = stratified_split(labels, 0.2, 3)
    all_of_it = thinned_split(whole, labels, 1.0, 0)
    np.testing.assert_array_equal(all_of_it.train, whole.train)
    np.testing.assert_array_equal(all_of_it.test, whole.test)
    some, others = (thinned_split(whole, labels, 0.5, seed) for seed in (0, 1))
    assert not np.array_equal(some.train, others.train)


@given(
    data=label_arrays,
    orbit_of_satellite=constellations,
    alpha=alphas,
    satellite_alpha=alphas,
    seed=seeds,
    scheme=st.sampled_from(["dirichlet", "pathological"]),
)
def test_every_sample_goes_to_exactly_one_satellite(
    data, orbit_of_satellite, alpha: float, satellite_alpha: float, seed: int, scheme: str
) -> None:
    classes, labels = data
    split = stratified_split(labels, 0.3, seed)
    rule = (
        Dirichlet(alpha, satellite_alpha)
        if scheme == "dirichlet"
        else Pathological(satellite_alpha)
    )
    partition = rule.deal(labels, classes, split, orbit_of_satellite, seed)
    assert len(partition.train) == len(orbit_of_satellite)
    assert len(partition.test) == orbit_of_satellite[-1] + 1
    assert_every_sample_once(partition, split)

    # Train and test follow the same shares: their counts differ by rounding only.
    train, train_totals = orbit_shares(partition.orbit_counts(labels, classes))
    test, test_totals = orbit_shares(partition.test_counts(labels, classes))
    both = (train_totals > 0) & (test_totals > 0)
    rounding = 1.0 / np.maximum(train_totals, 1) + 1.0 / np.maximum(test_totals, 1)
    assert (np.abs(train - test)[:, both] <= rounding[both] + 1e-9).all()


@given(classes=st.integers(1, 50), orbit_of_satellite=constellations, seed=seeds, alpha=alphas)
def test_pathological_classes_are_disjoint_and_even(
    classes: int, orbit_of_satellite, seed: int, alpha: float
) -> None:
    labels = np.repeat(np.arange(classes), 10)
    split = stratified_split(labels, 0.2, seed)
    partition = Pathological(alpha).deal(labels, classes, split, orbit_of_satellite, seed)
    owns = partition.orbit_counts(labels, classes) > 0
    assert (owns.sum(axis=0) == 1).all()
    sizes = owns.sum(axis=1)
    assert sizes.max() - sizes.min() <= 1
    np.testing.assert_array_equal(partition.test_counts(labels, classes) > 0, owns)


def test_pathological_classes_depend_on_the_seed() -> None:
    labels = np.repeat(np.arange(10), 10)
    split = Split(np.arange(100), np.arange(0))
    owners = {
        tuple(
            Pathological()
            .deal(labels, 10, split, np.arange(5), seed)
            .orbit_counts(labels, 10)
            .argmax(axis=0)
        )
        for seed in range(5)
    }
    assert len(owners) == 5


def test_alpha_sets_the_skew() -> None:
    labels = np.repeat(np.arange(10), 1000)
    split = Split(np.arange(10_000), np.arange(0))
    orbit_of_satellite = np.repeat(np.arange(5), 4)

    def largest_share(alpha: float) -> float:
        shares = [
            Dirichlet(alpha).deal(labels, 10, split, orbit_of_satellite, s).orbit_counts(labels, 10)
            for s in range(20)
        ]
        return float(np.max(shares, axis=1).mean() / 1000)

    assert largest_share(1e-4) > 0.99
    assert largest_share(1e5) == pytest.approx(0.2, abs=0.01)
    # E[max] of Dirichlet(0.5) over five, by simulation with NumPy alone.
    simulated = np.random.default_rng(0).dirichlet(np.full(5, 0.5), 50_000).max(axis=1).mean()
    assert largest_share(0.5) == pytest.approx(simulated, abs=0.03)


def test_satellites_of_an_orbit_share_by_dirichlet_too() -> None:
    labels = np.zeros(1000, dtype=int)
    split = Split(np.arange(1000), np.arange(0))
    one_orbit = np.zeros(4, dtype=int)
    largest = [
        Dirichlet(0.5, 0.5).deal(labels, 1, split, one_orbit, s).train_counts(labels, 1).max()
        for s in range(2000)
    ]
    simulated = np.random.default_rng(0).dirichlet(np.full(4, 0.5), 50_000).max(axis=1).mean()
    # The largest of four shares has a standard deviation of 0.16: 0.0036 over 2000 draws.
    assert np.mean(largest) / 1000 == pytest.approx(simulated, abs=0.015)


def test_satellites_may_end_up_with_nothing() -> None:
    labels = np.array([0, 1, 1])
    split = Split(np.arange(3), np.arange(0))
    partition = Dirichlet().deal(labels, 2, split, np.repeat(np.arange(5), 4), 0)
    counts = partition.train_counts(labels, 2)
    assert counts.sum() == 3
    assert (counts.sum(axis=1) == 0).sum() >= 17
    assert partition.test_counts(labels, 2).sum() == 0


@given(
    passes=st.lists(
        st.lists(st.integers(0, 9), min_size=4, max_size=4), min_size=8, max_size=60
    ).map(lambda x: np.array(x, dtype=np.int32)),
    seed=seeds,
)
def test_ground_track_deals_only_to_satellites_that_pass(passes, seed: int) -> None:
    labels = np.arange(len(passes)) % 3
    split = stratified_split(labels, 0.3, seed)
    orbit_of_satellite = np.array([0, 0, 1, 1])
    rule = GroundTrack(passes)
    if not passes[split.train].any():
        with pytest.raises(PartitionError, match="no satellite passes over any training sample"):
            rule.deal(labels, 3, split, orbit_of_satellite, seed)
        return
    partition = rule.deal(labels, 3, split, orbit_of_satellite, seed)
    assert_every_sample_once(partition, split)
    for satellite, samples in enumerate(partition.train):
        assert (passes[samples, satellite] > 0).all()
    for orbit, samples in enumerate(partition.test):
        assert (passes[samples][:, orbit_of_satellite == orbit].sum(axis=1) > 0).all()
    assert (passes[partition.unseen_train] == 0).all()
    assert (passes[partition.unseen_test] == 0).all()


def test_ground_track_deals_by_how_often_each_passes() -> None:
    passes = np.tile(np.array([[1, 3, 0, 6]], dtype=np.int32), (20_000, 1))
    labels = np.zeros(20_000, dtype=int)
    split = stratified_split(labels, 0.5, 0)
    partition = GroundTrack(passes).deal(labels, 1, split, np.array([0, 0, 1, 1]), 0)
    shares = np.array([len(samples) for samples in partition.train]) / 10_000
    np.testing.assert_allclose(shares, [0.1, 0.3, 0.0, 0.6], atol=0.02)
    shares = np.array([len(samples) for samples in partition.test]) / 10_000
    np.testing.assert_allclose(shares, [0.4, 0.6], atol=0.02)


@given(data=label_arrays, orbit_of_satellite=constellations, alpha=alphas, seed=seeds)
def test_satellites_share_the_test_samples_of_their_orbit(
    data, orbit_of_satellite, alpha: float, seed: int
) -> None:
    classes, labels = data
    split = stratified_split(labels, 0.3, seed)
    partition = Dirichlet(alpha, alpha).deal(labels, classes, split, orbit_of_satellite, seed)
    dealt = partition.satellite_test(labels, classes, seed)
    assert len(dealt) == len(orbit_of_satellite)
    train = partition.train_counts(labels, classes)
    for orbit, samples in enumerate(partition.test):
        mine = np.flatnonzero(orbit_of_satellite == orbit)
        union = np.concatenate([dealt[k] for k in mine])
        np.testing.assert_array_equal(np.sort(union), samples)  # each once, none of others
        for c in range(classes):
            if not (owned := train[mine, c]).any():
                continue
            got = np.array([(labels[dealt[k]] == c).sum() for k in mine])
            assert (np.abs(got - got.sum() * owned / owned.sum()) < 1.0 + 1e-9).all()
    again = partition.satellite_test(labels, classes, seed)
    assert all(np.array_equal(one, other) for one, other in zip(dealt, again, strict=True))


def test_satellites_without_training_samples_share_test_samples_evenly() -> None:
    nothing = np.empty(0, dtype=np.int64)
    partition = Partition(np.array([0, 0]), (nothing, nothing), (np.arange(6),), nothing, nothing)
    assert [len(part) for part in partition.satellite_test(np.zeros(6, dtype=int), 1, 0)] == [3, 3]
