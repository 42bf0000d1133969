"""The C kernel against PyTorch: gradients of one batch, and a few steps of every kind."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

from tests.learning.kernel.cases import SGD, Case, make_case, needs_kernel

# A pooled value that is zero up to rounding may be alive in one implementation and dead in the
# other; so the cases are seeded, and the seeds avoid such a value.
GRADIENT_TOLERANCE = 2e-5  # of the largest element of a layer; float32 PyTorch itself is 1e-5 off


@needs_kernel
@pytest.mark.parametrize(
    ("height", "width", "channels", "classes", "samples", "dtype"),
    [
        (16, 16, 1, 2, 3, np.uint8),
        (16, 16, 3, 10, 8, np.float32),
        (17, 23, 2, 5, 7, np.uint8),  # odd, not square
        (23, 17, 4, 5, 7, np.float32),
        (19, 70, 1, 3, 5, np.uint8),  # several vectors of tiles in a row
        (68, 68, 2, 3, 3, np.uint8),  # conv1's last vector of tiles is full
        (32, 32, 10, 10, 16, np.float32),
        (32, 32, 3, 45, 16, np.uint8),
        (64, 64, 3, 10, 16, np.uint8),
        (20, 24, 5, 4, 6, np.uint8),
        (20, 24, 6, 4, 6, np.uint8),
        (20, 24, 9, 4, 6, np.uint8),
        (20, 24, 17, 4, 6, np.float32),
        (16, 18, 32, 4, 4, np.uint8),
        (18, 18, 3, 1, 4, np.uint8),  # 1 class: nothing to learn
        (18, 18, 3, 7, 1, np.uint8),  # 1 sample
        (18, 18, 3, 7, 65, np.uint8),  # one more than the kernel takes at once
        (18, 18, 3, 7, 150, np.float32),
    ],
)
def test_gradient_of_a_batch_is_that_of_autograd(
    height: int, width: int, channels: int, classes: int, samples: int, dtype: type
) -> None:
    case = make_case(height, width, channels, classes, samples, dtype)
    indices = np.random.default_rng(1).permutation(samples)
    gradient, loss = case.kernel.gradient(
        case.images, case.labels, indices, parameters=case.parameters, **case.standardised()
    )
    expected, expected_loss = case.torch_gradient(indices)
    assert loss == pytest.approx(expected_loss, rel=1e-6, abs=1e-7)
    assert len(gradient) == case.kernel.parameters == sum(len(layer) for layer in expected)
    begin = 0
    for (name, _), layer in zip(case.reference.named_parameters(), expected, strict=True):
        error = np.abs(gradient[begin : begin + len(layer)] - layer).max()
        assert error <= GRADIENT_TOLERANCE * np.abs(layer).max(), name
        begin += len(layer)


@needs_kernel
@pytest.mark.parametrize(
    ("width", "channels"),
    [(64, 3), (68, 3), (32, 10), (19, 1), (21, 5)],  # 68: the last vector of tiles is full
)
def test_bytes_and_floats_are_the_same_image(width: int, channels: int) -> None:
    """They take different ways into conv1."""
    case = make_case(20, width, channels, 4, 5)
    results = [
        case.kernel.gradient(
            images, case.labels, np.arange(5), parameters=case.parameters, **case.standardised()
        )
        for images in (case.images, case.images.astype(np.float32))
    ]
    (of_bytes, loss_of_bytes), (of_floats, loss_of_floats) = results
    assert loss_of_bytes == pytest.approx(loss_of_floats, rel=1e-6)
    tolerance = GRADIENT_TOLERANCE * np.abs(of_floats).max()
    np.testing.assert_allclose(of_bytes, of_floats, rtol=0, atol=tolerance)


@needs_kernel
def test_one_sample_does_not_depend_on_its_neighbours_in_memory() -> None:
    """Vectors read past the end of a row; what lies there must not show, not even in rounding."""
    case = make_case(18, 21, 3, 5, 3)
    spoilt = case.images.copy()
    spoilt[[0, 2]] = 255 - spoilt[[0, 2]]
    gradients = [
        case.kernel.gradient(
            images, case.labels, np.array([1]), parameters=case.parameters, **case.standardised()
        )[0]
        for images in (case.images, spoilt, case.images.astype(np.float32))
    ]
    np.testing.assert_array_equal(gradients[0], gradients[1])
    spoilt_floats = spoilt.astype(np.float32)
    spoilt_floats[[0, 2]] = np.nan
    of_floats, _ = case.kernel.gradient(
        spoilt_floats, case.labels, np.array([1]), parameters=case.parameters, **case.standardised()
    )
    np.testing.assert_array_equal(gradients[2], of_floats)


@needs_kernel
def test_first_maximum_of_a_pool_gets_the_gradient() -> None:
    """Maps of conv1 without weights are ties everywhere; where the gradient goes, shows in theirs."""
    case = make_case(20, 20, 1, 3, 4)
    taps = 25
    case.parameters[taps : 6 * taps] = 0  # the first map keeps its weights: no ties in conv2
    case.parameters[6 * taps : 6 * taps + 6] = 0.5
    case.reference.load(case.parameters)
    indices = np.arange(4)
    gradient, _ = case.kernel.gradient(
        case.images, case.labels, indices, parameters=case.parameters, **case.standardised()
    )
    expected = case.torch_gradient(indices)[0][0]
    tolerance = GRADIENT_TOLERANCE * np.abs(expected).max()
    np.testing.assert_allclose(gradient[: 6 * taps], expected, rtol=0, atol=tolerance)


def torch_steps(
    case: Case,
    batches: list[NDArray[np.int64]],
    anchor: NDArray[np.float32] | None = None,
    pull: float = 0.0,
    correction: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    case.reference.load(case.parameters)
    optimiser = torch.optim.SGD(
        case.reference.parameters(),
        lr=SGD["rate"],
        momentum=SGD["momentum"],
        weight_decay=SGD["weight_decay"],
    )
    for batch in batches:
        x, y = case.inputs(batch)
        loss = functional.cross_entropy(case.reference(x), y)
        flat = nn.utils.parameters_to_vector(case.reference.parameters())
        if anchor is not None:
            loss = loss + pull / 2 * (flat - torch.from_numpy(anchor)).square().sum()
        if correction is not None:
            loss = loss + flat @ torch.from_numpy(correction).to(flat.dtype)
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(case.reference.parameters(), SGD["clip_norm"])
        optimiser.step()
    return case.reference.vector()


@needs_kernel
@pytest.mark.parametrize("kind", ["plain", "pull", "correction", "both"])
def test_steps_are_those_of_torch_sgd(kind: str) -> None:
    """Twelve samples in batches of five: the third step is a short batch."""
    case = make_case(samples=12)
    rng = np.random.default_rng(2)
    size = case.kernel.parameters
    extra: dict[str, Any] = {}
    if kind in ("pull", "both"):
        noise = rng.normal(scale=0.1, size=size).astype(np.float32)
        extra |= {"anchor": case.parameters + noise, "pull": 0.3}
    if kind in ("correction", "both"):
        extra |= {"correction": rng.normal(scale=0.01, size=size).astype(np.float32)}
    order = rng.permutation(12)[np.newaxis]
    end = case.kernel.train(
        case.images,
        case.labels,
        order,
        start=case.parameters,
        **case.standardised(),
        **SGD,
        **extra,
    )
    expected = torch_steps(case, [order[0, :5], order[0, 5:10], order[0, 10:]], **extra)
    assert np.abs(end - case.parameters).max() > 1e-3
    np.testing.assert_allclose(end, expected, rtol=0, atol=2e-6)


# First parameters of conv2's weights, fc1's, fc2's and fc3's, and of everything, for images 18 x 20.
CONV2, FC1, FC2, FC3, ALL = 456, 2872, 6832, 16996, 17421
PARTS = {
    "everything": (0, ALL),
    "conv1": (0, CONV2),
    "conv1's bias and more": (CONV2 - 6, ALL),
    "features": (0, FC2),
    "conv2 and more": (CONV2, ALL),
    "conv2's bias and more": (FC1 - 16, ALL),
    "fc1": (FC1, FC2),
    "within fc1": (FC1 + 1234, FC2 - 1),
    "classifier": (FC2, ALL),
    "fc2": (FC2, FC3),
    "head": (FC3, ALL),
    "last bias": (ALL - 1, ALL),
    "nothing": (FC2, FC2),
}


def steps_on_a_part(
    case: Case,
    batches: list[NDArray[np.int64]],
    inside: NDArray[np.bool_],
    anchor: NDArray[np.float32] | None = None,
    pull: float = 0.0,
    correction: NDArray[np.float32] | None = None,
) -> NDArray[np.float64]:
    """By autograd and double precision, on a vector of those values alone that move."""
    whole = case.parameters.astype(np.float64)
    w, m = whole[inside], np.zeros(inside.sum())
    for batch in batches:
        whole[inside] = w
        case.reference.load(whole)
        g = np.concatenate(case.torch_gradient(batch)[0])[inside]
        if anchor is not None:
            g = g + pull * (w - anchor[inside])
        if correction is not None:
            g = g + correction[inside]
        w, m = numpy_step(w, m, g, SGD["rate"])
    whole[inside] = w
    return whole


@needs_kernel
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("kind", ["plain", "pull", "correction", "both"])
@pytest.mark.parametrize("part", PARTS)
def test_only_a_part_moves_as_if_it_were_alone(part: str, kind: str, masked: bool) -> None:
    case = make_case(samples=12)
    assert case.kernel.parameters == ALL
    rng = np.random.default_rng(7)
    begin, end = PARTS[part]
    mask = rng.random(ALL) < 0.6 if masked else None
    inside = np.zeros(ALL, bool)
    inside[begin:end] = True if mask is None else mask[begin:end]
    extra: dict[str, Any] = {}
    if kind in ("pull", "both"):
        noise = rng.normal(scale=0.1, size=ALL).astype(np.float32)
        extra |= {"anchor": case.parameters + noise, "pull": 0.3}
    if kind in ("correction", "both"):
        extra |= {"correction": rng.normal(scale=0.01, size=ALL).astype(np.float32)}
    order = rng.permutation(12)[np.newaxis]
    trained = case.kernel.train(
        case.images,
        case.labels,
        order,
        start=case.parameters,
        begin=begin,
        end=end,
        mask=mask,
        **case.standardised(),
        **SGD,
        **extra,
    )
    batches = [order[0, :5], order[0, 5:10], order[0, 10:]]
    expected = steps_on_a_part(case, batches, inside, **extra)
    np.testing.assert_allclose(trained, expected, rtol=0, atol=2e-6)
    moved = trained.view(np.int32) != case.parameters.view(np.int32)
    assert not moved[~inside].any()
    # Almost all of the part, not all: a step may be smaller than the last bit.
    assert moved[inside].sum() >= 0.7 * inside.sum()


@needs_kernel
def test_a_part_that_is_everything_gives_the_same_bits() -> None:
    case = make_case(samples=70)
    order = np.random.default_rng(8).permutation(70)[np.newaxis].repeat(2, axis=0)

    def ends(**part: Any) -> bytes:
        settings = SGD | {"batch": 66}  # more than go through at once
        return case.kernel.train(
            case.images,
            case.labels,
            order,
            start=case.parameters,
            **case.standardised(),
            **settings,
            **part,
        ).tobytes()

    plain = ends()
    assert ends(begin=0, end=case.kernel.parameters) == plain
    assert ends(mask=np.ones(case.kernel.parameters, bool)) == plain


@needs_kernel
def test_momentum_goes_on_from_epoch_to_epoch() -> None:
    case = make_case(samples=4)
    order = np.array([[0, 1, 2, 3], [3, 1, 0, 2]])
    end = case.kernel.train(
        case.images, case.labels, order, start=case.parameters, **case.standardised(), **SGD
    )
    np.testing.assert_allclose(end, torch_steps(case, list(order)), rtol=0, atol=2e-6)


@needs_kernel
@pytest.mark.parametrize("clip_norm", [None, 0.0, 1e9])
def test_clipping_can_be_off(clip_norm: float | None) -> None:
    case = make_case(samples=4)
    settings = SGD | {"clip_norm": clip_norm, "weight_decay": 0.0, "momentum": 0.0, "batch": 100}
    indices = np.arange(4)
    end = case.kernel.train(
        case.images,
        case.labels,
        indices[np.newaxis],
        start=case.parameters,
        **case.standardised(),
        **settings,
    )
    gradient, _ = case.kernel.gradient(
        case.images, case.labels, indices, parameters=case.parameters, **case.standardised()
    )
    np.testing.assert_allclose(end, case.parameters - 0.05 * gradient, rtol=0, atol=1e-7)


@needs_kernel
@pytest.mark.parametrize("rate", [0.05, 2000.0])
def test_apfl_steps_w_v_and_alpha_from_the_values_before(rate: float) -> None:
    """At the large rate alpha leaves [0, 1] and has to be brought back."""
    case = make_case(samples=7)
    rng = np.random.default_rng(3)
    w = case.parameters
    v = w + rng.normal(scale=0.05, size=len(w)).astype(np.float32)
    # One step at the large rate: after it, rounding is no longer small.
    batches = [np.array([6, 0, 3, 1, 5]), np.array([2, 4])][: 2 if rate < 1 else 1]
    got_w, got_v, got_alpha = case.kernel.train_apfl(
        case.images,
        case.labels,
        np.concatenate(batches)[np.newaxis],
        w=w,
        v=v,
        alpha=0.4,
        **case.standardised(),
        **SGD | {"rate": rate},
    )
    alpha = 0.4
    w64, v64 = w.astype(np.float64), v.astype(np.float64)
    m_w, m_v = np.zeros_like(w64), np.zeros_like(v64)
    for batch in batches:
        case.reference.load(w64)
        g_w = np.concatenate(case.torch_gradient(batch)[0])
        case.reference.load(alpha * v64 + (1 - alpha) * w64)
        g_bar = np.concatenate(case.torch_gradient(batch)[0])
        slope = g_bar @ (v64 - w64)
        w64, m_w = numpy_step(w64, m_w, g_w, rate)
        v64, m_v = numpy_step(v64, m_v, alpha * g_bar, rate)
        alpha = min(max(alpha - rate * slope, 0.0), 1.0)
    tolerance = 2e-6 * max(1.0, rate)
    np.testing.assert_allclose(got_w, w64, rtol=0, atol=tolerance)
    np.testing.assert_allclose(got_v, v64, rtol=0, atol=tolerance)
    assert got_alpha == pytest.approx(alpha, abs=1e-6)
    assert (alpha in (0.0, 1.0)) == (rate > 1)


def numpy_step(
    w: NDArray[Any], m: NDArray[Any], g: NDArray[Any], rate: float
) -> tuple[NDArray[Any], NDArray[Any]]:
    g = g * min(1.0, SGD["clip_norm"] / (np.linalg.norm(g) + 1e-6))
    m = SGD["momentum"] * m + g + SGD["weight_decay"] * w
    return w - rate * m, m


@needs_kernel
def test_evaluation_is_that_of_torch() -> None:
    case = make_case(24, 20, 3, 6, 150)
    indices = np.random.default_rng(4).integers(0, 150, 140)
    correct, loss = case.kernel.evaluate(
        case.images, case.labels, indices, parameters=case.parameters, **case.standardised()
    )
    x, y = case.inputs(indices)
    with torch.no_grad():
        logits = case.reference(x)
    assert correct == int((logits.argmax(1) == y).sum())
    assert loss == pytest.approx(float(functional.cross_entropy(logits, y, reduction="sum")))


@needs_kernel
def test_evaluation_prefers_the_first_of_equal_logits() -> None:
    case = make_case(classes=4, samples=4)
    case.labels[:] = [0, 1, 0, 3]
    zeros = np.zeros_like(case.parameters)
    correct, loss = case.kernel.evaluate(
        case.images, case.labels, np.arange(4), parameters=zeros, **case.standardised()
    )
    assert correct == 2
    assert loss == pytest.approx(4 * np.log(4))


@needs_kernel
def test_alpha_stays_where_it_was_when_training_diverges() -> None:
    case = make_case(samples=7)
    w = np.full_like(case.parameters, np.nan)
    *_, alpha = case.kernel.train_apfl(
        case.images,
        case.labels,
        np.arange(7)[np.newaxis],
        w=w,
        v=w,
        alpha=0.4,
        **case.standardised(),
        **SGD,
    )
    assert alpha == 0.4
