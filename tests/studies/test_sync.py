"""A run's files are sent such that whatever has arrived can be resumed."""

from pathlib import Path

import pytest

from fedorbit.studies.sync import Mirror, write_files

RUN = "run"
METHOD = f"{RUN}/fedavg"


def write(out: Path, name: str, text: str) -> None:
    path = out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def files_below(out: Path) -> dict[str, str]:
    return {str(p.relative_to(out)): p.read_text() for p in out.rglob("*") if p.is_file()}


def checkpoint(out: Path, rounds: int) -> None:
    for suffix in ("safetensors", "json"):
        write(out, f"{METHOD}/checkpoint-{rounds:08d}.{suffix}", f"{rounds} {suffix}")


@pytest.fixture
def node(tmp_path: Path) -> Path:
    out = tmp_path / "node"
    write(out, f"{RUN}/config.toml", "config")
    write(out, f"{METHOD}/records.jsonl", "{}\n{}\n")
    checkpoint(out, 1)
    checkpoint(out, 2)
    return out


def test_all_files_arrive_but_hidden_ones_and_other_runs(node: Path, tmp_path: Path) -> None:
    sent = files_below(node)
    write(node, f"{RUN}/.lock", "")
    write(node, f"{METHOD}/.records.12ab.partial.jsonl", "half")
    write(node, "another/config.toml", "config")
    write(node, f".study/{RUN}.lock", "")
    for name in (f".study/{RUN}.failure.json", f".study/{RUN}.log.txt"):
        write(node, name, "why")
        sent[name] = "why"
    files = Mirror(node, RUN).changes()
    assert files is not None
    write_files(files, tmp_path / "home", RUN)
    assert files_below(tmp_path / "home") == sent


def test_files_are_written_after_those_that_they_count_on(node: Path) -> None:
    write(node, f"{METHOD}/summary.json", "summary")
    write(node, f"{RUN}/run.json", "manifest")
    write(node, f"{RUN}/elements.json", "satellites")
    files = Mirror(node, RUN).changes()
    assert files is not None
    names = [Path(name).name for name in files.contents]
    assert names[:4] == ["elements.json", "config.toml", "run.json", "records.jsonl"]
    assert sorted(names[-3:]) == [
        "checkpoint-00000001.json",
        "checkpoint-00000002.json",
        "summary.json",
    ]


def test_records_are_read_after_the_checkpoints_that_count_on_them(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that goes on while it is packed must not end up with fewer records than it vouches."""
    read = Path.read_bytes

    def read_while_it_goes_on(path: Path) -> bytes:
        content = read(path)
        if path.suffix == ".json":
            with (node / METHOD / "records.jsonl").open("a") as records:
                records.write("later\n")
        return content

    monkeypatch.setattr(Path, "read_bytes", read_while_it_goes_on)
    files = Mirror(node, RUN).changes()
    assert files is not None
    assert files.contents[f"{METHOD}/records.jsonl"] == b"{}\n{}\nlater\nlater\n"


def test_only_changes_are_sent_and_outdated_checkpoints_go(node: Path, tmp_path: Path) -> None:
    mirror, home = Mirror(node, RUN), tmp_path / "home"
    first = mirror.changes()
    assert first is not None
    write_files(first, home, RUN)
    assert mirror.changes() is None
    checkpoint(node, 3)
    for path in (node / METHOD).glob("checkpoint-00000001*"):
        path.unlink()
    second = mirror.changes()
    assert second is not None
    assert list(second.contents) == [
        f"{METHOD}/checkpoint-00000003.safetensors",
        f"{METHOD}/checkpoint-00000003.json",
    ]
    write_files(second, home, RUN)
    assert files_below(home) == files_below(node)
