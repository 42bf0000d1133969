"""Figures for papers by their files: complete, one column wide, and the same every time."""

from pathlib import Path

import pytest
from matplotlib.figure import Figure

from fedorbit.report import paper_figures
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
    figure = paper_figures.FIGURES[name](shown.settings[0], shown.labels)
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
        assert min(axes.get_window_extent().width for axes in figure.axes[:1]) > 0.5 * width, name


def test_axes_of_percentages_fit_what_is_drawn(comparison: Comparison) -> None:
    setting, labels = comparison.settings[0], comparison.labels
    for name in paper_figures.OF_PERCENT - {"parameters"}:
        fitted = paper_figures.FIGURES[name](setting, labels).axes[0]
        low, high = fitted.get_ylim()
        drawn = [y for line in fitted.get_lines() for y in line.get_ydata()]
        assert 0.0 <= low <= min(drawn) and max(drawn) <= high <= 100.0, name
        assert high - low < 60.0, name
        full = paper_figures.FIGURES[name](setting, labels, full_scale=True).axes[0]
        assert full.get_ylim() == (0.0, 100.0), name


def test_a_confusion_figure_has_shares_of_each_true_class(comparison: Comparison) -> None:
    """Two seeds of one matrix each for orbits 0 and 1: 2 of 4 fields and 6 of 8 towns are right."""
    figure = paper_figures.confusion(comparison.settings[0], comparison.labels)
    panels = [axes for axes in figure.axes if axes.images]
    assert len(panels) == 2
    shares = panels[0].images[0].get_array()
    assert shares.tolist() == [[50.0, 50.0], [25.0, 75.0]]
    assert panels[0].get_title("left") == "fedavg, balanced accuracy 62.5 %"
    assert [t.get_text() for t in panels[0].get_yticklabels()] == ["field 0", "town 1"]


def test_so_many_series_have_no_panel_each(tmp_path: Path) -> None:
    for number in range(13):
        write_run(tmp_path / str(number), {f"method {number}": 50.0}, setting=world())
    comparison = compare(read_runs([tmp_path]))
    assert paper_figures.orbits(comparison.settings[0], comparison.labels) is None
    assert paper_figures.accuracy(comparison.settings[0], comparison.labels) is not None


def test_series_differ_in_more_than_colour(comparison: Comparison) -> None:
    figure = paper_figures.accuracy(comparison.settings[0], comparison.labels)
    lines = figure.axes[0].get_lines()
    assert len({(line.get_linestyle(), line.get_marker()) for line in lines}) == len(lines) == 2
    assert [line.get_ydata()[0] for line in lines] == [50.5, 60.0]  # means over two seeds
    assert len(figure.axes[0].collections) >= 2  # a band each


def test_figures_over_hours(noted: Comparison, tmp_path: Path) -> None:
    setting, labels = noted.settings[0], noted.labels
    both = paper_figures.accuracy_hours(setting, labels).axes[0]
    assert both.get_xlabel() == "time (h)"
    assert [line.get_xdata()[-1] for line in both.get_lines()] == pytest.approx([ROUNDS / 12] * 2)
    [line] = paper_figures.staleness(setting, labels).axes[0].get_lines()
    assert line.get_label() == "fedsat" and line.get_ydata().tolist() == [2.0, 5.0, 8.0, 11.0]
    figure = paper_figures.aggregations(setting, labels)
    assert figure.axes[0].get_lines()[0].get_ydata()[-1] == 4.0
    idle = paper_figures.idle_visits(setting, labels).axes[0]
    assert idle.get_lines()[0].get_ydata()[-1] == 15.0 and idle.get_ylim()[1] >= 15.0
    written = {path.name for path in paper_figures.write_figures(tmp_path / "figures", noted)}
    assert {f"{name}.pdf" for name in OF_NOTES} <= written
