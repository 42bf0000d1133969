"""README and documentation: commands exist, examples run, numbers are those of the results."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from fedorbit.cli.app import LaterCommand
from fedorbit.cli.commands import command_line, execute
from fedorbit.config import load_config
from fedorbit.config.files import preset_names
from fedorbit.methods import METHODS, make_method
from fedorbit.studies import load_study
from fedorbit.user_code import allow_code
from tests.simulation.test_golden import trains_alike

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [
    *(ROOT / n for n in ("README.md", "CONTRIBUTING.md", "examples/README.md")),
    *sorted(DOCS.glob("*.md")),
]
EXECUTED = [
    DOCS / f"{name}.md"
    for name in ("quickstart", "tutorial", "constellations", "python", "report", "trained-models")
]
BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<language>\w*)(?: title=\"(?P<title>[^\"]+)\")?\n"
    r"(?P<text>.*?)```",
    re.DOTALL,
)


def commands_of(page: Path) -> Iterator[str]:
    """Yield the commands of `fedorbit` in the blocks of a page."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["language"] in ("", "sh", "console"):
            text = block["text"].replace("\\\n", " ")
            yield from re.findall(r"^(?:\$ )?(fedorbit .*)$", text, re.MULTILINE)


def words_of(command: str) -> list[str]:
    """Return the arguments of a command, without what a shell does with its output."""
    words = shlex.split(re.sub(r"\\?\s>\s*\S+|&&.*", "", command), comments=True)
    return words[1:]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_are_those_of_the_command_line(page: Path) -> None:
    for line in commands_of(page):
        words = words_of(line)
        group: Any = command_line()
        while hasattr(group, "commands") and words and not words[0].startswith("-"):
            assert words[0] in group.commands, f"{page.name}: {line}"
            command = group.commands[words.pop(0)]
            group = command.load() if isinstance(command, LaterCommand) else command
        parser = group.make_parser(group.context_class(group))
        _, left, _ = parser.parse_args(words)  # raises for an unknown option
        assert not left, f"{page.name}: {line}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_of_commands_are_valid(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "examples")
    allow_code("distillation")
    for line in commands_of(page):
        command, *words = words_of(line)
        if command in ("run", "orbits") and "--resume" not in words:
            preset = words[0] if words and words[0] in preset_names() else "quickstart"
            given = [after for word, after in pairwise(words) if word == "-o"]
            for name, parameters in load_config(preset, given).methods.items():
                make_method(name, parameters)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_of_files_are_valid(page: Path, tmp_path: Path) -> None:
    """Every TOML block as a file that extends a preset, or as a study, where it may be continued."""
    file, study = tmp_path / "settings.toml", ""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["language"] != "toml" or block["title"]:
            continue
        if page.name == "studies.md":
            study += block["text"]
            file.write_text(study, encoding="utf-8")
            load_study(file)
        else:
            is_whole = block["text"].startswith("extends")
            start = "" if is_whole else 'extends = "quickstart"\n'
            file.write_text(start + block["text"], encoding="utf-8")
            load_config(file)


@pytest.mark.parametrize(
    "page", [page for page in DOCS.glob("*.md") if page not in EXECUTED], ids=lambda page: page.name
)
def test_blocks_are_run_or_say_why_not(page: Path) -> None:
    """Transcripts and settings have tests of their own; a part of a file is what stands there."""
    for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["language"] not in ("", "sh", "python"):
            continue
        mark = block["mark"] or ""
        assert mark.startswith("not run in the test: "), f"{page.name}:\n{block['text']}"
        for name in re.findall(r"(?:tests|examples)/[\w/.]+", mark):
            assert (ROOT / name).exists(), f"{page.name}: {mark}"
        if source := re.search(r"a part of (\S+)", mark):
            lines = (ROOT / source[1]).read_text(encoding="utf-8").splitlines()
            there = [line.strip() for line in lines]
            for line in block["text"].splitlines():
                assert line.strip() in there, f"{page.name}: {line} is not in {source[1]}"


def draw_images(folder: Path) -> None:
    """Write class folders of images, of two formats and sizes."""
    for number, name in enumerate(("forest", "lake", "town")):
        (folder / name).mkdir(parents=True)
        for shade in range(40):
            picture = Image.new("RGB", (40 + shade, 40), (80 * number, 5 * shade, 100))
            picture.save(folder / name / f"{shade}.{'jpg' if shade % 2 else 'png'}")


@pytest.mark.parametrize("page", EXECUTED, ids=lambda page: page.name)
def test_a_page_runs_from_top_to_bottom(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a reader would do it, in a folder of images; smaller where a block's comment says so."""
    monkeypatch.chdir(tmp_path)
    draw_images(tmp_path / "my_images")
    draw_images(tmp_path / "scenes")
    shutil.copy(tmp_path / "scenes" / "lake" / "1.jpg", tmp_path / "scene.jpg")
    done, content = 0, page.read_text(encoding="utf-8")
    for line in re.findall(r"^<!-- first in the test: (.*) -->$", content, re.MULTILINE):
        assert execute(words_of(line)) == 0, line
    for block in BLOCK.finditer(content):
        mark, text = block["mark"] or "", block["text"]
        if block["title"]:
            (tmp_path / block["title"]).write_text(text, encoding="utf-8")
        if "not run" in mark or block["language"] not in ("sh", "python"):
            continue
        smaller = shlex.split(mark.partition(": ")[2])
        if block["language"] == "python":
            settings = "".join(f", {setting!r}" for setting in smaller[1::2])
            text = text.replace('"]', f'"{settings}]', 1)
            subprocess.run([sys.executable, "-c", text], check=True)
            done += 1
            continue
        for line in text.strip().splitlines():
            words = words_of(line)
            words += smaller if words[0] in ("run", "study") else []
            if target := re.search(r"> (\S+)\s*(?:#.*)?$", line):
                made = subprocess.run(
                    [sys.executable, "-m", "fedorbit", *words], check=True, capture_output=True
                )
                (tmp_path / target[1]).write_bytes(made.stdout)
            else:
                assert execute(words) == 0, line
            done += 1
    assert done


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "onboard.md"], ids=lambda p: p.name)
def test_transcripts_show_what_commands_print(page: Path, tmp_path: Path) -> None:
    """All lines that are shown, in their order, in 80 columns."""
    if not trains_alike("kernel"):
        pytest.skip("this machine's rounding is not that of the one that made the golden records")
    blocks = [b for b in BLOCK.finditer(page.read_text("utf-8")) if b["language"] == "console"]
    sessions = [part for block in blocks for part in re.split(r"^\$ ", block["text"], flags=re.M)]
    for session in filter(None, sessions):
        command, *shown = session.replace("\\\n", " ").splitlines()
        made = subprocess.run(
            [sys.executable, "-m", "fedorbit", *words_of(command)],
            cwd=tmp_path,
            env={**os.environ, "COLUMNS": "80"},
            check=True,
            capture_output=True,
            text=True,
        )
        printed = iter([line.rstrip() for line in made.stdout.splitlines()])
        for line in (line for line in shown if line.strip(" ⋮")):
            assert line in printed, f"{page.name}: {command}: {line}"  # reads on from the last one


@pytest.mark.parametrize(
    "page",
    [*PAGES, *sorted((DOCS / "results").rglob("README.md"))],
    ids=lambda p: "/".join(p.parts[-2:]),
)
def test_links_lead_to_files_of_the_repository(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", text):
        assert target.startswith("https://") or (page.parent / target).exists(), target


def test_the_readme_is_short_and_has_its_headings() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"{len(METHODS)} methods" in text
    assert text.count("\n") <= 150
    assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
        "Install", "Quickstart", "Python API", "Methods", "Constellations", "Data", "Results",
        "Scaling out", "Deploying", "Contributing", "Citing",
    ]  # fmt: skip


def test_the_readmes_python_runs(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    [block] = [b for b in BLOCK.finditer(text) if b["language"] == "python"]
    fewer = block["text"].replace("run.rounds=100", "run.rounds=2")
    code = fewer.replace('["run', '["data.synthetic.samples=300", "run', 1)
    made = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    lines = [line.split() for line in made.stdout.splitlines()]
    assert [line[0] for line in lines if len(line) == 3] == ["fedavg", "fedorbit"]
    assert (tmp_path / "orbit-2.safetensors").is_file() and (tmp_path / "accuracy.pdf").is_file()


def rows(path: Path) -> dict[str, list[str]]:
    """Return the cells of a Markdown table of results by method, with published values behind."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        method, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        if method.startswith("published"):
            ours = found[[*found][-1]]
            ours[:] = [f"{a} ({b.split()[0]})" for a, b in zip(ours, cells, strict=True)]
        elif line.startswith("|") and method:
            found[method] = cells
    return found


def test_the_readmes_numbers_are_those_of_the_results() -> None:
    paper = rows(DOCS / "results" / "paper-eurosat" / "table.md")
    equal = rows(DOCS / "results" / "own-method" / "own-half" / "table.md")
    as_called = {
        "Rendezvous (ours)": "Rendezvous, epochs = 4",
        "FedOrbit": "FedOrbit, epochs = 8, orbit_momentum = 0.8, max_epochs = 15, dark_epochs = 3",
        "FedAvg": "FedAvg, epochs = 10, orbit_momentum = 0.8",
        "FedLEO": "FedLEO, epochs = 5",
        "Local (no federation)": "Local, epochs = 5, orbit_momentum = 0.8",
    }
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for column, title in enumerate(("accuracy, %", "spread, points")):
        table = re.search(rf"\| {title} \|.*?\n\n", text, re.DOTALL)
        assert table is not None
        lines = table[0].strip().splitlines()[2:]
        assert len(lines) >= 7
        for line in lines:
            method, *cells = [cell.strip() for cell in line.strip("|").split("|")]
            all_images = paper.get(method.partition(" (")[0])
            found = equal.get(as_called.get(method, ""))
            assert cells == [
                *((all_images[column], all_images[column + 2]) if all_images else ("–", "–")),
                *((found[column], found[column + 5]) if found else ("–", "–")),
            ], method


def test_the_site_builds_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="the extra docs is not installed")
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path / "s")]
    made = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert made.returncode == 0, made.stdout + made.stderr
    pages = sorted((tmp_path / "s").rglob("*.html"))
    assert len(pages) > 40
    loads = re.compile(r"<(?:script|img|iframe)[^>]*\ssrc=\"?https?:|<link[^>]*rel=\"?"
                       r"(?:stylesheet|preconnect|icon)[^>]*https?:|@import[^;]*https?:")  # fmt: skip
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not loads.search(text), page
        # Without an image or page that is named, too: MkDocs checks Markdown, not HTML.
        for target in re.findall(r"<img[^>]*\ssrc=\"([^\":]+)\"", text):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
    reference = (tmp_path / "s" / "reference" / "configuration.html").read_text(encoding="utf-8")
    assert "swath_half_width_km" in reference and "methods.NAME" in reference
    assert "fedorbit study export" in (tmp_path / "s/reference/cli.html").read_text("utf-8")
    interface = (tmp_path / "s/reference/api.html").read_text("utf-8")
    ids = [f'id="fedorbit.api.{name}"' for name in ("run", "RunResult.plot_confusion")]
    assert 0 < interface.index(ids[0]) < interface.index(ids[1])
    methods = (tmp_path / "s/reference/methods.html").read_text("utf-8")
    assert "c<sub>k</sub> ← c<sub>k</sub> - c + (w - y<sub>k</sub>)" in methods  # SCAFFOLD
    assert '<pre class="equations">' in methods and '<h2 id="fedavgm">FedAvgM' in methods
    assert not re.search(r"\\(?:&lt;|[|_>\[\]])", re.sub(r"(?s)<code.*?</code>", "", methods))
