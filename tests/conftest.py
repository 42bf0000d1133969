"""Fixtures of all tests: a cache of their own, and the real data where it is at hand."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import settings

from fedorbit import user_code
from tests.gates import Gates
from tests.two_nodes import TwoNodes, start_two_nodes

# Shared machines are slow at times: a deadline would fail a test for its neighbours' load.
settings.register_profile("fedorbit", deadline=None, derandomize=True)
settings.load_profile("fedorbit")

# A shell that starts the tests in the background has them, and their children, ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)

# PyTorch's second thread would spin while it waits, and take a core from the tests beside it: small
# models cost several times as much. It is as many threads as ever, which sleep instead.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Ray's workers give way to everybody else, and are ended where memory is short, whoever uses it: on
# a busy machine, tests would wait for them in vain.
os.environ.update(RAY_worker_niceness="0", RAY_memory_monitor_refresh_ms="0")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run all tests that start Ray in one process: one cluster of theirs fills a machine."""
    for item in items:
        if "ray" in item.path.name or "two_nodes" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("ray"))


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep every test away from the user's prepared datasets."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("FEDORBIT_CACHE", str(cache))
    return cache


@pytest.fixture(autouse=True)
def own_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep tests from allowing or importing code for another one, and from the user's settings."""
    monkeypatch.setattr(user_code, "_allowed", set())
    monkeypatch.setattr(user_code, "_imported", {})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield
    new = sys.modules.keys() - before
    files = {name: str(getattr(sys.modules[name], "__file__", "")) for name in new}
    for name in (name for name, file in files.items() if file.startswith(f"{tmp_path}{os.sep}")):
        for package in accumulate(name.split("."), "{}.{}".format):
            sys.modules.pop(package, None)


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gates:
    """A method in the current folder, `tests.gates.METHOD`, whose runs can be held before a round."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    user_code.allow_code("gated")
    return Gates(tmp_path)


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder with the original files of real datasets."""
    return _real_file("EuroSAT_RGB.zip").parent


@pytest.fixture(scope="session")
def real_file() -> Callable[[str], Path]:
    """Find an original file by its name in that folder."""
    return _real_file


@pytest.fixture(scope="session")
def real_elements() -> Callable[[str], Path]:
    """Find a file of element sets of a real constellation."""
    return lambda name: _real_file(f"tle/{name}")


def _real_file(name: str) -> Path:
    beside = Path(__file__).parents[2] / "shared" / "data"
    folder = Path(os.environ.get("FEDORBIT_DATA", beside))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not in {folder}; set FEDORBIT_DATA to the folder that holds it")
    return folder / name


@pytest.fixture(scope="session")
def two_nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoNodes]:
    """A Ray cluster of two nodes with one CPU each, both on this machine."""
    pytest.importorskip("ray", reason="Ray is not installed; see the extra ray")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FEDORBIT_CACHE", str(tmp_path_factory.mktemp("cache")))
        with start_two_nodes() as nodes:
            patched.undo()
            yield nodes
