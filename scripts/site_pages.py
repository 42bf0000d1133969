"""Pages of the documentation that are made from the code while MkDocs builds it (mkdocs.yml).

Home (README.md), the configuration, the command line, the methods, the Python interface and the
examples: none of them is committed, so none can be out of date. Links of committed pages to files
outside docs/ lead to these pages.
"""

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from site_equations import block, printed
from site_reference import commands, configuration, settings

import fedorbit
from fedorbit.methods import METHODS

ROOT = Path(__file__).resolve().parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
INDEX = "examples/README.md"
API_ORDER = (
    "load_config", "run", "resume", "load_run", "RunResult", "MethodRun", "load_model",
    "save_model", "Classifier", "prepare", "Method", "allow_code", "FedOrbitError",
    "StopRequested",
)  # fmt: skip
LANGUAGES = {".py": "python", ".toml": "toml"}
BESIDE = {
    "fedleo": "fedorbit.methods.offloading",
    "fedleo_sink": "fedorbit.methods.sinks",
    "airfl": "fedorbit.fleet.superposition",
    "fedsn": "fedorbit.methods.widths",
}
"""Modules that have further equations of a method."""
SYMBOLS = (
    "On all of this page k is a satellite and l an orbit, n_k and n_l are their training samples "
    "and n those of all, F_k is the mean loss over the samples of satellite k, w(0) the first "
    "model, eta the learning rate of the round, and P the number of parameters. *LocalSGD* of a "
    "function from a model, for some epochs, is the training that follows."
)
METHODS_FOLDER = "src/fedorbit/methods"
"""Its docstrings are the catalogue: links to it and to its files lead there."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """List all decisions in the navigation (a hook of MkDocs)."""
    project = next(part["Project"] for part in config.nav or [] if "Project" in part)
    entry = next(e for e in project if "Decisions" in e)
    entry["Decisions"] = sorted(f"decisions/{p.name}" for p in (ROOT / "docs/decisions").iterdir())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages (a hook of MkDocs)."""
    pages = {page: read(name) for name, page in ROOT_PAGES.items()} | {
        "examples.md": examples(),
        "reference/configuration.md": configuration(),
        "reference/cli.md": commands(),
        "reference/methods.md": catalogue(),
        "reference/api.md": api(),
    }
    pages["index.md"] = "---\nhide: [navigation]\n---\n\n" + pages["index.md"]
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Turn links that are right in the repository into those of the site (a hook of MkDocs)."""
    here = page.file.src_uri
    up = "../" * here.count("/")
    folder = (ROOT / "docs" / here).parent
    # Pages from the root of the repository name docs/ themselves.
    if here in ROOT_PAGES.values():
        folder = ROOT
        markdown = re.sub(r"\]\(docs/", "](", markdown)

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if name := re.fullmatch(r"(?:\.\./)*examples/(?:README.md|([\w.]+))?", target):
            return f"[{text}]({up}examples.md{'#' + anchor(name[1]) if name[1] else ''})"
        name_of_page, hash_sign, place = target.partition("#")
        path = (folder / name_of_page).resolve()
        if path.parent == ROOT and path.name in ROOT_PAGES:
            return f"[{text}]({up}{ROOT_PAGES[path.name]}{hash_sign}{place})"
        if ROOT / METHODS_FOLDER in (path, path.parent):
            method = text.strip("`")
            return f"[{text}]({up}reference/methods.md{f'#{method}' if method in METHODS else ''})"
        # Source code, records of runs and the like are not part of the site.
        is_source = re.match(r"(?:\.\./)*(?:src|tests|LICENSE|CITATION)", target)
        return text if is_source or (name_of_page and path.is_dir()) else found[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, markdown)


def read(name: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def anchor(name: str) -> str:
    """Return the anchor of an example on its page."""
    return name.replace(".", "-")


def catalogue() -> str:
    """Return the page of all methods: paper, symbols, equations, departures, parameters."""
    parts = [
        "# Catalogue of methods",
        "Every method with its paper, the equations as they are computed, where it departs from "
        "the paper, and its parameters. Which method answers which question: "
        "[Methods](../methods.md).",
        "This page is generated from the modules.",
        printed(SYMBOLS),
        "## LocalSGD",
        prose(documentation("fedorbit.learning.rules.sgd")),
    ]
    seen: dict[str, str] = {}
    for name, method in METHODS.items():
        summary = printed(inspect.cleandoc(method.__doc__ or "").split("\n\n")[0])
        heading = method.label or method.__name__
        parts += [f"## {heading} {{ #{name} }}", f"`-m {name}`: {summary}"]
        if (module := method.__module__) in seen:
            parts.append(f"Equations: see [{seen[module]}](#{seen[module]}).")
        else:
            seen[module] = name
            parts.append(prose(documentation(module)))
        if method.model_fields:
            parts.append(settings(method))
        if beside := BESIDE.get(name):
            text = documentation(beside)
            parts += [f"### {text.partition(':')[0]}", prose(text)]
    return "\n\n".join(parts)


def documentation(module: str) -> str:
    """Return the docstring of a module."""
    return inspect.cleandoc(importlib.import_module(module).__doc__ or "")


def prose(docstring: str) -> str:
    """Return a module's docstring as Markdown; indented blocks are symbols and equations."""
    blocks = []
    for paragraph in docstring.split("\n\n"):
        if paragraph.startswith("    "):
            blocks.append(block(paragraph))
            continue
        text = printed(paragraph)
        text = re.sub(r"^(Departures[^.:\n]*)([.:\n])", r"**\1**\2", text)
        # Markdown needs an empty line before a list.
        blocks.append(re.sub(r"(?m)^(?!- |  )(.*)\n(?=- )", r"\1\n\n", text))
    return "\n\n".join(blocks)


def api() -> str:
    """Return the page of the Python interface, for mkdocstrings to fill in."""
    homes = {n: h for n, h in fedorbit._HOMES.items() if n != "Config"}
    # In the order in which a program uses them; a name that is new comes last.
    order = [*(name for name in API_ORDER if name in homes), *sorted(homes.keys() - set(API_ORDER))]
    entries = [f"::: {home_of(name, homes[name])}" for name in order]
    intro = (
        "# Python API\n\nNames of `import fedorbit as fo`, with where they are defined. An "
        "introduction with examples: [Python interface](../python.md). `fo.Config` holds the "
        "settings of the [configuration](configuration.md)."
    )
    return "\n\n".join([intro, *entries])


def home_of(name: str, home: str) -> str:
    """Return the path of the module in which a name is defined, where that can be said."""
    found = getattr(fedorbit, name)
    return f"{getattr(found, '__module__', home)}.{name}"


def examples() -> str:
    """Return the page of all examples: their index, examples/README.md, and their source."""
    folder = ROOT / "examples"
    index = re.sub(r"\]\(([\w.]+)\)", lambda found: f"](#{anchor(found[1])})", read(INDEX))
    parts = [index.strip()]
    for path in sorted(p for p in folder.iterdir() if p.suffix in (*LANGUAGES, ".ipynb")):
        parts.append(f"## {path.name} {{ #{anchor(path.name)} }}")
        text = path.read_text(encoding="utf-8").strip()
        if path.suffix == ".ipynb":
            parts += notebook_cells(text)
        else:
            parts.append(f"```{LANGUAGES[path.suffix]}\n{text}\n```")
    return "\n\n".join(parts)


def notebook_cells(text: str) -> list[str]:
    """Return the cells of a notebook as Markdown, its headings two levels lower."""
    sources = [(cell["cell_type"], "".join(cell["source"])) for cell in json.loads(text)["cells"]]
    return [
        f"```python\n{source}\n```" if kind == "code" else re.sub(r"(?m)^#", "###", source)
        for kind, source in sources
    ]
