"""Code of the user's own is imported only where the user has allowed it."""

import json
import sys
from pathlib import Path

import pytest

import fedorbit as fo
from fedorbit import studies, user_code
from fedorbit.config.files import dumps
from fedorbit.errors import ConfigError, ModelError, RunError
from fedorbit.studies import load_study
from tests.cli.answers import one_sentence
from tests.simulation.test_runs import StopAfter, small, timeless
from tests.studies import small as small_study

EVIL = """
from pathlib import Path
Path("imported").touch()
from fedorbit.learning.lenet import LeNet as factory
from fedorbit.methods.fedavg import FedAvg as Method
"""
CODE = {"name": "mine:factory", "classifier": "fc2"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a module in it that leaves a mark when it is imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "mine.py").write_text(EVIL)
    return tmp_path


def was_imported() -> bool:
    return Path("imported").exists()


def sent_folder(folder: Path, *settings: str) -> Path:
    """A run's folder as somebody could send it: a configuration, and a module beside it."""
    config = fo.load_config("quickstart", ["data.synthetic.samples=200", *settings])
    (folder / "sent").mkdir()
    (folder / "sent" / "evil.py").write_text(EVIL)
    (folder / "sent" / "config.toml").write_text(dumps(config))
    return folder / "sent"


@pytest.mark.parametrize(
    "setting",
    ["model.name=sent.evil:factory", "run.method=sent.evil:Method"],
)
def test_a_folder_that_names_code_in_it_runs_nothing(fedorbit, folder: Path, setting: str) -> None:
    sent_folder(folder, setting, "model.classifier=fc2")
    said = one_sentence(fedorbit("run", "--resume", "sent", code=2))
    assert "would run" in said and "sent/evil.py" in said and "--allow-code sent.evil" in said
    assert not was_imported()
    assert not any("evil" in name for name in sys.modules)
    fedorbit("report", "sent", code=2)  # it has no records
    rates = ["-o", "link_rates.to_ground_mbps=1"]  # for which a model has a size
    fedorbit("orbits", "sent/config.toml", *rates, code=2 if "model" in setting else 0)
    fedorbit("config", "show", "sent/config.toml")
    fedorbit("data", "partition", "sent/config.toml")
    assert not was_imported()


def test_a_study_that_names_code_can_be_looked_at_but_not_run(fedorbit, folder: Path) -> None:
    small_study.write_study(folder, '[common]\nmethod = ["mine:Method", "fedavg"]')
    for command in ("status", "table"):
        fedorbit("study", command, "tiny.toml", "--json")
    said = one_sentence(fedorbit("study", "run", "tiny.toml", code=2))
    assert "mine.py" in said and "--allow-code mine" in said
    assert not was_imported()
    assert not (folder / "studies").exists()


def test_code_on_the_command_line_is_allowed(fedorbit, folder: Path) -> None:
    tiny = ["-o", "data.synthetic.samples=200", "-o", "data.synthetic.size=16", "--json"]
    fedorbit("run", "-m", "mine:Method", "-o", "run.rounds=1", *tiny, "--out", "a")
    assert was_imported()
    Path("imported").unlink()
    sys.modules.pop("mine")
    user_code._allowed.clear()
    assert "--allow-code mine" in one_sentence(fedorbit("run", "--resume", "a", "--json", code=2))
    assert not was_imported()
    fedorbit("run", "--resume", "a", "--allow-code", "mine", "--json")
    assert was_imported()


def test_a_settings_file_allows_a_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = folder / "settings" / "fedorbit" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text('allow_code = ["lab"]')
    assert user_code.is_allowed("lab") and user_code.is_allowed("lab.models.small")
    assert not user_code.is_allowed("laboratory") and not user_code.is_allowed("mine")
    for text, why in (("allow = []", "unknown key 'allow'"), ("allow_code = 5", "valid list")):
        settings.write_text(text)
        with pytest.raises(ConfigError, match=why):
            user_code.is_allowed("lab")


def test_finding_a_file_imports_nothing(folder: Path) -> None:
    (folder / "sent").mkdir()
    (folder / "sent" / "__init__.py").write_text(EVIL)
    (folder / "sent" / "deep.py").write_text(EVIL)
    assert user_code.find_file("sent.deep") == folder / "sent" / "deep.py"
    assert user_code.find_file("sent") == folder / "sent" / "__init__.py"
    for name in ("nowhere", "sent.nowhere", "sys", "..", "a\0b"):
        assert user_code.find_file(name) is None
    assert not was_imported()


def test_code_that_has_changed_is_refused(folder: Path) -> None:
    fo.allow_code("mine")
    config = small(run={"method": "fedavg"}, model=CODE, engine={"backend": "torch"})
    with pytest.raises(fo.StopRequested):
        fo.run(config, folder / "run", progress=StopAfter("fedavg", 3))
    assert list(json.loads((folder / "run" / "run.json").read_text())["code"]) == ["mine"]
    original = (folder / "mine.py").read_text()
    (folder / "mine.py").write_text(original + "# another line\n")
    with pytest.raises(ModelError, match="changed after it was imported; start Python again"):
        fo.resume(folder / "run")
    sys.modules.pop("mine")
    user_code._imported.clear()  # as in another process
    with pytest.raises(RunError, match="the module mine has changed since"):
        fo.resume(folder / "run")
    (folder / "mine.py").write_text(original)
    assert len(timeless(fo.resume(folder / "run").runs[0].records)) == config.run.rounds


@pytest.mark.parametrize("where", ["module", "factory"])
def test_a_module_that_exits_is_an_error(folder: Path, where: str) -> None:
    text = "import sys\ndef factory(*shape):\n    sys.exit(0)\n"
    (folder / "mine.py").write_text(text + ("sys.exit(0)" if where == "module" else ""))
    fo.allow_code("mine")
    with pytest.raises(ModelError, match=r"it calls sys\.exit\(0\)"):
        fo.run(small(model=CODE, engine={"backend": "torch"}), folder / "run")


def test_a_method_that_exits_is_an_error(fedorbit, folder: Path) -> None:
    (folder / "mine.py").write_text(
        "import sys\nfrom fedorbit.methods.fedavg import FedAvg\n"
        "class Method(FedAvg):\n    def round(self, state, now):\n        sys.exit(0)\n"
    )
    tiny = ["-o", "data.synthetic.samples=200", "-o", "data.synthetic.size=16", "--json"]
    said = one_sentence(fedorbit("run", "-m", "mine:Method", *tiny, "--out", "a", code=2))
    assert "has called sys.exit(0) in a" in said


def test_a_study_with_allowed_code_runs(folder: Path) -> None:
    """Its workers are processes of their own, which import what this one may."""
    fo.allow_code("mine")
    small_study.write_study(folder, '[common]\nmethod = ["mine:Method"]')
    states = studies.run(load_study(folder / "tiny.toml"), folder / "out")
    assert [state.state for state in states] == ["done"], states
