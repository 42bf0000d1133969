"""The command line as a user runs it, on real files."""

import csv
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from fedorbit import __version__
from fedorbit.cli import main, output
from tests.orbits.element_files import made_satellite, tle_text


class Done(NamedTuple):
    """What a finished command left."""

    stdout: str
    stderr: str


@pytest.fixture
def fedorbit(
    own_cache: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., Done]:
    """Run `fedorbit` in an empty folder; in this process, since starting one takes a second."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(output.stdout, "width", 100)

    def run(*arguments: str, code: int = 0) -> Done:
        with pytest.raises(SystemExit) as stop:
            main(arguments)
        done = Done(*capsys.readouterr())
        assert (stop.value.code or 0) == code, done.stderr
        return done

    return run


@pytest.fixture
def process(own_cache: Path, tmp_path: Path) -> Callable[..., Done]:
    """Run a shell line with `fedorbit` as a real process."""

    def run(line: str, code: int = 0, **environment: str) -> Done:
        done = subprocess.run(
            line.replace("fedorbit", f"{sys.executable} -m fedorbit", 1),
            shell=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "FEDORBIT_CACHE": str(own_cache), **environment},
            check=False,
        )
        assert done.returncode == code, done.stderr
        return Done(done.stdout, done.stderr)

    return run


def one_sentence(done: Done) -> str:
    """The message of a refused call: one line on standard error, nothing on standard output."""
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    [line] = done.stderr.strip().splitlines()
    return line.removeprefix("fedorbit: ")


def test_orbits_json_has_the_papers_figures(process) -> None:
    document = json.loads(process("fedorbit orbits --json").stdout)
    assert document["rounds"] == 400
    assert document["orbits"] == 5
    assert document["satellites"] == 20
    assert document["visible_rounds"] == [61, 41, 34, 21, 56]
    assert document["idle_rounds"] == 187
    assert document["longest_gap_rounds"] == 191
    assert document["longest_idle_rounds"] == 4


def test_orbits_tables(fedorbit) -> None:
    text = fedorbit("orbits", "--contacts", "3").stdout
    assert "20 satellites in 5 orbits, 1 ground station, 400 rounds of 5 min (33.3 h)" in text
    assert "No orbit in view in 187 rounds (46.8 %), at most 4 in a row" in text
    assert "First 3 of 147 contacts" in text
    assert "15.2 %" in text


def test_orbits_writes_figures_and_tables(fedorbit, tmp_path: Path) -> None:
    document = json.loads(fedorbit("orbits", "--out", "figures", "--json").stdout)
    folder = tmp_path / "figures"
    assert sorted(f.name for f in folder.iterdir()) == [
        "contacts.csv",
        "map.png",
        "map.svg",
        "schedule.npz",
        "timeline.png",
        "timeline.svg",
        "visibility.csv",
    ]
    assert {Path(f).name for f in document["files"]} == {f.name for f in folder.iterdir()}
    with (folder / "contacts.csv").open() as file:
        contacts = list(csv.DictReader(file))
    assert len(contacts) == document["contacts"]
    assert float(contacts[1]["rise_s"]) == pytest.approx(492.974, abs=1e-3)
    with np.load(folder / "schedule.npz", allow_pickle=False) as arrays:
        assert arrays["visible"].sum(axis=0).tolist() == document["visible_rounds"]
        assert len(arrays["contact_rise_s"]) == document["contacts"]
    with (folder / "visibility.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert sum(int(row["orbit_3"]) for row in rows) == 21
    with Image.open(folder / "map.png") as picture:
        assert picture.size[0] > 1000
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 100
    assert "London" in (folder / "map.svg").read_text()


def test_figures_are_the_same_bytes_every_time(fedorbit, tmp_path: Path) -> None:
    for name in ("a", "b"):
        fedorbit("orbits", "--out", name, "--json")
    for file in (tmp_path / "a").iterdir():
        if file.suffix in (".png", ".svg", ".csv"):
            assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_orbits_of_real_element_sets(fedorbit, tmp_path: Path) -> None:
    satellites = [
        (f"SAT {plane}{slot}", made_satellite(10 * plane + slot + 1, 40.0 * plane, 90.0 * slot))
        for plane in range(3)
        for slot in range(4)
    ]
    (tmp_path / "fleet.tle").write_text(tle_text(satellites))
    (tmp_path / "fleet.toml").write_text(
        'extends = "paper"\n[constellation]\nkind = "elements"\nfile = "fleet.tle"\n'
    )
    document = json.loads(fedorbit("orbits", "fleet.toml", "--json", "--out", "o").stdout)
    assert document["satellites_per_orbit"] == [4, 4, 4]
    assert document["start_utc"].startswith("2026-03-01T00:00:00")
    assert document["contacts"] > 10
    assert document["contact_list"][0]["rise_utc"].startswith("2026-03-01T")
    late = fedorbit("orbits", "fleet.toml", "-o", "schedule.start=2026-06-01T00:00:00Z", code=2)
    assert "12 of 12 element sets are too old" in one_sentence(late)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["orbits", "-o", "constellation.plane=3"], "did you mean 'constellation.planes'?"),
        (["orbits", "-o", "constellation.planes=0"], "must be at least 1 and at most 10000, got 0"),
        (["orbits", "papr"], "did you mean 'paper'?"),
        (["orbits", "nowhere/x.toml"], "nowhere/x.toml does not exist"),
        (["orbits", "--contacts", "-1"], "--contacts"),
        (
            ["orbits", "-o", "constellation.kind=elements", "-o", "constellation.file=none.tle"],
            "none.tle does not exist",
        ),
        (["orbitz"], "orbits"),
        (["orbits", "--jsn"], "--jsn"),
        (["data", "prepare", "eurosat", "--source", "no.zip"], "no.zip"),
        (["data", "prepare", "eurosta", "--source", "no.zip"], "eurosat"),
        (["data", "inspect", "nothing"], "nothing"),
        (["data", "partition", "paper"], "fedorbit data prepare eurosat --source"),
        (["data", "fetch", "nothing"], "nothing"),
        (["config", "show", "nothing"], "neither a preset nor a file"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(fedorbit, arguments, message: str) -> None:
    assert message in one_sentence(fedorbit(*arguments, code=2))
    # With --json the same: nothing half-written on standard output.
    assert message in one_sentence(fedorbit(*arguments, "--json", code=2))


def test_debug_shows_the_traceback_wherever_it_stands(fedorbit) -> None:
    for arguments in (["--debug", "orbits", "papr"], ["orbits", "papr", "--debug"]):
        done = fedorbit(*arguments, code=2)
        assert "Traceback" in done.stderr
        assert "did you mean 'paper'?" in done.stderr


def test_an_unwritable_folder_is_one_sentence(fedorbit, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a folder")
    assert "taken" in one_sentence(fedorbit("orbits", "--out", "taken", "--json", code=2))


def test_version_and_help(fedorbit) -> None:
    assert fedorbit("--version").stdout == f"fedorbit {__version__}\n"
    assert "fedorbit orbits" in fedorbit("--help").stdout
    for command in (["orbits"], ["data", "list"], ["data", "fetch"], ["data", "prepare"],
                    ["data", "inspect"], ["data", "partition"], ["config", "show"],
                    ["config", "list"]):  # fmt: skip
        text = fedorbit(*command, "--help").stdout
        assert "--json" in text
        assert "Example" in text


def test_completion_knows_presets(process) -> None:
    done = process(
        "fedorbit",
        _FEDORBIT_COMPLETE="complete_bash",
        COMP_WORDS="fedorbit orbits pa",
        COMP_CWORD="2",
    )
    assert "paper" in done.stdout.split()


def test_config_show_prints_a_file_that_can_be_loaded(fedorbit, tmp_path: Path) -> None:
    printed = fedorbit("config", "show", "paper", "-o", "seed=7").stdout
    (tmp_path / "mine.toml").write_text(printed)
    shown = json.loads(fedorbit("config", "show", "mine.toml", "--json").stdout)
    assert shown["seed"] == 7
    assert shown["constellation"]["altitude_km"] == 550.0
    assert fedorbit("config", "show", "mine.toml").stdout == printed


def test_config_list(fedorbit) -> None:
    assert set(json.loads(fedorbit("config", "list", "--json").stdout)["presets"]) >= {
        "paper",
        "quickstart",
    }


def test_partition_of_synthetic_images(fedorbit, tmp_path: Path) -> None:
    small = ("-o", "data.synthetic.samples=600", "-o", "data.synthetic.size=16")
    done = fedorbit("data", "partition", "--json", "--out", "p", *small)
    document = json.loads(done.stdout)
    counts, test_counts = np.array(document["counts"]), np.array(document["test_counts"])
    assert counts.shape == (5, 4, 10)
    assert counts.sum() == 480
    assert test_counts.shape == (5, 10)
    assert test_counts.sum() == 120
    assert 0.0 < document["beta_unsmoothed"] < document["beta"] < 1.0
    assert {Path(f).name for f in document["files"]} == {"partition.png", "partition.svg"}
    text = fedorbit("data", "partition", *small).stdout
    assert f"beta = {document['beta']:.3f}" in text
    assert "sat 4.3" in text


def test_partition_by_ground_track_reports_what_nobody_sees(fedorbit) -> None:
    # Over 4 hours, 20 satellites with a swath of 100 km leave places unseen.
    changes = ("-o", "partition.scheme=ground-track", "-o", "partition.swath_half_width_km=50",
               "-o", "schedule.rounds=48", "-o", "data.synthetic.samples=500")  # fmt: skip
    document = json.loads(fedorbit("data", "partition", "--json", *changes).stdout)
    dealt = np.array(document["counts"]).sum() + np.array(document["test_counts"]).sum()
    unseen = document["unseen_train"] + document["unseen_test"]
    assert unseen > 0
    assert dealt + unseen == 500
    assert f"No satellite passes over {unseen} of 500 samples" in " ".join(
        fedorbit("data", "partition", *changes).stdout.split()
    )


def test_a_folder_of_ones_own_from_images_to_partition(fedorbit, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for label in ("field", "town"):
        for i in range(30):
            file = tmp_path / "images" / label / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 255, (12, 12, 3), dtype=np.uint8)).save(file)
    arguments = ("data", "prepare", "folder", "--source", "images", "--name", "mine", "--json")
    assert json.loads(fedorbit(*arguments).stdout)["newly_prepared"] is True
    assert json.loads(fedorbit(*arguments).stdout)["newly_prepared"] is False
    inspected = json.loads(fedorbit("data", "inspect", "mine", "--out", "sheet", "--json").stdout)
    assert inspected["class_names"] == ["field", "town"]
    assert inspected["class_counts"] == [30, 30]
    assert (tmp_path / "sheet" / "mine-contact-sheet.png").is_file()
    listed = json.loads(fedorbit("data", "list", "--json").stdout)
    assert [d["name"] for d in listed["prepared"]] == ["mine"]
    document = json.loads(fedorbit("data", "partition", "-o", "data.name=mine", "--json").stdout)
    assert np.array(document["counts"]).sum() == 48
    refused = fedorbit(
        "data", "partition", "-o", "data.name=mine", "-o", "partition.scheme=ground-track", code=2
    )
    assert "needs coordinates" in one_sentence(refused)


def test_a_reader_that_stops_early_is_no_error(process) -> None:
    assert process("fedorbit orbits --json --contacts 147 | head -c 10").stderr == ""


def test_bad_input_as_a_process(process) -> None:
    done = process("fedorbit orbits papr", code=2)
    assert one_sentence(done).startswith("'papr' is neither a preset nor a file")


def test_ctrl_c_is_answered_at_once_and_leaves_nothing(own_cache: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "fedorbit", "data", "partition"]
    big = ["-o", "data.synthetic.samples=2000000"]
    running = subprocess.Popen(line + big, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not list(own_cache.glob(".synthetic-*.partial/images.npy")):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, message = running.communicate(timeout=60)
    assert running.returncode == 130
    assert message == "fedorbit: interrupted\n"
    assert not list(own_cache.glob(".*partial*"))
    assert not list(own_cache.glob("synthetic*"))
