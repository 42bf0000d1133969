"""Repeated batches, an anchor that follows and gradients from ahead: alone and all together."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedorbit.learning.kernel import KernelCancelled
from tests.learning.kernel.cases import SGD, Case, make_case, needs_kernel

OPTIONS: dict[str, dict[str, Any]] = {
    "repeats": {"repeats": 3},
    "pull": {"pull": 0.7, "repeats": 2},
    "follow a little": {"pull": 0.7, "follow": 0.2},
    "follow far": {"pull": 0.7, "repeats": 2, "follow": 0.9},
    "follow without a pull": {"follow": 0.5},
    "ahead": {"ahead": 0.4},
    "Hessian": {"ahead": 0.4, "radius": 0.01},
    "all": {"pull": 0.7, "repeats": 2, "follow": 0.3, "ahead": 0.4, "radius": 0.01},
}
"""A radius without a step ahead has no meaning, and none is tried."""
SHAPES = {
    "short last batch": (12, 5),
    "one batch": (7, 7),
    "one sample": (1, 5),
    "more than go through at once": (70, 66),
}


class Oracle:
    """The equations in double precision, on a vector of those values alone that move."""

    def __init__(self, case: Case, inside: NDArray[np.bool_]) -> None:
        self._case, self._inside = case, inside
        self._whole = case.parameters.astype(np.float64)

    def gradient(self, w: NDArray[Any], batch: NDArray[np.int64]) -> NDArray[Any]:
        whole = self._whole.copy()
        whole[self._inside] = w
        self._case.reference.load(whole)
        return np.concatenate(self._case.torch_gradient(batch)[0])[self._inside]

    def ahead(self, w: Any, batch: Any, other: Any, alpha: float, radius: float) -> Any:
        v = self.gradient(w - alpha * clipped(self.gradient(w, other)), batch)
        if not radius:
            return v
        norm = np.linalg.norm(v)
        reach = radius * v / norm
        jump = self.gradient(w + reach, other) - self.gradient(w - reach, other)
        return v - alpha * jump * norm / (2 * radius)

    def train(
        self,
        order: NDArray[np.int64],
        anchor: NDArray[Any],
        correction: NDArray[Any],
        pull: float = 0.0,
        repeats: int = 1,
        follow: float = 0.0,
        ahead: float = 0.0,
        radius: float = 0.0,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """The model and the anchor at the end; the anchor is whole."""
        inside, anchor = self._inside, anchor.astype(np.float64)
        w, m = self._whole[inside], np.zeros(inside.sum())
        for epoch in order:
            batches = [epoch[i : i + SGD["batch"]] for i in range(0, len(epoch), SGD["batch"])]
            for batch, other in zip(batches, [*batches[1:], batches[0]], strict=True):
                for _ in range(repeats):
                    g = (
                        self.ahead(w, batch, other, ahead, radius)
                        if ahead
                        else self.gradient(w, batch)
                    )
                    g = g + pull * (w - anchor[inside]) + correction[inside]
                    m = SGD["momentum"] * m + clipped(g) + SGD["weight_decay"] * w
                    w = w - SGD["rate"] * m
                whole = self._whole.copy()
                whole[inside] = w
                anchor = anchor + follow * (whole - anchor)
        whole = self._whole.copy()
        whole[inside] = w
        return whole, anchor


def clipped(g: NDArray[Any]) -> NDArray[Any]:
    return g * min(1.0, SGD["clip_norm"] / (np.linalg.norm(g) + 1e-6))


def vectors(case: Case) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """An anchor near the parameters, and a correction."""
    noise = np.random.default_rng(4).normal(size=(2, len(case.parameters))).astype(np.float32)
    return case.parameters + 0.02 * noise[0], 0.001 * noise[1]


@needs_kernel
@pytest.mark.parametrize("dtype", [np.uint8, np.float32])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES)
def test_options_are_the_equations(
    monkeypatch: pytest.MonkeyPatch, shape: str, options: str, dtype: type
) -> None:
    samples, batch = SHAPES[shape]
    check(monkeypatch, make_case(samples=samples, dtype=dtype), batch, OPTIONS[options])


@needs_kernel
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("part", [(456, 17421), (6832, 16996)])
@pytest.mark.parametrize("masked", [False, True])
def test_options_of_a_part(
    monkeypatch: pytest.MonkeyPatch, options: str, part: tuple[int, int], masked: bool
) -> None:
    mask = np.random.default_rng(7).random(17421) < 0.6 if masked else None
    check(monkeypatch, make_case(samples=12), 5, OPTIONS[options], part, mask)


def check(
    monkeypatch: pytest.MonkeyPatch,
    case: Case,
    batch: int,
    options: dict[str, Any],
    part: tuple[int, int] | None = None,
    mask: NDArray[np.bool_] | None = None,
) -> None:
    monkeypatch.setitem(SGD, "batch", batch)
    begin, end = part or (0, case.kernel.parameters)
    inside = np.zeros(case.kernel.parameters, bool)
    inside[begin:end] = True if mask is None else mask[begin:end]
    rng = np.random.default_rng(3)
    order = np.stack([rng.permutation(len(case.images)) for _ in range(2)])
    anchor, correction = vectors(case)
    anchor_out = np.empty_like(anchor)
    trained = case.kernel.train(
        case.images,
        case.labels,
        order,
        start=case.parameters,
        anchor=anchor,
        anchor_out=anchor_out,
        correction=correction,
        begin=begin,
        end=end,
        mask=mask,
        **options,
        **case.standardised(),
        **SGD,
    )
    expected, moved = Oracle(case, inside).train(order, anchor, correction, **options)
    np.testing.assert_allclose(trained, expected, rtol=0, atol=5e-6)
    np.testing.assert_allclose(anchor_out, moved, rtol=0, atol=5e-6)
    np.testing.assert_array_equal(trained[~inside], case.parameters[~inside])
    assert np.abs(trained - case.parameters).max() > 1e-3


@needs_kernel
def test_an_anchor_follows_all_the_way_or_not_at_all_without_rounding() -> None:
    case = make_case()
    anchor, _ = vectors(case)
    order = np.arange(12)[np.newaxis]
    for follow in (0.0, 1.0):
        anchor_out = np.empty_like(anchor)
        trained = case.kernel.train(
            case.images,
            case.labels,
            order,
            start=case.parameters,
            anchor=anchor,
            pull=0.5,
            follow=follow,
            anchor_out=anchor_out,
            **case.standardised(),
            **SGD,
        )
        np.testing.assert_array_equal(anchor_out, trained if follow else anchor)


@needs_kernel
def test_without_batches_the_anchor_comes_back() -> None:
    case = make_case()
    anchor, _ = vectors(case)
    anchor_out = np.empty_like(anchor)
    case.kernel.train(
        case.images,
        case.labels,
        np.zeros((0, 5), np.int64),
        start=case.parameters,
        anchor=anchor,
        pull=0.5,
        follow=0.5,
        anchor_out=anchor_out,
        **case.standardised(),
        **SGD,
    )
    np.testing.assert_array_equal(anchor_out, anchor)


@needs_kernel
def test_inputs_are_not_changed_and_what_ran_before_does_not_matter() -> None:
    """Scratch of several sizes is used in turn; not a number in it would spread."""
    case = make_case()
    anchor, correction = vectors(case)
    spoilt = np.full_like(anchor, np.nan)
    arrays = [case.parameters, anchor, correction]
    before = [array.copy() for array in arrays]
    for array in arrays:
        array.setflags(write=False)

    def job(options: dict[str, Any], start: NDArray[np.float32]) -> NDArray[np.float32]:
        return case.kernel.train(
            case.images,
            case.labels,
            np.arange(12)[np.newaxis],
            start=start,
            anchor=anchor,
            anchor_out=np.empty_like(anchor),
            correction=correction,
            **options,
            **case.standardised(),
            **SGD,
        )

    for options in OPTIONS.values():
        first = job(options, case.parameters)
        assert np.isfinite(first).all()
        for other in OPTIONS.values():
            job(other, spoilt)
        np.testing.assert_array_equal(job(options, case.parameters), first)
    for array, copy in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, copy)


@needs_kernel
@pytest.mark.parametrize("options", OPTIONS)
def test_cancel_is_looked_at_before_a_batch(options: str) -> None:
    case = make_case()
    anchor, _ = vectors(case)
    with pytest.raises(KernelCancelled):
        case.kernel.train(
            case.images,
            case.labels,
            np.arange(12)[np.newaxis],
            start=case.parameters,
            anchor=anchor,
            anchor_out=np.empty_like(anchor),
            cancel=np.ones(1, np.int32),
            **OPTIONS[options],
            **case.standardised(),
            **SGD,
        )
