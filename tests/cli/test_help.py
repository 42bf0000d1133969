"""Help, version and shell completion."""

import json
import re
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.core import TyperGroup

from fedorbit import __version__
from fedorbit.cli.app import LaterCommand
from fedorbit.cli.commands import command_line, execute


def commands(group: TyperGroup, *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group of the command line, with its words."""
    for name, later in group.commands.items():
        command = later.load() if isinstance(later, LaterCommand) else later
        yield (*path, name), command
        if isinstance(command, TyperGroup):
            yield from commands(command, *path, name)


ALL = dict(commands(command_line()))


def examples(command: Any) -> list[str]:
    """Lines below `Examples` in a command's help."""
    return re.split(r"\[bold\]Examples?\[/bold\]", command.help)[1].strip().split("\n\n")


def test_version_and_help(fedorbit) -> None:
    assert fedorbit("--version").stdout == f"fedorbit {__version__}\n"
    assert "fedorbit orbits" in fedorbit("--help").stdout


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_every_command_has_json_and_examples_in_its_help(fedorbit, words) -> None:
    text = fedorbit(*words, "--help").stdout
    assert "--json" in text or isinstance(ALL[words], TyperGroup)
    assert f"fedorbit {' '.join(words)}" in text.partition("Example")[2]


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_examples_are_whole_lines_that_a_shell_takes(words) -> None:
    for line in examples(ALL[words]):
        assert len(line) <= 78, line  # with a margin, 80
        typed = shlex.split(re.split(r" (?:&&|\||>) ", line)[0], comments=True)
        typed = typed[typed.index("fedorbit") + 1 :]
        named = max((w for w in ALL if (*typed[: len(w)],) == w), key=len)
        command = ALL[named]
        parser = command.make_parser(command.context_class(command))
        assert parser.parse_args(typed[len(named) :])[1] == [], line


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_shows_no_type_of_python(fedorbit, words) -> None:
    text = fedorbit(*words, "--help").stdout
    assert not re.search(r"<\w|\[str\]|\[Path\]|bool", text)


@pytest.mark.parametrize(
    ("words", "usage"),
    [
        ("methods", "[OPTIONS] [NAME]..."),
        ("report", "[OPTIONS] DIR..."),
        ("predict", "[OPTIONS] {RUN|FILE} IMAGES..."),
        ("study run", "[OPTIONS] STUDY"),
        ("run", "[OPTIONS] [CONFIG]"),
    ],
)
def test_usage(fedorbit, words: str, usage: str) -> None:
    [line] = [x for x in fedorbit(*words.split(), "--help").stdout.splitlines() if "Usage" in x]
    assert line.split("Usage: ")[1].strip() == f"fedorbit {words} {usage}"


@pytest.mark.parametrize("later", command_line().commands.values(), ids=lambda later: later.name)
def test_the_list_of_commands_has_the_first_paragraph_of_each(later: LaterCommand) -> None:
    assert later.help == later.load().help.partition("\n\n")[0]


@pytest.mark.parametrize("columns", [60, 200])
def test_paragraphs_of_help_fill_the_width(process, columns: int) -> None:
    text = process("fedorbit study run --help", COLUMNS=str(columns)).stdout
    paragraph = text.split("Ctrl-C", 1)[1].split("\n ", 1)[0]  # its first line
    assert columns - 30 < len("Ctrl-C" + paragraph.rstrip()) < columns


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


@pytest.fixture
def completions(
    fedorbit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[[str], list[str]]:
    """Complete words as a shell has it done; in this process, since starting one takes a second."""

    def complete(words: str) -> list[str]:
        with monkeypatch.context() as patched, pytest.raises(SystemExit) as left:
            patched.setenv("_FEDORBIT_COMPLETE", "complete_bash")
            patched.setenv("COMP_WORDS", words)
            patched.setenv("COMP_CWORD", str(words.count(" ")))
            execute([])
        done = capsys.readouterr()
        assert (left.value.code, done.err) == (0, "")
        return done.out.split()

    return complete


def test_completion_of_paths(completions, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("mine.toml", "sub/deep.toml", "other.txt"):
        (tmp_path / name).write_text("")
    assert completions("fedorbit orbits m") == ["mine.toml"]
    assert completions("fedorbit orbits sub/") == ["sub/deep.toml"]
    assert completions(f"fedorbit orbits {tmp_path}/") == [f"{tmp_path}/mine.toml"]
    assert completions(f"fedorbit orbits {tmp_path}/sub/d") == [f"{tmp_path}/sub/deep.toml"]
    assert completions("fedorbit orbits /nowhere/x") == []
    assert completions("fedorbit orbits [") == []


def test_completion_of_sources_and_datasets(completions, fedorbit) -> None:
    assert completions("fedorbit data prepare s") == ["so2sat", "synthetic"]
    assert completions("fedorbit data fetch s") == ["so2sat"]
    small = ("-o", "data.synthetic.samples=50", "-o", "data.synthetic.size=8")
    name = json.loads(fedorbit("data", "partition", *small, "--json").stdout)["dataset"]
    assert completions("fedorbit data inspect s") == [name, "synthetic"]


def test_completion_of_methods_and_settings(completions) -> None:
    assert completions("fedorbit run -m fedo") == ["fedorbit"]
    links = ["run.links=ideal", "run.links=causal", "run.links=physical"]
    assert completions("fedorbit run -o run.li") == links
    assert completions("fedorbit run -o run.links=p") == links[2:]
    assert completions("fedorbit study run ablation -o constellation.kind=") == [
        "constellation.kind=walker",
        "constellation.kind=elements",
    ]
    assert completions("fedorbit run -o methods.fedorbit.rho") == ["methods.fedorbit.rho=0.95"]
    assert "training.batch=" in completions("fedorbit orbits -o tr")
    assert completions("fedorbit run -o nothing.here=") == []
