import errno
from pathlib import Path

import pytest

from fedorbit.files import replacing


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "new" / "x.txt"
    with replacing(target) as partial:
        partial.write_text("whole")
        assert partial.suffix == ".txt"
        assert not target.exists()
    assert target.read_text() == "whole"
    assert list(target.parent.iterdir()) == [target]


def test_a_full_disk_names_the_final_path(tmp_path: Path) -> None:
    target = tmp_path / "x.txt"
    target.write_text("old")
    with pytest.raises(OSError) as caught, replacing(target) as partial:
        partial.write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")  # as `write` does: without a name
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(target))
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_place_that_cannot_be_taken_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as caught, replacing(tmp_path / "taken") as partial:
        partial.write_text("x")
    assert caught.value.filename == str(tmp_path / "taken")


def test_other_failures_stay_as_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, replacing(tmp_path / "x.txt"):
        (tmp_path / "absent.txt").read_text()
    assert caught.value.filename == str(tmp_path / "absent.txt")
    # Pillow and others raise OSError without a number.
    with pytest.raises(OSError, match=r"^broken$"), replacing(tmp_path / "x.txt"):
        raise OSError("broken")
