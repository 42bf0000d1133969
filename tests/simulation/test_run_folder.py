"""Starting a run: whose folder it is, what it keeps there, and what a failure leaves behind."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import fedorbit as fo
from fedorbit import locks
from fedorbit.config import Config, load_config
from fedorbit.errors import DataError, ElementSetError, ModelError, RunError
from fedorbit.learning.models import model_spec
from fedorbit.simulation import run_folder, runs
from fedorbit.testing import small_world
from tests.orbits.element_files import made_satellite, tle_text
from tests.simulation.test_runs import StopAfter, small, timeless

QUICK = {"rounds": 2, "method": "local"}


def test_a_folder_is_held_while_the_world_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second start meanwhile must not overwrite the first one's configuration."""
    original, refusals = runs.build_world, []

    def slow(config: Config, preparing: object = None) -> object:
        if not refusals:
            refusals.append("")
            with pytest.raises(RunError) as refused:
                fo.run(small(seed=1, run=QUICK), tmp_path / "run")
            refusals.append(str(refused.value))
        return original(config, preparing)

    monkeypatch.setattr(runs, "build_world", slow)
    fo.run(small(run=QUICK), tmp_path / "run")
    assert "another process runs in" in refusals[1]
    assert load_config(tmp_path / "run" / "config.toml").seed == 0


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("kept")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / run_folder.LOCK).symlink_to(tmp_path / "precious")
    with pytest.raises(OSError, match="symbolic link"):
        fo.run(small(run=QUICK), tmp_path / "run")
    assert (tmp_path / "precious").read_text() == "kept"


def test_two_starts_without_a_folder_get_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with run_folder.new_folder(None) as first, run_folder.new_folder(None) as second:
        assert (first, second) == (Path("runs/1"), Path("runs/2"))
    (tmp_path / "runs" / "3").write_text("a file")
    with run_folder.new_folder(None) as third:
        assert third == Path("runs/4")


def test_a_lock_that_was_removed_is_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another start may fail, and remove folder and lock, just after we opened the lock."""
    original = locks.fcntl.flock

    def after_the_other_failed(lock: object, how: int) -> None:
        (tmp_path / run_folder.LOCK).unlink()
        original(lock, how)

    monkeypatch.setattr(locks.fcntl, "flock", after_the_other_failed)
    with pytest.raises(RunError, match="another process"), run_folder.only_one(tmp_path):
        pass


@pytest.mark.parametrize("error", [DataError("no data"), KeyboardInterrupt()])
def test_a_start_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(runs, "build_world", fail)
    with pytest.raises(type(error)):
        fo.run(small(), tmp_path / "new" / "deep" / "run")
    assert list(tmp_path.glob("new*")) == []
    (tmp_path / "mine").mkdir()
    with pytest.raises(type(error)):
        fo.run(small(), tmp_path / "mine")
    assert (tmp_path / "mine").is_dir()  # it was there before


def test_nothing_is_put_into_a_folder_of_others(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(RunError, match="in use and holds no run"):
        fo.run(small(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]


def test_parameters_of_methods_that_are_not_run_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"no method 'fedorbti' \(did you mean 'fedorbit'\?\)"):
        fo.run(small(run=QUICK, methods={"fedorbti": {"rho": 0.5}}), tmp_path / "run")
    assert not (tmp_path / "run").exists()


# --- Who trains -----------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(16, 16, 65), (2100, 16, 1)])
def test_pytorch_trains_what_the_kernel_cannot_take(shape: tuple[int, int, int]) -> None:
    world = small_world(samples=12)
    images = np.zeros((len(world.data.images), *shape), dtype=np.uint8)
    scale = np.ones(shape[2], dtype=np.float32)
    data = replace(world.data, images=images, scale=scale, shift=0 * scale)
    other = replace(world, spec=model_spec("lenet", None, shape, 4), data=data)
    assert other.trainer().name == "torch"


def test_the_backend_is_settled_when_images_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedorbit.learning.kernel.unfit_reason", lambda *shape: "too many channels")
    result = fo.run(small(run=QUICK), tmp_path / "run")
    assert load_config(tmp_path / "run" / "config.toml").engine.backend == "torch"
    assert result.runs[0].summary["provenance"]["backend"] == "torch"
    monkeypatch.undo()
    fo.resume(tmp_path / "run", small(run=QUICK))  # "auto" is whatever the run has settled on


# --- Element sets ---------------------------------------------------------------------------------


@pytest.fixture
def elements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Config:
    """Two orbits of two from a file beside the configuration, as seen from the folder above."""
    satellites = [
        (f"S{raan}{anomaly}", made_satellite(number, raan, anomaly))
        for number, (raan, anomaly) in enumerate([(0, 0), (0, 180), (90, 0), (90, 180)], 1)
    ]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "world.tle").write_text(tle_text(satellites))
    (tmp_path / "mine" / "my.toml").write_text(
        "[constellation]\nkind = 'elements'\nfile = 'world.tle'\n[schedule]\nrounds = 40\n"
        "[data.synthetic]\nclasses = 4\nsamples = 120\nsize = 16\n[training]\nepochs = 1\n"
        "[run]\nrounds = 6\nmethod = 'fedavg'\n"
    )
    monkeypatch.chdir(tmp_path)
    return load_config("mine/my.toml")


def test_a_run_with_element_sets_is_whole_in_its_folder(elements: Config, tmp_path: Path) -> None:
    whole = fo.run(elements, "whole")
    with pytest.raises(fo.StopRequested):
        fo.run(elements, "stopped", progress=StopAfter("fedavg", 2))
    assert 'file = "elements.tle"' in Path("stopped/config.toml").read_text()
    with pytest.raises(fo.StopRequested):
        fo.resume("stopped", load_config("mine/my.toml"), progress=StopAfter("fedavg", 4))
    (tmp_path / "mine").rename(tmp_path / "elsewhere")
    Path("stopped").rename("moved")
    again = fo.resume("moved")
    assert timeless(again.runs[0].records) == timeless(whole.runs[0].records)
    # The content of a file counts, wherever it lies.
    hashes = {r.runs[0].summary["provenance"]["config_hash"] for r in (whole, again)}
    assert len(hashes) == 1


def test_other_element_sets_are_another_configuration(elements: Config, tmp_path: Path) -> None:
    fo.run(elements, "run")
    file = tmp_path / "mine" / "world.tle"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:6]))
    with pytest.raises(RunError, match=r"differs in constellation\.file;"):
        fo.resume("run", load_config("mine/my.toml"))
    file.unlink()
    with pytest.raises(ElementSetError, match=r"mine/world\.tle"):
        fo.run(load_config("mine/my.toml"), "another")
    assert not Path("another").exists()


def test_a_copy_that_a_killed_start_left_is_no_obstacle(elements: Config) -> None:
    Path("run").mkdir()
    Path("run/elements.tle").write_text("somebody's own satellites")
    with pytest.raises(RunError, match="in use"):
        fo.run(elements, "run")
    Path("run/elements.tle").write_bytes(Path("mine/world.tle").read_bytes())
    fo.run(elements, "run")
