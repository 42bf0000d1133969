"""The cache on real files, with real processes that are killed, limited or in each other's way."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fedorbit.data import cache, catalog
from fedorbit.data.cache import (
    CACHE_VERSION,
    dataset_lock,
    is_prepared,
    open_dataset,
    prepared_names,
    verify_dataset,
    write_dataset,
)
from fedorbit.data.stream import Chunk
from fedorbit.errors import DataError
from tests.data.source_fixtures import Recorder, class_files, small_stream, write_folder
from tests.patience import PATIENCE_S

REPOSITORY = Path(__file__).parents[2]


def write(name="small", stream=None, **kwargs):
    return write_dataset(
        name, stream or small_stream(), source="test", options={"size": 4}, progress=None, **kwargs
    )


def left_over(cache_folder):
    """Return unfinished and replaced folders in the cache."""
    return [
        path.name for path in cache_folder.iterdir() if path.name.endswith((".partial", ".old"))
    ]


def run_python(code, *arguments, **kwargs):
    code = f"import sys; sys.path.insert(0, {str(REPOSITORY)!r})\n" + textwrap.dedent(code)
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **kwargs,
    )


# --- What is written is what is read ------------------------------------------------------------


def test_round_trip(own_cache):
    dataset = write()
    assert dataset.images.shape == (10, 4, 4, 1)
    assert isinstance(dataset.images, np.memmap) and not dataset.images.flags.writeable
    assert dataset.images[:, 0, 0, 0].tolist() == list(range(10))
    assert dataset.labels.dtype == np.int64 and dataset.labels.tolist() == [0, 1] * 5
    assert dataset.class_names == ("even", "odd")
    assert dataset.latitude_deg.tolist() == [i / 2 for i in range(10)]
    assert dataset.longitude_deg.tolist() == [-i / 2 for i in range(10)]
    assert dataset.split.dtype == np.uint8 and dataset.split.tolist() == [0, 1, 2] * 3 + [0]
    assert dataset.folder == own_cache / "small"
    verify_dataset(dataset)


def test_description_tells_what_and_whence():
    description = json.loads((write().folder / "dataset.json").read_text())
    files = description.pop("files")
    assert set(files) == {"images.npy", "labels.npy", "coordinates.npy", "split.npy"}
    assert all(len(entry["sha256"]) == 64 for entry in files.values())
    assert description == {
        "format_version": CACHE_VERSION,
        "name": "small",
        "source": "test",
        "samples": 10,
        "shape": [4, 4, 1],
        "dtype": "uint8",
        "class_names": ["even", "odd"],
        "origin": {"made": "by hand"},
        "notes": ["a note"],
        "options": {"size": 4},
        "title": "",
        "bands": [],
        "file_bands": 0,
        "kept_bands": [],
        "fedorbit_version": cache.__version__,
    }


def test_float_images_without_extras():
    images = np.linspace(0, 1, 2 * 48, dtype=np.float32).reshape(2, 4, 4, 3)
    stream = small_stream(
        2,
        image_shape=(4, 4, 3),
        dtype=np.dtype(np.float32),
        # Also not C-contiguous and not of the announced label type: the file is both.
        chunks=iter([Chunk(np.asfortranarray(images), np.array([1, 0], np.int32))]),
    )
    dataset = write(stream=stream)
    assert np.array_equal(dataset.images, images) and dataset.images.flags.c_contiguous
    assert dataset.labels.tolist() == [1, 0] and dataset.labels.dtype == np.int64
    assert dataset.latitude_deg is dataset.longitude_deg is dataset.split is None


def test_progress_counts_images_then_bytes():
    recorder = Recorder()
    dataset = write_dataset("small", small_stream(), source="t", options={}, progress=recorder)
    assert recorder.events == [("preparing small", 10, "images"), 4, 4, 2, "finish"]
    verify = Recorder()
    verify_dataset(dataset, verify)
    (_, total_bytes, unit), *counts, end = verify.events
    assert unit == "bytes" and sum(counts) == total_bytes and end == "finish"


def test_root_is_chosen_by_environment_or_argument(own_cache, tmp_path, monkeypatch):
    assert cache.cache_root() == own_cache and cache.downloads_root() == own_cache / "downloads"
    write("elsewhere", root=tmp_path / "other")
    assert prepared_names(tmp_path / "other") == ("elsewhere",) and prepared_names() == ()
    monkeypatch.delenv("FEDORBIT_CACHE")
    assert cache.cache_root().name == "fedorbit"


def test_prepared_names_are_sorted_and_ignore_other_folders(own_cache):
    write("zebra")
    write("ape-1.0")
    (own_cache / "downloads").mkdir()
    (own_cache / ".ape.12345678.partial").mkdir()
    assert prepared_names() == ("ape-1.0", "zebra")
    assert is_prepared("zebra") and not is_prepared("lion")


@pytest.mark.parametrize("name", ["", "Big", "../up", "a/b", ".hidden", "-x", "downloads", "a b"])
def test_impossible_names_are_refused(name):
    with pytest.raises(DataError, match=r"cannot name a dataset.*choose another name$"):
        write(name)


# --- Reading what is not as it should be --------------------------------------------------------


def test_not_prepared_names_both_remedies():
    write("other")
    with pytest.raises(DataError) as caught:
        catalog.open_dataset("eurosat")
    for part in (
        "'eurosat' is not prepared",
        "`fedorbit data fetch eurosat && fedorbit data prepare eurosat`",
        "`fedorbit data prepare eurosat --source PATH`",
        "prepared so far: other",
    ):
        assert part in str(caught.value)


def test_not_prepared_and_no_source_suggests_what_can_be_done():
    write("mine-32")
    with pytest.raises(DataError) as caught:
        catalog.open_dataset("mine-23")
    message = str(caught.value)
    assert "fetch" not in message
    assert "did you mean 'mine-32'?" in message
    assert "`fedorbit data prepare folder --source PATH --name mine-23`" in message
    with pytest.raises(DataError, match=r"'mine-23' is not prepared.*prepared so far: mine-32"):
        open_dataset("mine-23")


def test_a_path_that_is_not_utf8_survives_in_the_description(own_cache):
    stream = replace(small_stream(), origin={"folder": "a\udcff"})
    assert write(stream=stream).description["origin"] == {"folder": "a\udcff"}


def test_missing_and_cut_files_are_named():
    dataset = write()
    images = dataset.folder / "images.npy"
    images.write_bytes(images.read_bytes()[:-1])
    with pytest.raises(DataError, match=r"images\.npy has 287 bytes instead of 288; .*--force"):
        open_dataset("small")
    images.unlink()
    with pytest.raises(DataError, match=r"images\.npy is missing; .*--force"):
        open_dataset("small")


@pytest.mark.parametrize(("version", "age"), [(CACHE_VERSION + 1, "newer"), (0, "older")])
def test_other_format_versions_are_refused(version, age):
    path = write().folder / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format_version": version}))
    with pytest.raises(DataError, match=f"{age} fedorbit.*format {version}.*--force"):
        open_dataset("small")


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"format_version": 1, "files": {}}', "\ufffd"])
def test_broken_description_is_damage(text):
    path = write().folder / "dataset.json"
    path.write_text(text)
    with pytest.raises(DataError, match=r"small is damaged .*--force"):
        open_dataset("small")


def test_description_of_other_images_is_damage():
    path = write().folder / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"samples": 11}))
    with pytest.raises(
        DataError, match=r"small is damaged .*images\.npy is uint8 of shape \(10, 4, 4, 1\)"
    ):
        open_dataset("small")


def test_pickled_arrays_are_never_loaded():
    dataset = write()
    path = dataset.folder / "labels.npy"
    with path.open("wb") as file:
        np.lib.format.write_array(file, np.array([{}] * 10, object), (2, 0), allow_pickle=True)
    description = dataset.description
    description["files"]["labels.npy"]["size_bytes"] = path.stat().st_size
    (dataset.folder / "dataset.json").write_text(json.dumps(description))
    with pytest.raises(
        DataError, match=r"labels\.npy is object of shape \(10,\), the description says int64"
    ):
        open_dataset("small")


def test_verify_finds_a_changed_byte():
    dataset = write()
    path = dataset.folder / "images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"images\.npy has changed.*SHA-256.*--force"):
        verify_dataset(open_dataset("small"))


def described(dataset, **changes):
    """Write a dataset's description anew, with changes."""
    text = json.dumps(dataset.description | changes)
    (dataset.folder / "dataset.json").write_text(text)


@pytest.mark.parametrize(
    "content",
    [b"[]", b"null", b"5", b'"text"', b"NaN", b"\xff\xfe", b"\0", b"", b"[" * 1500 + b"]" * 1500,
     b'{"format_version": ' + b"9" * 5000 + b"}", b'{"format_version": true}',
     b'{"format_version": "1"}', b'{"format_version": 1}'],
)  # fmt: skip
def test_a_description_of_another_form_is_damage(content):
    path = write().folder / "dataset.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"small is damaged \(dataset\.json: .*--force$") as caught:
        open_dataset("small")
    assert "\n" not in str(caught.value)


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"samples": "10"}, "samples: .*integer, got '10'"),
        ({"samples": 0}, "samples: .*greater than or equal to 1, got 0"),
        ({"samples": 10.5}, "samples: .*integer, got 10.5"),
        ({"shape": [4, 4]}, "shape: .*at least 3 items"),
        ({"shape": [4, 4, True]}, r"shape\.2: .*integer, got True"),
        ({"dtype": "object"}, "dtype: .*'uint8', 'uint16' or 'float32', got 'object'"),
        ({"bands": ["red", "nir"]}, "bands: .*2 of them for 1 channels"),
        ({"kept_bands": [1, 2]}, "kept_bands: .*2 of them for 1 channels"),
        ({"class_names": "even"}, "class_names: .*list, got 'even'"),
        ({"class_names": [1, 2]}, r"class_names\.0: .*instance of str, got 1"),
        ({"class_names": []}, "class_names: .*at least 1 item"),
        ({"notes": None}, "notes: .*list, got None"),
        ({"origin": []}, "origin: .*dictionary, got list"),
        ({"options": {"size": nested(400)}}, "it is nested more than 40 levels"),
        ({"files": {}}, r"files: .*images\.npy is missing"),
        ({"files": {"../x": {"sha256": "", "size_bytes": 1}}}, r"files\.\.\./x.*'images\.npy'"),
        ({"files": {"images.npy": None}}, r"files\.images\.npy: .*got None"),
        ({"files": {"images.npy": {"sha256": "", "size_bytes": -1}}}, r"files.*size_bytes: .*got -1"),
    ],
)  # fmt: skip
def test_a_wrong_field_of_the_description_is_named(changes, reason):
    described(write(), **changes)
    with pytest.raises(DataError, match=rf"small is damaged \(dataset\.json: {reason}") as caught:
        open_dataset("small")
    assert "\n" not in str(caught.value)


def test_a_description_that_is_a_fifo_is_not_waited_for():
    path = write().folder / "dataset.json"
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(DataError, match="'small' is not prepared"):
        open_dataset("small")


def test_any_flipped_bit_of_a_header_is_damage_or_harmless():
    dataset = write()
    path = dataset.folder / "labels.npy"
    whole = path.read_bytes()
    header = len(whole) - 10 * 8
    refused = 0
    for bit in range(8 * header):
        content = bytearray(whole)
        content[bit // 8] ^= 1 << bit % 8
        path.write_bytes(content)
        try:
            opened = open_dataset("small")
        except DataError as error:
            assert "small is damaged (labels.npy" in str(error) and "\n" not in str(error)
            refused += 1
        else:  # a blank that became another one
            assert opened.labels.tolist() == dataset.labels.tolist()
    assert refused > 6 * header


@pytest.mark.parametrize(
    "header",
    ["(" * 400, "-" * 900 + "1", "{'descr': '<i8', 'fortran_order': True, 'shape': (10,)}",
     "{'descr': '<i8', 'fortran_order': False, 'shape': (10, 1)}",
     "{'descr': '<i8', 'fortran_order': False, 'shape': (1" + "0" * 500 + ",)}",
     "{'descr': '|O', 'fortran_order': False, 'shape': (10,)}", "'unclosed", "\0", "é", "lambda: 0"],
)  # fmt: skip
def test_headers_that_break_the_parser_are_damage(header):
    dataset = write()
    path = dataset.folder / "labels.npy"
    encoded = header.encode("latin1")
    size = len(encoded).to_bytes(4, "little")
    path.write_bytes(b"\x93NUMPY\x02\x00" + size + encoded + bytes(80))
    files = dataset.description["files"]
    files["labels.npy"]["size_bytes"] = path.stat().st_size
    described(dataset, files=files)
    with pytest.raises(DataError, match=r"small is damaged \(labels\.npy") as caught:
        open_dataset("small")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("stem", "value", "reason"),
    [
        ("labels", -1, r"labels\.npy holds -1 to 1, allowed are 0 to 1"),
        ("labels", 2, r"labels\.npy holds 0 to 2, allowed are 0 to 1"),
        ("split", 3, r"split\.npy holds 3, allowed are 0, 1 and 2"),
        ("coordinates", np.inf, r"coordinates\.npy holds infinite angles"),
    ],
)
def test_values_that_no_dataset_has_are_damage(stem, value, reason):
    path = write().folder / f"{stem}.npy"
    array = np.load(path, mmap_mode="r+")
    array[3] = value
    array.flush()
    with pytest.raises(DataError, match=f"small is damaged .{reason}"):
        open_dataset("small")


def test_unknown_places_are_no_damage():
    path = write().folder / "coordinates.npy"
    array = np.load(path, mmap_mode="r+")
    array[3] = np.nan
    array.flush()
    assert np.isnan(open_dataset("small").latitude_deg[3])


# --- Streams that break their word --------------------------------------------------------------


def broken(**changes):
    """A stream of two chunks of which the second is changed."""
    first, second = list(small_stream(8).chunks)
    return small_stream(8, chunks=iter([first, replace(second, **changes)]))


def float_stream_with_nan():
    images = np.zeros((8, 4, 4, 1), np.float32)
    images[6, 1, 1, 0] = np.nan
    chunks = (Chunk(images[i : i + 4], np.zeros(4, np.int64)) for i in (0, 4))
    return small_stream(8, dtype=np.dtype(np.float32), chunks=chunks)


BROKEN = {
    "too few": (lambda: replace(small_stream(10), samples=12), "came for 10 of the 12 images"),
    "none": (lambda: small_stream(3, chunks=iter([])), "came for 0 of the 3 images"),
    "empty": (lambda: small_stream(0), "has no image for dataset small"),
    "too many": (lambda: replace(small_stream(10), samples=9), "images 8 to 9 go beyond the 9"),
    "label": (
        lambda: broken(labels=np.array([0, 1, 2, 0])),
        "images 4 to 7 have labels from 0 to 2",
    ),
    "negative": (lambda: broken(labels=np.array([0, -1, 1, 0])), "labels from -1 to 1"),
    "shape": (
        lambda: broken(images=np.zeros((4, 4, 5, 1), np.uint8)),
        r"images 4 to 7 are \(4, 5, 1\)",
    ),
    "dtype": (lambda: broken(images=np.zeros((4, 4, 4, 1))), "images 4 to 7 are .* float64"),
    "labels": (lambda: broken(labels=np.array([0])), "images 4 to 7 do not come with one label"),
    "places": (
        lambda: broken(latitude_deg=None, longitude_deg=None),
        "coordinates of small came for 4 of the 8 images",
    ),
    "not finite": (float_stream_with_nan, r"images 4 to 7 .*not finite \(first in image 6\)"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_streams_leave_nothing(case, own_cache):
    make, message = BROKEN[case]
    with pytest.raises(DataError, match=message):
        write(stream=make())
    assert prepared_names() == () and (not own_cache.exists() or left_over(own_cache) == [])


def interrupted_stream():
    def chunks():
        yield next(small_stream().chunks)
        raise KeyboardInterrupt

    return small_stream(chunks=chunks())


def test_interrupt_leaves_nothing_and_spares_the_old_dataset(own_cache):
    with pytest.raises(KeyboardInterrupt):
        write(stream=interrupted_stream())
    assert prepared_names() == () and left_over(own_cache) == []
    write()
    with pytest.raises(KeyboardInterrupt):
        write(stream=interrupted_stream())
    verify_dataset(open_dataset("small"))
    assert left_over(own_cache) == []


def test_replacing_is_complete_and_old_readers_keep_their_images(own_cache):
    old = write()
    new = write(stream=small_stream(6))
    assert len(new.images) == 6 and len(open_dataset("small").labels) == 6
    assert old.images[9, 0, 0, 0] == 9
    assert left_over(own_cache) == []


# --- Full disks, killed processes, two at once --------------------------------------------------


def test_space_is_checked_before_writing(own_cache):
    stream = small_stream(10**15, chunks=iter([]))
    with pytest.raises(
        DataError, match=r"small needs 41,000,000,000,065,536 bytes but only [\d,]+ are"
    ):
        write(stream=stream)
    assert left_over(own_cache) == []


def test_full_disk_names_the_file_and_its_size(own_cache):
    process = run_python(
        """
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # the write fails with EFBIG instead
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        from tests.data.source_fixtures import small_stream
        from fedorbit.data.cache import write_dataset
        from fedorbit.errors import DataError
        try:
            write_dataset("small", small_stream(10_000), source="t", options={}, progress=None)
        except DataError as error:
            print(error)
        """
    )
    output, errors = process.communicate(timeout=PATIENCE_S)
    assert (
        f"{own_cache}/small/images.npy cannot be written (it needs 160,128 bytes): File too large"
        in output
    )
    assert "free some space" in output and errors == ""
    assert prepared_names() == () and left_over(own_cache) == []


SLOW_WRITER = """
    import time
    from tests.data.source_fixtures import small_stream
    from fedorbit.data.cache import write_dataset

    def slowly():
        for chunk in small_stream().chunks:
            yield chunk
            print("wrote", flush=True)
            time.sleep(60)

    write_dataset("small", small_stream(chunks=slowly()), source="t", options={}, progress=None)
"""


def test_killed_writer_is_cleaned_up_after(own_cache):
    process = run_python(SLOW_WRITER)
    assert process.stdout.readline() == "wrote\n"
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=PATIENCE_S)
    assert len(left_over(own_cache)) == 1 and prepared_names() == ()
    (own_cache / ".small.x.0badcafe.partial").mkdir()  # of the dataset "small.x": not ours
    write()
    assert left_over(own_cache) == [".small.x.0badcafe.partial"]
    verify_dataset(open_dataset("small"))


def test_killed_between_the_renames_brings_the_old_dataset_back(own_cache):
    write()
    (own_cache / "small").rename(own_cache / ".small.0badcafe.old")
    with pytest.raises(DataError, match="go beyond"):
        write(stream=replace(small_stream(10), samples=9))
    verify_dataset(open_dataset("small"))
    assert left_over(own_cache) == []


def test_failure_between_the_renames_brings_the_old_dataset_back(own_cache):
    write()
    with pytest.raises(FileNotFoundError):
        cache._move_into_place(own_cache / "not there", own_cache / "small")
    verify_dataset(open_dataset("small"))
    assert left_over(own_cache) == []


def test_second_writer_waits_and_says_so(own_cache):
    process = run_python(
        """
        from fedorbit.data.cache import dataset_lock
        with dataset_lock("small"):
            print("held", flush=True)
            sys.stdin.readline()
        """,
        stdin=subprocess.PIPE,
    )
    assert process.stdout.readline() == "held\n"

    class LetGo(Recorder):
        def start(self, label, total, unit):
            super().start(label, total, unit)
            if label.startswith("waiting"):
                process.stdin.write("\n")
                process.stdin.flush()

    progress = LetGo()
    with dataset_lock("small", progress=progress), dataset_lock("small"):
        assert progress.events[0][0] == "waiting for another process that prepares small"
    process.communicate(timeout=PATIENCE_S)


def test_a_lock_that_is_a_link_is_not_followed(own_cache, tmp_path):
    (tmp_path / "precious").write_text("kept")
    own_cache.mkdir(exist_ok=True)
    (own_cache / ".small.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(DataError, match=r"\.small\.lock cannot be written: .*symbolic link"):
        write()
    assert (tmp_path / "precious").read_text() == "kept"


def test_two_processes_prepare_once(own_cache, tmp_path):
    source = write_folder(tmp_path / "pictures", class_files(("a", "b"), 20))
    code = """
        from pathlib import Path
        from fedorbit.data.catalog import prepare
        sys.stdin.readline()
        dataset, written = prepare("folder", Path(sys.argv[1]))
        print(dataset.name, len(dataset.images), written)
    """
    processes = [run_python(code, source, stdin=subprocess.PIPE) for _ in range(2)]
    time.sleep(0.5)  # lets both import, so that they start together; the result does not hang on it
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=PATIENCE_S) for process in processes]
    assert sorted(output for output, _ in outputs) == ["pictures 40 False\n", "pictures 40 True\n"]
    assert left_over(own_cache) == []
