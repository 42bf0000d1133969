"""Contents of a report: groups of runs, figures, gaps, and that no name can break the page."""

import html
import html.parser
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from fedorbit.config import load_config
from fedorbit.errors import RunError
from fedorbit.report import confusions, document, run_links
from fedorbit.report.curves import (
    NOTED,
    against,
    further_metrics,
    headline_rows,
    in_hours,
    orbit_accuracies,
    visible_windows,
)
from fedorbit.report.document import MAX_POINTS, page_document
from fedorbit.report.noted import KINDS, noted_curve, noting
from fedorbit.report.page import build_page, write_page
from fedorbit.report.paper_figures import write_figures
from fedorbit.report.replicates import Comparison, compare
from fedorbit.report.runfiles import read_runs
from fedorbit.report.wording import summary_line
from fedorbit.simulation.records import method_folder
from tests.report.run_folders import (
    EVIL,
    ROUNDS,
    VISIBLE,
    linked_world,
    record,
    visits,
    world,
    write_run,
    write_space,
)


def compared(*folders: Path) -> Comparison:
    return compare(read_runs(folders))


def embedded(page: str) -> dict:
    [text] = re.findall(r'id="report-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(text)


# --- What belongs together ----------------------------------------------------------------------


def test_seeds_are_replicates_and_methods_of_two_folders_are_compared(tmp_path: Path) -> None:
    for seed, accuracy in ((0, 60.0), (1, 70.0), (2, 80.0)):
        write_run(tmp_path / f"base-{seed}", {"fedavg": accuracy - 20.0}, seed=seed)
        write_run(tmp_path / f"own-{seed}", {"fedorbit": accuracy}, seed=seed)
    comparison = compared(tmp_path)
    [setting] = comparison.settings
    assert setting.label == ""
    fedavg, fedorbit = headline_rows(setting)
    assert (fedorbit.series, fedorbit.seeds, fedorbit.is_finished) == ("fedorbit", (0, 1, 2), True)
    assert fedorbit.accuracy.mean == 70.0
    assert fedorbit.accuracy.std == 10.0  # of 60, 70 and 80
    assert (fedorbit.best, fedavg.best) == (("accuracy", "spread"), ("spread",))


def test_a_part_of_the_images_is_said_on_top(tmp_path: Path) -> None:
    part = write_run(tmp_path / "part", {"fedavg": 50.0}, data={"name": "eurosat", "share": 0.05})
    assert summary_line(compared(part)).startswith("0.05 of the images · 3 orbits of 1 satellites")
    whole = write_run(tmp_path / "whole", {"fedavg": 50.0}, data={"name": "eurosat"})
    assert summary_line(compared(whole)).startswith("3 orbits of 1 satellites")


def test_orbits_that_relay_are_reached_others_are_in_view(tmp_path: Path) -> None:
    physical = {"rounds": 12, "method": ["fedavg"], "links": "physical"}
    relayed = {"run": physical, "network": {"isl": "line-of-sight"}}
    for name, changes, seen_as, caption in (
        ("relayed", relayed, "reached", "a station reaches an orbit, directly or relayed;"),
        ("assumed", {"run": physical}, "in view", "a station sees an orbit;"),
        ("none", {**relayed, "network": {"isl": "none"}}, "in view", "a station sees an orbit;"),
    ):
        run = write_run(tmp_path / name, {"fedavg": 50.0}, setting=world(), **changes)
        page = build_page(compared(run))
        assert embedded(page)["settings"][0]["seen_as"] == seen_as
        text = " ".join(Parsed(page).texts)
        assert f"Rounds in which {caption}" in text and f"rounds {seen_as} share" in text


def test_published_values_come_from_the_study_of_the_run(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_run(tmp_path / name, {"fedavg" if name == "a" else "ditto": 50.0})
    (tmp_path / "study.toml").write_text(
        '[[cells]]\nfolder = "a"\npublished = [68.7, 28.4]\n[[cells]]\nfolder = "b"\n'
    )
    comparison = compared(tmp_path)
    fedavg, ditto = headline_rows(comparison.settings[0])
    assert (fedavg.published, ditto.published) == ((68.7, 28.4), None)
    page = write_page(tmp_path / "page.html", comparison).read_text()
    assert page.count("published 68.7") == page.count("published 28.4") == 1
    (tmp_path / "study.toml").write_text("[[cells]]\nfolder = 3\n")  # not what it should be
    assert headline_rows(compared(tmp_path).settings[0])[0].published is None


def test_an_empty_list_is_no_setting(tmp_path: Path) -> None:
    write_run(tmp_path / "new", {"fedavg": 50.0})
    old = write_run(tmp_path / "old", {"ditto": 50.0}) / "config.toml"
    lines = old.read_text().splitlines(keepends=True)
    assert any(line.startswith("events = []") for line in lines)
    old.write_text("".join(line for line in lines if not line.startswith("events = []")))
    [setting] = compared(tmp_path).settings
    assert {series.label for series in setting.series} == {"fedavg", "ditto"}


def test_settings_are_named_by_what_differs(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"fedavg": 50.0})
    write_run(tmp_path / "b", {"fedavg": 50.0}, partition={"scheme": "pathological"})
    engine = {"workers": 7, "kind": "ray", "ray_data": "path"}
    how = {"engine": engine, "tracking": {"tensorboard": True}}
    write_run(tmp_path / "c", {"fedavg": 50.0}, training={"rate": 0.5}, **how)
    labels = [setting.label for setting in compared(tmp_path).settings]
    assert labels == [
        "dirichlet, training.rate 0.01",
        "pathological, training.rate 0.01",
        "dirichlet, training.rate 0.5",
    ]


def test_settings_that_differ_in_much_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    for name in ("starlink-shell1", "iridium-next", "paper"):
        values = load_config(name).model_dump(exclude={"run", "methods"}, exclude_none=True)
        write_run(tmp_path / name, {"fedavg": 50.0}, **values)
    labels = [setting.label for setting in compared(tmp_path).settings]
    assert labels == ["planes 6", "planes 5", "planes 72"]


def test_a_setting_without_what_others_have_is_named_too(tmp_path: Path) -> None:
    write_run(tmp_path / "plain", {"fedavg": 50.0})
    [alone] = compared(tmp_path).settings
    assert alone.label == ""
    write_run(tmp_path / "slow", {"fedavg": 50.0}, onboard={"samples_per_s": 10.0})
    labels = [setting.label for setting in compared(tmp_path).settings]
    assert labels[0] == "without onboard"
    assert labels[1].startswith("onboard.samples_per_s ")


def test_variants_of_a_method_stand_side_by_side(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"fedavg": 50.0, "fedorbit": 60.0})
    write_run(tmp_path / "b", {"fedorbit": 70.0}, methods={"fedorbit": {"rho": 0.9}})
    [setting] = compared(tmp_path).settings
    assert [series.label for series in setting.series] == [
        "fedavg",
        "fedorbit",
        "fedorbit (rho 0.9)",
    ]


def study_file(folder: Path, variants: dict[str, str], of_run: dict[str, str]) -> None:
    """Write what a report reads of a study: settings by variant, and the variant of each run."""
    lines = ['title = "which is best?"']
    lines += [
        f'[[variants]]\nname = "{name}"\nlabel = "called {name}"\nsettings = {settings}'
        for name, settings in variants.items()
    ]
    lines += [f'[[cells]]\nfolder = "{run}"\nvariant = "{v}"' for run, v in of_run.items()]
    (folder / "study.toml").write_text("\n".join(lines))


def test_series_are_called_as_the_study_calls_them(tmp_path: Path) -> None:
    few = {"rho": 0.9, "kappa": 0.0, "class_rows": False, "continuous": False}
    write_run(tmp_path / "a", {"fedorbit": 60.0})
    write_run(tmp_path / "b", {"fedorbit": 70.0}, methods={"fedorbit": few})
    variants = {"full": "{}", "few": "{ methods.fedorbit.rho = 0.9, methods.fedorbit.kappa = 0.0 }"}
    study_file(tmp_path, variants, {"b": "few", "a": "full"})
    assert compared(tmp_path).labels == ["called few", "called full"]  # in the study's order
    page = build_page(compared(tmp_path))
    assert "called few" in page and "<h1>synthetic: which is best?</h1>" in page
    write_run(tmp_path / "c", {"fedavg": 50.0})  # beside others a method is called by its name
    assert compared(tmp_path).labels == ["fedorbit, called few", "fedorbit", "fedavg"]
    write_run(tmp_path / "d", {"fedorbit": 70.0}, methods={"fedorbit": {**few, "rho": 0.8}})
    study_file(tmp_path, variants, {"a": "full", "b": "few", "d": "few"})
    assert all("called" not in label for label in compared(tmp_path).labels)  # not telling


def test_methods_that_a_study_trains_for_other_epochs_are_in_one_setting(tmp_path: Path) -> None:
    for name, method, epochs in (("a", "fedavg", 20), ("b", "local", 10), ("c", "local", 5)):
        write_run(tmp_path / name, {method: 50.0}, training={"epochs": epochs})
    assert len(compared(tmp_path).settings) == 3  # outside of a study epochs are a setting
    cells = [f'folder = "{n}"\nsettings = {{ "training.epochs" = 1 }}' for n in "abc"]
    (tmp_path / "study.toml").write_text("\n".join(f"[[cells]]\n{cell}" for cell in cells))
    [setting] = compared(tmp_path).settings
    labels = ["fedavg", "local (training.epochs 10)", "local (training.epochs 5)"]
    assert [series.label for series in setting.series] == labels
    assert [series.parameters["training.epochs"] for series in setting.series] == [20, 10, 5]


def test_variants_of_training_settings_are_series(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"fedavg": 50.0})
    write_run(tmp_path / "b", {"fedavg": 60.0}, training={"running_mean": 0.9})
    variants = {"full": "{ training.running_mean = 0.9 }", "none": "{}"}
    study_file(tmp_path, variants, {"a": "none", "b": "full"})
    [setting] = compared(tmp_path).settings
    assert [series.label for series in setting.series] == ["called none", "called full"]


def test_settings_are_called_as_the_study_calls_them(tmp_path: Path) -> None:
    for scheme in ("dirichlet", "pathological"):
        for name, events in {
            "static": [],
            "fails": [{"round": 6, "kind": "leave", "orbit": 1}],
            "joins": [{"round": 3, "kind": "join", "orbit": 1}],
        }.items():
            folder = tmp_path / f"{name}-{scheme}"
            write_run(folder, {"fedavg": 50.0}, partition={"scheme": scheme}, events=events)
    events = '{{ events = [{{ round = {}, kind = "{}", orbit = 1 }}] }}'
    variants = {
        "static": "{}", "fails": events.format(6, "leave"), "joins": events.format(3, "join")
    }  # fmt: skip
    runs = {path.name: path.name.split("-")[0] for path in tmp_path.iterdir()}
    study_file(tmp_path, variants, runs)
    assert {setting.label for setting in compared(tmp_path).settings} == {
        f"{scheme}, called {name}" for scheme in ("dirichlet", "pathological") for name in variants
    }


def test_of_twins_the_one_that_got_further_is_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "first", {"fedavg": 50.0}, unfinished=("fedavg",))
    write_run(tmp_path / "second", {"fedavg": 60.0})
    comparison = compared(tmp_path)
    [row] = headline_rows(comparison.settings[0])
    assert (row.accuracy.mean, row.seeds) == (60.0, (0,))
    assert any("first is left out" in note for note in comparison.notes)


# --- What is said -------------------------------------------------------------------------------


def test_an_unfinished_run_is_shown_as_far_as_it_got(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", {"fedavg": 50.0, "ditto": 90.0}, unfinished=("ditto",), setting=world()
    )
    comparison = compared(folder)
    fedavg, ditto = headline_rows(comparison.settings[0])
    assert (ditto.accuracy.mean, ditto.rounds, ditto.is_finished) == (90.0, ROUNDS // 2, False)
    assert ditto.samples_trained.mean == 6000.0
    assert fedavg.best == ditto.best == ()  # nobody to compare with
    page = build_page(comparison)
    assert "ditto (unfinished, 6 of 12 rounds)" in page
    assert "ditto in run is not finished: 6 of 12 rounds are recorded." in page


def test_a_setting_that_has_not_begun_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"fedavg": 50.0})
    waiting = write_run(
        tmp_path / "b",
        {"fedavg": 50.0},
        partition={"scheme": "pathological"},
        unfinished=("fedavg",),
    )
    (waiting / "fedavg" / "records.jsonl").unlink()
    comparison = compared(tmp_path)
    page = build_page(comparison)
    assert "No round of this setting is recorded yet." in page
    assert "fedavg in b is not finished: 0 of 12 rounds are recorded." in page
    written = write_figures(tmp_path / "figures", comparison)
    assert {"accuracy-dirichlet.pdf"} <= {path.name for path in written}
    assert not any("pathological" in path.name for path in written)


def test_the_centralised_bound_does_not_compete(tmp_path: Path) -> None:
    methods = {"fedavg": 50.0, "ditto": 60.0, "local": 59.98, "centralised": 90.0}
    write_run(tmp_path / "run", methods)
    write_run(tmp_path / "more", {"centralised": 95.0}, methods={"centralised": {"epochs": 3}})
    rows = headline_rows(compared(tmp_path).settings[0])
    best = {row.series for row in rows if "accuracy" in row.best}
    assert best == {"ditto", "local"}  # 59.98 prints as 60.0, too
    assert len(rows) == 5


def test_curves_follow_the_records(tmp_path: Path) -> None:
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}))
    [series] = comparison.settings[0].series
    cost = against(series, "accuracy", ["to_ground_bytes", "from_ground_bytes"])
    assert cost.x.tolist() == [150.0 * (t + 1) for t in range(ROUNDS)]
    rounds, rows = orbit_accuracies(series)
    assert rounds.tolist() == list(range(ROUNDS))
    assert rows[:, -1].tolist() == [40.0, 50.0, 60.0]


def test_without_a_setting_the_records_tell_who_was_in_view(tmp_path: Path) -> None:
    comparison = compared(write_run(tmp_path / "old", {"fedavg": 50.0}))
    assert visible_windows(comparison.settings[0]) == VISIBLE
    page = build_page(comparison)
    assert "Left out: the run left no world.json." in page
    assert "old left no world.json" in page
    assert 'data-chart="map"' not in page and 'data-chart="timeline"' in page


def test_rounds_that_were_not_evaluated_tell_nothing(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "old", {"fedavg": 50.0})
    lines = "".join(json.dumps(record(t, 50.0)) + "\n" for t in (3, 7, 11))
    (folder / "fedavg" / "records.jsonl").write_text(lines)
    comparison = compared(folder)
    assert visible_windows(comparison.settings[0]) is None
    assert "Contacts" in build_page(comparison)


def test_long_runs_of_many_orbits_stay_a_small_page(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "long", {"fedavg": 50.0}, unfinished=("fedavg",))
    rows = []
    for t in range(3000):
        many = {"orbit_accuracy": [50.123456] * 72, "orbit_loss": [None] * 72, "epochs": [1] * 72}
        rows.append({**record(t, 50.0), **many})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "fedavg" / "records.jsonl").write_text(text)
    comparison = compared(folder)
    [setting] = page_document(comparison)["settings"]
    assert len(setting["accuracy"][0]["x"]) == MAX_POINTS
    assert setting["accuracy"][0]["x"][-1] == 2999
    assert len(setting["orbits"][0]["rows"]) == 72
    assert write_page(tmp_path / "page.html", comparison).stat().st_size < 500_000


def test_passes_are_contacts_where_the_run_knows_them(tmp_path: Path) -> None:
    old = compared(write_run(tmp_path / "old", {"fedavg": 50.0}, setting=world()))
    text = " ".join(Parsed(build_page(old)).texts)
    assert "share runs of rounds orbit 0 3 25.0 % 2 orbit 1" in text
    contacts = {
        "format": 1, "satellites": 3, "servers": 1, "horizon_s": 12_000.0,
        "kinds": ["ground", "platform", "isl"], "count": 1, "first": [0], "second": [3],
        "begin_s": [0.0], "end_s": [400.0], "kind": [0], "range_km": [None],
    }  # fmt: skip
    setting = {**world(), "format": 2, "passes": [4, 1, 0], "contacts": contacts}
    new = compared(write_run(tmp_path / "new", {"fedavg": 50.0}, setting=setting))
    text = " ".join(Parsed(build_page(new)).texts)
    assert "share passes orbit 0 3 25.0 % 4 orbit 1" in text
    for broken in ({"passes": [4, 1]}, {"contacts": {**contacts, "end_s": [0.0]}}, {"format": 3}):
        damaged = {**setting, **broken}
        if "format" in broken:
            del damaged["contacts"]
        name = f"broken-{next(iter(broken))}"
        folder = write_run(tmp_path / name, {"fedavg": 50.0}, setting=damaged)
        with pytest.raises(RunError, match=r"world.json was damaged or changed"):
            compared(folder)


def test_links_between_satellites_are_listed_and_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=linked_world()))
    [shown] = page_document(comparison)["worlds"]
    expected = [
        [pair for pair, rounds in (([0, 1], (0, 1, 2, 10)), ([1, 2], range(1, 12))) if t in rounds]
        for t in range(12)
    ]
    assert [sorted(row) for row in shown["links"]] == expected
    text = " ".join(Parsed(build_page(comparison)).texts)
    assert "have 0 windows within orbits and 3 between orbits" in text
    assert "Thin lines: links between satellites." in text
    # Of 3,600 s of the run 650 + 300 are linked, and 3,300.
    assert "median, s linked 0 and 1 2 475 26.4 % 1 and 2 1 3300 91.7 %" in text
    assert "a b 0.0 650.0 650.0 b c 300.0 3600.0 3300.0 a b 3000.0 3300.0 300.0" in text
    monkeypatch.setattr(run_links, "MAX_LINES", 14)  # there are 15
    [shown] = page_document(comparison)["worlds"]
    assert "links" not in shown
    text = " ".join(Parsed(build_page(comparison)).texts)
    assert "Thin lines" not in text and "and 3 between orbits" in text


def test_links_of_satellites_that_the_map_leaves_out_are_left_out(tmp_path: Path) -> None:
    setting = linked_world()
    positions = setting["positions"]
    for name in ("satellites", "orbit_of_satellite", "names"):
        positions[name] = positions[name][1:]
    for name in ("latitude_deg", "longitude_deg"):
        positions[name] = [row[1:] for row in positions[name]]
    positions["seen"] = [[] for _ in positions["seen"]]
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=setting))
    [shown] = page_document(comparison)["worlds"]
    assert shown["links"] == [[], *[[[0, 1]]] * 11]  # b and c are the first two that are shown
    setting["contacts"]["satellites"] = 2
    folder = write_run(tmp_path / "broken", {"fedavg": 50.0}, setting=setting)
    with pytest.raises(RunError, match=r"world.json was damaged or changed"):
        compared(folder)


def test_a_plan_without_links_says_nothing_of_them(tmp_path: Path) -> None:
    setting = linked_world()
    contacts = setting["contacts"]
    kept = [i for i, node in enumerate(contacts["second"]) if node == 3]
    for name in ("first", "second", "begin_s", "end_s", "kind", "range_km"):
        contacts[name] = [contacts[name][i] for i in kept]
    contacts["count"] = len(kept)
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=setting))
    assert "links" not in page_document(comparison)["worlds"][0]
    text = " ".join(Parsed(build_page(comparison)).texts)
    assert "Thin lines" not in text and "windows within orbits" not in text


def test_contacts_are_counted_before_they_are_thinned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(document, "MAX_WINDOWS", 1)
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world()))
    [setting] = page_document(comparison)["settings"]
    assert setting["visible"] != VISIBLE and setting["in_view"] == [3, 2, 0]
    page = " ".join(Parsed(build_page(comparison)).texts)
    assert "orbit 0 3 25.0 % 2" in page  # 3 of 12 rounds in 2 runs of rounds
    assert "58.3 % of rounds have none" in page  # 7 of 12


def test_an_orbit_that_has_left_has_no_accuracy_in_the_last_round(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {"fedavg": 50.0})
    path = folder / "fedavg" / "records.jsonl"
    *before, last = [json.loads(line) for line in path.read_text().splitlines()]
    last["orbit_accuracy"][2] = None
    path.write_text("".join(json.dumps(row) + "\n" for row in [*before, last]))
    page = build_page(compared(folder))
    assert "fedavg: lowest 40.0, highest 50.0 %" in page  # orbit 2 had 60


def relayed(folder: Path) -> Path:
    """A run over physical links: orbit 0 has one contact with the station, of 600 s, two rounds."""
    return write_run(
        folder,
        {"fedavg": 50.0},
        setting=linked_world(),
        network={"isl": "line-of-sight"},
        run={"rounds": ROUNDS, "method": ["fedavg"], "links": "physical"},
    )


def test_many_settings_or_other_rounds_are_not_shown_together(tmp_path: Path) -> None:
    for number in range(7):
        write_run(tmp_path / f"{number}", {"fedavg": 50.0}, training={"epochs": 1 + number})
    write_run(tmp_path / "long", {"fedavg": 50.0}, schedule={"round_s": 600.0})
    runs = [tmp_path / f"{number}" for number in range(7)]
    assert compared(*runs[:6]).fits_one_chart
    assert "all together" in build_page(compared(*runs[:2]))
    for others in (runs, runs[:1], [runs[0], tmp_path / "long"]):
        assert not compared(*others).fits_one_chart
    assert "all together" not in build_page(compared(runs[0], tmp_path / "long"))


def test_a_matrix_of_many_classes_is_no_table(tmp_path: Path) -> None:
    [setting] = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world())).settings
    assert "field" in str(confusions.matrix_tables(setting, ["field", "town"]))
    assert confusions.matrix_tables(setting, [f"{c}" for c in range(16)]) is None


def test_direct_contacts_are_told_from_relayed_ones(tmp_path: Path) -> None:
    comparison = compared(relayed(tmp_path / "run"))
    [shown] = page_document(comparison)["settings"]
    assert shown["visible"] == VISIBLE
    assert shown["direct"] == [[[0, 2]], [], []] and shown["in_direct"] == [2, 0, 0]
    page = build_page(comparison)
    assert "Light: reached over other satellites." in page
    told = " ".join(Parsed(page).texts)
    assert "orbit rounds reached share direct passes orbit 0 3 25.0 % 2 2" in told


def test_direct_contacts_need_the_orbit_of_every_satellite(tmp_path: Path) -> None:
    far = linked_world()
    far["positions"]["of_satellites"] = 4
    assert run_links.direct_windows(linked_world()) is not None
    assert run_links.direct_windows(far) is None
    assert run_links.direct_windows(world()) is None


@pytest.mark.parametrize(
    ("seeds", "caption"),
    [(1, ""), (2, " Bands span the two seeds."), (3, " Bands are 95 % confidence intervals")],
)
def test_captions_say_what_bands_are(tmp_path: Path, seeds: int, caption: str) -> None:
    for seed in range(seeds):
        write_run(tmp_path / "runs" / f"{seed}", {"fedavg": 50.0 + 4 * seed}, seed=seed)
    comparison = compared(tmp_path / "runs")
    page = build_page(comparison)
    assert f"Mean over orbits, %.{caption}" in page
    assert page.count(" Bands ") == (seeds > 1)
    [curve] = page_document(comparison)["settings"][0]["accuracy"]
    if seeds == 2:
        assert (curve["mean"][0], curve["half"][0]) == (52, 2)  # from 50 to 54


# --- What methods noted --------------------------------------------------------------------------


def order_of_charts(page: str) -> list[str]:
    return re.findall(r'data-chart="(\w+)"', page)


def test_notes_are_curves_over_rounds_and_hours(tmp_path: Path) -> None:
    [setting] = compared(write_space(tmp_path / "runs", seeds=(0, 1))).settings
    fedsat = next(s for s in setting.series if s.label == "fedsat")
    staleness = noted_curve(fedsat, "staleness")
    # Rounds of 300 s; 1, 4, 7 and 10 have aggregations. Seed 1 lags 2 more: means are t + 1.
    assert staleness.x.tolist() == [1, 4, 7, 10]
    hours = in_hours(staleness, setting.run.round_s)
    assert hours.x == pytest.approx([(t + 1) / 12 for t in (1, 4, 7, 10)])
    assert staleness.mean.tolist() == [2.0, 5.0, 8.0, 11.0]
    assert staleness.half == pytest.approx(4 * [1.0])  # from one seed to the other
    assert noted_curve(fedsat, "version").mean.tolist() == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4]
    assert noted_curve(fedsat, "idle_visit").mean.tolist() == 3 * [0] + 4 * [5] + 4 * [10] + [15]
    assert [s.label for s in noting(setting, "staleness")] == ["fedsat"]
    assert tuple(KINDS) == NOTED


def test_what_was_noted_has_charts_and_columns(tmp_path: Path) -> None:
    comparison = compared(write_space(tmp_path / "runs"))
    page = build_page(comparison)
    first = order_of_charts(page)[:6]
    assert first == ["accuracy", "staleness", "version", "idle_visit", "spread", "samples"]
    [shown] = embedded(page)["settings"]
    fedsat = comparison.labels.index("fedsat")
    assert shown["by_clock"] is True and shown["round_h"] == pytest.approx(1 / 12)
    assert [c["series"] for c in shown["noted"]["staleness"]] == [fedsat]
    assert shown["noted"]["staleness"][0]["x"] == [1, 4, 7, 10]
    told = " ".join(Parsed(page).texts)
    assert "FedAvg hours to 80 % of final staleness idle visits seeds" in told
    # (1 + 4 + 7 + 10) / 4 = 5.5; all accuracies are the same, so reached in the first 5 minutes.
    assert "fedsat 60.0 20.0 12.0 k 1.20 kB 1.00 × 0.1 5.5 15 1" in told
    assert "fedavg 50.0 20.0 12.0 k 1.20 kB 1.00 × 0.1 – – 1" in told
    assert "Over the run: fedsat 5.5." in page and "Over the run: fedsat 15." in page
    assert "Over the run: fedsat 4." in page  # versions


def test_an_unfinished_run_shows_what_it_noted_so_far(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run", {"fedsat": 50.0}, unfinished=("fedsat",), notes={"fedsat": visits()}
    )
    [row] = headline_rows(compared(folder).settings[0])
    assert row.further["staleness"].mean == 2.5  # of 1 and 4
    assert row.further["idle_visits"].mean == 5.0


def test_without_notes_the_page_is_as_ever(tmp_path: Path) -> None:
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world()))
    page = build_page(comparison)
    assert order_of_charts(page)[:4] == ["accuracy", "spread", "samples", "bytes"]
    assert embedded(page)["settings"][0]["by_clock"] is False
    assert "noted" not in embedded(page)["settings"][0]
    assert further_metrics(comparison.settings) == []


def test_notes_of_another_kind_make_no_chart(tmp_path: Path) -> None:
    notes = {"fedavg": [{"aggregation_s": {"count": 1, "mean": 3.0, "max": 3.0, "last": 3.0}}]}
    comparison = compared(write_run(tmp_path / "run", {"fedavg": 50.0}, notes=notes))
    assert order_of_charts(build_page(comparison))[0] == "accuracy"
    assert further_metrics(comparison.settings) == []


def test_a_study_that_asks_for_hours_and_bytes_has_them(tmp_path: Path) -> None:
    write_run(tmp_path / "a", {"fedavg": 50.0})
    metrics = '["accuracy", "hours_to_80", "isl", "staleness"]'
    (tmp_path / "study.toml").write_text(
        f'title = "when?"\n[table]\nmetrics = {metrics}\n[[cells]]\nfolder = "a"\n'
    )
    comparison = compared(tmp_path)
    assert further_metrics(comparison.settings) == ["hours_to_80", "isl"]  # no staleness is known
    page = build_page(comparison)
    assert embedded(page)["settings"][0]["by_clock"] is True
    assert "hours to 80 % of final inter-satellite seeds" in " ".join(Parsed(page).texts)


def test_hours_at_an_accuracy_that_only_some_seeds_reach_have_no_mean(tmp_path: Path) -> None:
    for seed, accuracy in enumerate((60.0, 50.0)):
        write_run(tmp_path / str(seed), {"fedavg": accuracy, "local": 60.0}, seed=seed)
    cells = "".join(f'[[cells]]\nfolder = "{seed}"\n' for seed in (0, 1))
    metrics = '["hours_at_55", "hours_at_99", "hours_at_x"]'
    (tmp_path / "study.toml").write_text(f'title = "x"\n[table]\nmetrics = {metrics}\n{cells}')
    comparison = compared(tmp_path)
    assert further_metrics(comparison.settings) == ["hours_at_55"]  # the others have no value
    rows = {row.series: row for row in headline_rows(comparison.settings[0])}
    assert rows["fedavg"].printed("hours_at_55") == "1/2 runs"
    assert rows["local"].printed("hours_at_55").endswith("± 0.0")
    assert "hours at 55 %" in " ".join(Parsed(build_page(comparison)).texts)


def test_what_a_variant_sets_with_its_setting_makes_no_series(tmp_path: Path) -> None:
    low, high = {"altitude_km": 550.0}, {"altitude_km": 2000.0}
    fleet = {"planes": 3, "satellites_per_plane": 1}
    period = {"fedasync": {"period_s": 7632.0}}
    write_run(tmp_path / "low", {"fedasync": 50.0}, constellation={**fleet, **low})
    write_run(
        tmp_path / "high", {"fedasync": 60.0}, constellation={**fleet, **high}, methods=period
    )
    assert compared(tmp_path).labels == ["fedasync (period_s 7632.0)", "fedasync"]
    settings = "{ constellation.altitude_km = 2000.0, methods.fedasync.period_s = 7632.0 }"
    study_file(tmp_path, {"low": "{}", "high": settings}, {"low": "low", "high": "high"})
    comparison = compared(tmp_path)
    assert comparison.labels == ["fedasync"]
    assert [setting.label for setting in comparison.settings] == ["called low", "called high"]
    # Runs of one setting that differ in it are two series all the same.
    write_run(tmp_path / "more", {"fedasync": 60.0}, constellation={**fleet, **high})
    variants = {"low": "{}", "high": settings, "more": "{ constellation.altitude_km = 2000.0 }"}
    study_file(tmp_path, variants, {"low": "low", "high": "high", "more": "more"})
    assert len(compared(tmp_path).labels) == 2


# --- Names are anybody's text -------------------------------------------------------------------


class Parsed(html.parser.HTMLParser):
    """Counts scripts and collects texts the way a browser splits a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.scripts, self.handlers, self.texts = 0, 0, []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.scripts += tag == "script"
        self.handlers += sum(name.startswith("on") for name, _ in attributes)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_no_name_becomes_markup(tmp_path: Path) -> None:
    folder = write_run(
        tmp_path / "run<b>",
        {EVIL: 50.0, "fedavg": 40.0},
        setting=world(station=EVIL, first_class=EVIL),
        stations=[{"name": EVIL, "latitude_deg": 51.0, "longitude_deg": 0.0}],
        data={"name": EVIL},
    )
    page = build_page(compared(folder))
    assert "<script>alert" not in page
    parsed = Parsed(page)
    assert (parsed.scripts, parsed.handlers) == (2, 0)  # the data and the page's own
    assert EVIL in parsed.texts  # as a class, method and station it is still readable
    document = embedded(page)
    assert EVIL in document["series"]
    assert document["settings"][0]["classes"]["names"][0] == EVIL
    assert document["worlds"][0]["stations"][0]["name"] == EVIL


def test_the_page_is_whole(tmp_path: Path) -> None:
    page = build_page(compared(write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world())))
    assert not re.findall(r"""(?:src|href)\s*=|url\((?!#)|@import|fetch\(|XMLHttp""", page)
    assert "default-src 'none'" in html.unescape(page)
    for chart in (
        "accuracy",
        "spread",
        "samples",
        "bytes",
        "orbits",
        "timeline",
        "map",
        "classes",
    ):
        [figure] = re.findall(rf'<figure data-chart="{chart}">(.*?)</figure>', page, re.DOTALL)
        assert re.search(r'role="img" aria-label="[^"]{20,}"', figure)
        assert "<details>" in figure and "<table" in figure
    assert "β = 0.367" in page and "Abacus 3000" in page and "c" * 12 + "+" in page
    assert "58.3 % of rounds have none" in page  # 7 of 12


# --- Hardware on board ----------------------------------------------------------------------------


def with_hardware(folder: Path, method: str) -> None:
    """Make orbit 1 train 100 s longer per round, and orbit 2 lose a twentieth of its charge."""
    target = method_folder(folder, method)
    records = [json.loads(line) for line in (target / "records.jsonl").read_text().splitlines()]
    for t, row in enumerate(records):
        row["onboard_s"] = [5.0, 100.0 * t, 0.0]
        row["charge_lowest"], row["charge_mean"] = [1.0, 0.9, 1.0 - t / 20], [1.0, 1.0, 1.0]
    (target / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in records))
    summary = json.loads((target / "summary.json").read_text())
    late, busy = [0, 8, 0], [12, 11, 0]
    summary["onboard"] = {"late_rounds": late, "busy_rounds": busy}
    (target / "summary.json").write_text(json.dumps(summary))


def test_time_and_charge_on_board_are_shown_if_recorded(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", {EVIL: 50.0}, setting=world())
    assert 'data-chart="onboard"' not in build_page(compared(folder))
    assert "onboard" not in embedded(build_page(compared(folder)))["settings"][0]
    with_hardware(folder, EVIL)
    page = build_page(compared(folder))
    assert "<script>alert" not in page
    values = embedded(page)["settings"][0]["onboard"]
    [time], [charge] = values["time"], values["charge"]
    assert time["mean"] == [5, *(100 * t for t in range(1, ROUNDS))]  # the slowest orbit
    assert charge["mean"] == [90, 90, 90, *(100 - 5 * t for t in range(3, ROUNDS))]
    assert values["round_s"] == 300
    text = html.unescape(page)
    assert f"{EVIL} up to 1100.0 s in orbit 1" in text
    assert f"{EVIL} down to 45.0 % in orbit 2" in text
    [figure] = re.findall(r'<figure data-chart="onboard">(.*?)</figure>', page, re.DOTALL)
    cells = re.findall(r"<td>(.*?)</td>", figure)
    assert cells == ["5.0", "1100.0", "0.0", "0.0", "72.7", "–"]  # 8 of 11 rounds


# --- Folders that are no runs -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "config.toml").unlink(), "holds no run"),
        (lambda f: (f / "config.toml").write_text("a = 1"), "is not the configuration of a run"),
        (lambda f: (f / "world.json").write_text("{"), "world.json was damaged"),
        (lambda f: (f / "fedavg/records.jsonl").write_text("{\n{}\n"), "was damaged"),
        (lambda f: (f / "fedavg/records.jsonl").write_text(""), "ends after 0 of 12 rounds"),
        (lambda f: (f / "fedavg/records.jsonl").unlink(), r"records.jsonl was .*it is missing"),
        (lambda f: shutil.rmtree(f / "fedavg"), "no round is recorded yet"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path: Path, break_it, message: str) -> None:
    folder = write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world())
    break_it(folder)
    with pytest.raises(RunError, match=message):
        read_runs([folder])


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no folder"):
        read_runs([tmp_path / "nowhere"])


# --- Transfers ------------------------------------------------------------------------------------


def test_bytes_beside_those_of_fedavg_have_a_column_where_they_are_known(tmp_path: Path) -> None:
    """Over routes they are not: a column of dashes would only raise a question."""
    run = write_run(tmp_path / "run", {"fedavg": 50.0, "fedorbit": 60.0})
    assert '<th scope="col">/ FedAvg</th>' in build_page(compared(run))
    for method in ("fedavg", "fedorbit"):
        path = run / method / "summary.json"
        summary = json.loads(path.read_text()) | {"to_ground_vs_fedavg": None}
        path.write_text(json.dumps(summary))
    page = build_page(compared(run))
    assert "/ FedAvg" not in page
    rows = re.findall(r'<tr data-series="fedavg">(.*?)</tr>', page)
    assert rows and all(row.count("</td>") == 5 for row in rows)


def test_transfers_are_means_over_seeds_and_name_their_ends(tmp_path: Path) -> None:
    """Orbits are 0 to 2, the station is 3; in seed 1 nothing went from orbit 0 to the station."""
    for seed, rows in enumerate(([[0, 3, 2, 80], [1, 2, 1, 10]], [[1, 2, 3, 50]])):
        write_run(
            tmp_path / str(seed), {"fedavg": 50.0}, seed=seed, setting=world(), transfers=rows
        )
    [shown] = embedded(build_page(compared(tmp_path)))["settings"]
    assert shown["transfers"] == {
        "names": ["orbit 0", "orbit 1", "orbit 2", "London"],
        "rows": [{"series": 0, "pairs": 2, "cells": [[0, 3, 1.0, 40], [1, 2, 2.0, 30]]}],
    }


@pytest.mark.parametrize("rows", [None, [], [[0, 4, 1, 8]], [[10**12, 0, 1, 8]]])
def test_without_known_transfers_there_is_no_matrix(
    tmp_path: Path, rows: list[list[int]] | None
) -> None:
    """Not counted, none, or of a node that the run does not have."""
    folder = write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world(), transfers=rows)
    page = build_page(compared(folder))
    assert "transfers" not in embedded(page)["settings"][0]
    assert "transfers" not in order_of_charts(page)


@pytest.mark.parametrize("row", [[0, 1, 2], [0, -2, 1, 8], [0, "<b>", 1, 8]])
def test_transfers_of_another_shape_are_refused(tmp_path: Path, row: list[Any]) -> None:
    folder = write_run(tmp_path / "run", {"fedavg": 50.0}, setting=world(), transfers=[row])
    with pytest.raises(RunError, match="transfers"):
        compared(folder)
