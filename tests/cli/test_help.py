"""Help, version and shell completion."""

import json
from pathlib import Path

import pytest

from fedorbit import __version__


def test_version_and_help(fedorbit) -> None:
    assert fedorbit("--version").stdout == f"fedorbit {__version__}\n"
    assert "fedorbit orbits" in fedorbit("--help").stdout
    for command in (["orbits"], ["data", "list"], ["data", "fetch"], ["data", "prepare"],
                    ["data", "inspect"], ["data", "partition"], ["config", "show"],
                    ["config", "list"]):  # fmt: skip
        text = fedorbit(*command, "--help").stdout
        assert "--json" in text
        assert "Example" in text


def test_completion_knows_presets(process) -> None:
    done = process(
        "fedorbit",
        _FEDORBIT_COMPLETE="complete_bash",
        COMP_WORDS="fedorbit orbits pa",
        COMP_CWORD="2",
    )
    assert "paper" in done.stdout.split()


@pytest.mark.parametrize("command", [[], ["config"], ["data"]])
def test_without_a_command_there_is_help_and_nothing_else(fedorbit, command: list[str]) -> None:
    done = fedorbit(*command, code=2)
    assert "Usage: fedorbit" in done.stdout
    assert "list" in done.stdout or "orbits" in done.stdout
    assert done.stderr == ""


def completions(process, words: str) -> list[str]:
    done = process(
        "fedorbit",
        _FEDORBIT_COMPLETE="complete_bash",
        COMP_WORDS=words,
        COMP_CWORD=str(words.count(" ")),
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_completion_of_paths(process, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("mine.toml", "sub/deep.toml", "other.txt"):
        (tmp_path / name).write_text("")
    assert completions(process, "fedorbit orbits m") == ["mine.toml"]
    assert completions(process, "fedorbit orbits sub/") == ["sub/deep.toml"]
    assert completions(process, f"fedorbit orbits {tmp_path}/") == [f"{tmp_path}/mine.toml"]
    assert completions(process, f"fedorbit orbits {tmp_path}/sub/d") == [
        f"{tmp_path}/sub/deep.toml"
    ]
    assert completions(process, "fedorbit orbits /nowhere/x") == []
    assert completions(process, "fedorbit orbits [") == []


def test_completion_of_sources_and_datasets(process, fedorbit) -> None:
    assert completions(process, "fedorbit data prepare s") == ["so2sat", "synthetic"]
    assert completions(process, "fedorbit data fetch s") == ["so2sat"]
    small = ("-o", "data.synthetic.samples=50", "-o", "data.synthetic.size=8")
    name = json.loads(fedorbit("data", "partition", *small, "--json").stdout)["dataset"]
    assert completions(process, "fedorbit data inspect s") == [name, "synthetic"]
