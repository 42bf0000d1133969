"""Runs on constellations other than a regular Walker pattern."""

import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit.config import Config, load_config
from fedorbit.errors import ConfigError
from fedorbit.report.replicates import compare
from fedorbit.report.runfiles import read_runs
from fedorbit.report.wording import summary_line
from fedorbit.simulation.world import build_world

ORBIT_OF_SATELLITE = [0, 0, 0, 1, 2, 2]


def unequal(**changes: object) -> Config:
    return Config.model_validate(
        {
            "constellation": {"planes": 3, "satellites_per_plane": [3, 1, 2]},
            "schedule": {"rounds": 40},
            "data": {"synthetic": {"classes": 4, "samples": 120, "size": 16}},
            "training": {"epochs": 1},
            "run": {"rounds": 6, "method": ["fedavg", "fedorbit"]},
            **changes,
        }
    )


def test_a_fleet_of_orbits_with_different_numbers_of_satellites(tmp_path: Path) -> None:
    world = build_world(unequal())
    assert world.partition.orbit_of_satellite.tolist() == ORBIT_OF_SATELLITE
    held = [len(samples) for samples in world.partition.train]
    of_orbit = np.bincount(ORBIT_OF_SATELLITE, weights=held)
    assert of_orbit.sum() == 96

    result = fo.run(unequal(), tmp_path / "run")
    fedavg, fedorbit = (run.records for run in result.runs)
    # FedAvg trains the orbits in view for one epoch; FedOrbit all, twice as long out of view.
    assert [record["samples_trained"] for record in fedavg] == np.cumsum(
        [of_orbit[record["visible"]].sum() for record in fedavg]
    ).tolist()
    assert fedorbit[-1]["samples_trained"] > fedavg[-1]["samples_trained"]
    assert {len(record["orbit_accuracy"]) for record in (*fedavg, *fedorbit)} == {3}

    stored = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert stored["constellation"]["satellites_per_plane"] == [3, 1, 2]
    assert fo.resume(tmp_path / "run", unequal()).table() == result.table()
    line = summary_line(compare(read_runs([tmp_path / "run"])))
    assert "3 orbits of 1 to 3 satellites" in line


def test_events_count_satellites_over_orbits_of_different_size() -> None:
    world = build_world(unequal(events=[{"round": 2, "kind": "leave", "satellite": 3}]))
    # Satellite 3 is the only one of orbit 1.
    assert world.orbits_present[1].tolist() == [True, True, True]
    assert world.orbits_present[2].tolist() == [True, False, True]
    with pytest.raises(ConfigError, match=r"events\.0\.satellite must be below 6, .* got 6"):
        build_world(unequal(events=[{"round": 2, "kind": "leave", "satellite": 6}]))


def test_a_run_on_bundled_element_sets_can_go_anywhere(tmp_path: Path) -> None:
    config = load_config(
        "iridium-next-tle",
        [
            "data.synthetic={classes = 4, samples = 400, size = 16}",
            "training.epochs=1",
            "schedule.rounds=20",
            "run.rounds=2",
            "run.method=fedavg",
        ],
    )
    table = fo.run(config, tmp_path / "run").table()
    text = (tmp_path / "run" / "config.toml").read_text()
    assert 'file = "elements.tle"' in text
    assert str(tmp_path) not in text
    moved = tmp_path / "elsewhere" / "moved"
    shutil.move(tmp_path / "run", moved)
    assert fo.resume(moved, config).table() == table
