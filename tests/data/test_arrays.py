"""Images in .npz, .npy and HDF5: three forms, two layouts, splits, and what is refused."""

import h5py
import numpy as np
import pytest

from fedorbit.data import arrays
from fedorbit.data.catalog import PrepareOptions, prepare
from fedorbit.data.limits import Limits
from fedorbit.data.stream import TEST, TRAIN, VALIDATION
from fedorbit.errors import DataError
from tests.data.tiff_fixtures import scene

IMAGES = np.stack([scene(seed, bands=4) for seed in range(7)])
LABELS = np.array([2, 0, 1, 1, 0, 2, 2])


def write_npz(path, content):
    np.savez_compressed(path / "x.npz", **content)
    return path / "x.npz"


def write_h5(path, content):
    with h5py.File(path / "x.h5", "w") as file:
        for name, values in content.items():
            texts = [str(each) for each in values] if values.dtype.kind == "U" else values
            file.create_dataset(name, data=texts)
    return path / "x.h5"


def write_npy(path, content):
    path = path / "stacks"
    path.mkdir()
    for name, values in content.items():
        np.save(path / f"{name}.npy", values)
    return path


WRITERS = pytest.mark.parametrize("write", [write_npz, write_h5, write_npy])


def refuse(path, **options):
    with pytest.raises(DataError) as caught, arrays.open_stream(path, **options) as stream:
        list(stream.chunks)
    return str(caught.value)


@WRITERS
def test_images_and_labels(write, tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "_SLAB_BYTES", 3 * IMAGES[0].nbytes)  # several slabs
    names = np.array(["field", "forest", "lake"])
    places = {"latitude_deg": np.linspace(-90, 90, 7), "longitude_deg": np.linspace(-180, 180, 7)}
    path = write(tmp_path, {"images": IMAGES, "labels": LABELS, "class_names": names, **places})
    dataset, _ = prepare("arrays", path, name="mine")
    assert np.array_equal(dataset.images, IMAGES) and dataset.images.dtype == np.uint16
    assert np.array_equal(dataset.labels, LABELS)
    assert dataset.class_names == ("field", "forest", "lake")
    assert np.array_equal(dataset.latitude_deg, places["latitude_deg"])
    assert np.array_equal(dataset.longitude_deg, places["longitude_deg"])
    assert prepare("arrays", path, name="mine")[1] is False


@WRITERS
def test_one_array_for_each_class(write, tmp_path):
    path = write(tmp_path, {"River": IMAGES[:3], "Forest": IMAGES[3:]})
    dataset, _ = prepare("arrays", path, name="mine")
    assert dataset.class_names == ("Forest", "River")
    assert np.array_equal(dataset.images, np.concatenate([IMAGES[3:], IMAGES[:3]]))
    assert dataset.labels.tolist() == [0] * 4 + [1] * 3 and dataset.split is None


@pytest.mark.parametrize(
    "form", [("train_images", "train_labels"), ("x_train", "y_train")], ids=["MedMNIST", "Keras"]
)
@WRITERS
def test_an_official_split(form, write, tmp_path):
    content = {}
    for part, rows in (("train", slice(0, 4)), ("val", slice(4, 5)), ("test", slice(5, 7))):
        images, labels = (name.replace("train", part) for name in form)
        content |= {images: IMAGES[rows, :, :, 0], labels: LABELS[rows, None]}
    dataset, _ = prepare("arrays", write(tmp_path, content), name="mine")
    assert dataset.split.tolist() == [TRAIN] * 4 + [VALIDATION] + [TEST] * 2
    assert np.array_equal(dataset.images[..., 0], IMAGES[..., 0])
    assert np.array_equal(dataset.labels, LABELS) and dataset.class_names == ("0", "1", "2")


def test_labels_need_not_begin_at_zero(tmp_path):
    dataset, _ = prepare(
        "arrays", write_npz(tmp_path, {"images": IMAGES, "labels": LABELS * 10 + 5})
    )
    assert dataset.class_names == ("5", "15", "25") and np.array_equal(dataset.labels, LABELS)


def test_layout_bands_and_size(tmp_path):
    path = write_npz(tmp_path, {"images": np.moveaxis(IMAGES, 3, 1), "labels": LABELS})
    options = PrepareOptions(sensor="planetscope-4", bands="nir,red")
    dataset, _ = prepare("arrays", path, name="mine", options=options)
    assert np.array_equal(dataset.images, IMAGES[..., [3, 2]])
    assert dataset.description["bands"] == ["nir", "red"]
    smaller, _ = prepare("arrays", path, name="small", options=PrepareOptions(size=4, layout="chw"))
    assert smaller.images.shape == (7, 4, 4, 4) and smaller.images.dtype == np.uint16


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"images": IMAGES}, "has no array 'labels' (it has images); add it"),
        ({"images": IMAGES, "labels": LABELS[:3]}, "one integer for each of the 7 images"),
        ({"images": IMAGES, "labels": LABELS / 2}, "float64; one integer for each"),
        ({"images": IMAGES[0, 0, 0], "labels": LABELS[:4]}, "has shape (4,); images are [n, height"),
        ({"A": IMAGES}, "needed are `images` and `labels`"),
        ({"A": IMAGES, "B": IMAGES[:, :4]}, "make them alike"),
        ({"images": IMAGES, "labels": LABELS, "class_names": np.array(["a"])}, "names 1 classes, but labels are 0 to 2"),
        ({"images": IMAGES, "labels": LABELS, "latitude_deg": np.zeros(7)}, "no array 'longitude_deg'"),
        ({"images": IMAGES.astype(np.int64), "labels": LABELS}, "holds int64 values; allowed are"),
        ({"images": np.float32(3), "labels": LABELS}, "is a single value"),
    ],
)  # fmt: skip
def test_what_is_refused(content, message, tmp_path):
    assert message in refuse(write_npz(tmp_path, content))


def test_objects_are_never_read(tmp_path):
    np.savez(tmp_path / "x.npz", images=np.array([{}]), labels=LABELS)
    assert "holds Python objects, which are never read" in refuse(tmp_path / "x.npz")


@WRITERS
def test_limits(write, tmp_path):
    path = write(tmp_path, {"images": IMAGES, "labels": LABELS})
    assert "allowed are 100; " in refuse(path, limits=Limits(image_bytes=100))
    assert "allowed are 1,000; " in refuse(path, limits=Limits(total_bytes=1000))
    assert "holds more than 6 samples" in refuse(path, limits=Limits(files=6))


def test_links_to_other_files_are_refused(tmp_path):
    path = write_h5(tmp_path, {"labels": LABELS})
    with h5py.File(path, "a") as file:
        file["images"] = h5py.ExternalLink("other.h5", "images")
    assert "images is a link, or is kept in other files" in refuse(path)


def test_a_file_cut_short(tmp_path):
    path = write_npy(tmp_path, {"images": IMAGES, "labels": LABELS})
    content = (path / "images.npy").read_bytes()
    for changed in (content[:-1], content + b"x"):
        (path / "images.npy").write_bytes(changed)
        assert "images.npy cannot be read (EOFError" in refuse(path)


def test_damage_anywhere_in_an_hdf5_file_is_named(tmp_path):
    path = tmp_path / "x.h5"
    with h5py.File(path, "w", track_order=True) as file:
        file["images"], file["labels"] = np.zeros((4, 4, 4), np.uint8), np.arange(4) % 2
    whole, refused = path.read_bytes(), 0
    for place in range(0, len(whole), 7):
        damaged = bytearray(whole)
        damaged[place] ^= 16
        path.write_bytes(damaged)
        try:
            with arrays.open_stream(path) as stream:
                list(stream.chunks)
        except DataError as error:
            assert str(path) in str(error)
            refused += 1
    assert refused
