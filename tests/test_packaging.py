"""Packages to upload: wheels that fit their platforms, and a source distribution that builds."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = "fedorbit/learning/kernel/_lenet.so"


def built(hook: str, tree: Path, to: Path, **environment: str) -> Path:
    """Build by the backend that pyproject.toml names; return the file."""
    to.mkdir()
    tree = shutil.copytree(tree, to.with_name("tree"))  # a build leaves files there
    code = f"from setuptools import build_meta; build_meta.{hook}({str(to)!r})"
    subprocess.run(
        [sys.executable, "-c", code],
        cwd=tree,
        env={**os.environ, **environment},
        capture_output=True,
        check=True,
    )
    [file] = to.iterdir()
    shutil.rmtree(tree)
    return file


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of an unpacked source distribution."""
    tree, place = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)
    without = shutil.ignore_patterns("*.so", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=without)
    with tarfile.open(built("build_sdist", tree, place / "made")) as archive:
        archive.extractall(place, filter="data")
    [unpacked] = place.glob("fedorbit-*")
    return unpacked


def tags(wheel: Path) -> str:
    return wheel.stem.split("-", 2)[2]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
def test_one_wheel_serves_every_python_on_this_platform(source: Path, tmp_path: Path) -> None:
    wheel = built("build_wheel", source, tmp_path / "wheel")
    assert tags(wheel).startswith("py3-none-")
    assert not tags(wheel).endswith("any")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert LIBRARY in names
    assert {"fedorbit/presets/quickstart.toml", "fedorbit/report/land.json"} <= set(names)
    assert {f"fedorbit/serve/assets/{n}" for n in ("three.js", "three-LICENSE.txt")} <= set(names)


def test_without_a_compiler_the_wheel_is_for_any_platform(source: Path, tmp_path: Path) -> None:
    wheel = built("build_wheel", source, tmp_path / "wheel", CC="false")
    assert tags(wheel) == "py3-none-any"
    with zipfile.ZipFile(wheel) as archive:
        assert LIBRARY not in archive.namelist()
        [about] = (name for name in archive.namelist() if name.endswith("/WHEEL"))
        assert "Root-Is-Purelib: true" in archive.read(about).decode()
