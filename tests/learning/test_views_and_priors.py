"""Views and log-priors: in both trainers, against images that were turned beforehand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import logsumexp
from torch.nn import functional

from fedorbit.learning.augmentation import AS_THEY_ARE, Augmentation, seen_as
from fedorbit.learning.backends import make_trainer
from fedorbit.learning.calibration import log_prior, log_priors
from fedorbit.learning.engine import do_job
from fedorbit.learning.jobs import (
    EVERYBODY,
    LocalJob,
    Seen,
    SgdSettings,
    TrainingData,
    batch_order,
    seen_by,
)
from fedorbit.learning.kernel import LenetKernel
from fedorbit.learning.models import model_spec
from fedorbit.learning.rules import Coupled, Maml, Moreau, Rule, Sgd
from fedorbit.learning.rules.loss import Loss
from tests.learning.kernel.cases import make_case, needs_kernel
from tests.learning.rules.cases import BACKENDS

RATE, CLASSES = 0.05, 4
SHAPES = {"square": (20, 20, 3), "one band": (20, 20, 1), "wide": (18, 24, 5)}
TYPES = (np.uint8, np.uint16, np.float32)


def turned(image: NDArray[Any], view: NDArray[np.int8]) -> NDArray[Any]:
    """The definition, in the words of NumPy."""
    turn, rows, columns = (int(number) for number in view)
    far = max(abs(rows), abs(columns))
    padded = np.pad(image, ((far, far), (far, far), (0, 0)), mode="edge")
    image = padded[far + rows :, far + columns :][: image.shape[0], : image.shape[1]]
    image = image.transpose(1, 0, 2) if turn & 4 else image
    image = image[::-1] if turn & 2 else image
    return image[:, ::-1] if turn & 1 else image


def data_of(shape: tuple[int, int, int], dtype: type = np.uint8) -> TrainingData:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (30, *shape)).astype(dtype)
    everything, labels = np.arange(30), rng.integers(0, CLASSES, 30)
    scale = np.full(shape[2], 1 / 75, np.float32)
    shift = np.full(shape[2], -1.7, np.float32)
    parts = (np.arange(0, 19), np.arange(19, 30))
    priors = log_priors(labels, (*parts, everything), CLASSES)
    augmentation = Augmentation(orientations=True, shift=3)
    return TrainingData(images, labels, scale, shift, parts, everything, augmentation, priors)


def trainer_of(backend: str, data: TrainingData, batch: int = 8) -> Any:
    spec = model_spec("lenet", None, data.images.shape[1:], CLASSES)
    return make_trainer(backend, spec, data, SgdSettings(batch=batch, weight_decay=5e-3), "cpu")


def start_of(data: TrainingData, seed: int = 0) -> NDArray[np.float32]:
    return model_spec("lenet", None, data.images.shape[1:], CLASSES).initial_vector(seed)


def rules(start: NDArray[np.float32]) -> dict[str, Rule]:
    return {
        "sgd": Sgd(),
        "part": Sgd(part=slice(1000, len(start))),
        "coupled": Coupled(start * np.float32(0.9), 0.3),
        "moreau": Moreau(start, 1.0, 2, 0.1),
        "maml": Maml(0.02, hessian=True),
    }


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("rule", ["sgd", "part", "coupled", "moreau", "maml"])
def test_a_view_is_the_image_turned_beforehand(
    backend: str, dtype: type, shape: tuple[int, int, int], rule: str
) -> None:
    """To the last bit: every epoch and sample gets an image of its own, which is turned."""
    data = data_of(shape, dtype)
    job = LocalJob(0, start_of(data), 2, RATE, (3, 1), rules(start_of(data))[rule])
    order = batch_order(data, job, seed=7)
    seen = seen_by(data, job, order, seed=7)
    assert seen.views is not None
    images = np.stack(
        [
            turned(data.images[n], v)
            for n, v in zip(order.ravel(), seen.views.reshape(-1, 3), strict=True)
        ]
    )
    beforehand = replace(data, images=images, labels=data.labels[order.ravel()])
    places = np.arange(order.size).reshape(order.shape)
    found = trainer_of(backend, data).train(job, order, seen)
    expected = trainer_of(backend, beforehand).train(job, places, Seen(None, seen.offset))
    np.testing.assert_array_equal(found.model, expected.model)
    assert np.abs(found.model - trainer_of(backend, data).train(job, order).model).max() > 1e-4


@needs_kernel
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_kernel_and_pytorch_agree(dtype: type, shape: tuple[int, int, int]) -> None:
    data = data_of(shape, dtype)
    job = LocalJob(1, start_of(data), 3, RATE, (0,))
    one, other = (do_job(trainer_of(b, data), data, job, 0).model for b in ("kernel", "torch"))
    np.testing.assert_allclose(one, other, atol=2e-6)
    offset = data.log_priors[1]  # type: ignore[index]
    right, loss = trainer_of("kernel", data).evaluate(one, data.everything, offset)
    right_there, loss_there = trainer_of("torch", data).evaluate(one, data.everything, offset)
    assert right == right_there
    assert loss == pytest.approx(loss_there, rel=1e-5)
    assert trainer_of("kernel", data).evaluate(one, data.everything)[1] != pytest.approx(loss)


@needs_kernel
def test_the_kernel_has_the_gradient_of_offset_logits() -> None:
    case = make_case(samples=9)
    offset = np.array([0.5, -1.0, 0.0, 2.0, -0.3], dtype=np.float32)
    indices = np.arange(9)
    gradient, loss = case.kernel.gradient(
        case.images,
        case.labels,
        indices,
        parameters=case.parameters,
        offset=offset,
        **case.standardised(),
    )
    x, y = case.inputs(indices)
    expected = functional.cross_entropy(case.reference(x) + torch.from_numpy(offset), y)
    expected.backward()
    autograd = np.concatenate([p.grad.numpy().ravel() for p in case.reference.parameters()])
    np.testing.assert_allclose(gradient, autograd, atol=1e-6)
    assert loss == pytest.approx(expected.item(), rel=1e-6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_loss_is_of_images_as_they_are(backend: str) -> None:
    """The loss that a rule measures does not depend on the views of training."""
    data = data_of(SHAPES["square"])
    job = LocalJob(0, start_of(data), 1, RATE, (0,), Loss())
    found = do_job(trainer_of(backend, data), data, job, 0).extra["loss"]
    _, total = trainer_of(backend, data).evaluate(job.start, data.parts[0], data.log_priors[0])  # type: ignore[index]
    assert found == pytest.approx(total / len(data.parts[0]), rel=1e-5)


def test_views_follow_from_the_key_and_are_all_there() -> None:
    data = data_of(SHAPES["square"])
    job = LocalJob(0, start_of(data), 40, RATE, (5, 0))
    order = batch_order(data, job, 0)
    views = seen_by(data, job, order, 0).views
    assert views is not None
    assert views.shape == (40, 19, 3)
    assert sorted(set(views[..., 0].ravel().tolist())) == list(range(8))
    assert sorted(set(views[..., 1:].ravel().tolist())) == list(range(-3, 4))
    np.testing.assert_array_equal(seen_by(data, job, order, 0).views, views)
    for other in (replace(job, key=(5, 1)), replace(job, satellite=1)):
        mine = seen_by(data, other, order, 0).views
        assert not np.array_equal(mine, views)
    assert not np.array_equal(seen_by(data, job, order, 1).views, views)
    # The batch order is what it was: a run with views sees the same samples.
    plain = replace(data, augmentation=AS_THEY_ARE)
    np.testing.assert_array_equal(batch_order(plain, job, 0), order)
    assert seen_by(plain, job, order, 0).views is None


def test_an_image_that_is_not_square_is_not_transposed() -> None:
    data = data_of(SHAPES["wide"])
    job = LocalJob(0, start_of(data), 40, RATE, (0,))
    views = seen_by(data, job, batch_order(data, job, 0), 0).views
    assert views is not None
    assert sorted(set(views[..., 0].ravel().tolist())) == [0, 1, 2, 3]


def test_the_eight_orientations_are_those_of_a_square() -> None:
    """A square's symmetries are four turns, and four turns of its mirror image."""
    image = np.arange(9.0, dtype=np.float32).reshape(1, 3, 3, 1)
    views = np.array([[turn, 0, 0] for turn in range(8)], dtype=np.int8)
    found = seen_as(torch.from_numpy(np.repeat(image, 8, axis=0)), views).numpy()[..., 0]
    square = image[0, ..., 0]
    expected = [np.rot90(each, n) for each in (square, square[:, ::-1]) for n in range(4)]
    assert {each.tobytes() for each in found} == {
        np.ascontiguousarray(each).tobytes() for each in expected
    }


def test_the_log_prior_worked_by_hand() -> None:
    """Three of four samples are of class 0: (3 + 1/2) / (4 + 2/2) and (1 + 1/2) / 5."""
    np.testing.assert_allclose(np.exp(log_prior(np.array([3, 1]))), [0.7, 0.3], rtol=1e-6)
    labels = np.array([0, 0, 0, 1])
    parts = (np.arange(4), np.array([], dtype=np.int64))
    found = log_priors(labels, parts, 2)
    np.testing.assert_allclose(np.exp(found), [[0.7, 0.3], [0.5, 0.5]], rtol=1e-6)
    assert logsumexp(found[0]) == pytest.approx(0.0, abs=1e-6)


def test_each_satellite_has_its_own_log_prior_and_all_together_one() -> None:
    data = data_of(SHAPES["square"])
    for satellite, part in ((0, data.parts[0]), (1, data.parts[1]), (EVERYBODY, data.everything)):
        job = LocalJob(satellite, start_of(data), 1, RATE, (0,))
        offset = seen_by(data, job, batch_order(data, job, 0), 0).offset
        counts = np.bincount(data.labels[part], minlength=CLASSES)
        np.testing.assert_array_equal(offset, log_prior(counts))


@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_counts_of_all_classes_change_nothing(backend: str) -> None:
    """Softmax does not see a number that is added to all logits."""
    data = data_of(SHAPES["square"])
    job = LocalJob(0, start_of(data), 2, RATE, (0,))
    order = batch_order(data, job, 0)
    even = log_prior(np.full(CLASSES, 6))
    found = trainer_of(backend, data).train(job, order, Seen(None, even)).model
    expected = trainer_of(backend, data).train(job, order).model
    np.testing.assert_allclose(found, expected, atol=2e-6)


@needs_kernel
@pytest.mark.parametrize(
    ("shape", "view", "message"),
    [
        ((20, 20), 8, "orientations must be 0 to 7, because a square has 8 orientations; got 8"),
        ((18, 20), 4, "orientations must be 0 to 3, because only squares can be transposed; got 4"),
        ((20, 20), -1, "orientations must be 0 to 7, because a square has 8 orientations; got -1"),
    ],
)
def test_other_orientations_are_refused(shape: tuple[int, int], view: int, message: str) -> None:
    case = make_case(*shape, samples=4)
    views = np.zeros((4, 3), np.int8)
    views[2, 0] = view
    with pytest.raises(ValueError, match=message):
        _gradient(case.kernel, case, views=views)
    with pytest.raises(ValueError, match=r"views must have the shape \[4, 3\], got \[4, 2\]"):
        _gradient(case.kernel, case, views=views[:, :2].copy())
    with pytest.raises(ValueError, match=r"offset must have the shape \[5\], got \[4\]"):
        _gradient(case.kernel, case, offset=np.zeros(4, np.float32))


def _gradient(kernel: LenetKernel, case: Any, **settings: Any) -> Any:
    arguments = {**case.standardised(), "parameters": case.parameters, **settings}
    return kernel.gradient(case.images, case.labels, np.arange(4), **arguments)
