"""The C kernel against PyTorch: gradients of one batch, and a few steps of every kind."""

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional

import fedorbit.learning.kernel as kernel_module
from fedorbit.learning.kernel import (
    KernelCancelled,
    LenetKernel,
    available,
    unavailable_reason,
)

needs_kernel = pytest.mark.skipif(not available(), reason=unavailable_reason())
SOURCES = Path(kernel_module.__file__).parent

# A pooled value that is zero up to rounding may be alive in one implementation and dead in the
# other; so the cases are seeded, and the seeds avoid such a value.
GRADIENT_TOLERANCE = 2e-5  # of the largest element of a layer; float32 PyTorch itself is 1e-5 off


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small tensors are slower on many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Reference(nn.Module):
    """What the kernel computes, in the words of PyTorch."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        side_h, side_w = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        self.fc1 = nn.Linear(16 * side_h * side_w, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(functional.max_pool2d(self.conv1(x), 2))
        x = torch.relu(functional.max_pool2d(self.conv2(x), 2))
        x = x.permute(0, 2, 3, 1).flatten(1)
        return self.fc3(torch.relu(self.fc2(torch.relu(self.fc1(x)))))

    def load(self, vector: NDArray[np.float32]) -> None:
        nn.utils.vector_to_parameters(
            torch.from_numpy(vector).to(next(self.parameters()).dtype), self.parameters()
        )

    def vector(self) -> NDArray[np.float32]:
        return nn.utils.parameters_to_vector(self.parameters()).detach().float().numpy()


@dataclass
class Case:
    """Random images, labels and parameters, and the kernel and the reference for them."""

    images: NDArray[Any]
    labels: NDArray[np.int64]
    parameters: NDArray[np.float32]
    scale: NDArray[np.float32]
    shift: NDArray[np.float32]
    kernel: LenetKernel
    reference: Reference

    def inputs(self, indices: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.images[indices].astype(np.float32) * self.scale + self.shift
        dtype = next(self.reference.parameters()).dtype
        return torch.from_numpy(x).permute(0, 3, 1, 2).to(dtype), torch.from_numpy(
            self.labels[indices]
        )

    def torch_gradient(self, indices: NDArray[np.int64]) -> tuple[list[NDArray[Any]], float]:
        x, y = self.inputs(indices)
        loss = functional.cross_entropy(self.reference(x), y)
        self.reference.zero_grad()
        loss.backward()
        return [p.grad.numpy().ravel() for p in self.reference.parameters()], loss.item()

    def standardised(self) -> dict[str, Any]:
        return {"scale": self.scale, "shift": self.shift}


def make_case(
    height: int = 18,
    width: int = 20,
    channels: int = 3,
    classes: int = 5,
    samples: int = 12,
    dtype: type = np.uint8,
    precision: torch.dtype = torch.float64,
    seed: int = 0,
) -> Case:
    rng = np.random.default_rng([seed, height, width, channels, classes])
    torch.manual_seed(int(rng.integers(2**31)))
    reference = Reference(height, width, channels, classes)
    parameters = reference.vector()
    reference.to(precision)
    shape = (samples, height, width, channels)
    if dtype is np.uint8:
        images = rng.integers(0, 256, shape, dtype=np.uint8)
        scale, shift = rng.uniform(0.01, 0.02, channels), rng.uniform(-3, -1, channels)
    else:
        images = rng.normal(size=shape).astype(dtype)
        scale, shift = rng.uniform(0.5, 2, channels), rng.uniform(-1, 1, channels)
    return Case(
        images=images,
        labels=rng.integers(0, classes, samples),
        parameters=parameters,
        scale=scale.astype(np.float32),
        shift=shift.astype(np.float32),
        kernel=LenetKernel(height, width, channels, classes),
        reference=reference,
    )


SGD = {"batch": 5, "rate": 0.05, "momentum": 0.9, "weight_decay": 5e-3, "clip_norm": 0.5}


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
def test_nothing_to_train_on_returns_a_copy_of_the_start() -> None:
    case = make_case()
    for order in (np.zeros((3, 0), np.int64), np.zeros((0, 5), np.int64)):
        end = case.kernel.train(
            case.images, case.labels, order, start=case.parameters, **case.standardised(), **SGD
        )
        np.testing.assert_array_equal(end, case.parameters)
        assert not np.shares_memory(end, case.parameters)
        w, v, alpha = case.kernel.train_apfl(
            case.images,
            case.labels,
            order,
            w=case.parameters,
            v=case.parameters,
            alpha=0.3,
            **case.standardised(),
            **SGD,
        )
        np.testing.assert_array_equal(w, case.parameters)
        np.testing.assert_array_equal(v, case.parameters)
        assert alpha == 0.3
    nobody = np.zeros(0, np.int64)
    assert case.kernel.evaluate(
        case.images, case.labels, nobody, parameters=case.parameters, **case.standardised()
    ) == (0, 0.0)


@needs_kernel
def test_inputs_are_not_changed_and_may_be_read_only(tmp_path: Path) -> None:
    case = make_case()
    file = tmp_path / "images.npy"
    np.save(file, case.images)
    images = np.load(file, mmap_mode="r")
    order = np.arange(12)[np.newaxis].repeat(2, axis=0)
    anchor, correction = case.parameters + 0.1, np.full_like(case.parameters, 0.01)
    arrays = [case.labels, order, case.parameters, anchor, correction, case.scale, case.shift]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)
    case.kernel.train(
        images,
        case.labels,
        order,
        start=case.parameters,
        anchor=anchor,
        pull=0.1,
        correction=correction,
        **case.standardised(),
        **SGD,
    )
    case.kernel.train_apfl(
        images,
        case.labels,
        order,
        w=case.parameters,
        v=anchor,
        alpha=0.5,
        **case.standardised(),
        **SGD,
    )
    case.kernel.evaluate(
        images, case.labels, order[0], parameters=case.parameters, **case.standardised()
    )
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@needs_kernel
def test_threads_do_not_change_a_bit() -> None:
    case = make_case(32, 32, 3, 10, 80)
    order = np.stack([np.random.default_rng(5).permutation(80) for _ in range(2)])

    def job(_: int) -> NDArray[np.float32]:
        return case.kernel.train(
            case.images, case.labels, order, start=case.parameters, **case.standardised(), **SGD
        )

    alone = job(0)
    with ThreadPoolExecutor(4) as pool:
        for together in pool.map(job, range(8)):
            np.testing.assert_array_equal(together.view(np.int32), alone.view(np.int32))


@needs_kernel
def test_a_result_does_not_depend_on_what_ran_before() -> None:
    """Memory is used again; not a number in it would spread if anything old were read."""
    case = make_case(19, 21, samples=70)
    spoilt = np.full_like(case.parameters, np.nan)

    def job(start: NDArray[np.float32], samples: int, batch: int) -> NDArray[np.float32]:
        order = np.arange(samples)[np.newaxis]
        settings = SGD | {"batch": batch}
        return case.kernel.train(
            case.images, case.labels, order, start=start, **case.standardised(), **settings
        )

    jobs = [(9, 5), (70, 64), (70, 70), (13, 8), (70, 7)]
    for samples, batch in jobs:
        first = job(case.parameters, samples, batch)
        assert np.isfinite(first).all()
        for other in jobs:
            job(spoilt, *other)
            job(spoilt, samples, batch)
            np.testing.assert_array_equal(job(case.parameters, samples, batch), first)


@needs_kernel
def test_too_large_a_workspace_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case()
    monkeypatch.setattr(case.kernel, "_scratch", lambda *, apfl: 2**62)
    with pytest.raises(MemoryError):
        case.kernel.train(
            case.images,
            case.labels,
            np.arange(12)[np.newaxis],
            start=case.parameters,
            **case.standardised(),
            **SGD,
        )


@needs_kernel
def test_not_a_number_stays_visible() -> None:
    case = make_case()
    for place in (0, 160, case.kernel.parameters - 1):
        start = case.parameters.copy()
        start[place] = np.nan
        order = np.arange(12)[np.newaxis]
        end = case.kernel.train(
            case.images, case.labels, order, start=start, **case.standardised(), **SGD
        )
        assert np.isnan(end).all()


@needs_kernel
@pytest.mark.parametrize("kind", ["array", "c_int"])
def test_cancel_stops_a_call(kind: str) -> None:
    case = make_case()
    order = np.arange(12)[np.newaxis].repeat(1000, axis=0)
    flag: Any = np.ones(1, np.int32) if kind == "array" else ctypes.c_int(1)
    arguments = {**case.standardised(), **SGD, "cancel": flag}
    with pytest.raises(KernelCancelled):
        case.kernel.train(case.images, case.labels, order, start=case.parameters, **arguments)
    with pytest.raises(KernelCancelled):
        case.kernel.train_apfl(
            case.images,
            case.labels,
            order,
            w=case.parameters,
            v=case.parameters,
            alpha=0.5,
            **arguments,
        )


@needs_kernel
def test_cancel_flag_is_polled_while_running() -> None:
    case = make_case()
    order = np.arange(12)[np.newaxis].repeat(100_000, axis=0)
    flag = np.zeros(1, np.int32)
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(
            case.kernel.train,
            case.images,
            case.labels,
            order,
            start=case.parameters,
            cancel=flag,
            **case.standardised(),
            **SGD,
        )
        with pytest.raises(TimeoutError):
            running.result(timeout=0.1)
        flag[0] = 1
        with pytest.raises(KernelCancelled):
            running.result(timeout=1)


@needs_kernel
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.full(12, 5)}, "labels must be 0 to 4, because there are 5 classes; got 5"),
        ({"labels": np.full(12, -1)}, "labels must be 0 to 4"),
        ({"labels": np.zeros(11, np.int64)}, r"labels must have the shape \[12\], got \[11\]"),
        ({"labels": np.zeros(12, np.int32)}, "labels must be int64, got int32"),
        ({"order": np.full((1, 3), 12)}, "order must be 0 to 11, because there are 12 images"),
        ({"order": np.full((1, 3), -1)}, "got -1"),
        ({"order": np.zeros(3, np.int64)}, r"order must have the shape \[n, n\]"),
        ({"order": np.zeros((1, 3), np.int32)}, "order must be int64"),
        ({"order": np.zeros((4, 6), np.int64)[:, ::2]}, "order must be C-contiguous"),
        ({"images": np.zeros((12, 18, 20, 3))}, "images must be uint8 or float32, got float64"),
        ({"images": np.zeros((12, 3, 18, 20), np.uint8)}, r"shape \[n, 18, 20, 3\]"),
        ({"images": np.zeros((24, 18, 20, 3), np.uint8)[::2]}, "images must be C-contiguous"),
        ({"images": [[0]]}, "images must be a NumPy array, got list"),
        ({"start": np.zeros(7, np.float32)}, "start must have the shape"),
        ({"start": np.zeros(7)}, "start must be float32, got float64"),
        ({"anchor": np.zeros(7, np.float32)}, "anchor must have the shape"),
        ({"correction": np.zeros(7, np.float32)}, "correction must have the shape"),
        ({"scale": np.ones(1, np.float32)}, r"scale must have the shape \[3\], got \[1\]"),
        ({"shift": np.ones(3)}, "shift must be float32, got float64"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"rate": float("nan")}, "rate must be a finite number, got nan"),
        ({"pull": float("inf")}, "pull must be a finite number"),
        ({"cancel": np.zeros(2, np.int32)}, "cancel must have the shape"),
        ({"cancel": np.zeros(1, np.int64)}, "cancel must be int32"),
    ],
)
def test_wrong_arguments_are_refused_in_one_sentence(change: dict[str, Any], message: str) -> None:
    case = make_case()
    arguments: dict[str, Any] = {
        "images": case.images,
        "labels": case.labels,
        "order": np.arange(12)[np.newaxis],
        "start": case.parameters,
        **case.standardised(),
        **SGD,
    }
    with pytest.raises(ValueError, match=message):
        case.kernel.train(**(arguments | change))


@needs_kernel
def test_labels_of_unused_images_do_not_matter() -> None:
    case = make_case()
    case.labels[5] = -1
    case.kernel.train(
        case.images,
        case.labels,
        np.array([[0, 1, 2]]),
        start=case.parameters,
        **case.standardised(),
        **SGD,
    )


@needs_kernel
def test_wrong_mixture_and_empty_gradient_are_refused() -> None:
    case = make_case()
    with pytest.raises(ValueError, match=r"alpha must be between 0 and 1, got 1\.5"):
        case.kernel.train_apfl(
            case.images,
            case.labels,
            np.arange(12)[np.newaxis],
            w=case.parameters,
            v=case.parameters,
            alpha=1.5,
            **case.standardised(),
            **SGD,
        )
    with pytest.raises(ValueError, match="at least 1 sample"):
        case.kernel.gradient(
            case.images,
            case.labels,
            np.zeros(0, np.int64),
            parameters=case.parameters,
            **case.standardised(),
        )


@needs_kernel
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((15, 32, 3, 10), "sides of 16 .* got 15 x 32"),
        ((32, 15, 3, 10), "got 32 x 15"),
        ((32, 4096, 3, 10), "to 2048 pixels"),
        ((32, 32, 0, 10), "1 to 64 channels, got 0"),
        ((32, 32, 65, 10), "1 to 64 channels, got 65"),
        ((32, 32, 3, 0), "at least 1 class, got 0"),
    ],
)
def test_impossible_networks_are_refused(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LenetKernel(*shape)


def test_a_missing_library_is_a_reason_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_module, "__file__", str(tmp_path / "__init__.py"))
    kernel_module._load.cache_clear()
    try:
        assert not available()
        assert "install a C compiler" in unavailable_reason()
        with pytest.raises(RuntimeError, match="not available"):
            LenetKernel(32, 32, 3, 10)
    finally:
        monkeypatch.undo()
        kernel_module._load.cache_clear()


DRIVER = r"""
#include "lenet.c"
#include <stdio.h>
#include <stdlib.h>

/* Buffers have exactly the size that the binding promises, so that any read past an end is seen. */
static void run(int32_t height, int32_t width, int32_t channels, int32_t classes, int64_t samples,
                int64_t batch, int32_t bytes) {
    const LenetInput in = {height, width, channels, classes};
    const size_t n = (size_t)lenet_parameters(&in);
    const size_t values = (size_t)samples * height * width * channels;
    void *images = malloc(values * (bytes ? 1 : sizeof(float)));
    int64_t *labels = malloc((size_t)samples * sizeof *labels);
    int64_t *order = malloc(2 * (size_t)samples * sizeof *order);
    float *scale = malloc((size_t)channels * sizeof(float));
    float *shift = malloc((size_t)channels * sizeof(float));
    float *w = malloc(n * sizeof(float)), *v = malloc(n * sizeof(float));
    uint32_t seed = 1;
#define NEXT ((seed = seed * 1664525u + 1013904223u) >> 8)
    for (size_t i = 0; i < values; i++)
        if (bytes) ((uint8_t *)images)[i] = (uint8_t)NEXT;
        else ((float *)images)[i] = (float)(NEXT % 256);
    for (int64_t i = 0; i < samples; i++) labels[i] = NEXT % (uint32_t)classes;
    for (int64_t i = 0; i < 2 * samples; i++) order[i] = NEXT % (uint32_t)samples;
    for (int32_t c = 0; c < channels; c++) scale[c] = 0.01f, shift[c] = -1.0f;
    for (size_t i = 0; i < n; i++) w[i] = v[i] = ((float)(NEXT % 2000) - 1000) * 1e-4f;
    const LenetData data = {images, bytes, labels, scale, shift};
    int32_t cancel = 0;
    const LenetSchedule plan = {order, 2, samples, batch, 0.01f, 0.9f, 1e-4f, 1.0f, &cancel};
    const size_t needed = (size_t)lenet_workspace_bytes(&in, batch);
    const size_t scratch = (size_t)lenet_scratch_bytes(&in, 1);
    LenetMemory memory = {aligned_alloc(64, needed), aligned_alloc(64, scratch)};
    memset(memory.workspace, 0, needed);
    double alpha = 0.5, loss;
    int64_t correct;
    int status = lenet_train(&in, &data, &memory, &plan, v, 0.1f, v, w);
    status |= lenet_train_apfl(&in, &data, &memory, &plan, w, v, &alpha);
    status |= lenet_evaluate(&in, &data, &memory, &plan, w, &correct, &loss);
    status |= lenet_gradient(&in, &data, &memory, &plan, w, v, &loss);
    printf("%d x %d x %d: %d %f\n", height, width, channels, status, loss);
    free(memory.workspace), free(memory.scratch), free(images), free(labels), free(order);
    free(scale), free(shift), free(w), free(v);
    if (status || loss != loss) exit(1);
}

int main(void) {
    run(16, 16, 1, 1, 1, 1, 1);
    run(17, 23, 2, 5, 7, 3, 1);
    run(16, 70, 3, 2, 3, 8, 0);
    run(68, 20, 4, 2, 3, 2, 1);
    run(32, 32, 3, 45, 5, 4, 1);
    run(18, 19, 17, 3, 3, 2, 0);
    run(16, 17, 32, 3, 2, 2, 1);
    run(16, 16, 1, 9, 70, 70, 1);
    return 0;
}
"""


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    if not available() and "CPU" in unavailable_reason():
        pytest.skip(unavailable_reason())
    sanitize = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    probe = tmp_path / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    if subprocess.run(
        ["gcc", *sanitize, "-mavx2", str(probe), "-o", str(tmp_path / "probe")],
        capture_output=True,
        check=False,
    ).returncode:
        pytest.skip("gcc has no AddressSanitizer here, or does not compile for AVX2")
    driver = tmp_path / "driver.c"
    driver.write_text(DRIVER)
    program = tmp_path / "driver"
    flags = ["-std=c11", "-O0", "-g", "-mavx2", "-mfma", "-Wall", "-Wextra", "-Werror"]
    subprocess.run(
        ["gcc", *flags, *sanitize, f"-I{SOURCES}", str(driver), "-o", str(program), "-lm"],
        check=True,
    )
    result = subprocess.run([str(program)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


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
