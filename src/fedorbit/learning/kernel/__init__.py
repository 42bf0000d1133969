"""LocalSGD for LeNet in C (AVX2 and FMA), with the results of PyTorch up to rounding.

One call trains over all its epochs on one thread, without the GIL, so satellites run side by side
on plain threads and share the images. The library is an optional part of the installation: check
`available()` first.

Every argument is checked here, before C sees a pointer. A wrong one raises `ValueError`.
"""

import ctypes
import math
import platform
import threading
from collections.abc import Callable
from ctypes import POINTER, byref, c_double, c_float, c_int, c_int32, c_int64, c_void_p
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8] | NDArray[np.uint16] | NDArray[np.float32]
Indices = NDArray[np.int64]
Vector = NDArray[np.float32]
Views = NDArray[np.int8]
"""`[..., 3]`: orientation, rows on, columns on; see `LenetKernel`."""
CancelFlag = NDArray[np.int32] | c_int
"""Non-zero stops a call; may be set from another thread."""

SMALLEST_SIDE = 16
LARGEST_SIDE = 2048
MOST_CHANNELS = 64
"""Offsets inside one padded image are 32-bit in the library; these limits keep them far away."""

_LIBRARY = "_lenet.so"
_INTERFACE = 4
"""Version of the interface of `lenet.c`; a library of another version takes other arguments."""
_CANCELLED = 1
_ALIGNMENT = 64
_KINDS = (np.float32, np.uint8, np.uint16)
"""Types of images, in the order of the library's numbers for them."""
_ORIENTATIONS, _FLIPS = 8, 4
"""Orientations of a square image, and of any other: four and above transpose the image."""


class KernelCancelled(Exception):  # noqa: N818 (not an error: it was requested)
    """The cancel flag was set; the call has stopped and its work is lost."""


class _Input(ctypes.Structure):
    _fields_ = (
        ("height", c_int32),
        ("width", c_int32),
        ("channels", c_int32),
        ("classes", c_int32),
    )


class _Data(ctypes.Structure):
    _fields_ = (
        ("images", c_void_p),
        ("kind", c_int32),
        ("labels", c_void_p),
        ("scale", c_void_p),
        ("shift", c_void_p),
        ("offset", c_void_p),
    )


class _Memory(ctypes.Structure):
    _fields_ = (("workspace", c_void_p), ("scratch", c_void_p))


class _Schedule(ctypes.Structure):
    _fields_ = (
        ("order", c_void_p),
        ("views", c_void_p),
        ("epochs", c_int64),
        ("samples", c_int64),
        ("batch", c_int64),
        ("rate", c_float),
        ("momentum", c_float),
        ("weight_decay", c_float),
        ("clip_norm", c_float),
        ("cancel", c_void_p),
    )


class _Part(ctypes.Structure):
    _fields_ = (("begin", c_int64), ("end", c_int64), ("mask", c_void_p))


class _Rule(ctypes.Structure):
    _fields_ = (
        ("anchor", c_void_p),
        ("correction", c_void_p),
        ("repeats", c_int64),
        ("pull", c_float),
        ("follow", c_float),
        ("ahead", c_float),
        ("radius", c_float),
    )


_CALL = (POINTER(_Input), POINTER(_Data), POINTER(_Memory), POINTER(_Schedule))
_SIGNATURES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "lenet_supported": (c_int, ()),
    "lenet_interface": (c_int, ()),
    "lenet_parameters": (c_int64, (POINTER(_Input),)),
    "lenet_workspace_bytes": (c_int64, (POINTER(_Input), c_int64)),
    "lenet_scratch_bytes": (c_int64, (POINTER(_Input), POINTER(_Rule))),
    "lenet_apfl_scratch_bytes": (c_int64, (POINTER(_Input),)),
    "lenet_train": (c_int, (*_CALL, POINTER(_Part), POINTER(_Rule), c_void_p)),
    "lenet_train_apfl": (c_int, (*_CALL, c_void_p, c_void_p, POINTER(c_double))),
    "lenet_evaluate": (c_int, (*_CALL, c_void_p, POINTER(c_int64), POINTER(c_double))),
    "lenet_gradient": (c_int, (*_CALL, c_void_p, c_void_p, POINTER(c_double))),
}


@cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """Return the library, or None and why there is none."""
    path = Path(__file__).with_name(_LIBRARY)
    if not path.is_file():
        if (machine := platform.machine()) not in ("x86_64", "AMD64"):
            return None, f"there is no C library for {machine} processors, only for x86-64"
        return None, (
            "the C library was not built at installation; "
            "install a C compiler (gcc or clang) and reinstall fedorbit"
        )
    try:
        library = ctypes.CDLL(str(path))
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        return None, f"the C library does not load ({error}); reinstall fedorbit"
    if (found := library.lenet_interface()) != _INTERFACE:
        return None, (
            f"the C library has the interface {found}, and this fedorbit needs {_INTERFACE}; "
            "reinstall fedorbit"
        )
    if not library.lenet_supported():
        return None, "this CPU has no AVX2 and FMA"
    return library, ""


def available() -> bool:
    """Return whether the library was built and this CPU can run it."""
    return _load()[0] is not None


def unavailable_reason() -> str:
    """Return in one line why the kernel is not available; empty if it is."""
    return _load()[1]


def unfit_reason(height: int, width: int, channels: int) -> str:
    """Return in one line why the kernel does not take such images; empty if it does."""
    if min(height, width) < SMALLEST_SIDE or max(height, width) > LARGEST_SIDE:
        return (
            f"images must have sides of {SMALLEST_SIDE} (two 5 x 5 convolutions and pools) "
            f"to {LARGEST_SIDE} pixels, got {height} x {width}"
        )
    if not 1 <= channels <= MOST_CHANNELS:
        return f"images must have 1 to {MOST_CHANNELS} channels, got {channels}"
    return ""


@dataclass(frozen=True)
class _Call:
    """C structures of one call, and the arrays that they point into."""

    data: _Data
    schedule: _Schedule
    keep: tuple[object, ...]


class LenetKernel:
    """LeNet for images [height, width, channels], with parameters as one flat vector.

    The vector holds PyTorch's tensors one after the other: conv1, conv2, fc1, fc2, fc3, each weight
    before its bias. fc1 reads the feature maps in the order (row, column, map).

    Images are `[n, height, width, channels]`, uint8, uint16 or float32, C-contiguous; the network
    sees `image * scale + shift` with one scale and shift per channel. Nothing that is passed in
    changes, except an `anchor_out`. An instance may be used by many threads at once; for each it
    keeps the memory of the last call.

    `views` give an orientation and a shift for each sample of an order. The image is moved by so
    many rows and columns up and to the left, where the edge repeats; then transposed (orientation
    + 4), with its rows (+ 2) and its columns (+ 1) reversed. `offset` is added to the logits of
    each class.

    All calls accept `cancel`, which is looked at before each batch: see `KernelCancelled`.
    """

    parameters: int
    """Length of the parameter vector."""

    def __init__(self, height: int, width: int, channels: int, classes: int) -> None:
        if reason := unfit_reason(height, width, channels):
            raise ValueError(reason)
        if not 1 <= classes <= np.iinfo(np.int32).max:
            raise ValueError(f"there must be at least 1 class, got {classes}")
        library, reason = _load()
        if library is None:
            raise RuntimeError(f"the training kernel is not available: {reason}")
        self._library = library
        self._input = _Input(height, width, channels, classes)
        self._shape = (height, width, channels)
        self._classes = classes
        self.parameters = int(library.lenet_parameters(byref(self._input)))
        self._memory = threading.local()

    def train(
        self,
        images: Images,
        labels: Indices,
        order: Indices,
        *,
        start: Vector,
        scale: Vector,
        shift: Vector,
        batch: int,
        rate: float,
        momentum: float,
        weight_decay: float,
        clip_norm: float | None,
        anchor: Vector | None = None,
        pull: float = 0.0,
        repeats: int = 1,
        follow: float = 0.0,
        anchor_out: Vector | None = None,
        ahead: float = 0.0,
        radius: float = 0.0,
        correction: Vector | None = None,
        begin: int = 0,
        end: int | None = None,
        mask: NDArray[np.bool_] | None = None,
        views: Views | None = None,
        offset: Vector | None = None,
        cancel: CancelFlag | None = None,
    ) -> Vector:
        """Run SGD from `start` over the batches of `order`, `[epochs, n]`; return the end.

        Per step: the gradient of the batch's mean loss, plus `pull * (w - anchor)`, plus
        `correction`; clipped to the norm `clip_norm` (None or <= 0: not at all); plus
        `weight_decay * w`; into a momentum that starts at zero; times `rate`.

        Each batch is used for `repeats` such steps. After them, the anchor moves by `follow` times
        its distance to w, in `anchor_out`, which has it at the end.

        With `ahead`, the gradient is taken where a plain step of this rate would lead, on the batch
        that follows in the epoch (the first after the last), clipped as above. With a `radius`, the
        product of that batch's Hessian at w and the gradient, times `ahead`, is subtracted: the
        difference of two gradients, this far to either side of w.

        Only the parameters of [begin, end) move, and of these, with a mask `[parameters]`, only
        those where it is true. The norms are theirs; all others keep their bits. Layers that lie
        wholly before `begin` cost no backward pass.
        """
        call = self._call(images, labels, order, scale, shift, views, offset, cancel, epochs=True)
        _set_sgd(call.schedule, batch, rate, momentum, weight_decay, clip_norm)
        self._check_vectors(
            start=start, anchor=anchor, anchor_out=anchor_out, correction=correction
        )
        _check_rule(anchor, pull, repeats, follow, anchor_out, ahead, radius)
        part = self._part(begin, end, mask)
        trained = start.copy()
        if anchor is not None and anchor_out is not None:
            anchor_out[:] = anchor
            anchor = anchor_out
        if order.size == 0:
            return trained
        rule = _Rule(_address(anchor), _address(correction), repeats, pull, follow, ahead, radius)
        self._run(
            self._library.lenet_train,
            call,
            byref(part),
            byref(rule),
            trained.ctypes.data,
            scratch=self._library.lenet_scratch_bytes(byref(self._input), byref(rule)),
        )
        return trained

    def train_apfl(
        self,
        images: Images,
        labels: Indices,
        order: Indices,
        *,
        w: Vector,
        v: Vector,
        alpha: float,
        scale: Vector,
        shift: Vector,
        batch: int,
        rate: float,
        momentum: float,
        weight_decay: float,
        clip_norm: float | None,
        views: Views | None = None,
        offset: Vector | None = None,
        cancel: CancelFlag | None = None,
    ) -> tuple[Vector, Vector, float]:
        """Run APFL's coupled steps; return the new w, v and alpha.

        Per batch, all from the values before it: w steps with its own gradient; v steps with
        alpha times the gradient g at the mixture alpha v + (1 - alpha) w; alpha moves against
        <g, v - w> and stays in [0, 1].
        """
        call = self._call(images, labels, order, scale, shift, views, offset, cancel, epochs=True)
        _set_sgd(call.schedule, batch, rate, momentum, weight_decay, clip_norm)
        self._check_vectors(w=w, v=v)
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
        new_w, new_v, new_alpha = w.copy(), v.copy(), c_double(alpha)
        if order.size > 0:
            self._run(
                self._library.lenet_train_apfl,
                call,
                new_w.ctypes.data,
                new_v.ctypes.data,
                byref(new_alpha),
                scratch=self._library.lenet_apfl_scratch_bytes(byref(self._input)),
            )
        return new_w, new_v, new_alpha.value

    def evaluate(
        self,
        images: Images,
        labels: Indices,
        indices: Indices,
        *,
        parameters: Vector,
        scale: Vector,
        shift: Vector,
        offset: Vector | None = None,
        cancel: CancelFlag | None = None,
    ) -> tuple[int, float]:
        """Return how many of the samples are classified right, and the sum of their losses."""
        call = self._call(images, labels, indices, scale, shift, None, offset, cancel)
        self._check_vectors(parameters=parameters)
        correct, loss = c_int64(), c_double()
        if indices.size > 0:
            function = self._library.lenet_evaluate
            self._run(function, call, parameters.ctypes.data, byref(correct), byref(loss))
        return correct.value, loss.value

    def gradient(
        self,
        images: Images,
        labels: Indices,
        indices: Indices,
        *,
        parameters: Vector,
        scale: Vector,
        shift: Vector,
        views: Views | None = None,
        offset: Vector | None = None,
    ) -> tuple[Vector, float]:
        """Return the gradient of the samples' mean loss, and that loss."""
        call = self._call(images, labels, indices, scale, shift, views, offset, None)
        self._check_vectors(parameters=parameters)
        if indices.size == 0:
            raise ValueError("a gradient needs at least 1 sample, got 0 indices")
        gradient, loss = np.empty(self.parameters, np.float32), c_double()
        function = self._library.lenet_gradient
        self._run(function, call, parameters.ctypes.data, gradient.ctypes.data, byref(loss))
        return gradient, loss.value

    def _call(
        self,
        images: Images,
        labels: Indices,
        order: Indices,
        scale: Vector,
        shift: Vector,
        views: Views | None,
        offset: Vector | None,
        cancel: CancelFlag | None,
        *,
        epochs: bool = False,
    ) -> _Call:
        """Check what all calls share and describe it to C."""
        _check_array("images", images, _KINDS, (None, *self._shape))
        _check_array("labels", labels, (np.int64,), (len(images),))
        name, shape = ("order", (None, None)) if epochs else ("indices", (None,))
        _check_array(name, order, (np.int64,), shape)
        _check_array("scale", scale, (np.float32,), (self._shape[2],))
        _check_array("shift", shift, (np.float32,), (self._shape[2],))
        _check_range(name, order, len(images), f"there are {len(images)} images")
        _check_range("labels", labels[order], self._classes, f"there are {self._classes} classes")
        if views is not None:
            self._check_views(views, order)
        if offset is not None:
            _check_array("offset", offset, (np.float32,), (self._classes,))
        data = _Data(
            images.ctypes.data,
            _KINDS.index(images.dtype.type),
            labels.ctypes.data,
            scale.ctypes.data,
            shift.ctypes.data,
            _address(offset),
        )
        schedule = _Schedule(
            order=order.ctypes.data,
            views=_address(views),
            epochs=order.shape[0] if epochs else 1,
            samples=order.shape[-1],
            batch=order.shape[-1],
            cancel=_flag_address(cancel),
        )
        keep = (images, labels, order, scale, shift, views, offset, cancel)
        return _Call(data, schedule, keep)

    def _check_views(self, views: Views, order: Indices) -> None:
        _check_array("views", views, (np.int8,), (*order.shape, 3))
        square = self._shape[0] == self._shape[1]
        why = "a square has 8 orientations" if square else "only squares can be transposed"
        _check_range("orientations", views[..., 0], _ORIENTATIONS if square else _FLIPS, why)

    def _check_vectors(self, **vectors: Vector | None) -> None:
        for name, vector in vectors.items():
            if vector is not None:
                _check_array(name, vector, (np.float32,), (self.parameters,))

    def _part(self, begin: int, end: int | None, mask: NDArray[np.bool_] | None) -> _Part:
        """Check which parameters move and describe them to C."""
        end = self.parameters if end is None else end
        if not 0 <= begin <= end <= self.parameters:
            raise ValueError(
                f"begin and end must be ordered and 0 to {self.parameters}, got {begin} and {end}"
            )
        if mask is None:
            return _Part(begin, end, None)
        _check_array("mask", mask, (np.bool_,), (self.parameters,))
        return _Part(begin, end, mask.ctypes.data)

    def _run(
        self, function: Callable[..., int], call: _Call, *arguments: object, scratch: int = 0
    ) -> None:
        """Call C with memory of this thread, with so many bytes of scratch."""
        needed = self._library.lenet_workspace_bytes(byref(self._input), call.schedule.batch)
        memory = _Memory(self._block("workspace", needed), self._block("scratch", scratch))
        status = function(
            byref(self._input), byref(call.data), byref(memory), byref(call.schedule), *arguments
        )
        if status == _CANCELLED:
            raise KernelCancelled("training was cancelled")

    def _block(self, name: str, size: int) -> int | None:
        """Return the address of an aligned block of this thread, zero when it was new.

        It is kept for the next call and replaced when that needs another size: so what C left in a
        workspace is only ever seen by calls with the same layout.
        """
        if size == 0:
            return None
        room = size + _ALIGNMENT
        block: NDArray[np.uint8] | None = getattr(self._memory, name, None)
        if block is None or block.size != room:
            setattr(self._memory, name, None)  # free the old block first
            block = np.zeros(room, np.uint8)
            setattr(self._memory, name, block)
        address = block.ctypes.data
        return address + -address % _ALIGNMENT


def _set_sgd(
    schedule: _Schedule,
    batch: int,
    rate: float,
    momentum: float,
    weight_decay: float,
    clip_norm: float | None,
) -> None:
    if batch < 1:
        raise ValueError(f"batch must be at least 1, got {batch}")
    clip = 0.0 if clip_norm is None else clip_norm
    _check_number("rate", rate)
    _check_number("momentum", momentum)
    _check_number("weight_decay", weight_decay)
    _check_number("clip_norm", clip)
    # A larger batch than there are samples is all of them.
    schedule.batch = min(batch, max(1, schedule.samples))
    schedule.rate, schedule.momentum = rate, momentum
    schedule.weight_decay, schedule.clip_norm = weight_decay, clip


def _check_rule(
    anchor: Vector | None,
    pull: float,
    repeats: int,
    follow: float,
    anchor_out: Vector | None,
    ahead: float,
    radius: float,
) -> None:
    _check_number("pull", pull)
    _check_number("ahead", ahead)
    _check_number("radius", radius)
    if pull != 0 and anchor is None:
        raise ValueError(f"a pull of {pull} needs an anchor, got None")
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    if not 0 <= follow <= 1:
        raise ValueError(f"follow must be between 0 and 1, got {follow}")
    if follow != 0 and (anchor is None or anchor_out is None):
        raise ValueError(f"a follow of {follow} needs an anchor and an anchor_out")
    if anchor_out is not None and not anchor_out.flags.writeable:
        raise ValueError("anchor_out must be writeable; a copy is")


def _check_number(name: str, value: float) -> None:
    if not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value}")


def _check_array(
    name: str, array: object, dtypes: tuple[type, ...], shape: tuple[int | None, ...]
) -> None:
    """Refuse anything but a C-contiguous array of one of the types and of the shape."""
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{name} must be a NumPy array, got {type(array).__name__}")
    if array.dtype not in dtypes:
        allowed = " or ".join(np.dtype(dtype).name for dtype in dtypes)
        raise ValueError(f"{name} must be {allowed}, got {array.dtype}")
    fits = array.ndim == len(shape) and all(
        want is None or want == have for want, have in zip(shape, array.shape, strict=True)
    )
    if not fits:
        wanted = ", ".join("n" if size is None else str(size) for size in shape)
        raise ValueError(f"{name} must have the shape [{wanted}], got {list(array.shape)}")
    if not (array.flags.c_contiguous and array.flags.aligned):
        raise ValueError(f"{name} must be C-contiguous and aligned; np.ascontiguousarray makes it")


def _check_range(name: str, values: NDArray[np.integer[Any]], limit: int, why: str) -> None:
    if values.size == 0:
        return
    least, most = int(values.min()), int(values.max())
    if least < 0 or most >= limit:
        raise ValueError(
            f"{name} must be 0 to {limit - 1}, because {why}; got {least if least < 0 else most}"
        )


def _address(array: NDArray[Any] | None) -> int | None:
    return None if array is None else array.ctypes.data


def _flag_address(cancel: CancelFlag | None) -> int | None:
    if cancel is None:
        return None
    if isinstance(cancel, c_int):
        return ctypes.addressof(cancel)
    _check_array("cancel", cancel, (np.int32,), (1,))
    return cancel.ctypes.data
