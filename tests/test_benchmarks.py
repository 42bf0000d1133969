"""Benchmarks still fit the package: each does its work once, tiny. Nothing here is timed."""

import inspect
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import against_flower
import dataloader_loop
import engine_choice
import globe
import growth
import kernel_speed
import links_scale
import loop_overhead
import memory_per_orbit
import numpy as np
import orbits_scale
import per_method
import pytest
import ray_overhead
import start_up
import torch
import training_settings
import workload

from fedorbit.config import load_config
from fedorbit.learning import kernel
from fedorbit.learning.engine import LocalEngine
from fedorbit.learning.jobs import LocalJob
from fedorbit.orbits.constellation import walker

TINY = [
    "constellation.planes=2",
    "constellation.satellites_per_plane=2",
    "schedule.rounds=40",
    "data.synthetic.classes=4",
    "data.synthetic.samples=80",
    "data.synthetic.size=16",
    "training.epochs=1",
    "run.rounds=1",
    "run.links=ideal",
]
LIBRARIES = {"alternating", "plain_pytorch", "workload"}
"""Modules that the scripts import, and that no user runs."""


@pytest.fixture(autouse=True)
def _as_many_threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_every_script_is_tried_here() -> None:
    folder = Path(__file__).parents[1] / "benchmarks"
    scripts = {path.stem for path in folder.glob("*.py")} - LIBRARIES
    imported = {name for name, value in globals().items() if inspect.ismodule(value)}
    assert len(scripts) > 5 and scripts <= imported


@pytest.mark.parametrize("idiomatic", [True, False])
@pytest.mark.parametrize("method", ["fedavg", "fedorbit"])
def test_the_dataloader_loop_does_the_work_of_a_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch, idiomatic: bool, method: str
) -> None:
    file = tmp_path / "workload.npz"
    workload.export(file, load_config("quickstart", TINY), idiomatic)
    monkeypatch.setattr(sys, "argv", ["dataloader_loop.py", str(file), method, "--threads", "1"])
    dataloader_loop.main()
    assert '"accuracy": [' in capsys.readouterr().out


def test_the_dataloader_loop_finds_its_threads(tmp_path: Path, capsys, monkeypatch) -> None:
    file = tmp_path / "workload.npz"
    workload.export(file, load_config("quickstart", TINY), True)
    monkeypatch.setattr(sys, "argv", ["dataloader_loop.py", str(file), "--probe"])
    dataloader_loop.main()
    assert '"threads": ' in capsys.readouterr().out


def test_against_flower(tmp_path: Path, capsys, monkeypatch) -> None:
    """Our part of the contest: Flower is not installed, and the loop is tried above."""
    run_quietly = against_flower.run_quietly

    def without_probe(*command: Any, **environment: str) -> str:
        return '{"threads": 1}' if "--probe" in command else run_quietly(*command, **environment)

    monkeypatch.setattr(against_flower, "flower_python", lambda: Path("none"))
    monkeypatch.setattr(against_flower, "run_quietly", without_probe)
    changes = ["data.name=synthetic", *TINY, "run.rounds=4"]
    ours = against_flower.Contest(tmp_path, changes, True).fedorbit("fedavg")
    assert len(ours.accuracy) == 4
    monkeypatch.setattr(sys, "argv", ["against_flower.py", "--help"])
    with pytest.raises(SystemExit) as left:
        against_flower.main()
    assert left.value.code == 0 and "--generous" in capsys.readouterr().out


def test_engine_choice(monkeypatch) -> None:
    tiny: dict[str, Any] = {"data": {"synthetic": {"size": 16, "samples": 200}}}
    monkeypatch.setattr(engine_choice, "SETTINGS", tiny)
    engine_choice.prepare("torch")
    start = engine_choice.world.initial_model
    trained = engine_choice.train(LocalJob(0, start, 1, 0.01, (0,)))
    assert not np.array_equal(trained.model, start)
    assert callable(engine_choice.main)


def test_growth() -> None:
    """`growth.main` is three of these."""
    measured = growth.measured_run("quickstart", 1, TINY)
    assert measured["peak"] >= measured["imports"] > 0


@pytest.mark.skipif(not kernel.available(), reason="the C library was not built")
def test_kernel_speed(capsys, monkeypatch) -> None:
    sizes = {"SHAPES": {"tiny": (16, 1, 3)}, "SAMPLES": 8, "EPOCHS": 1, "GEMM_SIDE": 64, "GEMMS": 1}
    for name, value in sizes.items():
        monkeypatch.setattr(kernel_speed, name, value)
    kernel_speed.main(1)
    assert "tiny" in capsys.readouterr().out


def test_training_settings(capsys, monkeypatch) -> None:
    monkeypatch.setattr(kernel_speed, "SAMPLES", 8)
    monkeypatch.setattr(training_settings, "SHAPES", {"tiny": (16, 1, 3)})
    training_settings.main(1)
    assert "orientations" in capsys.readouterr().out


def test_globe_needs_an_address(capsys, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["globe.py"])
    with pytest.raises(SystemExit):
        globe.main()
    assert "required" in capsys.readouterr().err


def test_loop_overhead(capsys, monkeypatch) -> None:
    def tiny(preset: str, changes: list[str]):
        return load_config(preset, [*TINY, *changes])

    monkeypatch.setattr(loop_overhead, "load_config", tiny)
    loop_overhead.main("synthetic", 2, "quickstart")
    assert "2 rounds, " in capsys.readouterr().out


def test_memory_per_orbit(capsys, monkeypatch) -> None:
    words = ["memory_per_orbit.py", "--planes", "3", "--rounds", "1", "--size", "16", "fedorbit"]
    monkeypatch.setattr(sys, "argv", words)
    memory_per_orbit.main()
    assert capsys.readouterr().out.endswith("models per orbit at the peak\n")


def test_orbits_scale(capsys, monkeypatch) -> None:
    monkeypatch.setattr(orbits_scale, "walker", lambda *_: walker(2, 2, 0, 550.0, 53.0))
    orbits_scale.main()
    assert "8640 rounds of 10 s: " in capsys.readouterr().out


def test_ray_overhead() -> None:
    """The measured round by the local engine; tests/learning/ray compares Ray's result with it."""
    world = ray_overhead.world_of(ray_overhead.SATELLITES_PER_ORBIT, 4)
    with closing(LocalEngine(world.trainer(), world.data, 0, 1)) as engine:
        [model] = ray_overhead.one_round(engine, world).values()
    assert not np.array_equal(model, world.initial_model)


@pytest.mark.skipif(not kernel.available(), reason="compares with the C kernel")
def test_per_method(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    monkeypatch.setattr(per_method, "CHANGES", [*per_method.CHANGES, "data.synthetic.samples=200"])
    monkeypatch.setattr(per_method, "ROUNDS", 1)
    per_method.main(1, ["fedavg", "per_fedavg"])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["fedavg", "per_fedavg"]


def test_links_scale(capsys: pytest.CaptureFixture[str], monkeypatch) -> None:
    small = ["constellation.planes=3", "constellation.satellites_per_plane=9", "schedule.rounds=20"]
    monkeypatch.setattr(links_scale, "load_config", lambda preset: load_config("paper", small))
    links_scale.main()
    out = capsys.readouterr().out
    assert "in the plane 27 at a time" in out and "peak memory" in out


def test_start_up(capsys: pytest.CaptureFixture[str]) -> None:
    start_up.main(1, ("--version",))
    assert capsys.readouterr().out.startswith("fedorbit --version: ")
