"""Arguments that the kernel refuses before it computes anything."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fedorbit.learning.kernel as kernel_module
from fedorbit.learning.kernel import (
    LenetKernel,
    available,
    unavailable_reason,
)
from tests.learning.kernel.cases import SGD, make_case, needs_kernel

READ_ONLY = np.zeros(17421, np.float32)
READ_ONLY.setflags(write=False)


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
        (
            {"images": np.zeros((12, 18, 20, 3))},
            "images must be float32 or uint8 or uint16, got float64",
        ),
        ({"images": np.zeros((12, 3, 18, 20), np.uint8)}, r"shape \[n, 18, 20, 3\]"),
        ({"images": np.zeros((24, 18, 20, 3), np.uint8)[::2]}, "images must be C-contiguous"),
        ({"images": [[0]]}, "images must be a NumPy array, got list"),
        ({"start": np.zeros(7, np.float32)}, "start must have the shape"),
        ({"start": np.zeros(7)}, "start must be float32, got float64"),
        ({"anchor": np.zeros(7, np.float32)}, "anchor must have the shape"),
        ({"correction": np.zeros(7, np.float32)}, "correction must have the shape"),
        ({"begin": -1}, "begin and end must be ordered and 0 to 17421, got -1 and 17421"),
        ({"begin": 7, "end": 6}, "got 7 and 6"),
        ({"end": 17422}, "got 0 and 17422"),
        ({"mask": np.ones(7, bool)}, r"mask must have the shape \[17421\], got \[7\]"),
        ({"mask": np.ones(17421, np.uint8)}, "mask must be bool, got uint8"),
        ({"mask": np.ones(2 * 17421, bool)[::2]}, "mask must be C-contiguous"),
        ({"scale": np.ones(1, np.float32)}, r"scale must have the shape \[3\], got \[1\]"),
        ({"shift": np.ones(3)}, "shift must be float32, got float64"),
        ({"batch": 0}, "batch must be at least 1, got 0"),
        ({"rate": float("nan")}, "rate must be a finite number, got nan"),
        ({"pull": float("inf")}, "pull must be a finite number"),
        ({"pull": 0.5}, r"a pull of 0\.5 needs an anchor, got None"),
        ({"ahead": float("nan")}, "ahead must be a finite number, got nan"),
        ({"radius": float("inf")}, "radius must be a finite number, got inf"),
        ({"repeats": 0}, "repeats must be at least 1, got 0"),
        ({"follow": 1.5}, r"follow must be between 0 and 1, got 1\.5"),
        ({"follow": float("nan")}, "follow must be between 0 and 1, got nan"),
        ({"follow": 0.5}, r"a follow of 0\.5 needs an anchor and an anchor_out"),
        ({"follow": 0.5, "anchor": np.zeros(17421, np.float32)}, "and an anchor_out"),
        ({"follow": 0.5, "anchor_out": np.zeros(17421, np.float32)}, "needs an anchor"),
        ({"anchor_out": np.zeros(7, np.float32)}, "anchor_out must have the shape"),
        ({"anchor_out": READ_ONLY}, "anchor_out must be writeable"),
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


@needs_kernel
def test_a_library_of_other_sources_is_a_reason_and_not_a_crash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kernel_module, "_INTERFACE", 99)
    kernel_module._load.cache_clear()
    try:
        assert not available()
        assert "this fedorbit needs 99; reinstall fedorbit" in unavailable_reason()
    finally:
        monkeypatch.undo()
        kernel_module._load.cache_clear()


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
