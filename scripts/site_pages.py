"""Pages of the documentation that are made from the code while MkDocs builds it (mkdocs.yml).

Home (README.md), the configuration, the command line, the methods, the Python interface and the
examples: none of them is committed, so none can be out of date. Links of committed pages to files
outside docs/ lead to these pages.
"""

import inspect
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

import fedorbit
from fedorbit.cli.app import LaterCommand
from fedorbit.cli.commands import command_line
from fedorbit.config import Config
from fedorbit.methods import METHODS

ROOT = Path(__file__).parents[1]
ROOT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
LANGUAGES = {".py": "python", ".toml": "toml"}
BOUNDS = {Ge: "≥ {.ge}", Gt: "> {.gt}", Le: "≤ {.le}", Lt: "< {.lt}"}


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
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, config: MkDocsConfig, files: Files) -> str:
    """Turn links that are right in the repository into those of the site (a hook of MkDocs)."""
    here = page.file.src_uri
    up = "../" * here.count("/")
    # Pages from the root of the repository name docs/ themselves.
    if here in ROOT_PAGES.values():
        markdown = re.sub(r"\]\(docs/", "](", markdown)

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if name := re.fullmatch(r"(?:\.\./)*examples(?:/([\w.]*))?", target):
            return f"[{text}]({up}examples.md{'#' + anchor(name[1]) if name[1] else ''})"
        root = re.fullmatch(r"(\.\./)*([A-Z]+\.md)(#.*)?", target)
        if root and root[2] in ROOT_PAGES and (here in ROOT_PAGES.values() or root[1]):
            return f"[{text}]({up}{ROOT_PAGES[root[2]]}{root[3] or ''})"
        folder = ROOT / "docs" / Path(here).parent / target
        if (folder / "report.html").is_file():
            return f"[{text}]({target}/report.html)"
        # Source code and the like are not part of the site.
        return text if re.match(r"(?:\.\./)*(?:src|tests|LICENSE|CITATION)", target) else found[0]

    return re.sub(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)", link, markdown)


def read(name: str) -> str:
    """Return the text of a file of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


def anchor(name: str) -> str:
    """Return the anchor of an example on its page."""
    return name.replace(".", "-")


def escaped(text: str) -> str:
    """Return plain text as Markdown, with code in backticks kept."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<>|\[\]$])", r"\\\1", p) for p in parts)


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def code(value: object) -> str:
    """Return a value as code in a cell of a table."""
    return "`" + str(value).replace("|", "\\|") + "`"


# The configuration.


def configuration() -> str:
    """Return the reference of all settings, from the schema that checks them."""
    parts = [
        "# Configuration",
        'A configuration is a TOML file. It may begin with `extends = "PRESET"`, and the command '
        "line changes single settings: `-o run.rounds=50`. `fedorbit config show paper` prints one "
        "in full. Unknown keys and values out of range are refused with one sentence. Defaults "
        "are those of the paper unless a meaning says otherwise.",
        "This page is generated from the schema.",
        "## Top level",
        settings(Config, tables=False),
    ]
    parts += chapters("", Config)
    parts += [
        "## [methods.NAME]",
        "Parameters of a method, such as `methods.fedorbit.rho`: see the "
        "[catalogue of methods](methods.md).",
    ]
    return "\n\n".join(parts)


def chapters(path: str, parent: type[BaseModel]) -> Iterator[str]:
    """Yield the parts of all tables inside a table of the configuration."""
    for key, field in parent.model_fields.items():
        choices = sections(field.annotation)
        name = f"[{path}{key}]"
        if get_origin(field.annotation) is tuple:
            name = f"[{name}]"  # an array of tables
        for section in choices:
            choice = next((f for f in ("kind", "scheme") if f in section.model_fields), "")
            of = section.model_fields[choice].annotation if len(choices) > 1 else None
            yield f"## {name}, {choice} = {get_args(of)[0]}" if of else f"## {name}"
            yield escaped(inspect.cleandoc(section.__doc__ or ""))
            yield settings(section)
            yield from chapters(f"{path}{key}.", section)


def settings(section: type[BaseModel], tables: bool = True) -> str:
    """Return the table of the settings of one section."""
    rows = [
        [code(field.alias or key), kind(field), default(field), escaped(field.description or "")]
        for key, field in section.model_fields.items()
        if tables or not sections(field.annotation)
    ]
    return table(["key", "value", "default", "meaning"], rows)


def sections(annotation: Any) -> list[type[BaseModel]]:
    """Return the sections that an annotation names."""
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return [annotation]
    return [s for a in get_args(annotation) for s in sections(a)]


def kind(field: FieldInfo) -> str:
    """Return what a setting may be."""
    bounds = [BOUNDS[type(m)].format(m) for m in field.metadata if type(m) in BOUNDS]
    return ", ".join([words(field.annotation), *bounds])


def words(annotation: Any) -> str:
    """Return a type as a user would name it."""
    names = {
        int: "integer",
        float: "number",
        bool: "true or false",
        str: "text",
        Path: "path",
        type(None): "nothing",
    }
    if annotation in names:
        return names[annotation]
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return " or ".join(code(f'"{value}"') for value in arguments)
    if origin in (Union, types.UnionType):
        return " or ".join(words(a) for a in arguments if a is not type(None))
    if origin is tuple:
        inner = dict.fromkeys(words(a) for a in arguments if a is not Ellipsis)
        return f"list of {' and '.join(inner)}"
    if origin is dict or sections(annotation):
        return "table"
    return getattr(annotation, "__name__", "text").lower()


def default(field: FieldInfo) -> str:
    """Return the default of a setting."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value is None or value is PydanticUndefined or isinstance(value, BaseModel):
        return "none"
    if isinstance(value, tuple) and any(isinstance(v, BaseModel) for v in value):
        return ", ".join(getattr(v, "name", "table") for v in value)
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, tuple):
        return code(list(value)).replace("'", '"')
    return code(f'"{value}"' if isinstance(value, str) else value)


# The command line.


def commands() -> str:
    """Return the reference of all commands, from the commands themselves."""
    group = command_line()
    parts = [
        "# Command line",
        "Every command has `--help` with examples, and `--json` for scripts. Exit codes: 0, "
        "2 after bad input (one sentence on standard error), 130 after Ctrl-C.",
        "This page is generated from the commands.",
    ]
    for name, entry in group.commands.items():
        command = entry.load() if isinstance(entry, LaterCommand) else entry
        parts += command_parts(f"fedorbit {name}", command)
    return "\n\n".join(parts)


def command_parts(name: str, command: Any) -> Iterator[str]:
    """Yield the parts of one command, and of those inside it."""
    yield f"## {name}"
    text = re.sub(r"\[dim\]", "# ", command.help or "")
    text = re.sub(r"\[/?(?:bold|dim)\]", "", text).replace("\\[", "[")
    body, _, lines = re.sub(r"\n\nExamples?\n\n", "\0", text).partition("\0")
    yield escaped(body)
    if lines:
        yield "```sh\n" + lines.replace("\n\n", "\n") + "\n```"
    rows = []
    for parameter in command.params:
        if parameter.name in ("help", "install_completion", "show_completion"):
            continue
        is_option = parameter.param_type_name == "option"
        label = ", ".join(map(code, parameter.opts)) if is_option else code(parameter.name.upper())
        given = parameter.default
        shown = code(given) if given not in (None, False, (), []) and not callable(given) else ""
        meaning = re.sub(r"\[/?(?:bold|dim)\]", "", getattr(parameter, "help", None) or "")
        rows.append([label, "required" if parameter.required else shown, escaped(meaning)])
    if rows:
        yield table(["argument", "default", "meaning"], rows)
    for inner, below in getattr(command, "commands", {}).items():
        yield from command_parts(f"{name} {inner}", below)


# Methods, interface, examples.


def catalogue() -> str:
    """Return the page of all methods: paper, symbols, equations, departures, parameters."""
    parts = [
        "# Catalogue of methods",
        "Every method with its paper, the equations as they are computed, where it departs from "
        "the paper, and its parameters. Which method answers which question: "
        "[Methods](../methods.md).",
        "This page is generated from the modules.",
    ]
    seen: dict[str, str] = {}
    for name, method in METHODS.items():
        parts += [f"## {name}", escaped(inspect.cleandoc(method.__doc__ or "").split("\n\n")[0])]
        if (module := method.__module__) in seen:
            parts.append(f"Equations: see [{seen[module]}](#{seen[module]}).")
        else:
            seen[module] = name
            parts.append(prose(inspect.cleandoc(sys.modules[module].__doc__ or "")))
        if method.model_fields:
            parts.append(settings(method))
    return "\n\n".join(parts)


def prose(docstring: str) -> str:
    """Return a module's docstring as Markdown: indented blocks are kept as they are."""
    blocks = []
    for block in docstring.split("\n\n"):
        if block.startswith("    "):
            blocks.append(block)
            continue
        text = escaped(block)
        text = re.sub(r"^(Departures[^.:\n]*)([.:\n])", r"**\1**\2", text)
        # Markdown needs an empty line before a list.
        blocks.append(re.sub(r"(?m)^(?!- |  )(.*)\n(?=- )", r"\1\n\n", text))
    return "\n\n".join(blocks)


def api() -> str:
    """Return the page of the Python interface, for mkdocstrings to fill in."""
    homes = {n: h for n, h in fedorbit._HOMES.items() if n != "Config"}
    entries = [f"::: {home_of(name, home)}" for name, home in sorted(homes.items())]
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
    """Return the page of all examples with their source."""
    paths = [p for p in sorted((ROOT / "examples").iterdir()) if p.suffix in LANGUAGES]
    texts = {p.name: p.read_text(encoding="utf-8").strip() for p in paths}
    index = [
        [f"[{name}](#{anchor(name)})", escaped(text.splitlines()[0].strip('"# '))]
        for name, text in texts.items()
    ]
    parts = [
        "# Examples",
        "Whole programs and configurations from the folder `examples`, each run by the tests.",
        table(["example", "what it shows"], index),
    ]
    for name, text in texts.items():
        parts.append(f"## {name} {{ #{anchor(name)} }}")
        parts.append(f"```{LANGUAGES[Path(name).suffix]}\n{text}\n```")
    return "\n\n".join(parts)
