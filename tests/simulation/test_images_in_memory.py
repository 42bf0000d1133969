"""A world holds the images that its run uses, and no others."""

import numpy as np

from fedorbit.config import load_config
from fedorbit.learning.jobs import standardisation
from fedorbit.simulation.world import build_world


def test_a_share_of_the_images_is_in_memory() -> None:
    made = ["data.synthetic.samples=400", "data.synthetic.size=16", "data.share=0.25"]
    world = build_world(load_config("quickstart", [*made, "schedule.rounds=20", "run.rounds=1"]))
    used = np.concatenate([*world.partition.train, *world.partition.test])
    others = np.setdiff1d(np.arange(400), used)
    assert len(used) == 100 and np.array_equal(world.data.images[used], world.dataset.images[used])
    assert not world.data.images[others].any() and world.dataset.images[others].any()
    expected = standardisation(world.dataset.images, world.data.everything)
    assert np.array_equal((world.data.scale, world.data.shift), expected)
