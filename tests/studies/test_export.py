"""Finished runs copied: exported without checkpoints, and taken over by another study."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

from fedorbit import resume
from fedorbit.documents import sealed
from fedorbit.errors import RunError
from fedorbit.simulation.records import read_setting
from fedorbit.studies import Study, export, load_study, markdown, run, status, table, take_over
from tests.studies import small

METHODS = '[common]\nmethod = ["fedavg", "local"]\n'


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Path]:
    """A study of two runs, finished; do not write into its folder."""
    folder = tmp_path_factory.mktemp("study")
    study = load_study(small.write_study(folder, METHODS))
    run(study, folder / "out", jobs=1)
    return study, folder / "out"


def records(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.rglob("records.jsonl")}


def test_an_export_is_a_study_folder_without_checkpoints(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    study, out = done
    to = tmp_path / "export"
    assert export(study, out, to) == [cell.slug for cell in study.runs]
    assert list(out.rglob("*.safetensors")) and not list(to.rglob("*.safetensors"))
    assert records(to) == records(out)
    copied = load_study(to)
    assert {state.state for state in status(copied, to)} == {"done"}
    assert (to / "table.md").read_text() == markdown(table(copied, to))
    assert r"\toprule" in (to / "table.tex").read_text()
    assert (to / "table.csv").read_text().startswith("row,column,metric")
    export(study, out, to)  # a second time brings it up to date
    assert records(to) == records(out)


def test_exported_runs_of_the_same_world_share_its_file(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    study, out = done
    to, (first, second) = tmp_path / "export", study.runs
    export(study, out, to)
    [shared] = (to / "worlds").iterdir()
    assert shared.read_bytes() == (out / first.slug / "world.json").read_bytes()
    for cell in study.runs:
        assert not (to / cell.slug / "world.json").exists()
        assert read_setting(to / cell.slug) == read_setting(out / cell.slug)
    assert resume(to / first.slug).runs[0].records
    assert not (to / first.slug / "world.json").exists()  # it was not computed again
    assert take_over(study, tmp_path / "mine", [to]) == [first.slug, second.slug]
    assert (tmp_path / "mine" / second.slug / "world.json").read_bytes() == shared.read_bytes()
    assert not (tmp_path / "mine" / "worlds").exists()
    shared.write_bytes(shared.read_bytes().replace(b'"tau_max":', b'"tau_min":'))
    with pytest.raises(RunError, match="was damaged or changed"):
        read_setting(to / second.slug)
    shared.unlink()
    with pytest.raises(RunError, match=r"world\.json was damaged or changed .*it is missing"):
        read_setting(to / second.slug)


def test_a_manifest_cannot_name_files_elsewhere(
    done: tuple[Study, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stranger's run binds one more file, whose content is in `worlds`: it is not written."""
    study, out = done
    cell, content = study.runs[0], b"import os\n"
    sha256, victim = hashlib.sha256(content).hexdigest(), tmp_path / "home" / "evil.pth"
    for number, name in enumerate((str(victim), "../home/evil.pth", "..", "a/b", "a\\b", "")):
        stranger = tmp_path / f"stranger-{number}"
        shutil.copytree(out / cell.slug, stranger / cell.slug)
        (stranger / "worlds").mkdir()
        (stranger / "worlds" / sha256).write_bytes(content)
        manifest = json.loads((stranger / cell.slug / "run.json").read_text())
        del manifest["sha256"]
        manifest["files"][name] = sha256
        (stranger / cell.slug / "run.json").write_text(json.dumps(sealed(manifest)))
        with pytest.raises(RunError, match=r"run\.json was damaged or changed"):
            take_over(study, tmp_path / "mine", [stranger])
    assert not victim.exists()


def test_links_among_the_shared_files_are_not_followed(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    study, out = done
    to = tmp_path / "export"
    export(study, out, to)
    [shared] = (to / "worlds").iterdir()
    shared.rename(tmp_path / shared.name)
    shared.symlink_to(tmp_path / shared.name)
    with pytest.raises(RunError, match="it is missing"):
        read_setting(to / study.runs[0].slug)
    shutil.rmtree(to / "worlds")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / shared.name).rename(tmp_path / "elsewhere" / shared.name)
    (to / "worlds").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="it is missing"):
        read_setting(to / study.runs[0].slug)


def test_an_export_leaves_no_world_that_no_run_has(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    study, out = done
    export(study, out, tmp_path / "export")
    (tmp_path / "export" / "worlds" / ("0" * 64)).write_text("{}")
    export(study, out, tmp_path / "export")
    assert len(list((tmp_path / "export" / "worlds").iterdir())) == 1


def test_a_damaged_world_is_not_exported(done: tuple[Study, Path], tmp_path: Path) -> None:
    study, out = done
    shutil.copytree(out, tmp_path / "out")
    for cell in study.runs:
        (tmp_path / "out" / cell.slug / "world.json").write_text("{}")
    with pytest.raises(RunError, match=r"world\.json was damaged or changed"):
        export(study, tmp_path / "out", tmp_path / "export")
    assert not (tmp_path / "export" / "worlds").exists()


def test_an_export_leaves_out_what_is_not_finished(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    study, out = done
    half = tmp_path / "half"
    fedavg, local = study.runs
    export(study, out, half)
    (half / local.slug / "local" / "summary.json").unlink()
    assert export(study, half, tmp_path / "rest") == [fedavg.slug]
    assert not (tmp_path / "rest" / local.slug).exists()


def test_links_are_neither_exported_nor_taken_over(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    study, out = done
    (tmp_path / "secret").write_text("mine alone")
    sent = Path(shutil.copytree(out, tmp_path / "sent"))
    (sent / study.runs[0].slug / "elements.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(RunError, match="is a link, which is not followed"):
        export(study, sent, tmp_path / "public")
    with pytest.raises(RunError, match="is a link, which is not followed"):
        take_over(study, tmp_path / "mine", [sent])
    into = tmp_path / "into"
    into.mkdir()
    (into / ".study").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RunError, match="is a link, which is not followed"):
        take_over(study, into, [out])
    assert not (tmp_path / "elsewhere").exists()


def test_damaged_runs_are_not_taken_over(done: tuple[Study, Path], tmp_path: Path) -> None:
    study, out = done
    sent = Path(shutil.copytree(out, tmp_path / "sent"))
    cell = study.runs[0]
    path = sent / cell.slug / cell.method / "records.jsonl"
    path.write_text(path.read_text().replace('"round":0', '"round":00', 1))
    with pytest.raises(RunError, match="was damaged"):
        take_over(study, tmp_path / "mine", [sent])
    assert not (tmp_path / "mine" / cell.slug).exists()


def test_nothing_to_export(done: tuple[Study, Path], tmp_path: Path) -> None:
    study, out = done
    with pytest.raises(RunError, match="no finished run"):
        export(study, tmp_path / "empty", tmp_path / "export")
    with pytest.raises(RunError, match="is the study itself"):
        export(study, out, out)
    assert not (tmp_path / "export").exists()


def test_an_export_does_not_replace_another_study(done: tuple[Study, Path], tmp_path: Path) -> None:
    study, out = done
    export(study, out, tmp_path / "export")
    before = {path: path.read_bytes() for path in (tmp_path / "export").glob("*.*")}
    other = load_study(small.write_study(tmp_path, '[common]\nmethod = ["fedprox"]\n', "other"))
    run(other, tmp_path / "out", jobs=1)
    with pytest.raises(RunError, match=r"export holds the study 'tiny', not 'other'; choose"):
        export(other, tmp_path / "out", tmp_path / "export")
    assert {path: path.read_bytes() for path in (tmp_path / "export").glob("*.*")} == before
    with pytest.raises(RunError, match=r"export holds the study 'tiny', not 'other'; choose"):
        run(other, tmp_path / "export", jobs=1)
    with pytest.raises(RunError, match=r"export holds the study 'tiny', not 'other'; choose"):
        take_over(other, tmp_path / "export", [tmp_path / "out"])


def test_another_study_takes_over_runs_with_the_same_settings(
    done: tuple[Study, Path], tmp_path: Path
) -> None:
    _, out = done
    other = load_study(
        small.write_study(
            tmp_path, '[common]\nmethod = ["fedavg"]\ntraining.rate = [0.01, 0.02]\n', "rates"
        )
    )
    same, faster = other.runs
    assert take_over(other, tmp_path / "out", [out]) == [same.slug]
    assert records(tmp_path / "out" / same.slug) == {"fedavg": records(out)["fedavg"]}
    states = {state.folder: state.state for state in status(other, tmp_path / "out")}
    assert states == {same.slug: "done", faster.slug: "missing"}
    assert take_over(other, tmp_path / "out", [out]) == []  # it is there now


def test_unfinished_runs_are_not_taken_over(done: tuple[Study, Path], tmp_path: Path) -> None:
    study, out = done
    export(study, out, tmp_path / "copy")
    for summary in (tmp_path / "copy").rglob("summary.json"):
        summary.unlink()
    assert take_over(study, tmp_path / "new", [tmp_path / "copy"]) == []
    with pytest.raises(RunError, match="holds no run to take over"):
        take_over(study, tmp_path / "new", [tmp_path / "nowhere"])
