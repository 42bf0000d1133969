"""Work of a node, without Ray: checks of the node, and runs outside of the study's folder."""

import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

import fedorbit as fo
from fedorbit.data.cache import cache_root
from fedorbit.simulation.records import read_records
from fedorbit.studies import load_study
from fedorbit.studies.folders import planned_config, read_failure, run_lock
from fedorbit.studies.ray.node import Answer, Home, Needs, Order, do, inspect
from fedorbit.studies.ray.retrieval import ReturnedFiles
from fedorbit.studies.runner import dumps
from fedorbit.studies.sync import Mirror, RunFiles
from tests.simulation.test_runs import timeless
from tests.studies import small


@pytest.fixture(autouse=True)
def _back_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_what_a_node_must_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "out"
    needs = Needs(Home.here(), (), out, "probe")
    assert inspect(needs).obstacle.startswith(f"does not see the study's folder {out}; choose")
    with run_lock(out, "probe"):
        assert inspect(needs).obstacle == ""
        older = replace(needs, home=replace(needs.home, version="0.0.1"))
        assert "and the study was started by 0.0.1" in inspect(older).obstacle
    assert "does not see locks of other nodes" in inspect(needs).obstacle
    monkeypatch.setenv("FEDORBIT_CACHE", str(tmp_path / "cache"))
    assert inspect(Needs(Home.here(), ("eurosat",), None)).obstacle == (
        f"has no dataset 'eurosat' in {tmp_path / 'cache'}; run `fedorbit data prepare eurosat` on "
        "every node, or set FEDORBIT_CACHE to a folder that all nodes share"
    )


def test_whose_cache_a_node_uses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDORBIT_CACHE", "")  # what settling sets is taken back after the test
    monkeypatch.delenv("FEDORBIT_CACHE")
    own = cache_root()
    home = Home("", tmp_path, str(tmp_path / "not here"))
    home.settle()
    assert cache_root() == own
    (tmp_path / "not here").mkdir()
    home.settle()
    assert cache_root() == tmp_path / "not here"
    monkeypatch.setenv("FEDORBIT_CACHE", str(tmp_path))
    home.settle()
    assert cache_root() == tmp_path


class Post:
    """A queue without Ray."""

    def __init__(self) -> None:
        self.items: list[tuple[str, RunFiles]] = []

    def put(self, item: tuple[str, RunFiles]) -> None:
        self.items.append(item)

    def qsize(self) -> int:
        return len(self.items)

    def get_nowait_batch(self, count: int) -> list[tuple[str, RunFiles]]:
        taken, self.items = self.items[:count], self.items[count:]
        return taken


def order_of(out: Path, slug: str, datasets: tuple[str, ...] = ()) -> Order:
    return Order(Home.here(), out, slug, {"workers": 1}, datasets)


def planned(tmp_path: Path) -> tuple[Path, str, "fo.Config"]:
    """Write down the configuration of a small run, as the runner does."""
    path = small.write_study(tmp_path, '[common]\nmethod = ["fedavg"]\n')
    [cell] = load_study(path).runs
    out = tmp_path / "out"
    plan = planned_config(out, cell.slug)
    plan.parent.mkdir(parents=True)
    plan.write_text(dumps(cell.config))
    return out, cell.slug, cell.config


def test_a_run_apart_is_stopped_and_goes_on_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, slug, config = planned(tmp_path)
    post = Post()
    files = ReturnedFiles(out, post)
    assert files.lock(slug)
    assert not ReturnedFiles(out, post).lock(slug)  # another process would be refused

    def stop_in_round_2(self: object, t: int, record: object) -> None:
        if t == 2:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patched:
        patched.setattr("fedorbit.simulation.loop.SilentRunProgress.round_done", stop_in_round_2)
        first = do(files.complete(order_of(out, slug)))
    host = socket.gethostname()
    assert first.outcome == "lost" and first.reason == f"its process on node {host} was stopped"
    files.settle(slug, first.files)
    assert (out / slug / "fedavg" / "checkpoint-00000003.json").exists()

    assert files.lock(slug)
    second = files.complete(order_of(out, slug))
    assert second.files is not None
    assert f"{slug}/fedavg/checkpoint-00000003.json" in second.files.contents
    answer = do(second)
    assert answer.outcome == "done"
    # What an attempt sends that was given up is dropped.
    post.put(("an old ticket", RunFiles({f"{slug}/config.toml": b"old"}, frozenset())))
    files.settle(slug, answer.files)
    assert (out / slug / "config.toml").read_text() != "old"
    alone = fo.run(config, tmp_path / "alone")
    assert timeless(read_records(out / slug / "fedavg")) == timeless(alone.runs[0].records)
    assert Mirror(out, slug).changes() is not None


def test_element_sets_and_contact_plans_are_sent_too(tmp_path: Path) -> None:
    path, elements = small.write_real_study(tmp_path)
    [cell] = load_study(path).runs
    out = tmp_path / "out"
    plan = planned_config(out, cell.slug)
    plan.parent.mkdir(parents=True)
    plan.write_text(dumps(cell.config))
    files = ReturnedFiles(out, Post())
    files.lock(cell.slug)
    order = files.complete(order_of(out, cell.slug))
    for name in ("fleet.tle", "plan.csv"):
        (tmp_path / name).rename(tmp_path / f"another machine's {name}")
    answer = do(order)
    assert answer.outcome == "done", answer.files
    files.settle(cell.slug, answer.files)
    assert (out / cell.slug / "elements.tle").read_text() == elements
    assert "S0,London,0,500" in (out / cell.slug / "plan.csv").read_text()
    records = read_records(out / cell.slug / "local")
    assert [bool(record["visible"]) for record in records] == [True, True, False, False]


def test_a_failure_apart_is_told(tmp_path: Path) -> None:
    out, slug, _ = planned(tmp_path)
    plan = planned_config(out, slug)
    plan.write_text(plan.read_text().replace("samples = 120", "samples = 0"))
    files = ReturnedFiles(out, Post())
    files.lock(slug)
    # The driver reads it, too; so a broken file is a failure only where the run is done.
    order = order_of(out, slug)
    broken = RunFiles({f".study/{slug}.toml": plan.read_bytes()}, frozenset())
    answer = do(replace(order, files=broken, outbox=Post(), ticket="1"))
    files.settle(slug, answer.files)
    assert answer.outcome == "failed"
    assert "samples" in str(read_failure(out, slug))


def test_a_node_that_came_late_and_lacks_the_images(tmp_path: Path) -> None:
    answer = do(order_of(tmp_path, "run", ("so2sat",)))
    assert isinstance(answer, Answer) and answer.outcome == "lost"
    assert answer.reason.startswith(f"its node {socket.gethostname()} has no dataset 'so2sat' in")
