"""Single images are read as a prepared dataset would hold them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedorbit.data.folder import open_stream
from fedorbit.data.loose import StoredAs, batches, count_images, image_files, read_images
from fedorbit.errors import DataError
from fedorbit.randomness import generator

RGB = StoredAs((12, 12, 3), "uint8")
BANDS = StoredAs((4, 5, 10), "float32")


def picture(path: Path, width: int = 20, height: int = 20, mode: str = "RGB") -> Path:
    pixels = generator(0, "picture", width).integers(0, 256, (height, width, 3), dtype=np.uint8)
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).convert(mode).save(path)
    return path


def test_pictures_are_decoded_and_resized_as_for_training(tmp_path: Path) -> None:
    files = [picture(tmp_path / kind / "x.png", 20 + n) for n, kind in enumerate(("forest", "sea"))]
    with open_stream(tmp_path, size=12) as stream:
        stored = np.concatenate([chunk.images for chunk in stream.chunks])
    assert (np.concatenate([read_images(file, RGB) for file in files]) == stored).all()
    assert image_files([tmp_path]) == files
    [(names, images)] = batches(files, RGB, 10)
    assert names == [str(file) for file in files]
    assert (images == stored).all()


def test_arrays_hold_one_image_or_many(tmp_path: Path) -> None:
    many = generator(0, "bands").standard_normal((7, 4, 5, 10), dtype=np.float32)
    np.save(tmp_path / "many.npy", many)
    np.save(tmp_path / "one.npy", many[0])
    found = list(batches(image_files([tmp_path]), BANDS, 3))
    assert [len(names) for names, _ in found] == [3, 3, 2]
    assert found[0][0][1] == f"{tmp_path / 'many.npy'}[1]"
    assert (np.concatenate([images for _, images in found]) == [*many, many[0]]).all()


def test_what_does_not_fit_the_model_is_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "wrong.npy", np.zeros((4, 5, 3), np.float32))
    np.save(tmp_path / "objects.npy", np.array([None]), allow_pickle=True)
    grey = picture(tmp_path / "grey.png", mode="L")
    cases = (
        (
            tmp_path / "wrong.npy",
            BANDS,
            r"float32 of shape \(1, 4, 5, 3\); the model takes 4 x 5 pixels",
        ),
        (tmp_path / "objects.npy", BANDS, "cannot be read .*Python objects"),
        (tmp_path / "none.png", RGB, "none.png cannot be read"),
        (grey, RGB, r"grey.png has 1 channel\(s\), but the model takes 12 x 12 pixels with 3"),
        (grey, BANDS, "but the model takes 4 x 5 .* or give such an array as .npy"),
        (grey, StoredAs((8, 9, 1), "uint8"), "is 20x20 pixels, but the model takes 8 x 9"),
    )
    for file, stored, sentence in cases:
        with pytest.raises(DataError, match=sentence):
            read_images(file, stored)
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="empty holds no image; known are"):
        image_files([tmp_path / "empty"])


def test_bands_are_those_that_were_prepared(tmp_path: Path) -> None:
    files = [picture(tmp_path / kind / "x.png", 20 + n) for n, kind in enumerate(("forest", "sea"))]
    with open_stream(tmp_path, size=12, bands="3,1") as stream:
        stored = np.concatenate([chunk.images for chunk in stream.chunks])
        kept = StoredAs(stream.image_shape, "uint8", stream.file_bands, stream.kept_bands)
    assert kept == StoredAs((12, 12, 2), "uint8", 3, (3, 1))
    assert (np.concatenate([read_images(file, kept) for file in files]) == stored).all()
    with pytest.raises(DataError, match=r"1 channel\(s\), but .*: bands 3,1 of a file with 3;"):
        read_images(picture(tmp_path / "grey.png", mode="L"), kept)


def test_folders_are_read_in_natural_order_without_hidden_files(tmp_path: Path) -> None:
    files = [picture(tmp_path / name) for name in ("x_2.png", "x_10.png")]
    (tmp_path / "._x_2.png").write_bytes(b"left by a file manager")
    (tmp_path / "__MACOSX").mkdir()
    (tmp_path / "__MACOSX" / "x_2.png").write_bytes(b"")
    assert image_files([tmp_path]) == files


def test_images_are_counted_before_they_are_read(tmp_path: Path) -> None:
    np.save(tmp_path / "many.npy", np.zeros((7, 12, 12, 3), np.uint8))
    np.save(tmp_path / "one.npy", np.zeros((12, 12, 3), np.uint8))
    picture(tmp_path / "x.png")
    assert count_images(image_files([tmp_path]), RGB) == 9


def test_values_that_are_not_finite_are_refused(tmp_path: Path) -> None:
    images = np.zeros((5, 4, 5, 10), np.float32)
    images[4, 0, 0, 0] = np.nan
    np.save(tmp_path / "gaps.npy", images)
    read = batches([tmp_path / "gaps.npy"], BANDS, 4)
    assert len(next(read)[0]) == 4
    with pytest.raises(DataError, match=r"gaps.npy holds values that are not finite; replace"):
        next(read)
