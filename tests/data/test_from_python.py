"""`fedorbit.prepare`: datasets of Python, as PyTorch, torchvision and torchgeo make them."""

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, Subset, TensorDataset

import fedorbit as fo
from fedorbit.data import catalog
from fedorbit.data.stream import TEST, TRAIN
from fedorbit.errors import DataError
from tests.data.tiff_fixtures import scene

COLOURS = np.stack([scene(seed, bands=3, dtype=np.uint8) for seed in range(6)])
BANDS = np.stack([scene(seed, bands=13) for seed in range(6)])
LABELS = [0, 1, 1, 0, 1, 0]


class Listed(Dataset):
    """Images and labels as given; `make` turns pixels into what a dataset of this kind yields."""

    classes = ("field", "lake")

    def __init__(self, make, images=COLOURS, labels=LABELS):
        self.samples = [make(image, label) for image, label in zip(images, labels, strict=True)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]


KINDS = {
    "torchvision, PIL": lambda image, label: (Image.fromarray(image), label),
    "tensor, channels first": lambda image, label: (
        torch.from_numpy(image).permute(2, 0, 1),
        label,
    ),
    "array, channels last": lambda image, label: (image, np.int32(label)),
    "torchgeo": lambda image, label: {
        "image": torch.from_numpy(image).permute(2, 0, 1),
        "label": torch.tensor(label),
    },
    "list, label of one value": lambda image, label: [image, np.array([label])],
}


@pytest.mark.parametrize("kind", KINDS)
def test_kinds_of_samples(kind):
    dataset = fo.prepare("mine", Listed(KINDS[kind]))
    assert np.array_equal(dataset.images, COLOURS) and dataset.labels.tolist() == LABELS
    assert dataset.class_names == ("field", "lake") and dataset.split is None
    assert dataset.description["title"] == "Listed"


def test_types_are_kept():
    made = fo.prepare("bands", Listed(lambda image, label: (image, label), BANDS))
    assert made.images.dtype == np.uint16 and np.array_equal(made.images, BANDS)
    floats = torch.from_numpy(COLOURS).permute(0, 3, 1, 2).float() / 255
    tensors = TensorDataset(floats, torch.tensor(LABELS))
    made = fo.prepare("floats", tensors, class_names=["field", "lake"])
    assert made.images.dtype == np.float32
    assert np.array_equal(made.images, COLOURS.astype(np.float32) / 255)


def test_a_test_split_places_and_size():
    train, test = Listed(KINDS["array, channels last"]), Listed(KINDS["torchvision, PIL"])
    angles = np.linspace(-10, 10, 12)
    made = fo.prepare(
        "mine", train, test=test, size=4, latitude_deg=angles, longitude_deg=2 * angles
    )
    assert made.split.tolist() == [TRAIN] * 6 + [TEST] * 6 and made.images.shape == (12, 4, 4, 3)
    assert np.array_equal(made.images[:6], made.images[6:])
    assert np.array_equal(made.latitude_deg, angles) and np.array_equal(
        made.longitude_deg, 2 * angles
    )


def test_a_subset_has_the_classes_of_the_whole():
    made = fo.prepare("mine", Subset(Listed(KINDS["torchvision, PIL"]), [1, 3]))
    assert np.array_equal(made.images, COLOURS[[1, 3]]) and made.class_names == ("field", "lake")


def test_a_second_call_opens_and_other_samples_need_force():
    first = fo.prepare("mine", Listed(KINDS["array, channels last"]))
    again = fo.prepare("mine", Listed(KINDS["array, channels last"]))
    assert again.description == first.description
    other = Listed(KINDS["array, channels last"], COLOURS[::-1])
    with pytest.raises(DataError, match="'mine' is already prepared from something else"):
        fo.prepare("mine", other)
    assert np.array_equal(fo.prepare("mine", other, force=True).images, COLOURS[::-1])


def test_a_run_uses_it(tmp_path):
    images = np.concatenate([COLOURS] * 10).repeat(4, axis=1).repeat(4, axis=2)
    fo.prepare("mine", Listed(KINDS["array, channels last"], images, LABELS * 10))
    changes = ["data.name=mine", "run.rounds=1", "run.method=['fedavg']", "schedule.rounds=20"]
    result = fo.run(fo.load_config("quickstart", changes), out=tmp_path / "run")
    assert [row["method"] for row in result.table()] == ["fedavg"]


@pytest.mark.parametrize(
    ("samples", "options", "message"),
    [
        (Listed(lambda image, label: image), {}, "sample 0 of mine is ndarray; a pair"),
        (Listed(lambda image, label: {"x": image}), {}, "sample 0 of mine is x; a pair"),
        (Listed(lambda image, label: (image, label + 0.5)), {}, "an integer, is needed"),
        (Listed(lambda image, label: (image[0, 0], label)), {}, "has an image of shape (3,)"),
        (Listed(lambda image, label: (Image.fromarray(image).convert("CMYK"), label)), {}, "of mode CMYK"),
        (Listed(lambda image, label: (image.astype(np.int64), label)), {}, "holds int64 values"),
        (Listed(lambda image, label: (image[: 4 + label], label)), {}, "sample 1 of mine is (5, 8, 3) uint8, but the first one is (4, 8, 3)"),
        (Listed(KINDS["torchvision, PIL"]), {"class_names": ["field"]}, "labels from 0 to 1; allowed are 0 to 0"),
        (Listed(KINDS["torchvision, PIL"]), {"latitude_deg": [1.0]}, "must be 6 angles each"),
        (TensorDataset(torch.zeros(2, 3, 4, 4), torch.zeros(2).long()), {}, "has no attribute `classes`; give class_names"),
        ([], {}, "has no samples"),
    ],
)  # fmt: skip
def test_what_is_refused(samples, options, message, own_cache):
    with pytest.raises(DataError) as caught:
        fo.prepare("mine", samples, **options)
    assert message in str(caught.value)
    assert not (own_cache / "mine").exists()


def test_names_of_sources_are_kept_for_them():
    with pytest.raises(DataError, match="'eurosat' is kept for images of the source eurosat"):
        fo.prepare("eurosat", Listed(KINDS["torchvision, PIL"]))


def test_large_images_are_prepared_with_a_warning_unless_a_size_is_given(monkeypatch):
    monkeypatch.setattr(catalog, "LARGE_BYTES", 100_000)
    images = np.zeros((4, 128, 96, 3), np.uint8)
    large = Listed(lambda image, label: (image, label), images, LABELS[:4])
    with pytest.warns(UserWarning, match="4 images of 128 x 96 x 3 take .* with size=64 large"):
        fo.prepare("large", large)
    fo.prepare("small", large, size=96)


def test_a_dataset_is_shown_in_one_line():
    made = fo.prepare("mine", Listed(KINDS["torchgeo"]))
    shown = f"<Dataset mine: 6 images of 8 x 8 x 3 (uint8) in 2 classes, in {made.folder}>"
    assert repr(made) == shown
