"""Runs and their contact plan: computed once, kept in the folder, or given as a file."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit import build
from fedorbit.build import build_constellation, build_plan, plan_nodes
from fedorbit.config import Config
from fedorbit.errors import FedOrbitError, PlanError, RunError
from fedorbit.orbits.plan_files import write_plan
from fedorbit.orbits.service import LinkRates
from fedorbit.simulation import world, world_file
from fedorbit.simulation.provenance import config_hash
from fedorbit.simulation.world import build_world
from tests.simulation.test_runs import StopAfter, small, timeless

ARRAYS = ("first", "second", "begin_s", "end_s", "kind", "range_km")


def exported(config: Config, path: Path) -> Path:
    """Write the plan that geometry gives."""
    constellation = build_constellation(config)
    plan = build_plan(config, constellation)
    return write_plan(path, plan, plan_nodes(config, constellation), LinkRates())


def with_plan(config: Config, plan: Path) -> Config:
    schedule = config.schedule.model_copy(update={"plan": plan})
    return config.model_copy(update={"schedule": schedule})


def operators(folder: Path) -> Path:
    """A plan by hand: satellite 0 in rounds 1 and 2, satellite 5 in round 4, nothing else."""
    plan = folder / "pass list.csv"
    plan.write_text(
        "node_a,node_b,begin_s,end_s\n"
        "sat 0.0,London,250,900\n"
        "5,6,1200,1200.5\n"
        "3,London,1300,1499\n"  # between the begins of two rounds
    )
    return plan


EVENTS = [
    {"round": 2, "kind": "leave", "satellite": 1},
    {"round": 5, "kind": "join", "satellite": 1},
]


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@pytest.mark.parametrize("links", ["ideal", "causal"])
def test_an_exported_plan_gives_the_same_run_to_the_bit(
    tmp_path: Path, suffix: str, links: str
) -> None:
    stations = [{"name": n, "latitude_deg": a, "longitude_deg": o, "min_elevation_deg": 5.0}
                for n, a, o in (("a", 51.0, 0.0), ("b", -20.0, 120.0), ("c", 40.0, -100.0))]  # fmt: skip
    config = small(stations=stations, events=EVENTS, run={"links": links})
    computed = fo.run(config, tmp_path / "computed")
    plan = exported(config, tmp_path / f"plan{suffix}")
    given = fo.run(with_plan(config, plan), tmp_path / "given")
    for a, b in zip(computed.runs, given.runs, strict=True):
        assert timeless(a.records) == timeless(b.records)
        assert any(record["visible"] for record in a.records)
    worlds = [json.loads((r.folder / "world.json").read_text()) for r in (computed, given)]
    assert worlds[0] == worlds[1]


def test_an_operators_plan_drives_a_run_with_exactly_those_contacts(tmp_path: Path) -> None:
    config = with_plan(small(run={"method": ["fedavg"]}), operators(tmp_path))
    [run] = fo.run(config, tmp_path / "run").runs
    visible = [record["visible"] for record in run.records]
    assert visible == [[], [0], [0], [], [2], [], [], []]
    said = json.loads((tmp_path / "run" / "world.json").read_text())
    assert said["visible"] == [[[1, 3]], [], [[4, 5]]]
    assert said["passes"] == [1, 1, 1]
    assert said["tau_max"] == 40  # orbit 1 never, by the plan and not by geometry
    assert said["contacts"]["begin_s"] == [250.0, 1200.0, 1300.0]
    assert [t for t, seen in enumerate(said["positions"]["seen"]) if seen] == [1, 2, 4]


def test_seconds_of_contact_come_from_the_plan(tmp_path: Path) -> None:
    """Satellite 0 has 50 s in round 0, when it is not in view yet, and 300 s in rounds 1 and 2."""
    config = small(link_rates={"to_ground_mbps": 1e6})
    made = build_world(with_plan(config, operators(tmp_path)))
    assert made.service is not None
    np.testing.assert_allclose(made.service.contact_s[:5, 0], [50.0, 300.0, 300.0, 0.0, 0.0])
    np.testing.assert_allclose(made.service.contact_s[4], [0.0, 199.0, 0.5])


def test_a_plan_is_copied_and_bound_and_read_from_the_folder_alone(tmp_path: Path) -> None:
    plan = operators(tmp_path)
    run = fo.run(with_plan(small(run={"method": ["local"], "rounds": 2}), plan), tmp_path / "run")
    folder = run.folder
    assert (folder / "plan.csv").read_bytes() == plan.read_bytes()
    assert 'plan = "plan.csv"' in (folder / "config.toml").read_text()
    manifest = json.loads((folder / "run.json").read_text())
    assert set(manifest["files"]) == {"world.json", "plan.csv"}
    plan.unlink()
    shutil.move(folder, tmp_path / "elsewhere")
    folder = tmp_path / "elsewhere"
    fo.resume(folder)
    text = (folder / "plan.csv").read_text()
    (folder / "plan.csv").write_text(text.replace("900", "901"))
    with pytest.raises(FedOrbitError, match=r"plan.csv|schedule.plan"):
        fo.resume(folder)
    (folder / "plan.csv").write_text(text)
    for name in ("run.json", "world.json"):
        (folder / name).unlink()
    shutil.rmtree(folder / "local")
    stored = folder / "config.toml"
    stored.write_text(stored.read_text().replace('"plan.csv"', f'"{tmp_path / "x.csv"}"'))
    with pytest.raises(RunError, match=r"schedule.plan is .*outside of the run's folder"):
        fo.resume(folder)


def test_a_path_in_a_file_is_relative_to_that_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    operators(tmp_path / "deep")
    file = tmp_path / "deep" / "my.toml"
    file.write_text('extends = "paper"\n[schedule]\nplan = "pass list.csv"\n')
    assert fo.load_config(file).schedule.plan == tmp_path / "deep" / "pass list.csv"


def test_a_plan_that_does_not_fit_leaves_no_folder(tmp_path: Path) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text("node_a,node_b,begin_s,end_s\n0,London,5,4\n")
    with pytest.raises(PlanError, match=r"plan.csv, line 2"):
        fo.run(with_plan(small(), plan), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_of_a_plan_the_content_counts(tmp_path: Path) -> None:
    plan = operators(tmp_path)
    first = config_hash(with_plan(small(), plan))
    copy = shutil.copy(plan, tmp_path / "copy.csv")
    assert config_hash(with_plan(small(), Path(copy))) == first != config_hash(small())
    plan.write_text(plan.read_text().replace("900", "901"))
    assert config_hash(with_plan(small(), plan)) != first


def test_hashes_of_configurations_without_plans_and_platforms_stay() -> None:
    # As the code before plans and roles gave them.
    assert config_hash(fo.load_config("paper")).startswith("0658bca885bf21c7")
    assert config_hash(fo.load_config("starlink-shell1")).startswith("099dec492a0aa0a1")


def test_everything_is_computed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []

    def counted(module: object, name: str) -> None:
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, **k: (calls.append(name), real(*a, **k))[1])

    counted(build, "find_contacts")
    counted(world, "build_constellation")
    counted(build, "walker")
    config = small(link_rates={"to_ground_mbps": 1e6}, events=EVENTS, run={"method": ["fedavg"]})
    with pytest.raises(fo.StopRequested):
        fo.run(config, tmp_path / "run", progress=StopAfter("fedavg", 4))
    assert sorted(calls) == ["build_constellation", "find_contacts", "walker"]
    calls.clear()
    fo.resume(tmp_path / "run")
    assert "find_contacts" not in calls, "a resumed run takes its contacts from the world file"


def test_a_resumed_run_has_the_plan_that_it_began_with(tmp_path: Path) -> None:
    fo.run(small(run={"rounds": 2, "method": ["local"]}), tmp_path / "run")
    stored = world_file.stored_plan(tmp_path / "run")
    made = build_world(small()).plan
    assert stored is not None and len(stored) == 5
    for array in ARRAYS:
        np.testing.assert_array_equal(getattr(stored, array), getattr(made, array))
    assert (stored.satellites, stored.servers, stored.horizon_s) == (6, 1, 12_000.0)


def test_a_plan_of_another_constellation_is_no_plan_of_the_run() -> None:
    plan = build_world(small()).plan
    other = small(constellation={"planes": 4})
    with pytest.raises(RunError, match=r"of 6 satellites and 1 stations.*has 8 and 1"):
        build_world(other, plan=plan)


def test_many_contacts_have_a_file_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = small(run={"method": ["fedavg"]})
    whole = fo.run(config, tmp_path / "whole")
    monkeypatch.setattr(world_file, "MAX_CONTACTS", 3)
    with pytest.raises(fo.StopRequested):
        fo.run(config, tmp_path / "run", progress=StopAfter("fedavg", 4))
    folder = tmp_path / "run"
    said = json.loads((folder / "world.json").read_text())
    assert said["contacts"]["first"] is None and said["contacts"]["count"] > 3
    manifest = json.loads((folder / "run.json").read_text())
    assert set(manifest["files"]) == {"world.json", "contacts.npy"}
    content = (folder / "contacts.npy").read_bytes()
    (folder / "contacts.npy").unlink()
    resumed = fo.resume(folder)  # writes it again
    assert (folder / "contacts.npy").read_bytes() == content
    assert timeless(resumed.runs[0].records) == timeless(whole.runs[0].records)
    (folder / "contacts.npy").write_bytes(content[:-8] + bytes(8))
    with pytest.raises(RunError, match=r"contacts.npy was damaged or changed"):
        fo.resume(folder)


def test_passes_of_a_run_are_true_contacts() -> None:
    """As `fedorbit orbits` counts them; runs of rounds would be 39, 27, 21, 21 and 34."""
    overrides = ["data.synthetic.samples=400", "run.rounds=400", "data.name=synthetic"]
    said = world_file.describe(build_world(fo.load_config("paper", overrides)))
    assert said["passes"] == [40, 28, 21, 23, 35]
    assert [len(windows) for windows in said["visible"]] == [39, 27, 21, 21, 34]
    # In the first quarter fewer have begun.
    overrides[1] = "run.rounds=100"
    said = world_file.describe(build_world(fo.load_config("paper", overrides)))
    begun = [begin for begin in said["contacts"]["begin_s"] if begin < 30_000.0]
    assert sum(said["passes"]) == len(begun) < 50
