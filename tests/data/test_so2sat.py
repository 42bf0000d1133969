"""So2Sat LCZ42: urban classes of the official HDF5 files, split by file."""

import os

import h5py
import numpy as np
import pytest

from fedorbit.data import so2sat
from fedorbit.data.cache import downloads_root, prepared_names
from fedorbit.data.catalog import prepare
from fedorbit.data.stream import TEST, TRAIN, VALIDATION
from fedorbit.errors import DataError
from tests.data.source_fixtures import write_so2sat

TRAINING = [0, 16, 9, 10, 5, 3, 12, 9, 1, 0]
KEPT = [i for i, zone in enumerate(TRAINING) if zone < 10]


@pytest.fixture
def files(tmp_path):
    """The three official files; of 10, 4 and 3 samples, 7, 2 and 3 are urban."""
    folder = tmp_path / "so2sat"
    write_so2sat(folder / "training.h5", TRAINING)
    write_so2sat(folder / "validation.h5", [11, 2, 4, 16])
    write_so2sat(folder / "testing.h5", [7, 8, 6])
    return folder


@pytest.mark.parametrize("slab_bytes", [1, 1 << 25])
@pytest.mark.parametrize("path", [".", "training.h5"])
def test_urban_classes_with_the_official_split(path, slab_bytes, files, monkeypatch):
    monkeypatch.setattr(so2sat, "_SLAB_BYTES", slab_bytes)  # 1: one HDF5 chunk at a time
    dataset, written = prepare("so2sat", files / path)
    assert written and dataset.class_names == so2sat.CLASS_NAMES and len(so2sat.CLASS_NAMES) == 10
    assert dataset.images.shape == (12, 32, 32, 10) and dataset.images.dtype == np.float32
    assert dataset.labels.tolist() == [0, 9, 5, 3, 9, 1, 0, 2, 4, 7, 8, 6]
    assert dataset.split.tolist() == [TRAIN] * 7 + [VALIDATION] * 2 + [TEST] * 3
    values = np.array([i / 10 for i in KEPT] + [0.1, 0.2] + [0.0, 0.1, 0.2], np.float32)
    assert np.array_equal(
        dataset.images, np.broadcast_to(values[:, None, None, None], (12, 32, 32, 10))
    )
    assert dataset.latitude_deg is None and dataset.description["notes"] == []


def test_slabs_are_whole_hdf5_chunks(files, monkeypatch):
    monkeypatch.setattr(so2sat, "_SLAB_BYTES", 2 * 3 * 32 * 32 * 10 * 8)
    with so2sat.open_stream(files) as stream:
        sizes = [len(chunk.images) for chunk in stream.chunks]
    assert sizes == [4, 3, 2, 3]  # urban samples of 0-5, 6-9; 0-3; 0-2


def test_contiguous_float32_and_integer_labels_are_read_too(files):
    labels = np.eye(17, dtype=np.uint8)[[1, 2]]
    with h5py.File(files / "testing.h5", "w") as file:
        file["sen2"] = np.ones((2, 32, 32, 10), np.float32)
        file["label"] = labels
    dataset, _ = prepare("so2sat", files)
    assert dataset.labels[-2:].tolist() == [1, 2] and dataset.images[-1, 0, 0, 0] == 1


def test_without_testing_validation_is_the_test_split(files):
    (files / "testing.h5").unlink()
    dataset, _ = prepare("so2sat", files)
    assert dataset.split.tolist() == [TRAIN] * 7 + [TEST] * 2
    assert dataset.description["notes"] == [
        "there is no testing.h5; validation.h5 is the test split"
    ]


def test_without_validation(files):
    (files / "validation.h5").unlink()
    dataset, _ = prepare("so2sat", files)
    assert dataset.split.tolist() == [TRAIN] * 7 + [TEST] * 3


def test_downloaded_files_are_found(tmp_path):
    for name, zones in (("training.h5", [0, 1]), ("testing.h5", [1])):
        write_so2sat(downloads_root() / name, zones)
    dataset, written = prepare("so2sat", None)
    assert written and len(dataset.images) == 3
    (downloads_root() / "unrelated.zip").write_bytes(b"")
    assert not prepare("so2sat", None)[1]


@pytest.mark.parametrize("path", [".", "validation.h5", "nowhere/training.h5"])
def test_missing_files_are_named(path, tmp_path):
    write_so2sat(tmp_path / "validation.h5", [1])
    with pytest.raises(DataError, match=r"is not So2Sat LCZ42 .*training\.h5 and testing\.h5"):
        prepare("so2sat", tmp_path / path)


def not_one_hot(row):
    labels = np.eye(17)[[1, 2, 3]]
    labels[1] = row
    return labels


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ({"sen2": None}, r"testing\.h5 has no dataset 'sen2' \(it has label, sen1\)"),
        ({"label": None}, r"testing\.h5 has no dataset 'label' \(it has sen1, sen2\)"),
        ({"sen2": np.zeros((3, 32, 32, 8))}, r"testing\.h5: sen2 is \[3, 32, 32, 8\] float64"),
        ({"sen2": np.zeros(3)}, r"testing\.h5: sen2 is \[3\]"),
        ({"sen2": np.zeros((2, 32, 32, 10))}, r"testing\.h5: sen2 has 2 samples but label has 3"),
        ({"label": np.zeros((3, 10))}, r"testing\.h5: label is \[3, 10\]"),
        ({"label": not_one_hot(0)}, r"testing\.h5: label of sample 1 is not one-hot"),
        ({"label": not_one_hot(1)}, r"testing\.h5: label of sample 1 is not one-hot"),
        ({"label": not_one_hot([2, -1] + [0] * 15)}, "label of sample 1 is not one-hot"),
        ({"label": not_one_hot(np.nan)}, "label of sample 1 is not one-hot"),
    ],
)
def test_wrong_datasets_are_named(override, message, files):
    write_so2sat(files / "testing.h5", [1, 2, 3], **override)
    with pytest.raises(DataError, match=message):
        prepare("so2sat", files)
    assert prepared_names() == ()


def test_text_instead_of_numbers_is_refused(files):
    with h5py.File(files / "testing.h5", "w") as file:
        file["sen2"] = np.full((1, 32, 32, 10), b"x")
        file["label"] = np.eye(17)[:1]
    with pytest.raises(DataError, match=r"testing\.h5: sen2 is \[1, 32, 32, 10\] \|S1; numbers"):
        prepare("so2sat", files)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e300])
def test_values_that_are_not_finite_are_refused(value, files):
    patches = np.zeros((2, 32, 32, 10))
    patches[1, 5, 5, 5] = value
    write_so2sat(files / "testing.h5", [1, 2], sen2=patches)
    with pytest.raises(DataError, match=r"images 9 to 10 .*not finite \(first in image 10\)"):
        prepare("so2sat", files)


def test_truncated_file_is_named(files):
    path = files / "testing.h5"
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(DataError, match=r"testing\.h5 is not a whole HDF5 file \(.*truncated"):
        prepare("so2sat", files)


def test_damaged_patches_are_named(files, own_cache):
    """Compressed data that do not decompress: only noticed while the patches are read."""
    path = files / "testing.h5"
    with h5py.File(path, "w") as file:
        file["label"] = np.eye(17)[[1, 2]]
        sen2 = file.create_dataset(
            "sen2", (2, 32, 32, 10), chunks=(1, 32, 32, 10), compression="gzip", dtype="f8"
        )
        sen2[:] = np.random.default_rng(0).random((2, 32, 32, 10))
        where = sen2.id.get_chunk_info(1)
    content = bytearray(path.read_bytes())
    content[where.byte_offset : where.byte_offset + where.size] = bytes(where.size)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"testing\.h5: sen2 cannot be read .*get this file again"):
        prepare("so2sat", files)
    assert not list(own_cache.glob(".*.partial"))
