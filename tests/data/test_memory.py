"""Images in memory: the same values, read once, and only those that are used."""

import mmap
from pathlib import Path

import numpy as np
import pytest

from fedorbit.data.catalog import synthetic_dataset
from fedorbit.data.memory import in_memory
from fedorbit.data.synthetic import SyntheticSpec
from fedorbit.errors import DataError


def resident_pages(array):
    """Return the number of pages of an anonymous map in memory, by the kernel's count."""
    begin = array.ctypes.data
    maps = Path("/proc/self/smaps")
    if not maps.exists():
        pytest.skip("this system does not count the pages of a map in /proc/self/smaps")
    inside = False
    for line in maps.read_text(encoding="ascii").splitlines():
        if "-" in line.split(" ")[0]:
            first, last = (int(part, 16) for part in line.split(" ")[0].split("-"))
            inside = first <= begin < last
        elif inside and line.startswith("Rss:"):
            return int(line.split()[1]) * 1024 // mmap.PAGESIZE
    raise AssertionError("the array lies in no map")


@pytest.fixture(scope="module")
def mapped(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FEDORBIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield synthetic_dataset(SyntheticSpec(samples=400, size=64)).images


def test_all_images(mapped):
    copy = in_memory(mapped, np.random.default_rng(0).permutation(400))
    assert type(copy) is np.ndarray and copy.flags.c_contiguous and copy.flags.writeable
    assert np.array_equal(copy, mapped)


def test_some_images_take_their_own_memory_only(mapped):
    used = np.array([399, 7, 8, 8, 150, 0])
    copy = in_memory(mapped, used)
    assert resident_pages(copy) <= 4 * 5  # 12 KiB each, in four pages at most
    assert copy.shape == mapped.shape and np.array_equal(copy[used], mapped[used])
    assert not copy[9:150].any()


def test_no_image_is_used(mapped):
    assert not in_memory(mapped, np.empty(0, np.int64)).any()


def test_arrays_that_are_not_mapped_are_copied():
    images = np.ones((2, 4, 4, 1), np.uint16)
    copy = in_memory(images, np.array([0]))
    assert np.array_equal(copy, images) and not np.shares_memory(copy, images)


def test_a_file_that_was_cut_short(tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 4, 4, 1), np.uint8))
    images = np.load(tmp_path / "x.npy", mmap_mode="r")
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:-20])
    with pytest.raises(DataError, match="was cut short; prepare it again"):
        in_memory(images, np.arange(3))
