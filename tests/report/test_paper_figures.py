"""Figures for papers by their files: complete, one column wide, and the same every time."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from fedorbit.report import paper_figures
from fedorbit.report.curves import per_round
from fedorbit.report.paper_figures import FIGURES
from fedorbit.report.paper_panels import printed, with_deviations
from fedorbit.report.replicates import Comparison, compare
from fedorbit.report.runfiles import read_runs
from tests.report.run_folders import ROUNDS, visits, world, write_run, write_space, write_sweep

OF_NOTES = {"staleness", "aggregations", "idle-visits"}
"""Figures of runs whose methods noted something."""


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    for seed in (0, 1):
        methods = {"fedavg": 50.0 + seed, "a $x_{ b$": 60.0}
        write_run(tmp_path / "runs" / str(seed), methods, seed=seed, setting=world(station="$x_{"))
    return compare(read_runs([tmp_path / "runs"]))


@pytest.fixture
def swept(tmp_path: Path) -> Comparison:
    return compare(read_runs([write_sweep(tmp_path / "sweep", seeds=(0, 1))]))


@pytest.fixture
def noted(tmp_path: Path) -> Comparison:
    return compare(read_runs([write_space(tmp_path / "space", seeds=(0, 1))]))


def test_every_figure_in_three_formats_and_the_same_bytes_again(
    swept: Comparison, tmp_path: Path
) -> None:
    first = paper_figures.write_figures(tmp_path / "first", swept)
    second = paper_figures.write_figures(tmp_path / "second", swept)
    assert {p.name for p in first} == {
        f"{name}.{extension}"
        for name in paper_figures.FIGURES.keys() - OF_NOTES
        for extension in ("pdf", "svg", "png")
    }
    for one, other in zip(first, second, strict=True):
        assert one.read_bytes() == other.read_bytes(), one.name
    assert (tmp_path / "first" / "accuracy.pdf").read_bytes().startswith(b"%PDF")


@pytest.mark.parametrize("name", paper_figures.FIGURES)
def test_figures_fit_a_column_and_can_be_read(
    swept: Comparison, noted: Comparison, name: str
) -> None:
    shown = noted if name in OF_NOTES else swept
    figure = FIGURES[name](shown.settings[0], shown.labels)
    assert isinstance(figure, Figure)
    assert figure.get_size_inches()[0] == pytest.approx(3.4)
    sizes = [t.get_fontsize() for t in figure.findobj(lambda a: hasattr(a, "get_fontsize"))]
    assert min(sizes) >= 6


def test_long_names_stay_inside(tmp_path: Path) -> None:
    for number in range(12):
        name = f"a method of ours number {number} " + "with quite a name " * (number % 3)
        write_run(
            tmp_path / str(number), {name: 50.0 + number}, setting=world(), notes={name: visits()}
        )
    comparison = compare(read_runs([tmp_path]))
    for name, draw in paper_figures.FIGURES.items():
        figure = draw(comparison.settings[0], comparison.labels)
        if name in ("parameters", "confusion"):  # none was varied; too many for a panel each
            assert figure is None
            continue
        assert figure is not None
        figure.draw_without_rendering()
        width, height = figure.get_size_inches() * figure.dpi
        for legend in figure.legends:
            box = legend.get_window_extent()
            assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height, name
        least = 0.2 if name == "final" else 0.5  # which has two panels beside the names
        assert figure.axes[0].get_window_extent().width > least * width, name


def test_axes_of_percentages_fit_what_is_drawn(comparison: Comparison) -> None:
    setting, labels = comparison.settings[0], comparison.labels
    for name in paper_figures.OF_PERCENT - {"parameters", "final"}:
        fitted = FIGURES[name](setting, labels).axes[0]
        low, high = fitted.get_ylim()
        drawn = [y for line in fitted.get_lines() for y in line.get_ydata()]
        assert 0.0 <= low <= min(drawn) and max(drawn) <= high <= 100.0, name
        assert high - low < 60.0, name
        full = FIGURES[name](setting, labels, full_scale=True).axes[0]
        assert full.get_ylim() == (0.0, 100.0), name


def test_a_confusion_figure_has_shares_of_each_true_class(comparison: Comparison) -> None:
    """Two seeds of one matrix each for orbits 0 and 1: 2 of 4 fields and 6 of 8 towns are right."""
    figure = paper_figures.confusion(comparison.settings[0], comparison.labels)
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 2
    shares = panels[0].images[0].get_array()
    assert shares.tolist() == [[50.0, 50.0], [25.0, 75.0]]
    assert panels[0].get_title("left") == "FedAvg, balanced accuracy 62.5 %"
    assert [t.get_text() for t in panels[0].get_yticklabels()] == ["field 0", "town 1"]


def test_so_many_series_have_no_panel_each(tmp_path: Path) -> None:
    for number in range(13):
        write_run(tmp_path / str(number), {f"method {number}": 50.0}, setting=world())
    comparison = compare(read_runs([tmp_path]))
    assert paper_figures.orbits(comparison.settings[0], comparison.labels) is None
    assert FIGURES["accuracy"](comparison.settings[0], comparison.labels) is not None


def test_series_differ_in_more_than_colour(comparison: Comparison) -> None:
    figure = FIGURES["accuracy"](comparison.settings[0], comparison.labels)
    lines = figure.axes[0].get_lines()
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 2
    assert [line.get_ydata()[0] for line in lines] == [50.5, 60.0]  # means over two seeds
    bands = [band.get_datalim(figure.axes[0].transData) for band in figure.axes[0].collections]
    deviation = 2**-0.5  # of 50 and 51, and none of 60 and 60
    assert [(b.y0, b.y1) for b in bands] == [
        pytest.approx((50.5 - deviation, 50.5 + deviation)),
        pytest.approx((60.0, 60.0)),
    ]


def test_final_figures_are_sorted_with_deviations_with_deviations(comparison: Comparison) -> None:
    figure = paper_figures.final(comparison.settings[0], comparison.labels)
    accuracy, spread = figure.axes
    assert [label.get_text() for label in accuracy.get_yticklabels()] == ["FedAvg", "a $x_{ b$"]
    assert [c.lines[0].get_xdata()[0] for c in accuracy.containers] == [50.5, 60.0]
    [bar] = accuracy.containers[0].lines[2][0].get_segments()
    assert bar[:, 0] == pytest.approx([50.5 - 2**-0.5, 50.5 + 2**-0.5])
    assert [c.lines[0].get_xdata()[0] for c in spread.containers] == [20.0, 20.0]
    assert len(accuracy.get_lines()) == 6  # a point with two caps each, and no line of reference


def test_variants_of_one_method_are_beside_a_line_of_the_first(tmp_path: Path) -> None:
    cells = ""
    for name, kappa, accuracy in (("full", 0.5, 60.0), ("without", 0.0, 70.0)):
        write_run(tmp_path / name, {"fedorbit": accuracy}, methods={"fedorbit": {"kappa": kappa}})
        cells += (
            f'[[variants]]\nname = "{name}"\nlabel = "{name} it"\n'
            f"settings = {{methods = {{fedorbit = {{kappa = {kappa}}}}}}}\n"
            f'[[cells]]\nfolder = "{name}"\nmethod = "fedorbit"\nvariant = "{name}"\n'
        )
    (tmp_path / "study.toml").write_text(cells, encoding="utf-8")
    comparison = compare(read_runs([tmp_path]))
    accuracy, _ = paper_figures.final(comparison.settings[0], comparison.labels).axes
    assert [label.get_text() for label in accuracy.get_yticklabels()] == ["full it", "without it"]
    assert [60.0, 60.0] in [list(line.get_xdata()) for line in accuracy.get_lines()]


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("fedavg", "FedAvg"),
        ("fedleo_sink", "FedLEO (sink)"),
        ("fedavg (training.orbit_momentum 0.8)", "FedAvg, orbit momentum 0.8"),
        ("fedavg, ideal links", "FedAvg, ideal links"),
        ("without momentum (0.0)", "without momentum (0.0)"),
        ("FedAvg, momentum 0.8", "FedAvg, momentum 0.8"),
    ],
)
def test_series_have_names_as_in_papers(label: str, name: str) -> None:
    assert printed(label) == name


def test_a_seed_without_a_round_has_no_part_in_its_deviation(tmp_path: Path) -> None:
    """Two seeds of 50 and 54; the second has half of the rounds."""
    write_run(tmp_path / "0", {"fedavg": 50.0}, setting=world())
    write_run(tmp_path / "1", {"fedavg": 54.0}, seed=1, unfinished=("fedavg",), setting=world())
    [series] = compare(read_runs([tmp_path])).settings[0].series
    curve = with_deviations(per_round(series, "accuracy"))
    half = ROUNDS // 2
    assert curve.half[:half] == pytest.approx(2 * 2**0.5)
    assert np.isnan(curve.half[half:]).all()


def test_figures_over_hours(noted: Comparison, tmp_path: Path) -> None:
    setting, labels = noted.settings[0], noted.labels
    both = FIGURES["accuracy-hours"](setting, labels).axes[0]
    assert both.get_xlabel() == "simulated time (h)"
    assert [line.get_xdata()[-1] for line in both.get_lines()] == pytest.approx([ROUNDS / 12] * 2)
    [line] = FIGURES["staleness"](setting, labels).axes[0].get_lines()
    assert line.get_label() == "fedsat" and line.get_ydata().tolist() == [2.0, 5.0, 8.0, 11.0]
    figure = FIGURES["aggregations"](setting, labels)
    assert figure.axes[0].get_lines()[0].get_ydata()[-1] == 4.0
    idle = FIGURES["idle-visits"](setting, labels).axes[0]
    assert idle.get_lines()[0].get_ydata()[-1] == 15.0 and idle.get_ylim()[1] >= 15.0
    written = {path.name for path in paper_figures.write_figures(tmp_path / "figures", noted)}
    assert {f"{name}.pdf" for name in OF_NOTES} <= written
