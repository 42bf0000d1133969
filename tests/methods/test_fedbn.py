"""FedBN: what stays in orbits, what is averaged, and what travels; and statistics in all methods."""

from dataclasses import replace

import numpy as np
import pytest

from fedorbit.errors import ModelError
from fedorbit.methods import METHODS, make_method
from fedorbit.methods.fedavg import FedAvg
from fedorbit.methods.fedbn import FedBN
from fedorbit.methods.local import Local
from fedorbit.testing import fleet_of, play, small_world
from tests.methods.models import TINY_NORM

ALL_IN_VIEW = np.ones((2, 3), dtype=bool)


@pytest.mark.parametrize("keeps", ["layers", "statistics"])
def test_normalisation_stays_and_all_else_is_averaged(keeps: str) -> None:
    world = small_world(ALL_IN_VIEW, model=TINY_NORM)
    after = {}
    for name, method in {"bn": FedBN(keeps=keeps), "avg": FedAvg(), "local": Local()}.items():
        with fleet_of(world) as fleet:
            after[name] = method.models(method.round(method.start(fleet), fleet.at(0)))
            to_ground, layout = fleet.ledger.to_ground_bytes, fleet.layout
            after[f"{name} bytes"] = to_ground
    channels = layout.buffers[0].shape[0]
    kept = np.zeros(layout.size, dtype=bool)
    kept[: 2 * channels] = True  # running mean and variance
    if keeps == "layers":
        kept[2 * channels : 4 * channels] = True  # scale and shift, which come first in the model
    np.testing.assert_array_equal(after["bn"][:, kept], after["local"][:, kept])
    np.testing.assert_array_equal(after["bn"][:, ~kept], after["avg"][:, ~kept])
    assert len(np.unique(after["bn"][:, kept], axis=0)) == 3
    assert after["bn bytes"] == after["avg bytes"] * np.count_nonzero(~kept) // layout.size


@pytest.mark.parametrize("model", [None, {"name": "resnet", "options": {"base": 4}}])
def test_a_model_without_statistics_is_refused(model: dict | None) -> None:
    with fleet_of(small_world(model=model)) as fleet:
        with pytest.raises(ModelError, match="FedBN has nothing to keep in orbits"):
            FedBN(keeps="statistics").start(fleet)
        if model is not None:  # GroupNorm has scales and shifts
            assert FedBN().shared(fleet.layout).mean() > 0.9
            return
        with pytest.raises(ModelError, match="FedBN has nothing to keep in orbits"):
            FedBN().start(fleet)


@pytest.mark.parametrize("name", METHODS)
def test_every_method_serves_a_model_with_statistics(name: str) -> None:
    """Statistics are learned, and whatever becomes of them, models can be used."""
    world = small_world(model=TINY_NORM)
    method = make_method(name, {})
    models = method.models(play(method, world)[-1])
    first, channels = world.initial_model, world.spec.layout.buffers[0].shape[0]
    mean, variance = models[:, :channels], models[:, channels : 2 * channels]
    assert np.abs(mean - first[:channels]).max() > 1e-3
    assert (variance != 1.0).any()
    trainer, samples = world.trainer(), np.concatenate(world.partition.test)
    assert all(np.isfinite(trainer.evaluate(model, samples)[1]) for model in models)


def test_an_optimiser_that_does_not_step_along_gradients_is_refused_where_it_matters() -> None:
    world = small_world()
    training = world.config.training.model_copy(update={"optimiser": "adam"})
    world = replace(world, config=world.config.model_copy(update={"training": training}))
    assert world.backend == "torch"
    with fleet_of(world) as fleet:
        FedAvg().start(fleet)
        for name in ("scaffold", "fednova", "apfl", "pfedme", "per_fedavg"):
            with pytest.raises(ModelError, match=r'needs training.optimiser = "sgd".*got "adam"'):
                make_method(name, {}).start(fleet)
