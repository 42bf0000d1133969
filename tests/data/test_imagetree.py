"""Class folders are found, ordered and guarded alike in folders and in archives."""

import hashlib
import os
import stat
import sys
import tarfile
import zipfile

import pytest

from fedorbit.data import containers
from fedorbit.data.containers import origin
from fedorbit.data.imagetree import open_tree
from fedorbit.errors import DataError
from tests.data.source_fixtures import (
    WRITERS,
    class_files,
    under,
    write_folder,
    write_rar,
    write_tar,
    write_zip,
)

ARCHIVES = [kind for kind in WRITERS if kind != "folder"]
FILES = class_files(("Forest", "River"), 11, size=(8, 8))


def listing(path):
    with open_tree(path) as tree:
        return tree.class_names, [(tree.class_names[f.label], f.name) for f in tree.files]


# --- Where the classes are ----------------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "EuroSAT_RGB/", "2750/", "a/b/c/"])
@pytest.mark.parametrize("kind", WRITERS)
def test_class_level_is_found_everywhere(kind, prefix, tmp_path):
    path = WRITERS[kind](tmp_path / kind, under(prefix, FILES))
    with open_tree(path) as tree:
        assert tree.class_names == ("Forest", "River") and tree.notes == ()
        names = [f"Forest_{i}.jpg" for i in range(1, 12)] + [f"River_{i}.jpg" for i in range(1, 12)]
        assert [file.name for file in tree.files] == names
        assert [file.label for file in tree.files] == [0] * 11 + [1] * 11
        for file in tree.files:
            assert tree.read(file) == FILES[f"{tree.class_names[file.label]}/{file.name}"]


def test_compressed_tar_in_any_order_gives_natural_order(tmp_path):
    shuffled = dict(sorted(FILES.items(), key=lambda item: item[0][::-1]))
    path = write_tar(tmp_path / "x.tgz", under("./", shuffled))
    assert listing(path) == listing(write_folder(tmp_path / "folder", FILES))


def test_images_deeper_inside_a_class_count_to_it(tmp_path):
    files = {"A/2.png": b"", "A/deep/er/1.png": b"", "B/1.png": b"", "A/10.png": b""}
    _, found = listing(write_folder(tmp_path, files))
    assert found == [("A", "2.png"), ("A", "10.png"), ("A", "1.png"), ("B", "1.png")]


def test_natural_order_of_mixed_names(tmp_path):
    names = ["x1y.png", "x1y2.png", "x1y10.png", "x1.png", "x.png", "10.png", "9.png"]
    _, found = listing(write_folder(tmp_path, {f"{c}/{n}": b"" for c in "AB" for n in names}))
    expected = ["9.png", "10.png", "x.png", "x1.png", "x1y.png", "x1y2.png", "x1y10.png"]
    assert [name for _, name in found] == expected * 2


def test_numbers_of_any_length_are_ordered(tmp_path):
    names = ["0.png", "007.png", "8.png", f"{'9' * 5000}.png", f"1{'0' * 5000}.png"]
    files = {f"{c}/{n}": b"" for c in "AB" for n in reversed(names)}
    _, found = listing(write_zip(tmp_path / "x.zip", files))
    assert [name for _, name in found] == names * 2


@pytest.mark.parametrize("name", [b"a\xff/1.png", b"a/1\xff.png"])
@pytest.mark.parametrize("kind", ["folder", "x.tar"])
def test_names_that_are_not_utf8_are_refused(kind, name, tmp_path):
    files = {"a/1.png": b"", "b/1.png": b"", os.fsdecode(name): b""}
    path = WRITERS[kind](tmp_path / kind, files)
    with pytest.raises(DataError, match=r"\\udcff.* has a name that is not UTF-8; rename it"):
        listing(path)


@pytest.mark.parametrize("kind", ["folder", "x.zip"])
def test_junk_is_ignored(kind, tmp_path):
    junk = [
        "__MACOSX/set/Forest/._Forest_1.jpg",
        "set/.DS_Store",
        "set/Forest/.DS_Store",
        "set/Forest/._Forest_1.jpg",
        "set/Forest/Thumbs.db",
        "set/.git/x.png",
        "set/README",
        "set/readme.TXT",
        "set/labels.csv",
        "set/notes.md",
        "set/label_map.json",
    ]
    files = under("set/", FILES) | dict.fromkeys(junk, b"junk")
    path = WRITERS[kind](tmp_path / kind, files)
    with open_tree(path) as tree:
        assert tree.class_names == ("Forest", "River") and len(tree.files) == 22
        assert tree.notes == ()


def test_what_has_no_class_or_is_no_known_image_is_left_out_with_a_note(tmp_path):
    files = FILES | {"preview.png": b"", "map.png": b"", "River/raw.jp2": b""}
    with open_tree(write_zip(tmp_path / "x.zip", files)) as tree:
        assert len(tree.files) == 22
        assert tree.notes == (
            "2 file(s) beside the class folders were left out, such as map.png",
            "1 file(s) that are not known as images were left out, such as River/raw.jp2",
        )


def test_links_in_a_folder_are_followed_but_not_in_circles(tmp_path):
    write_folder(tmp_path / "real", FILES)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "Forest").symlink_to(tmp_path / "real" / "Forest")
    write_folder(linked, {"River/River_1.jpg": FILES["River/River_1.jpg"]})
    (linked / "River" / "again").symlink_to(linked)
    classes, found = listing(linked)
    assert classes == ("Forest", "River") and len(found) == 12


# --- Trees that are none ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["folder", "x.zip", "x.tar"])
def test_empty_class_folder_is_named(kind, tmp_path):
    path = tmp_path / kind
    if kind == "folder":
        write_folder(path, under("set/", FILES))
        (path / "set" / "Lake").mkdir()
    elif kind == "x.zip":
        write_zip(path, under("set/", FILES) | {"set/Lake/": b""})
    else:
        write_tar(path, under("set/", FILES) | {"set/Lake/README.txt": b"none yet"})
    separator = "/" if kind == "folder" else "!"
    with pytest.raises(DataError) as caught:
        listing(path)
    assert f"class folder {path}{separator}set/Lake holds no image" in str(caught.value)


def test_empty_class_beside_a_single_one_is_named(tmp_path):
    write_folder(tmp_path, {"set/A/1.png": b""})
    (tmp_path / "set" / "B").mkdir()
    with pytest.raises(DataError, match="set/B holds no image"):
        listing(tmp_path)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, "holds no image in class folders; known images are"),
        ({"A/readme.txt": b""}, "holds no image in class folders"),
        ({"1.png": b"", "2.png": b""}, r"has 0 class folder\(s\)"),
        ({"A/1.png": b"", "A/2.png": b""}, r"has 1 class folder\(s\).*at least 2"),
        (
            {f"{s}/{c}/1.png": b"" for s in ("train", "test") for c in "AB"},
            "is divided into test, train, which are no classes; give one of these folders",
        ),
    ],
)
def test_no_classes(files, message, tmp_path):
    with pytest.raises(DataError, match=message) as caught:
        listing(write_folder(tmp_path, files))
    assert str(tmp_path) in str(caught.value)


def test_paths_that_are_no_tree(tmp_path):
    with pytest.raises(DataError, match=r"missing\.zip does not exist"):
        listing(tmp_path / "missing.zip")
    (tmp_path / "x.7z").write_bytes(b"7z")
    with pytest.raises(DataError, match=r"x\.7z is neither a folder nor a \.zip, \.tar"):
        listing(tmp_path / "x.7z")


# --- Members that point elsewhere ---------------------------------------------------------------


@pytest.mark.parametrize(
    "member", ["../evil.jpg", "set/../../evil.jpg", "/etc/evil.jpg", "C:/evil.jpg", "C:evil.jpg"]
)
@pytest.mark.parametrize("kind", ARCHIVES)
def test_path_traversal_is_refused(kind, member, tmp_path):
    path = WRITERS[kind](tmp_path / kind, under("set/", FILES) | {member: b"evil"})
    with pytest.raises(DataError, match="points outside its archive") as caught:
        listing(path)
    assert f"{path}!" in str(caught.value) and member.split("/")[-1] in str(caught.value)


def test_backslashes_in_a_zip_are_separators(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in FILES.items():
            archive.writestr("set\\" + name.replace("/", "\\"), content)
    assert listing(path)[0] == ("Forest", "River")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("set\\..\\..\\evil.jpg", b"evil")
    with pytest.raises(DataError, match=r"evil\.jpg points outside"):
        listing(path)


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_are_refused(kind, tmp_path):
    path = write_tar(tmp_path / "x.tar", FILES)
    with tarfile.open(path, "a") as archive:
        member = tarfile.TarInfo("Forest/link.jpg")
        member.type, member.linkname = kind, "/etc/passwd"
        archive.addfile(member)
    with pytest.raises(DataError, match=r"x\.tar!Forest/link\.jpg is a link or a device"):
        listing(path)


def test_links_in_a_zip_are_refused(tmp_path):
    path = write_zip(tmp_path / "x.zip", FILES)
    with zipfile.ZipFile(path, "a") as archive:
        member = zipfile.ZipInfo("Forest/link.jpg")
        member.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(member, "/etc/passwd")
    with pytest.raises(DataError, match=r"x\.zip!Forest/link\.jpg is a link"):
        listing(path)


# --- Damaged archives ---------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ARCHIVES)
def test_archive_cut_anywhere_is_named(kind, tmp_path):
    path = WRITERS[kind](tmp_path / kind, FILES)
    # A tar ends with zeros to fill a record, of which only the first block matters.
    whole = path.stat().st_size if kind != "x.tar" else len(path.read_bytes().rstrip(b"\0"))
    for cut in range(whole - 1, 0, -whole // 40):
        os.truncate(path, cut)
        with pytest.raises(DataError, match=r"cannot be read.*get this file again") as caught:
            listing(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("kind", ARCHIVES)
def test_garbage_is_no_archive(kind, tmp_path):
    path = tmp_path / kind
    path.write_bytes(b"<html>not found</html>" * 100)
    with pytest.raises(DataError, match=r"cannot be read .*get this file again") as caught:
        listing(path)
    assert str(path) in str(caught.value)


def test_wrong_crc_names_archive_and_member(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    content = path.read_bytes()
    bad = content.index(FILES["River/River_2.jpg"]) + 100
    path.write_bytes(content[:bad] + bytes([content[bad] ^ 1]) + content[bad + 1 :])
    with open_tree(path) as tree, pytest.raises(DataError) as caught:
        for file in tree.files:
            tree.read(file)
    assert f"{path}!River/River_2.jpg cannot be read (BadZipFile: Bad CRC-32" in str(caught.value)


def test_encrypted_zip_is_named(tmp_path):
    path = write_zip(tmp_path / "x.zip", FILES)
    content = bytearray(path.read_bytes())
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = content.find(signature)
        while at >= 0:
            content[at + flags] |= 1
            at = content.find(signature, at + 1)
    path.write_bytes(content)
    with (
        open_tree(path) as tree,
        pytest.raises(DataError, match=r"x\.zip!Forest/Forest_1\.jpg.*encrypted"),
    ):
        tree.read(tree.files[0])


def test_unreadable_file_in_a_folder_is_named(tmp_path):
    write_folder(tmp_path, {"A/1.png": b"", "B/1.png": b""})
    with open_tree(tmp_path) as tree:
        (tmp_path / "A" / "1.png").unlink()
        with pytest.raises(DataError, match=r"A/1\.png cannot be read .*check the disk"):
            tree.read(tree.files[0])


# --- RAR needs help -----------------------------------------------------------------------------


def test_rar_without_the_package_says_what_to_install(tmp_path, monkeypatch):
    path = write_rar(tmp_path / "x.rar", FILES)
    monkeypatch.setitem(sys.modules, "rarfile", None)
    with pytest.raises(
        DataError, match=r"x\.rar .*needs the package rarfile; pip install 'rarfile>="
    ):
        listing(path)


def test_compressed_rar_without_a_program_says_what_to_install(tmp_path, monkeypatch):
    import rarfile

    path = write_rar(tmp_path / "x.rar", FILES, method=0x33)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(rarfile, "CURRENT_SETUP", None)
    with (
        open_tree(path) as tree,
        pytest.raises(DataError, match=r"x\.rar!Forest/Forest_1\.jpg is compressed.*unrar, unar"),
    ):
        tree.read(tree.files[0])


def test_origin_names_archive_and_checksum(tmp_path):
    path = write_zip(tmp_path / "x.zip", FILES)
    found = origin(path)
    assert found["file"] == "x.zip" and int(found["size_bytes"]) == path.stat().st_size
    assert found["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert origin(write_folder(tmp_path / "set", FILES)) == {"folder": "set"}


def test_large_compressed_tar_passes_through_a_nameless_file(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(containers, "_SPOOLED_BYTES", 1000)
    big = bytes(5000)
    path = write_tar(
        tmp_path / "x.tgz", {"B/2.png": big, "A/1.png": b"first", "A/0.png": b"zeroth"}
    )
    with open_tree(path) as tree:
        assert [len(tree.read(file)) for file in tree.files] == [6, 5, len(big)]
        assert [entry.name for entry in tmp_path.iterdir()] == ["x.tgz"]
