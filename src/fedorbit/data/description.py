"""Checks of `dataset.json` and of the arrays of a prepared dataset.

A cache lies on a disk for years: bits flip, files are edited, folders are copied in part. All that
`data/cache.py` reads is checked here; whatever is wrong is a `DamageError`, a reason of one line.
"""

import math
import os
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    InstanceOf,
    TypeAdapter,
    ValidationInfo,
    field_validator,
)

from fedorbit.data.stream import TEST, TRAIN, VALIDATION
from fedorbit.documents import DocumentError, read_json, require
from fedorbit.inputs import open_regular

_DESCRIPTION_BYTES = 1 << 26  # far more than the names of all classes take
_HEADER_BYTES = 1 << 10  # of a .npy file; those of the cache have 128

# Not `str`: paths can hold bytes that are not UTF-8, which pydantic refuses.
_Text = InstanceOf[str]
_Scalar = int | float | bool | _Text | None
_FileName = Literal["images.npy", "labels.npy", "coordinates.npy", "split.npy"]
_Positive = Annotated[int, Field(ge=1)]


class DamageError(Exception):
    """A file of a prepared dataset is not as it was written."""


class _Part(BaseModel):
    """A part of `dataset.json`; unknown keys are ignored."""

    model_config = ConfigDict(strict=True)


class _Version(_Part):
    format_version: int


class _File(_Part):
    sha256: str
    size_bytes: Annotated[int, Field(ge=0)]


class _Description(_Part):
    name: _Text
    source: _Text
    samples: _Positive
    shape: Annotated[list[_Positive], Field(min_length=3, max_length=3)]
    dtype: Literal["uint8", "uint16", "float32"]
    class_names: Annotated[list[_Text], Field(min_length=1)]
    origin: dict[_Text, _Text]
    notes: list[_Text]
    options: dict[_Text, _Scalar | dict[_Text, _Scalar]]
    files: dict[_FileName, _File]
    title: _Text = ""
    bands: list[_Text] = []
    file_bands: Annotated[int, Field(ge=0)] = 0
    kept_bands: list[_Positive] = []
    fedorbit_version: str

    @field_validator("bands", "kept_bands")
    @classmethod
    def _one_for_each(cls, bands: list[Any], info: ValidationInfo) -> list[Any]:
        if bands and len(bands) != (channels := info.data.get("shape", [0])[-1]):
            raise ValueError(f"{len(bands)} of them for {channels} channels")
        return bands

    @field_validator("files")
    @classmethod
    def _images_with_labels(cls, files: dict[str, _File]) -> dict[str, _File]:
        if absent := {"images.npy", "labels.npy"} - files.keys():
            raise ValueError(f"{min(absent)} is missing")
        return files


_VERSION: TypeAdapter[Any] = TypeAdapter(_Version)
_DESCRIPTION: TypeAdapter[Any] = TypeAdapter(_Description)


def read_description(path: Path, version: int) -> dict[str, Any]:
    """Return `dataset.json`; one of another format version is returned without a further look."""
    try:
        document: dict[str, Any] = read_json(path, _VERSION, _DESCRIPTION_BYTES)
        if document["format_version"] == version:
            require(document, _DESCRIPTION)
    except OSError as error:
        raise DamageError(f"{path.name}: {error.strerror}") from error
    except DocumentError as error:
        raise DamageError(f"{path.name}: {error}") from error
    return document


def read_array(path: Path, dtype: str, shape: tuple[int, ...], *, mapped: bool) -> NDArray[Any]:
    """Return an array of exactly this type and shape, in memory or mapped from the disk."""
    try:
        with open_regular(path) as file:
            if (magic := np.lib.format.read_magic(file)) != (2, 0):
                raise DamageError(f"{path.name}: its NPY version is {magic}, (2, 0) is written")
            header = np.lib.format.read_array_header_2_0(file, max_header_size=_HEADER_BYTES)
            offset, size_bytes = file.tell(), os.fstat(file.fileno()).st_size
    except DamageError:
        raise
    except Exception as error:  # the header is parsed as Python: a flipped bit raises anything
        reason = " ".join(str(error).split())[:120]
        raise DamageError(f"{path.name}: {type(error).__name__}: {reason}") from error
    expected = (shape, False, np.dtype(dtype))
    if header != expected:
        raise DamageError(
            f"{path.name} is {_shown(*header)}, the description says {_shown(*expected)}"
        )
    needed_bytes = offset + math.prod(shape) * np.dtype(dtype).itemsize
    if size_bytes != needed_bytes:
        raise DamageError(f"{path.name} has {size_bytes:,} bytes, its shape needs {needed_bytes:,}")
    array = np.memmap(path, dtype, "r", offset, shape)
    return array if mapped else np.array(array)


def check_labels(labels: NDArray[np.int64], classes: int) -> None:
    """Refuse labels of no class."""
    if labels.min() < 0 or labels.max() >= classes:
        raise DamageError(
            f"labels.npy holds {labels.min()} to {labels.max()}, allowed are 0 to {classes - 1}"
        )


def check_split(split: NDArray[np.uint8]) -> None:
    """Refuse codes of no part."""
    if unknown := set(np.unique(split).tolist()) - {TRAIN, TEST, VALIDATION}:
        raise DamageError(f"split.npy holds {min(unknown)}, allowed are 0, 1 and 2")


def check_coordinates(coordinates: NDArray[np.float64]) -> None:
    """Refuse infinite angles; NaN stands for an unknown place."""
    if np.isinf(coordinates).any():
        raise DamageError("coordinates.npy holds infinite angles, allowed are finite ones and NaN")


def _shown(shape: tuple[int, ...], fortran_order: bool, dtype: np.dtype[Any]) -> str:
    order = " in Fortran order" if fortran_order else ""
    return f"{dtype} of shape {shape}{order}"[:120]
