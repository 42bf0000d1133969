"""Synthetic images that are dealt like those of a run."""

import numpy as np

from fedorbit.data.rehearsal import HELD_OUT_SAMPLES, SATELLITE_SAMPLES, deal_like
from fedorbit.data.synthetic import SyntheticSpec, generate

COUNTS = np.array([[40, 0, 40], [0, 3, 0], [0, 0, 0], [100, 100, 1], [5, 2, 1]])


def test_satellites_have_the_mix_of_classes_of_the_run() -> None:
    dealt = deal_like(COUNTS, (16, 16, 3), seed=0)
    found = np.array([np.bincount(dealt.labels[part], minlength=3) for part in dealt.train])
    assert SATELLITE_SAMPLES == 8
    np.testing.assert_array_equal(found, [[4, 0, 4], [0, 3, 0], [0, 0, 0], [4, 4, 0], [5, 2, 1]])
    every = np.concatenate([*dealt.train, dealt.held_out])
    assert sorted(every) == list(range(len(dealt.images)))  # each to one, or to none of them
    assert len(dealt.held_out) == HELD_OUT_SAMPLES
    assert np.ptp(np.bincount(dealt.labels[dealt.held_out])) <= 1


def test_images_are_of_their_classes_and_not_those_of_the_run() -> None:
    dealt = deal_like(COUNTS, (20, 16, 2), seed=3)
    assert dealt.images.shape[1:] == (20, 16, 2)
    assert len(np.unique(dealt.images.reshape(len(dealt.images), -1), axis=0)) == len(dealt.images)
    means = [dealt.images[dealt.labels == c].mean(axis=(0, 1, 2)) for c in range(3)]
    assert np.ptp(means, axis=0).max() > 5
    run = deal_like(COUNTS, (16, 16, 3), seed=3).images
    own = np.concatenate([c.images for c in generate(SyntheticSpec(3, 300, 16, 3, seed=3))])
    seen = {image.tobytes() for image in own}
    assert not any(image.tobytes() in seen for image in run)


def test_the_same_seed_deals_the_same() -> None:
    one, same, other = (deal_like(COUNTS, (16, 16, 1), seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.images, same.images)
    assert (one.images != other.images).any()
