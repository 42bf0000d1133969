"""The command line as a user runs it, on real files."""

import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from PIL import Image

from fedorbit import __version__
from fedorbit.cli import main, output
from tests.data.source_fixtures import write_so2sat
from tests.orbits.element_files import made_satellite, omm_json, tle_text


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


def test_a_shown_configuration_finds_its_element_sets_from_any_folder(fedorbit, tmp_path) -> None:
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "fleet.tle").write_text(tle_text([("A", made_satellite(1, 0.0))]))
    (sets / "fleet.toml").write_text("[constellation]\nkind = 'elements'\nfile = 'fleet.tle'")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine.toml").write_text(
        fedorbit("config", "show", "sets/fleet.toml").stdout
    )
    document = json.loads(fedorbit("orbits", "elsewhere/mine.toml", "--json").stdout)
    assert document["satellites"] == 1
    shown = json.loads(fedorbit("config", "show", "sets/fleet.toml", "--json").stdout)
    assert shown["constellation"]["file"] == str((sets / "fleet.tle").resolve())
    bundled = fedorbit("config", "show", "iridium-next-tle").stdout
    assert 'file = "bundled:iridium-next-2021-01-30"' in bundled


def test_many_orbits_are_shown_in_groups(fedorbit) -> None:
    many = ("-o", "constellation.planes=50", "-o", "schedule.rounds=20", "--contacts", "0")
    text = fedorbit("orbits", *many).stdout
    document = json.loads(fedorbit("orbits", *many, "--json").stdout)
    cells_of_lines = [line.split() for line in text.splitlines() if line.strip()]
    rows = {cells[0]: cells for cells in cells_of_lines if re.fullmatch(r"\d+-\d+", cells[0])}
    assert list(rows) == [f"{first}-{min(first + 2, 49)}" for first in range(0, 50, 3)]
    for first, cells in zip(range(0, 50, 3), rows.values(), strict=True):
        group = slice(first, first + 3)
        in_view = document["visible_rounds"][group]
        assert cells[1] == str(sum(document["satellites_per_orbit"][group]))
        assert cells[2] == f"{sum(in_view) / len(in_view):.0f}"
        assert cells[5] == str(max(document["longest_gaps_rounds"][group]))
    assert "Each row is up to 3 orbits" in text


def test_config_list(fedorbit) -> None:
    assert set(json.loads(fedorbit("config", "list", "--json").stdout)["presets"]) >= {
        "paper",
        "quickstart",
        "starlink-shell1",
        "oneweb",
        "iridium-next",
        "iridium-next-tle",
        "planet-flock",
        "kepler-leo-fl",
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
               "-o", "schedule.rounds=48",
               "-o", "data.synthetic.samples=500")  # fmt: skip
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
    assert "prepare it again with --geo FILE" in refused.stderr


def test_ground_track_does_not_advise_coordinates_where_none_can_be_given(
    fedorbit, tmp_path: Path
) -> None:
    for name in ("training.h5", "testing.h5"):
        write_so2sat(tmp_path / "so2sat" / name, [0, 1, 2, 3])
    fedorbit("data", "prepare", "so2sat", "--source", "so2sat", "--json")
    refused = fedorbit("data", "partition", "-o", "data.name=so2sat",
                       "-o", "partition.scheme=ground-track", code=2)  # fmt: skip
    message = one_sentence(refused)
    assert "needs coordinates" in message
    assert "--geo" not in message
    assert message.endswith("choose another partition.scheme")


def test_inspecting_writes_nothing_without_a_folder(fedorbit, own_cache: Path) -> None:
    first = fedorbit("data", "inspect", "synthetic").stdout
    assert "--out DIR draws a contact sheet." in first
    [dataset] = [f for f in own_cache.iterdir() if not f.name.startswith(".")]
    names = sorted(f.name for f in dataset.iterdir())
    assert names == ["coordinates.npy", "dataset.json", "images.npy", "labels.npy"]
    assert json.loads(fedorbit("data", "inspect", "synthetic", "--json").stdout)["files"] == []


def test_one_damaged_dataset_does_not_hide_the_others(fedorbit, own_cache: Path) -> None:
    small = ("-o", "data.synthetic.samples=50", "-o", "data.synthetic.size=8")
    for seed in ("1", "2"):
        fedorbit("data", "partition", *small, "-o", f"data.synthetic.seed={seed}", "--json")
    broken, whole = sorted(f for f in own_cache.iterdir() if not f.name.startswith("."))
    (broken / "images.npy").write_bytes(b"cut")
    text = " ".join(fedorbit("data", "list").stdout.split())
    assert f"damaged: {broken}/images.npy has 3 bytes" in text
    assert f"{whole.name} 10 8 x 8 x 3 50" in text
    rows = json.loads(fedorbit("data", "list", "--json").stdout)["prepared"]
    assert [row["name"] for row in rows] == [broken.name, whole.name]
    assert "has 3 bytes" in rows[0]["error"]
    assert rows[1]["error"] is None and rows[1]["samples"] == 50


NASTY = "[red]x[/red] [/y] :smile:"


def test_names_are_shown_as_they_are(fedorbit, tmp_path: Path, monkeypatch) -> None:
    # Rich would colour, swallow or refuse what looks like its markup.
    monkeypatch.setenv("FEDORBIT_CACHE", str(tmp_path / "[/cache]"))
    monkeypatch.setattr(output.stdout, "width", 300)
    for label in ("[/a]", "[bold]b[/bold]"):
        for i in range(4):
            file = tmp_path / "images" / label.replace("/", "\u2215") / f"{i}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(np.full((8, 8), i, dtype=np.uint8)).save(file)
    prepared = fedorbit("data", "prepare", "folder", "--source", "images", "--name", "mine")
    assert "[/cache]/mine" in prepared.stdout
    assert "[/cache]" in fedorbit("data", "list").stdout
    inspected = fedorbit("data", "inspect", "mine", "--out", "[x]").stdout
    assert "[bold]b[\u2215bold]" in inspected and "[x]/mine-contact-sheet.png" in inspected
    dealt = fedorbit("data", "partition", "-o", "data.name=mine").stdout
    assert "[bold]b[\u2215bold]" in dealt

    station = ("-o", f"stations.0.name={NASTY}")
    for text in (
        fedorbit("orbits", *station, "--out", "[/out]").stdout,
        fedorbit("orbits", *station, "--contacts", "1", "-o", "schedule.rounds=200").stdout,
    ):
        assert NASTY in text
    assert "[/out]/map.png" in fedorbit("orbits", *station, "--out", "[/out]").stdout
    satellites = [(NASTY, made_satellite(1, 0.0)), ("plain", made_satellite(2, 40.0))]
    (tmp_path / "fleet.json").write_text(omm_json(satellites))
    elements = ("-o", "constellation.kind=elements", "-o", "constellation.file=fleet.json")
    assert NASTY in fedorbit("orbits", *elements, "--contacts", "99").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["orbits", f"{NASTY}.toml"],
        ["orbits", "-o", f"constellation.kind={NASTY}"],
        ["data", "inspect", NASTY],
        ["data", "prepare", "folder", "--source", NASTY],
        ["data", "fetch", NASTY],
        [NASTY],
    ],
)
def test_messages_show_names_as_they_are(fedorbit, arguments: list[str]) -> None:
    assert NASTY in one_sentence(fedorbit(*arguments, code=2))


@pytest.mark.parametrize("command", [[], ["config"], ["data"]])
def test_without_a_command_there_is_help_and_nothing_else(fedorbit, command: list[str]) -> None:
    done = fedorbit(*command, code=2)
    assert "Usage: fedorbit" in done.stdout
    assert "list" in done.stdout or "orbits" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "message", "unwanted"),
    [
        (["data", "prepare", "synthetic", "--size", "16"], "data.synthetic.size=16", "spec"),
        (["data", "prepare", "synthetic", "--source", "x"], "leave --source out", "x/"),
        (["data", "inspect", "mine"], "prepare folder --source PATH --name mine", "fetch"),
        (["data", "partition", "-o", "data.name=Ä"], "cannot name a dataset", "--name"),
        (["data", "prepare", "folder", "--source", ".", "--name", "Ä"], "with --name", "fetch"),
        (["orbits", "."], "is a folder; give a TOML file", "neither"),
        (["orbits", "-o", "stations=5", "-o", "stations.0.name=x"], "must be a list", "Error"),
        (["orbits", "-o", "schedule.start=9999-01-01T00:00:00Z"], "1957 to 2200", "Overflow"),
        (
            ["orbits", "-o", "constellation.planes=10000",
             "-o", "constellation.satellites_per_plane=10000"],
            "must be at most 200000", "memory",
        ),
    ],
)  # fmt: skip
def test_sentences_that_help(fedorbit, arguments, message: str, unwanted: str) -> None:
    sentence = one_sentence(fedorbit(*arguments, code=2))
    assert message in sentence
    assert unwanted not in sentence


def test_times_in_utc_whatever_the_offset_of_the_start(fedorbit) -> None:
    starts = ["2026-03-01T00:30:00Z", "2026-03-01T00:30:00", "2026-02-28T19:00:00-05:30"]
    documents = [
        json.loads(fedorbit("orbits", "-o", f"schedule.start={start}", "--json").stdout)
        for start in starts
    ]
    assert documents[0]["start_utc"] == "2026-03-01T00:30:00+00:00"
    assert documents[0]["contact_list"][0]["rise_utc"] == "2026-03-01T00:30:00.000Z"
    assert documents[0] == documents[1] == documents[2]


def test_a_naive_start_with_element_sets(fedorbit, tmp_path: Path) -> None:
    (tmp_path / "fleet.tle").write_text(tle_text([("A", made_satellite(1, 0.0))]))
    elements = ("-o", "constellation.kind=elements", "-o", "constellation.file=fleet.tle")
    document = json.loads(
        fedorbit("orbits", *elements, "-o", "schedule.start=2026-03-02T00:00:00", "--json").stdout
    )
    assert document["start_utc"] == "2026-03-02T00:00:00+00:00"
    late = ("-o", "schedule.start=2026-06-01T01:00:00+02:00")
    refused = one_sentence(fedorbit("orbits", *elements, *late, code=2))
    assert "from 2026-05-31 23:00 UTC" in refused


@pytest.mark.parametrize(
    "command", ["orbits --json", "orbits", "config show", "--help", "data list", "config list"]
)
def test_a_reader_that_stops_early_is_no_error(process, command: str) -> None:
    # `true` has gone before the first line is written.
    line = f"fedorbit {command} | true; echo ${{PIPESTATUS[0]}} >&2"
    assert process(f"bash -c '{line}'").stderr == "0\n"


def test_output_in_ascii(process) -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    station = "-o stations.0.name=Tromsø"
    text = process(f"fedorbit orbits {station}", **ascii_only).stdout
    assert text.isascii()
    assert "Troms?" in text and "66.5 deg" in text
    assert "..:" in text  # the timeline in other shades
    document = process(f"fedorbit orbits {station} --json", **ascii_only).stdout
    assert document.isascii()
    assert json.loads(document)["stations"] == ["Tromsø"]
    shown = process(f"fedorbit config show {station}", **ascii_only).stdout
    assert shown.isascii()
    assert tomllib.loads(shown)["stations"][0]["name"] == "Tromsø"
    dealt = process("fedorbit data partition -o data.synthetic.samples=100", **ascii_only).stdout
    assert dealt.isascii() and "?" not in dealt
    refused = process("fedorbit orbits Tromsø", code=2, **ascii_only)
    assert "'Troms?' is neither" in one_sentence(refused)


def test_a_full_disk_is_one_sentence_with_the_file(process) -> None:
    done = process("bash -c 'ulimit -f 8; fedorbit orbits --out figures --json'", code=2)
    assert one_sentence(done) == "figures/timeline.png: the disk is full"


def completions(process, words: str) -> list[str]:
    done = process(
        "fedorbit",
        _FEDORBIT_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_paths(process, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("mine.toml", "sub/deep.toml", "other.txt"):
        (tmp_path / name).write_text("")
    assert completions(process, "fedorbit orbits m") == ["mine.toml"]
    assert completions(process, "fedorbit orbits sub/") == ["sub/deep.toml"]
    assert completions(process, f"fedorbit orbits {tmp_path}/") == [f"{tmp_path}/mine.toml"]
    assert completions(process, f"fedorbit orbits {tmp_path}/sub/d") == [
        f"{tmp_path}/sub/deep.toml"
    ]
    assert completions(process, "fedorbit orbits /nowhere/x") == []
    assert completions(process, "fedorbit orbits [") == []


def test_completion_of_sources_and_datasets(process, fedorbit) -> None:
    assert completions(process, "fedorbit data prepare s") == ["so2sat", "synthetic"]
    assert completions(process, "fedorbit data fetch s") == ["so2sat"]
    small = ("-o", "data.synthetic.samples=50", "-o", "data.synthetic.size=8")
    name = json.loads(fedorbit("data", "partition", *small, "--json").stdout)["dataset"]
    assert completions(process, "fedorbit data inspect s") == [name, "synthetic"]


def test_bad_input_as_a_process(process) -> None:
    done = process("fedorbit orbits papr", code=2)
    assert one_sentence(done).startswith("'papr' is neither a preset nor a file")


def test_ctrl_c_is_answered_at_once_and_leaves_nothing(own_cache: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "fedorbit", "data", "partition"]
    big = ["-o", "data.synthetic.samples=2000000"]
    running = subprocess.Popen(line + big, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    try:
        while not list(own_cache.glob(".synthetic-*.partial/images.npy")):
            assert running.poll() is None
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        _, message = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert message == "fedorbit: interrupted\n"
    assert not list(own_cache.glob(".*partial*"))
    assert not list(own_cache.glob("synthetic*"))


@pytest.mark.parametrize(
    "begin", ["from fedorbit.cli import main; main()", "import fedorbit.__main__"]
)
@pytest.mark.parametrize("while_importing", ["numpy", "typer"])
def test_ctrl_c_while_the_program_loads_is_no_traceback(begin: str, while_importing: str) -> None:
    code = f"""
import sys
class CtrlC:
    def find_spec(self, name, *rest):
        if name == {while_importing!r}:
            raise KeyboardInterrupt
sys.meta_path.insert(0, CtrlC())
{begin}
"""
    line = [sys.executable, "-c", code, "--version"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "fedorbit: interrupted\n")
