"""Archives, images and files that hold or announce far more than they seem to."""

import gzip
import io
import os
import socket
import struct
import subprocess
import sys
import tarfile
import textwrap
import warnings
import zipfile
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
from PIL import Image

from fedorbit.data import containers, coordinates, folder
from fedorbit.data.catalog import PrepareOptions, prepare
from fedorbit.data.imagetree import open_tree
from fedorbit.data.limits import Limits, read_exactly
from fedorbit.errors import DataError
from tests.data.source_fixtures import (
    WRITERS,
    class_files,
    image_bytes,
    write_folder,
    write_rar,
    write_so2sat,
    write_tar,
    write_zip,
)

ARCHIVES = [kind for kind in WRITERS if kind != "folder"]
FILES = class_files(("A", "B"), 2, size=(8, 8))
LARGE = {"B/large.jpg": bytes(5001)}
MB = 1_000_000


def refuse(path, limits=None, **options):
    """Read everything of a source and return the sentence with which it is refused."""
    with (
        pytest.raises(DataError) as caught,
        folder.open_stream(path, limits=limits, **options) as stream,
    ):
        list(stream.chunks)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def separator(kind):
    return "/" if kind == "folder" else "!"


# --- What is announced --------------------------------------------------------------------------


def test_every_known_dataset_is_within_the_defaults():
    limits = Limits()
    assert limits.image_bytes > 10_000 * 8_000 * 3  # an uncompressed aerial image
    assert limits.total_bytes > 59_130_000_000  # So2Sat LCZ42
    assert limits.files > 1_400_000  # ImageNet


@pytest.mark.parametrize("kind", WRITERS)
def test_a_large_image_is_named_before_any_is_read(kind, tmp_path):
    path = WRITERS[kind](tmp_path / kind, {"A/broken.jpg": b"", **FILES, **LARGE})
    assert refuse(path, Limits(image_bytes=5000)) == (
        f"{path}{separator(kind)}B/large.jpg has 5,001 bytes; allowed are 5,000; leave it out, "
        "or raise --max-image-mb to 1 if it is genuine"
    )
    assert "A/broken.jpg cannot be read" in refuse(path, Limits(image_bytes=5001))


@pytest.mark.parametrize("kind", WRITERS)
def test_images_that_are_large_together_are_refused(kind, tmp_path):
    path = WRITERS[kind](tmp_path / kind, FILES)
    total = sum(map(len, FILES.values()))
    with open_tree(path, Limits(total_bytes=1 << 20)) as tree:
        assert len(tree.files) == 4
    message = refuse(path, Limits(total_bytes=total - 1))
    assert message.startswith(str(path)) and "raise --max-total-gb to 1" in message
    if kind not in ("x.tgz", "x.tar.gz"):  # of which all counts, headers too
        assert f"holds images of {total:,} bytes; allowed are {total - 1:,};" in message


@pytest.mark.parametrize("kind", WRITERS)
def test_too_many_files_are_refused(kind, tmp_path):
    path = WRITERS[kind](tmp_path / kind, FILES)
    message = refuse(path, Limits(files=3))
    assert message.startswith(f"{path} holds more than 3 ") and message.endswith("; divide it")


def test_a_compressed_tar_stops_at_the_limit(tmp_path, monkeypatch):
    """However small it is: what it holds besides images counts as well."""
    path = write_tar(tmp_path / "x.tgz", {**FILES, "notes.txt": bytes(20 * MB)})
    assert path.stat().st_size < MB
    written = []
    monkeypatch.setattr(containers.tempfile, "SpooledTemporaryFile", recording_file(written))
    message = refuse(path, Limits(total_bytes=4 * MB))
    assert "x.tgz holds, decompressed, at least 4,194,304 bytes; allowed are 4,000,000" in message
    assert "--max-total-gb" in message and sum(written) <= 4 * MB


def recording_file(written):
    class Recording(io.BytesIO):
        def __init__(self, size):
            super().__init__()

        def write(self, data):
            written.append(len(data))
            return super().write(data)

    return Recording


def test_a_compressed_tar_does_not_fill_the_disk(tmp_path, monkeypatch):
    path = write_tar(tmp_path / "x.tgz", {**FILES, "notes.txt": bytes(4 * MB)})
    monkeypatch.setattr(containers, "_SPOOLED_BYTES", 2 * MB)
    monkeypatch.setattr(containers, "_KEPT_FREE_BYTES", 1 << 62)
    message = refuse(path)
    assert "x.tgz holds, decompressed, more than the 2,097,152 bytes for which there" in message
    assert message.endswith("or set TMPDIR to a folder on a larger disk")


@pytest.mark.parametrize("name", ["x.tar", "x.tgz"])
def test_a_tar_header_of_any_size_is_bounded(name, tmp_path):
    path = tmp_path / name
    with tarfile.open(path, "w" if name == "x.tar" else "w:gz") as archive:
        member = tarfile.TarInfo("A/1.jpg")
        member.pax_headers = {"comment": "x" * (2 << 20)}
        archive.addfile(member)
    assert "a header is larger than the 1,048,576 bytes allowed" in refuse(path)


def test_a_tar_member_of_negative_size_does_not_go_back(tmp_path):
    path = write_tar(tmp_path / "x.tar", FILES)
    content = bytearray(path.read_bytes())
    header = tarfile.TarInfo("A/back.jpg").tobuf(tarfile.GNU_FORMAT)
    header = header[:124] + struct.pack(">q", -1024).rjust(12, b"\xff") + header[136:]
    total = sum(header[:148]) + 8 * 32 + sum(header[156:])
    content[:0] = header[:148] + b"%06o\0 " % total + header[156:]
    path.write_bytes(content)
    assert "A/back.jpg announces -1024 bytes" in refuse(path)


def test_a_sparse_tar_member_is_refused(tmp_path):
    path = write_tar(tmp_path / "x.tar", FILES)
    member = tarfile.TarInfo("A/sparse.jpg")
    member.pax_headers = {"GNU.sparse.size": "3000000000", "GNU.sparse.map": "0,0"}
    path.write_bytes(member.tobuf(tarfile.PAX_FORMAT) + path.read_bytes())
    assert "x.tar!A/sparse.jpg is a sparse file, which is not read" in refuse(path)


def test_a_zip_directory_of_any_size_is_bounded(tmp_path, monkeypatch):
    path = write_zip(tmp_path / "x.zip", FILES)
    monkeypatch.setattr(containers, "_DIRECTORY_BYTES", 200)
    assert "a header is larger than the 200 bytes allowed" in refuse(path)


# --- What is really there -----------------------------------------------------------------------


def with_announced(path, announced, **crc):
    """Change the size that both headers of the last member of a zip announce."""
    content = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 14), (b"PK\x01\x02", 16)):
        at = content.rindex(signature) + offset
        content[at + 8 : at + 12] = struct.pack("<I", announced)
        if crc:
            content[at : at + 4] = struct.pack("<I", crc["crc"])
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("announced", [0, 900, 999, 1001, 1100])
def test_a_zip_that_announces_another_size_is_refused(method, announced, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in {**FILES, "B/liar.jpg": bytes(1000)}.items():
            archive.writestr(name, content)
    with_announced(path, announced)
    with open_tree(path) as tree, pytest.raises(DataError) as caught:
        tree.read(tree.files[-1])
    held = "more" if announced < 1000 else "1,000"
    assert str(caught.value) == (
        f"{path}!B/liar.jpg cannot be read (EOFError: it announces {announced:,} bytes and holds "
        f"{held}); get this file again"
    )
    # With the checksum of what it announces: nothing but the size gives it away.
    with_announced(path, announced, crc=zlib.crc32(bytes(min(announced, 1000))))
    with open_tree(path) as tree, pytest.raises(DataError, match="cannot be read"):
        tree.read(tree.files[-1])


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zip_methods_without_a_bound_are_refused(method, tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    message = refuse(path)
    assert f"x.zip!A/A_1.jpg is compressed by method {method} of zip; allowed are 0" in message


def test_a_stream_is_read_one_byte_beyond_what_it_announces():
    stream = io.BytesIO(bytes(5 * MB))
    with pytest.raises(EOFError, match="announces 3,000,000 bytes and holds more"):
        read_exactly(stream, 3 * MB)
    assert stream.tell() == 3 * MB + 1
    assert read_exactly(io.BytesIO(bytes(3 * MB)), 3 * MB) == bytes(3 * MB)
    with pytest.raises(EOFError, match="announces 3 bytes and holds 2"):
        read_exactly(io.BytesIO(b"12"), 3)


def test_a_file_that_grew_since_it_was_listed_is_refused(tmp_path):
    write_folder(tmp_path, FILES)
    with open_tree(tmp_path) as tree:
        with (tmp_path / "A" / "A_1.jpg").open("ab") as file:
            file.write(b"more")
        with pytest.raises(DataError, match=r"A_1\.jpg cannot be read .*and holds more"):
            tree.read(tree.files[0])


def unpacking_program(folder, output):
    """A program in the place of `unrar`."""
    program = folder / "unrar"
    program.write_text(f'#!/bin/sh\n[ "$1" = p ] || exit 0\necho x >> {folder}/called\n{output}\n')
    program.chmod(0o755)


def test_an_unpacking_program_without_an_end_is_stopped(tmp_path, monkeypatch):
    import rarfile

    unpacking_program(tmp_path, "exec cat /dev/zero")
    monkeypatch.setattr(rarfile, "UNRAR_TOOL", str(tmp_path / "unrar"))
    monkeypatch.setattr(rarfile, "CURRENT_SETUP", None)
    path = write_rar(tmp_path / "x.rar", FILES, method=0x33)
    with (
        open_tree(path) as tree,
        pytest.raises(DataError, match=r"x\.rar!A/A_1\.jpg cannot be read .*CRC check failed"),
    ):
        tree.read(tree.files[0])
    assert (tmp_path / "called").read_text() == "x\n"
    message = refuse(path, Limits(image_bytes=100))
    assert "x.rar!A/A_1.jpg has" in message and "allowed are 100" in message
    assert (tmp_path / "called").read_text() == "x\n"  # not called for what is too large


# --- Pixels -------------------------------------------------------------------------------------


def png(width, height, *blocks):
    """A PNG file of only these blocks, which announces a size."""

    def block(kind, body):
        checksum = zlib.crc32(kind + body)
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", checksum)

    size = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = ((b"IHDR", size), *blocks, (b"IDAT", zlib.compress(bytes(100))), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(block(*part) for part in parts)


@pytest.mark.parametrize("side", [9_300, 20_000, 100_000])
@pytest.mark.parametrize("first", [True, False])
def test_pixels_are_bounded_by_the_header(side, first, tmp_path):
    files = dict(FILES)
    files["A/A_1.jpg" if first else "B/B_2.jpg"] = png(side, side)
    path = write_zip(tmp_path / "x.zip", files)
    with warnings.catch_warnings(record=True) as seen:
        message = refuse(path, size=8)
    assert f"{path}!{'A/A_1' if first else 'B/B_2'}.jpg " in message and "pixels" in message
    assert "allowed are 256,000,000" in message and "--max-image-mb" in message
    assert seen == []


def test_the_limit_of_pixels_is_ours_and_only_for_our_images(tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)  # Pillow alone would refuse 64 x 64
    path = write_folder(tmp_path, {f"{c}/1.png": image_bytes(size=(64, 64)) for c in "AB"})
    with folder.open_stream(path) as stream:
        assert [len(chunk.images) for chunk in stream.chunks] == [2]
    assert Image.MAX_IMAGE_PIXELS == 100
    limits = Limits(image_bytes=64 * 64 * 3 - 1)
    assert "is 64x64 pixels, decoded 12,288 bytes; allowed are 12,287" in refuse(path, limits)


@pytest.mark.parametrize("kind", [b"zTXt", b"iCCP"])
def test_compressed_text_in_an_image_is_bounded(kind, tmp_path):
    text = b"name\0\0" + zlib.compress(bytes(100 * MB))
    path = write_folder(tmp_path, {**FILES, "A/A_1.jpg": png(8, 8, (kind, text))})
    assert "A/A_1.jpg cannot be read" in refuse(path)


def test_formats_that_the_suffixes_do_not_stand_for_are_refused(tmp_path):
    """Pillow gives PostScript to another program, whatever the file is called."""
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"
    path = write_folder(tmp_path, {**FILES, "A/A_1.jpg": script})
    assert "A/A_1.jpg cannot be read (UnidentifiedImageError" in refuse(path)


# --- What is no file ----------------------------------------------------------------------------


def make_socket(path):
    listener = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    try:
        os.chdir(path.parent)  # a full path can be too long for a socket
        listener.bind(path.name)
    finally:
        os.chdir(here)
        listener.close()


ODD = {
    "fifo": (os.mkfifo, "a FIFO"),
    "socket": (make_socket, "a socket"),
    "device": (lambda path: path.symlink_to("/dev/zero"), "a device"),
    "loop": (lambda path: path.symlink_to(path.name), "a link that leads nowhere (Too many"),
    "nowhere": (lambda path: path.symlink_to("none"), "a link that leads nowhere (No such"),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ["A/A_0.jpg", "notes.txt"])
def test_what_is_no_file_in_a_folder_is_refused(odd, name, tmp_path):
    make, kind = ODD[odd]
    write_folder(tmp_path, FILES)
    make(tmp_path / name)
    message = refuse(tmp_path)
    assert message.startswith(f"{tmp_path}/{name} is {kind}")
    assert message.endswith("which is not read; remove it")


def test_hidden_entries_are_not_looked_at(tmp_path):
    write_folder(tmp_path, FILES)
    os.mkfifo(tmp_path / "A" / ".fifo.jpg")
    with open_tree(tmp_path) as tree:
        assert len(tree.files) == 4


@pytest.mark.parametrize("source", ["folder", "eurosat", "resisc45", "so2sat"])
@pytest.mark.parametrize("name", ["x", "x.zip", "x.tar", "x.tgz", "x.rar", "training.h5"])
def test_a_source_that_is_a_fifo_is_refused(source, name, tmp_path):
    path = tmp_path / name
    os.mkfifo(path)
    with pytest.raises(DataError, match=r"is a FIFO; give|is not So2Sat"):
        prepare(source, path)


@pytest.mark.parametrize("odd", ["fifo", "device", "loop"])
def test_a_coordinate_file_that_is_no_file_is_refused(odd, tmp_path):
    path = write_zip(tmp_path / "set.zip", FILES)
    prepare("folder", path)
    geo = tmp_path / "geo.csv"
    ODD[odd][0](geo)
    for again in (False, True):
        with pytest.raises(DataError, match=r"geo\.csv cannot be read"):
            prepare("folder", path, options=PrepareOptions(geo=geo), force=again)


def test_a_coordinate_file_is_bounded(tmp_path, monkeypatch):
    path = write_folder(tmp_path, FILES)
    geo = tmp_path / "coordinates.csv"
    geo.write_text("name,latitude_deg,longitude_deg\n" + "".join(f"{i},1,2\n" for i in range(50)))
    assert "coordinates.csv holds more than 49 rows" in refuse(path, Limits(files=49))
    monkeypatch.setattr(coordinates, "_COORDINATES_BYTES", 100)
    assert f"it has {geo.stat().st_size} bytes, allowed are 100" in refuse(path)


# --- HDF5 ---------------------------------------------------------------------------------------


@pytest.fixture
def so2sat_files(tmp_path):
    write_so2sat(tmp_path / "so2sat" / "training.h5", [0, 1])
    write_so2sat(tmp_path / "so2sat" / "testing.h5", [0, 1])
    write_so2sat(tmp_path / "elsewhere.h5", [0, 1])
    return tmp_path / "so2sat"


def link_outside(file, secret):
    file["sen2"] = h5py.ExternalLink(str(secret), "/sen2")


def link_inside(file, secret):
    file["other"] = h5py.ExternalLink(str(secret), "/")
    file["sen2"] = h5py.SoftLink("/other/sen2")


def external_values(file, secret):
    values = [(str(secret), 0, h5py.h5f.UNLIMITED)]
    file.create_dataset("sen2", (2, 32, 32, 10), "u1", external=values)


def virtual_values(file, secret):
    layout = h5py.VirtualLayout((2, 32, 32, 10), "f8")
    layout[:] = h5py.VirtualSource(str(secret), "sen2", (2, 32, 32, 10), "f8")
    file.create_virtual_dataset("sen2", layout)


@pytest.mark.parametrize("make", [link_outside, link_inside, external_values, virtual_values])
def test_hdf5_that_reads_other_files_is_refused(make, so2sat_files, tmp_path):
    with h5py.File(so2sat_files / "testing.h5", "r+") as file:
        del file["sen2"]
        make(file, tmp_path / "elsewhere.h5")
    with pytest.raises(DataError, match=r"testing\.h5: sen2 is a link, or is kept in other files"):
        prepare("so2sat", so2sat_files)


@pytest.mark.parametrize(
    ("shape", "chunks", "message"),
    [
        ((10**9, 32, 32, 10), (1, 32, 32, 10), "holds more than 2,000,000 samples"),
        ((10**6, 32, 32, 10), (1, 32, 32, 10), None),
        ((2, 32, 32, 10), (2**16, 32, 32, 10), r"chunks that span 5,368,709,120 bytes"),
        ((10**5, 32, 32, 10), (10**5, 1, 1, 1), r"chunks that span 8,192,000,000 bytes"),
    ],
)
def test_hdf5_that_announces_more_than_it_holds_is_refused(shape, chunks, message, so2sat_files):
    path = so2sat_files / "testing.h5"
    with h5py.File(path, "w") as file:
        whole = (None, *shape[1:])
        file.create_dataset("sen2", shape, "f8", chunks=chunks, maxshape=whole)
        file["label"] = np.eye(17)[[0, 1]]
    assert path.stat().st_size < MB
    expected = message or "sen2 has 1,000,000 samples but label has 2"
    with pytest.raises(DataError, match=expected):
        prepare("so2sat", so2sat_files)
    with pytest.raises(DataError, match=r"sen2 announces|chunks|more than") as caught:
        prepare("so2sat", so2sat_files, limits=Limits(total_bytes=MB // 10))
    assert "\n" not in str(caught.value)


# --- Memory -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def zip_bomb(tmp_path_factory):
    """A zip of 7 MB with a member of 1.5 GB."""
    path = tmp_path_factory.mktemp("bombs") / "bomb.zip"
    piece = bytes(1 << 24)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
        with archive.open("A/A_0.jpg", "w") as member:
            for _ in range(1_500 * MB // len(piece)):
                member.write(piece)
    return path


def peak_of_refusing(path):
    """Refuse a source in a process of its own; return its words and the memory it took for them."""
    code = """
        import resource, sys
        from pathlib import Path
        from fedorbit.data.catalog import prepare
        from fedorbit.errors import DataError

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        try:
            prepare("folder", Path(sys.argv[1]), name="bomb")
        except DataError as error:
            print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    taken, _, message = done.stdout.strip().partition(" ")
    return int(taken) * 1024, message


def test_a_zip_bomb_takes_no_memory(zip_bomb):
    taken_bytes, message = peak_of_refusing(zip_bomb)
    assert "bomb.zip!A/A_0.jpg has 1,493,172,224 bytes; allowed are 256,000,000" in message
    assert taken_bytes < 100 * MB


def test_a_zip_bomb_that_announces_little_takes_no_memory(zip_bomb, tmp_path):
    path = tmp_path / "liar.zip"
    path.write_bytes(zip_bomb.read_bytes())
    taken_bytes, message = peak_of_refusing(with_announced(path, 1000, crc=zlib.crc32(bytes(1000))))
    assert (
        "liar.zip!A/A_0.jpg cannot be read" in message and "1,000 bytes and holds more" in message
    )
    assert taken_bytes < 100 * MB


def test_a_compressed_tar_bomb_takes_no_memory(tmp_path):
    path = tmp_path / "bomb.tar.gz"
    size = 400 * MB
    member = tarfile.TarInfo("A/A_0.jpg")
    member.size = size
    with gzip.open(path, "wb", compresslevel=1) as packed:
        packed.write(member.tobuf())
        packed.write(bytes(size))
        packed.write(bytes(-size % 512))
        packed.write(gzip.decompress(write_tar(tmp_path / "x.tgz", FILES).read_bytes()))
    taken_bytes, message = peak_of_refusing(path)
    assert "bomb.tar.gz!A/A_0.jpg has 400,000,000 bytes; allowed are 256,000,000" in message
    assert taken_bytes < 200 * MB  # 64 MiB are kept in memory on purpose


def test_an_image_bomb_takes_no_memory(tmp_path):
    path = write_folder(tmp_path / "set", {**FILES, "A/A_0.jpg": png(100_000, 100_000)})
    taken_bytes, message = peak_of_refusing(path)
    assert "A/A_0.jpg has too many pixels (Image size (10000000000 pixels)" in message
    assert taken_bytes < 100 * MB
