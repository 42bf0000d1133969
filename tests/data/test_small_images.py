"""CIFAR-10 and MNIST: their binary formats, on tiny files made as the format says."""

import gzip
import io
import struct
import tarfile

import numpy as np
import pytest

from fedorbit.data import cifar10, mnist
from fedorbit.data.catalog import prepare
from fedorbit.data.stream import TEST, TRAIN
from fedorbit.errors import DataError

# --- CIFAR-10 -----------------------------------------------------------------------------------


def record(label, image):
    """One label, then the red, green and blue plane, row by row."""
    return bytes([label]) + b"".join(image[:, :, c].tobytes() for c in range(3))


@pytest.fixture
def cifar_files():
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    labels = rng.integers(0, 10, 12)
    files = {
        name: b"".join(record(labels[i], images[i]) for i in (2 * n, 2 * n + 1))
        for n, name in enumerate(cifar10.FILES)
    }
    return files | {"batches.meta.txt": b"airplane\n"}, images, labels


def write_tar_gz(path, files):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_cifar10(kind, cifar_files, tmp_path):
    files, images, labels = cifar_files
    if kind == "archive":
        path = write_tar_gz(tmp_path / "cifar-10-binary.tar.gz", files)
    else:
        path = tmp_path
        for name, content in files.items():
            (path / name).write_bytes(content)
    dataset, _ = prepare("cifar10", path)
    assert np.array_equal(dataset.images, images) and np.array_equal(dataset.labels, labels)
    assert dataset.split.tolist() == [TRAIN] * 10 + [TEST] * 2
    assert dataset.class_names[3] == "cat"
    assert dataset.description["notes"] == [f"{path.name} holds 12 images; published are 60,000"]


def test_the_pickled_edition_is_refused(tmp_path):
    path = write_tar_gz(tmp_path / "cifar-10-python.tar.gz", {"data_batch_1": b"\x80\x04"})
    with pytest.raises(DataError, match=r"is not the binary CIFAR-10 \(data_batch_1.bin, "):
        prepare("cifar10", path)


def test_half_a_record_is_refused(cifar_files, tmp_path):
    files, *_ = cifar_files
    path = write_tar_gz(
        tmp_path / "x.tgz", files | {"test_batch.bin": files["test_batch.bin"][:-1]}
    )
    with pytest.raises(
        DataError, match=r"test_batch.bin has 6,145 bytes, which are not records of"
    ):
        prepare("cifar10", path)


# --- MNIST --------------------------------------------------------------------------------------


def idx(values):
    return (
        struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape) + values.tobytes()
    )


@pytest.fixture
def digits(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 28, 28), dtype=np.uint8)
    labels = np.array([3, 1, 4, 1, 9], np.uint8)
    for split, rows in ((TRAIN, slice(0, 3)), (TEST, slice(3, 5))):
        for name, values in zip(mnist.PARTS[split], (images[rows], labels[rows]), strict=True):
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(idx(values)))
    return tmp_path, images, labels


@pytest.mark.parametrize("packed", [True, False])
def test_mnist(packed, digits):
    path, images, labels = digits
    if not packed:
        for file in list(path.iterdir()):
            file.with_suffix("").write_bytes(gzip.decompress(file.read_bytes()))
            file.unlink()
    dataset, _ = prepare("mnist", path)
    assert np.array_equal(dataset.images[..., 0], images) and np.array_equal(dataset.labels, labels)
    assert dataset.split.tolist() == [TRAIN] * 3 + [TEST] * 2
    assert dataset.class_names == tuple("0123456789")
    assert dataset.description["notes"] == ["the files hold 5 images; published are 70,000"]


def test_mnist_is_told_from_other_files(digits):
    path, images, _ = digits
    first = path / "train-images-idx3-ubyte.gz"
    for content, message in (
        (
            gzip.compress(idx(images[:3].astype(np.uint8))[:-1]),
            "it announces 2,352 bytes and holds 2,351",
        ),
        (gzip.compress(idx(images[:3].reshape(3, -1))), "begins with 00000802 instead of 00000803"),
        (
            gzip.compress(idx(images[:2])),
            r"holds \(2, 28, 28\) and train-labels-idx1-ubyte.gz \(3,\)",
        ),
        (b"not gzip", "cannot be read"),
    ):
        first.write_bytes(content)
        with pytest.raises(DataError, match=message):
            prepare("mnist", path)
    first.unlink()
    with pytest.raises(DataError, match=r"is not MNIST \(missing there: train-images-idx3-ubyte"):
        prepare("mnist", path)
