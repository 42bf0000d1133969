"""Parameters that were varied: which runs make a curve, and what it says."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedorbit.report import paper_figures
from fedorbit.report.document import MAX_POINTS
from fedorbit.report.page import build_page
from fedorbit.report.replicates import Comparison, compare
from fedorbit.report.runfiles import read_runs
from fedorbit.report.sweeps import Sweep, sweeps
from tests.report.run_folders import world, write_run, write_sweep


def compared(folder: Path) -> Comparison:
    return compare(read_runs([folder]))


def found(folder: Path) -> list[Sweep]:
    [setting] = compared(folder).settings
    return sweeps(setting)


def embedded(page: str) -> list[dict[str, Any]]:
    text = page.split('id="report-data">')[1].split("</script>")[0]
    return json.loads(text)["settings"][0]["sweeps"]


def test_a_default_takes_the_value_that_the_study_names(tmp_path: Path) -> None:
    [sweep] = found(write_sweep(tmp_path))
    assert (sweep.parameter, sweep.name) == ("kappa", "fedorbit, kappa")  # FedAvg is there, too
    assert sweep.values == (0.0, 0.5, 2.0)
    np.testing.assert_allclose(sweep.curve("accuracy").mean, [60.0, 64.0, 62.0])
    np.testing.assert_allclose(sweep.curve("spread").mean, [20.0, 20.0, 20.0])
    assert np.isnan(sweep.curve("accuracy").half).all()  # one seed has no interval
    assert sweep.default_mean("accuracy") == 64.0


def test_seeds_are_averaged_with_their_interval(tmp_path: Path) -> None:
    [sweep] = found(write_sweep(tmp_path, seeds=(0, 1, 2)))
    line = sweep.curve("accuracy")
    np.testing.assert_allclose(line.mean, [61.0, 65.0, 63.0])
    np.testing.assert_allclose(line.half, 4.303 / np.sqrt(3.0))  # deviation 1, t of two degrees
    assert sweep.default_mean("accuracy") == 65.0


def test_without_a_study_the_default_has_no_place_but_is_compared_with(tmp_path: Path) -> None:
    (write_sweep(tmp_path) / "study.toml").unlink()
    assert found(tmp_path) == []  # two values are left
    write_run(tmp_path / "one", {"fedorbit": 61.0}, setting=world(),
              methods={"fedorbit": {"kappa": 1.0}})  # fmt: skip
    [sweep] = found(tmp_path)
    assert sweep.values == (0.0, 1.0, 2.0)
    assert sweep.default_mean("accuracy") == 64.0


def test_all_else_is_equal(tmp_path: Path) -> None:
    for rho in (0.8, 0.9):
        for kappa in (0.0, 1.0, 2.0):
            given = {"rho": rho, "kappa": kappa, "continuous": False}
            accuracy = 50.0 + 10.0 * kappa + rho
            write_run(tmp_path / f"{rho}-{kappa}", {"fedorbit": accuracy}, setting=world(),
                      methods={"fedorbit": given})  # fmt: skip
    first, second = found(tmp_path)  # by kappa; rho has two values only
    assert [first.name, second.name] == ["kappa (rho 0.8)", "kappa (rho 0.9)"]
    np.testing.assert_allclose(second.curve("accuracy").mean, [50.9, 60.9, 70.9])
    assert first.default == () and first.default_mean("accuracy") is None


@pytest.mark.parametrize(
    "values", [("similarity", 0.0, 1.0), (0.0, 1.0, 1.0)], ids=["a word", "two values"]
)
def test_three_numbers_make_a_curve(tmp_path: Path, values: tuple) -> None:
    for number, value in enumerate(values):
        write_run(tmp_path / str(number), {"fedorbit": 60.0}, seed=number, setting=world(),
                  methods={"fedorbit": {"beta": value}})  # fmt: skip
    assert found(tmp_path) == []


@pytest.mark.parametrize("odd", [(True, False), (float("inf"), float("nan"))])
def test_switches_and_infinities_are_no_values(tmp_path: Path, odd: tuple) -> None:
    for number, value in enumerate((*odd, 1.0, 2.0)):
        write_run(tmp_path / str(number), {"mine": 60.0}, setting=world(),
                  methods={"mine": {"odd": value}})  # fmt: skip
    assert found(tmp_path) == []


def test_what_is_not_finished_is_left_out(tmp_path: Path) -> None:
    write_sweep(tmp_path, seeds=(0, 1))
    (tmp_path / "2.0-0" / "fedorbit" / "summary.json").unlink()
    [sweep] = found(tmp_path)
    np.testing.assert_allclose(sweep.curve("accuracy").mean, [60.5, 64.5, 63.0])
    assert np.isfinite(sweep.curve("accuracy").half).tolist() == [True, True, False]
    (tmp_path / "2.0-1" / "fedorbit" / "summary.json").unlink()
    assert found(tmp_path) == []


def test_a_value_written_in_two_ways_is_one(tmp_path: Path) -> None:
    write_sweep(tmp_path)
    for name, seed, value, accuracy in (("c", 1, 2, 64.0), ("d", 0, 0.5, 64.0)):
        write_run(tmp_path / name, {"fedorbit": accuracy}, seed=seed, setting=world(),
                  methods={"fedorbit": {"kappa": value}})  # fmt: skip
    [sweep] = found(tmp_path)
    assert sweep.values == (0.0, 0.5, 2.0)
    np.testing.assert_allclose(sweep.curve("accuracy").mean, [60.0, 64.0, 63.0])
    assert [len(seeds) for seeds in sweep.replicates] == [1, 1, 2]  # 0.5 is the default, seed 0


def test_the_page_has_a_chart_with_words_and_numbers(tmp_path: Path) -> None:
    page = build_page(compared(write_sweep(tmp_path)))
    assert "Dashed: accuracy with the default, 64.0 %." in page
    assert "0.0: 60.0 %, spread 20.0; 0.5: 64.0 %, spread 20.0; 2.0: 62.0 %, spread 20.0." in page
    assert "Bands are" not in page
    [sweep] = embedded(page)
    assert sweep["values"] == [0.0, 0.5, 2.0]
    assert sweep["accuracy"] == {"mean": [60, 64, 62], "half": [None, None, None]}
    (tmp_path / "study.toml").unlink()
    assert 'data-chart="sweep"' not in build_page(compared(tmp_path))


def test_many_values_and_many_sweeps(tmp_path: Path) -> None:
    for number in range(MAX_POINTS + 1):  # more than a curve over rounds may have points
        write_run(tmp_path / "fine" / str(number), {"mine": 60.0}, setting=world(),
                  methods={"mine": {"rate": number * 1e-7}})  # fmt: skip
    [sweep] = embedded(build_page(compared(tmp_path / "fine")))
    assert len(sweep["values"]) == len(sweep["accuracy"]["mean"]) == MAX_POINTS + 1
    assert sweep["values"][1] == 1e-7  # not rounded
    for a, b in itertools.product(range(8), range(8)):
        write_run(tmp_path / "grid" / f"{a}-{b}", {"mine": 60.0}, setting=world(),
                  methods={"mine": {"a": a, "b": b}})  # fmt: skip
    assert len(found(tmp_path / "grid")) == 16
    page = build_page(compared(tmp_path / "grid"))
    assert page.count('data-chart="sweep"') == 12
    assert "4 more combinations of parameters are left out." in page


def test_the_figure_has_panels_of_accuracy_and_spread_per_parameter(tmp_path: Path) -> None:
    comparison = compared(write_sweep(tmp_path, seeds=(0, 1)))
    setting, labels = comparison.settings[0], comparison.labels
    figure = paper_figures.parameters(setting, labels)
    assert figure is not None
    accuracy, spread = figure.axes
    assert spread.get_xlabel() == "FedOrbit, kappa"
    assert [label.get_text() for label in spread.get_xticklabels()] == ["0", "0.5", "2"]
    assert (accuracy.get_ylabel(), spread.get_ylabel()) == ("accuracy (%)", "spread (points)")
    [points] = accuracy.containers
    assert list(points.lines[0].get_ydata()) == [60.5, 64.5, 62.5]
    bars = np.array(points.lines[2][0].get_segments())[:, :, 1]
    np.testing.assert_allclose(np.diff(bars).ravel(), 2 * 2**-0.5)  # of seeds that differ by 1
    assert [64.5, 64.5] in [list(line.get_ydata()) for line in accuracy.get_lines()]  # default
    [other] = (replace(sweep, name="other") for sweep in sweeps(setting))
    figure = paper_figures.parameters(setting, labels, found=[other] * 3)
    assert [axes.axison for axes in figure.axes] == [True] * 4 + [True, False] * 2
    (tmp_path / "study.toml").unlink()
    comparison = compared(tmp_path)
    assert paper_figures.parameters(comparison.settings[0], comparison.labels) is None
