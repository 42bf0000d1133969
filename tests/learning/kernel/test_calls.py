"""Calls of the kernel: they change no input, can be stopped, and depend on nothing else."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedorbit.learning.kernel import (
    KernelCancelled,
)
from tests.learning.kernel.cases import SGD, make_case, needs_kernel
from tests.patience import PATIENCE_S


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
    mask = np.arange(len(anchor)) % 3 > 0
    arrays = [case.labels, order, case.parameters, anchor, correction, case.scale, case.shift, mask]
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
        mask=mask,
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
def test_a_part_does_not_depend_on_what_ran_before_nor_leave_anything_behind() -> None:
    """A pass that ends early leaves old activations and gradients where they are."""
    case = make_case(19, 21, samples=70)
    spoilt = np.full_like(case.parameters, np.nan)
    size = case.kernel.parameters

    def job(start: NDArray[np.float32], begin: int) -> NDArray[np.float32]:
        return case.kernel.train(
            case.images,
            case.labels,
            np.arange(70)[np.newaxis],
            start=start,
            begin=begin,
            **case.standardised(),
            **SGD,
        )

    begins = [0, 456, 2872, size - 5 * 85 - 84 * 121, size - 5 * 85, size - 1]
    for begin in begins:
        first = job(case.parameters, begin)
        assert np.isfinite(first).all()
        for other in begins:
            job(spoilt, other)
            np.testing.assert_array_equal(job(case.parameters, begin), first)


@needs_kernel
def test_too_large_a_workspace_is_a_memory_error(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case()
    monkeypatch.setattr(case.kernel._library, "lenet_scratch_bytes", lambda *_: 2**62)
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
            running.result(timeout=PATIENCE_S)
