"""`world.json`: what a run writes down for its report."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.data.partition import Partition
from fedorbit.simulation import world_file
from fedorbit.simulation.world import build_world
from fedorbit.testing import small_world
from tests.simulation.test_runs import small


def test_the_setting_is_that_of_the_world() -> None:
    world = build_world(small(schedule={"rounds": 60}, run={"rounds": 50}))
    said = world_file.describe(world)
    visible = np.zeros((50, 3), dtype=bool)
    for orbit, windows in enumerate(said["visible"]):
        for begin, end in windows:
            visible[begin:end, orbit] = True
    np.testing.assert_array_equal(visible, world.schedule.visible[:50])
    assert visible.any() and not visible.all()

    # Who is seen on the map is who makes an orbit visible: two computations of one thing.
    positions = said["positions"]
    assert len(positions["satellites"]) == positions["of_satellites"] == 6
    orbit_of = np.array(positions["orbit_of_satellite"])
    for t, seen in enumerate(positions["seen"]):
        np.testing.assert_array_equal(np.isin(np.arange(3), orbit_of[seen]), visible[t])

    labels = world.dataset.labels
    for orbit in range(3):
        parts = [world.partition.train[s] for s in np.flatnonzero(orbit_of == orbit)]
        counts = np.bincount(labels[np.concatenate(parts)], minlength=4)
        assert said["orbit_class_counts"][orbit] == counts.tolist()
    assert said["tau_max"] == world.schedule.tau_max  # over the horizon, not over the run
    assert said["satellite_samples"] == [len(part) for part in world.partition.train]


def test_the_map_knows_who_has_left() -> None:
    events = [{"round": 20, "kind": "leave", "orbit": 0}]
    world = build_world(small(schedule={"rounds": 60}, run={"rounds": 50}, events=events))
    positions = world_file.describe(world)["positions"]
    orbit_of = np.array(positions["orbit_of_satellite"])
    for t, (seen, away) in enumerate(zip(positions["seen"], positions["away"], strict=True)):
        assert set(away) == (set(np.flatnonzero(orbit_of == 0)) if t >= 20 else set())
        np.testing.assert_array_equal(
            np.isin(np.arange(3), orbit_of[seen]), world.schedule.visible[t]
        )
    assert "away" not in world_file.describe(build_world(small()))["positions"]


def test_seen_satellites_are_within_reach_of_the_station() -> None:
    said = world_file.describe(build_world(small(run={"rounds": 40})))
    [station] = said["stations"]
    positions = said["positions"]
    lat, lon = (np.radians(positions[k]) for k in ("latitude_deg", "longitude_deg"))
    lat0, lon0 = np.radians([station["latitude_deg"], station["longitude_deg"]])
    cosine = np.sin(lat) * np.sin(lat0) + np.cos(lat) * np.cos(lat0) * np.cos(lon - lon0)
    distance_deg = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    for row, seen in zip(distance_deg, positions["seen"], strict=True):
        close = np.flatnonzero(row < station["radius_deg"])
        near_the_edge = np.flatnonzero(np.abs(row - station["radius_deg"]) < 0.2)
        assert set(close.tolist()) ^ set(seen) <= set(near_the_edge.tolist())


@pytest.mark.parametrize(
    ("orbits", "per_orbit", "rounds"), [(5, 4, 200), (72, 22, 400), (300, 3, 2000)]
)
def test_large_shells_are_thinned_evenly(orbits: int, per_orbit: int, rounds: int) -> None:
    orbit_of = np.repeat(np.arange(orbits), per_orbit)
    satellites, every = world_file.thinned(orbit_of, rounds)
    assert len(satellites) * len(range(0, rounds, every)) <= world_file.MAX_POSITIONS
    counts = np.bincount(orbit_of[satellites], minlength=orbits)
    assert counts.min() >= 1 and np.ptp(counts) == 0
    if orbits == 5:
        assert (len(satellites), every) == (20, 1)


def test_places_are_counted_per_orbit_and_square() -> None:
    world = small_world()
    n = len(world.dataset.labels)
    latitude, longitude = np.full(n, np.nan), np.full(n, np.nan)
    latitude[:4], longitude[:4] = [10.1, 10.4, 10.6, -0.1], [20.1, 20.2, 20.1, -0.1]
    empty = np.arange(0)
    partition = Partition(
        orbit_of_satellite=np.array([0, 1]),
        train=(np.array([0, 1]), np.array([2])),
        test=(np.array([3]), empty),
        unseen_train=empty,
        unseen_test=empty,
    )
    dataset = replace(world.dataset, latitude_deg=latitude, longitude_deg=longitude)
    places = world_file._places(replace(world, dataset=dataset, partition=partition))
    assert places == {"bin_deg": 0.5, "rows": [[-1, -1, 0, 1], [20, 40, 0, 2], [21, 40, 1, 1]]}


def test_the_papers_setting_is_small(tmp_path: Path) -> None:
    config = fo.load_config("paper", ["data.name=synthetic", "data.synthetic.samples=400"])
    assert world_file.write_world(tmp_path, build_world(config)) == ["world.json"]
    path = tmp_path / "world.json"
    assert path.stat().st_size < 200_000
    assert json.loads(path.read_text())["rounds"] == 200


def test_a_run_leaves_it_and_a_resumed_one_completes_it(tmp_path: Path) -> None:
    config = small(run={"rounds": 2, "method": ["fedavg"]})
    fo.run(config, tmp_path / "run")
    file = tmp_path / "run" / "world.json"
    first = file.read_bytes()
    file.unlink()
    fo.resume(tmp_path / "run")
    assert file.read_bytes() == first
