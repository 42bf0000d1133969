"""`fedorbit data` as a user runs it, on real files."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from tests.cli.answers import one_sentence
from tests.data.source_fixtures import write_so2sat


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
    assert f"{whole.name} Generated land cover 10 8 x 8 x 3 uint8 50 0.0 MB" in text
    rows = json.loads(fedorbit("data", "list", "--json").stdout)["prepared"]
    assert [row["name"] for row in rows] == [broken.name, whole.name]
    assert "has 3 bytes" in rows[0]["error"]
    assert rows[1]["error"] is None and rows[1]["samples"] == 50


def test_a_flipped_bit_is_listed_as_damage(fedorbit, own_cache: Path) -> None:
    small = ("-o", "data.synthetic.samples=50", "-o", "data.synthetic.size=8")
    for seed in ("1", "2"):
        fedorbit("data", "partition", *small, "-o", f"data.synthetic.seed={seed}", "--json")
    broken, whole = sorted(f for f in own_cache.iterdir() if not f.name.startswith("."))
    content = bytearray((broken / "labels.npy").read_bytes())
    content[content.index(b"'descr'")] ^= 1 << 2  # the quote becomes a hash: no Python any more
    (broken / "labels.npy").write_bytes(content)
    text = " ".join(fedorbit("data", "list").stdout.split())
    assert f"damaged: {broken} is damaged (labels.npy" in text
    assert f"{whole.name} Generated land cover 10 8 x 8 x 3 uint8 50 0.0 MB" in text
    rows = json.loads(fedorbit("data", "list", "--json").stdout)["prepared"]
    assert "is damaged (labels.npy" in rows[0]["error"]
    assert rows[1]["error"] is None
    refused = one_sentence(fedorbit("data", "inspect", broken.name, code=2))
    assert "is damaged (labels.npy" in refused


def test_limits_are_options(fedorbit, tmp_path: Path) -> None:
    for label in ("field", "town"):
        file = tmp_path / "images" / label / "1.png"
        file.parent.mkdir(parents=True)
        Image.new("RGB", (700, 700)).save(file)
    arguments = ("data", "prepare", "folder", "--source", "images", "--json")
    refused = one_sentence(fedorbit(*arguments, "--max-image-mb", "1", code=2))
    assert "1.png is 700x700 pixels, decoded 1,470,000 bytes; allowed are 1,000,000;" in refused
    assert refused.endswith("or raise --max-image-mb to 2 if it is genuine")
    assert json.loads(fedorbit(*arguments, "--max-image-mb", "2").stdout)["newly_prepared"]


def test_remove_and_sizes_on_disk(fedorbit, own_cache: Path) -> None:
    fedorbit("data", "partition", "-o", "data.synthetic.samples=50", "--json")
    (listed,) = json.loads(fedorbit("data", "list", "--json").stdout)["prepared"]
    files = list((own_cache / listed["name"]).iterdir())
    assert listed["size_bytes"] == sum(file.stat().st_size for file in files)
    done = json.loads(fedorbit("data", "remove", listed["name"], "--json").stdout)
    assert done == {"name": listed["name"], "freed_bytes": listed["size_bytes"]}
    assert json.loads(fedorbit("data", "list", "--json").stdout)["prepared"] == []
    text = fedorbit("data", "remove", listed["name"], code=2).stderr
    assert "is not prepared, so there is nothing to remove; prepared are: none" in text


def test_inspect_measures_bands(fedorbit) -> None:
    document = json.loads(fedorbit("data", "inspect", "synthetic", "--json").stdout)
    assert len(document["band_statistics"]) == 3
    assert set(document["band_statistics"][0]) == {"lowest", "highest", "mean", "deviation"}
