"""Figures by what they hold: arrays, texts and outlines, not by looks."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from fedorbit.data.cache import Dataset
from fedorbit.data.partition import Partition
from fedorbit.orbits.constellation import Constellation, walker
from fedorbit.orbits.earth import EARTH_RADIUS_KM, SPHERE, unit_vectors
from fedorbit.orbits.places import Place, PlaceArrays
from fedorbit.orbits.plan import KINDS, ContactPlan
from fedorbit.orbits.visibility import Schedule, round_times_s
from fedorbit.report import data_figures, link_figures, orbit_figures, run_figures, style

DOLLARS = "a $x_{ b$"


def dataset_of(images: np.ndarray, labels: list[int], names: tuple[str, ...]) -> Dataset:
    return Dataset(
        "mine", images, np.array(labels), names, None, None, None, Path("nowhere"), {"notes": []}
    )


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.findobj(lambda a: hasattr(a, "get_text"))]


# --- The contact sheet --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [(6, 10, 3), (10, 6, 3), (7, 9, 1), (8, 8, 10)], ids=["wide", "tall", "grey", "bands"]
)
def test_a_contact_sheet_shows_every_class_in_its_row(shape, tmp_path: Path) -> None:
    height, width, channels = shape
    labels = [0, 1, 0, 1, 1]
    images = np.zeros((5, *shape), np.uint8)
    images += np.arange(10, 60, 10, dtype=np.uint8)[:, None, None, None]
    images[:, 0, -1] += 3  # the upper right corner, so that a transposed picture is noticed
    figure = data_figures.contact_sheet(dataset_of(images, labels, ("field", "town")))
    [axes] = figure.axes
    sheet = np.asarray(axes.images[0].get_array())
    assert sheet.shape == (2 * (height + 2), 12 * (width + 2), 3)
    for label, members in enumerate(([0, 2], [1, 3, 4])):
        for column, member in enumerate(members):
            y, x = label * (height + 2), column * (width + 2)
            picture = sheet[y : y + height, x : x + width]
            expected = images[member, :, :, [0] * 3] if channels == 1 else images[member, :, :, :3]
            expected = np.moveaxis(expected, 0, -1) if channels == 1 else expected
            np.testing.assert_array_equal(picture, expected)
    assert (sheet[height : height + 2] == 255).all()
    assert (sheet[:height, 2 * (width + 2) :] == 255).all()  # the first class has two images
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["field", "town"]
    assert f"5 images of {height} x {width} x {channels}" in axes.get_title(loc="left")
    [file] = style.save(figure, tmp_path, "sheet", ["png"])
    assert file.stat().st_size > 1000


def test_a_contact_sheet_of_many_classes_and_large_images_stays_a_picture(tmp_path: Path) -> None:
    names = tuple(f"class {i}" for i in range(300))
    images = np.zeros((300, 300, 8, 1), np.uint8)
    figure = data_figures.contact_sheet(dataset_of(images, list(range(300)), names))
    assert figure.axes[0].images[0].get_array().shape == (100 * 102, 12 * 5, 3)
    assert "first 100 classes" in figure.axes[0].get_title(loc="left")
    style.save(figure, tmp_path, "sheet", ["png"])


# --- Partitions ---------------------------------------------------------------------------------


def two_alike_one_apart() -> tuple[Partition, Dataset]:
    # Orbits 0 and 1 hold the classes half and half, orbit 2 the third class alone.
    labels = [0, 1, 0, 1, 2, 2]
    partition = Partition(
        orbit_of_satellite=np.array([0, 1, 2, 2]),
        train=tuple(np.array(part) for part in ([0, 1], [2, 3], [4], [5])),
        test=(np.arange(0), np.arange(0), np.arange(0)),
        unseen_train=np.arange(0),
        unseen_test=np.arange(0),
    )
    images = np.zeros((6, 8, 8, 3), np.uint8)
    return partition, dataset_of(images, labels, ("a", "b", DOLLARS))


def test_a_partition_figure_holds_counts_and_similarities(tmp_path: Path) -> None:
    partition, dataset = two_alike_one_apart()
    figure = data_figures.partition_figure(partition, dataset, f"title {DOLLARS}")
    pictures = [axes.images[0].get_array() for axes in figure.axes if axes.images]
    counts, similarity = np.asarray(pictures[0]), np.asarray(pictures[-1])
    assert counts.tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 1], [0, 0, 1]]
    np.testing.assert_allclose(np.diag(similarity), 1.0)
    np.testing.assert_allclose(similarity, similarity.T)
    assert similarity[0, 1] == pytest.approx(1.0)
    assert similarity[0, 2] < 0.2
    shown = texts(figure)
    assert shown.count("1.000") >= 5 and f"{similarity[0, 2]:.3f}" in shown
    # One minus the mean of the three distances 0, d and d.
    beta = 1.0 - 2.0 * (1.0 - similarity[0, 2]) / 3.0
    assert f"class similarity, beta = {beta:.3f}" in shown
    style.save(figure, tmp_path, "partition")
    assert DOLLARS in (tmp_path / "partition.svg").read_text()


# --- Orbits -------------------------------------------------------------------------------------


def test_a_timeline_is_filled_where_an_orbit_is_in_view() -> None:
    visible = np.array([[1, 0], [0, 0], [0, 1], [1, 1]], dtype=bool)
    figure = orbit_figures.timeline(Schedule(round_times_s(4, 300.0), visible))
    image = np.asarray(figure.axes[0].images[0].get_array())
    np.testing.assert_array_equal(image > 0, visible.T)
    assert image[0, 0] != image[1, 2]  # orbits have colours of their own
    assert "orbit 0  50.0 %" in texts(figure)
    assert any("25.0 % of rounds have none" in text for text in texts(figure))


@pytest.mark.parametrize("min_elevation_deg", [0.0, 10.0, 40.0])
def test_the_circle_of_a_station_is_where_satellites_reach_its_elevation(
    min_elevation_deg: float,
) -> None:
    station = Place("s", 40.0, -20.0, min_elevation_deg)
    outline = np.concatenate(orbit_figures._visibility_circle(station, 550.0))
    r_km = (EARTH_RADIUS_KM + 550.0) * unit_vectors(outline[:, 1], outline[:, 0])
    sines = PlaceArrays.of([station], SPHERE).sin_elevation(r_km)[:, 0]
    np.testing.assert_allclose(np.degrees(np.arcsin(sines)), min_elevation_deg, atol=1e-6)


def test_tracks_are_those_of_the_satellites(tmp_path: Path) -> None:
    constellation = walker(2, 2, 0, 550.0, 53.0)
    stations = [Place(DOLLARS, 51.0, 0.0)]
    figure = orbit_figures.ground_track_map(constellation, stations, 600.0)
    [axes] = figure.axes
    tracks = [c for c in axes.collections if isinstance(c, LineCollection)]
    assert len(tracks) == 4 + 1  # and the circle of the station
    for satellite, track in enumerate(tracks[:4]):
        longitude_deg, latitude_deg = np.concatenate(track.get_segments()).T
        r_km = constellation.r_ecef_km(30.0 * np.arange(len(longitude_deg)))[:, satellite]
        directions = r_km / np.linalg.norm(r_km, axis=-1, keepdims=True)
        np.testing.assert_allclose(unit_vectors(latitude_deg, longitude_deg), directions, atol=1e-9)
    style.save(figure, tmp_path, "map")
    assert DOLLARS in (tmp_path / "map.svg").read_text()


class DrawnOnly(Constellation):
    """A constellation of which nobody may ask for all satellites at all times."""

    def r_ecef_km(self, times_s):
        raise AssertionError("all satellites were propagated")


def test_only_drawn_satellites_are_propagated() -> None:
    constellation = DrawnOnly(**vars(walker(30, 20, 1, 550.0, 53.0)))
    figure = orbit_figures.ground_track_map(constellation, [], 600.0)
    tracks = [c for c in figure.axes[0].collections if isinstance(c, LineCollection)]
    assert len(tracks) == 60
    assert "60 of 600 tracks" in figure.axes[0].get_title(loc="left")


# --- Runs ---------------------------------------------------------------------------------------


def test_accuracies_by_method(tmp_path: Path) -> None:
    rows = [{"round": t, "accuracy": 10.0 * t, "spread": None if t == 1 else 5.0} for t in range(3)]
    figure = run_figures.accuracy_figure({DOLLARS: rows, "other": rows[:1]})
    left, right = figure.axes
    line = left.get_lines()[0]
    assert line.get_xdata().tolist() == [0, 1, 2]
    assert line.get_ydata().tolist() == [0.0, 10.0, 20.0]
    np.testing.assert_array_equal(right.get_lines()[0].get_ydata(), [5.0, np.nan, 5.0])
    assert [t.get_text() for t in left.get_legend().get_texts()] == [DOLLARS, "other"]
    style.save(figure, tmp_path, "accuracy")
    assert DOLLARS in (tmp_path / "accuracy.svg").read_text()


# --- Links between satellites ------------------------------------------------------------------


def plan_with(rows: list[tuple[int, int, float, float]], satellites: int) -> ContactPlan:
    first, second, begin_s, end_s = np.array(rows, dtype=float).reshape(-1, 4).T
    return ContactPlan(
        satellites,
        1,
        7200.0,
        first.astype(np.int32),
        second.astype(np.int32),
        begin_s,
        end_s,
        np.where(second < satellites, KINDS.index("isl"), 0).astype(np.uint8),
        np.full(len(first), np.nan),
    )


def test_a_timeline_of_links_counts_those_of_each_pair_of_orbits() -> None:
    rows = [(0, 1, 0.0, 7200.0), (0, 2, 1000.0, 2000.0), (1, 3, 1500.0, 3000.0), (0, 4, 0, 7200.0)]
    figure = link_figures.link_timeline(plan_with(rows, 4), np.array([0, 0, 1, 1]))
    axes = figure.axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["in orbit 0", "orbits 0 and 1"]
    count = np.asarray(axes.images[0].get_array())
    assert (count[0] == 1).all()
    at_s = lambda time_s: count[1, int(time_s / 7200.0 * link_figures.BINS)]  # noqa: E731
    assert [at_s(t) for t in (500, 1200, 1700, 2500, 5000)] == [0, 1, 2, 1, 0]


def test_many_pairs_of_orbits_are_drawn_by_how_far_they_are_apart() -> None:
    orbits = 20
    rows = [(a, b, 0.0, 7200.0) for a in range(orbits) for b in range(a + 1, orbits)]
    figure = link_figures.link_timeline(plan_with(rows, orbits), np.arange(orbits))
    axes = figure.axes[0]
    labels = [tick.get_text() for tick in axes.get_yticklabels()]
    assert labels[:3] == ["in an orbit", "neighbour orbits", "2 orbits apart"] and len(labels) == 11
    count = np.asarray(axes.images[0].get_array())[:, 0]
    assert count.tolist() == [0, *[20] * 9, 10]  # around the Earth; the farthest are half as many


def test_a_timeline_without_links(tmp_path: Path) -> None:
    figure = link_figures.link_timeline(plan_with([], 2), np.array([0, 1]))
    assert "no links" in texts(figure)
    style.save(figure, tmp_path, "links")


def test_delay_matrices_have_nodes_by_name_and_grey_without_a_way() -> None:
    direct = np.array([[0.0, np.nan, 60.0], [np.nan, 0.0, 120.0], [6000.0, 600.0, 0.0]])
    matrix = link_figures.delay_matrix(direct, direct / 10, np.array([0, 0]), ("a", "b"), ["G"])
    assert matrix.names == ("a", "b", "G")
    left, right = link_figures.delay_matrices(matrix).axes[:2]
    shown = np.ma.filled(left.images[0].get_array(), np.nan)
    np.testing.assert_allclose(shown[0], [0.1, np.nan, 1.0])
    np.testing.assert_allclose(shown[2], [100.0, 10.0, 0.1])
    np.testing.assert_allclose(np.asarray(right.images[0].get_array())[2], [10.0, 1.0, 0.1])
    assert [tick.get_text() for tick in left.get_yticklabels()] == ["a", "b", "G"]


def test_of_many_nodes_the_matrix_has_orbits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_figures, "MOST_NODES", 3)
    delay_s = np.arange(16.0).reshape(4, 4)
    np.fill_diagonal(delay_s, 0.0)
    delay_s[0, 1] = np.nan
    orbit = np.array([0, 0, 1])
    matrix = link_figures.delay_matrix(delay_s, delay_s, orbit, ("a", "b", "c"), ["G"])
    assert matrix.names == ("orbit 0", "orbit 1", "G")
    # Within orbit 0 only b to a is known (4); to orbit 1: (2 + 6) / 2; one satellite has no mate.
    expected = [[4.0, 4.0, 5.0], [8.5, np.nan, 11.0], [12.5, 14.0, np.nan]]
    np.testing.assert_allclose(matrix.direct_s, expected)
